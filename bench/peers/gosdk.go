package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type text struct {
	Text string `json:"text" jsonschema:"what to return"`
}

// gosdk serves with the official Go SDK, which always checks arguments against the schema. It answers in JSON as the others do, and not on an
// event stream, which is its default. Stateless, it also serves 2026-07-28.
func gosdk(stateless bool) http.Handler {
	srv := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "echo", Description: about},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: true})
}
