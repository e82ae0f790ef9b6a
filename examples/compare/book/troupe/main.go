// Command troupe asks a user twice, with Troupe.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type day struct {
	Date string `json:"date" form:"format=date"`
}

type party struct {
	Guests int `json:"guests" form:"min=1;max=12"`
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "book", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "book", Description: "Books a table.", Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			when, did, err := troupe.ElicitAs[day](ctx, call, "Which day?")
			if err != nil || did != mcp.ElicitAccept {
				return "not booked", err
			}
			who, did, err := troupe.ElicitAs[party](ctx, call, "How many guests on "+when.Date+"?")
			if err != nil || did != mcp.ElicitAccept {
				return "not booked", err
			}
			return fmt.Sprintf("booked for %d on %s", who.Guests, when.Date), nil
		})
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN"), Dir: os.Getenv("DATA")})
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	log.Fatal(rt.Serve(context.Background()))
}
