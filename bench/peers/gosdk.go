package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// gosdkServer is a server of the official Go SDK, which always checks arguments against the schema.
func gosdkServer() *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "echo", Description: aboutEcho},
		func(_ context.Context, _ *mcp.CallToolRequest, in text) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
		})
	mcp.AddTool(srv, &mcp.Tool{Name: "count", Description: aboutCount},
		func(ctx context.Context, r *mcp.CallToolRequest, in number) (*mcp.CallToolResult, any, error) {
			token := r.Params.GetProgressToken()
			for n := 1; n <= in.To && token != nil; n++ {
				progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Total: float64(in.To)}
				if err := r.Session.NotifyProgress(ctx, progress); err != nil {
					return nil, nil, err
				}
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: counted}}}, nil, nil
		})
	return srv
}

// gosdkHandler serves with the SDK's own handler. It answers in JSON as the others do, and not on
// event streams, which is its default, unless streams is set: in JSON it cannot report progress.
// Stateless, it also serves 2026-07-28.
func gosdkHandler(stateless, streams bool) http.Handler {
	srv := gosdkServer()
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
		&mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: !streams})
}
