// Command gosdk is a server of one tool with the official Go SDK, which docs/coming-from.md compares.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type order struct {
	City  string `json:"city" jsonschema:"where to"`
	Items int    `json:"items"`
}

var form = &jsonschema.Schema{Type: "object", Required: []string{"ok"}, Properties: map[string]*jsonschema.Schema{"ok": {Type: "boolean"}}}

func text(s string) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}, nil, nil
}

func ship(ctx context.Context, req *mcp.CallToolRequest, in order) (*mcp.CallToolResult, any, error) {
	if in.City == "Atlantis" {
		return nil, nil, fmt.Errorf("nothing ships to %s", in.City)
	}
	said, ok := req.Params.InputResponses["ok"].(*mcp.ElicitResult)
	if !ok {
		if token := req.Params.GetProgressToken(); token != nil {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2, Message: "weighed"})
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"ok": &mcp.ElicitParams{Mode: "form",
			Message: fmt.Sprintf("Ship %d to %s?", in.Items, in.City), RequestedSchema: form}}}, nil, nil
	}
	if said.Action != "accept" || said.Content["ok"] != true {
		return text("not shipped")
	}
	return text(fmt.Sprintf("shipped %d to %s", in.Items, in.City))
}

func main() {
	srv := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	schema, err := jsonschema.For[order](nil)
	if err != nil {
		log.Fatal(err)
	}
	schema.Properties["items"].Minimum, schema.Properties["items"].Maximum = jsonschema.Ptr(1.0), jsonschema.Ptr(20.0)
	mcp.AddTool(srv, &mcp.Tool{Name: "ship", Description: "Ships goods.", InputSchema: schema,
		Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, ship)
	http.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}
