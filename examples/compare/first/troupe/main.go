// Command troupe is a server of one tool with Troupe, as docs/coming-from.md shows it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type order struct {
	City  string `json:"city" jsonschema:"where to"`
	Items int    `json:"items" form:"min=1;max=20"`
}

type answer struct {
	OK bool `json:"ok"`
}

func ship(ctx context.Context, call *troupe.Call, in order) (string, error) {
	if in.City == "Atlantis" {
		return "", fmt.Errorf("nothing ships to %s", in.City)
	}
	_ = call.Progress(ctx, 1, 2, "weighed")
	said, did, err := troupe.ElicitAs[answer](ctx, call, fmt.Sprintf("Ship %d to %s?", in.Items, in.City))
	if err != nil || did != mcp.ElicitAccept || !said.OK {
		return "not shipped", err
	}
	return fmt.Sprintf("shipped %d to %s", in.Items, in.City), nil
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "ship", Description: "Ships goods.", Needs: mcp.CapClientElicitationForm,
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, ship)
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN"), Dir: os.Getenv("DATA")})
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	log.Fatal(rt.Serve(context.Background()))
}
