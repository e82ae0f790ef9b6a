package main

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mcpgoServer is a server of mcp-go that checks arguments against the schema.
func mcpgoServer() *server.MCPServer {
	srv := server.NewMCPServer(name, version, server.WithToolCapabilities(false), server.WithInputSchemaValidation())
	srv.AddTool(mcp.NewTool("echo", mcp.WithDescription(aboutEcho), mcp.WithString("text", mcp.Required(), mcp.Description("what to return"))),
		mcp.NewTypedToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in text) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(in.Text), nil
		}))
	srv.AddTool(mcp.NewTool("count", mcp.WithDescription(aboutCount), mcp.WithNumber("to", mcp.Required(), mcp.Description("the last number"))),
		mcp.NewTypedToolHandler(func(ctx context.Context, r mcp.CallToolRequest, in number) (*mcp.CallToolResult, error) {
			if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
				return mcp.NewToolResultText(counted), nil
			}
			for n := 1; n <= in.To; n++ {
				progress := map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": n, "total": in.To}
				if err := srv.SendNotificationToClient(ctx, "notifications/progress", progress); err != nil {
					return nil, err // such as when 100 wait for the client
				}
			}
			return mcp.NewToolResultText(counted), nil
		}))
	return srv
}

// mcpgoHandler serves with mcp-go's own handler, with sessions.
func mcpgoHandler() http.Handler {
	return server.NewStreamableHTTPServer(mcpgoServer(), server.WithStateful(true))
}
