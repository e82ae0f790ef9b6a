package main

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// mcpgo serves with mcp-go, with sessions, and checks arguments against the schema.
func mcpgo() http.Handler {
	srv := server.NewMCPServer(name, version, server.WithToolCapabilities(false), server.WithInputSchemaValidation())
	srv.AddTool(mcp.NewTool("echo", mcp.WithDescription(about), mcp.WithString("text", mcp.Required(), mcp.Description("what to return"))),
		mcp.NewTypedToolHandler(func(_ context.Context, _ mcp.CallToolRequest, in text) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(in.Text), nil
		}))
	return server.NewStreamableHTTPServer(srv, server.WithStateful(true))
}
