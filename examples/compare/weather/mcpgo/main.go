// Command mcpgo is the weather server with mcp-go.
package main

import (
	"context"
	"log"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/troupe-run/troupe/examples/compare/nws"
)

type area struct {
	State string `json:"state"`
}

type place struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

func result(s string, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	return mcp.NewToolResultText(s), nil
}

func main() {
	srv := server.NewMCPServer("weather", "1.0.0", server.WithToolCapabilities(false))
	srv.AddTool(mcp.NewTool("get_alerts", mcp.WithDescription("Weather alerts for a state."),
		mcp.WithString("state", mcp.Required(), mcp.Description("two letters, such as CA"))),
		mcp.NewTypedToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, in area) (*mcp.CallToolResult, error) {
			return result(nws.Alerts(ctx, in.State))
		}))
	srv.AddTool(mcp.NewTool("get_forecast", mcp.WithDescription("The forecast for a place."),
		mcp.WithNumber("latitude", mcp.Required()), mcp.WithNumber("longitude", mcp.Required())),
		mcp.NewTypedToolHandler(func(ctx context.Context, _ mcp.CallToolRequest, in place) (*mcp.CallToolResult, error) {
			return result(nws.Forecast(ctx, in.Latitude, in.Longitude))
		}))
	log.Fatal(server.NewStreamableHTTPServer(srv).Start(os.Getenv("LISTEN")))
}
