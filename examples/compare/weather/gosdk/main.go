// Command gosdk is the weather server with the official Go SDK.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-run/troupe/examples/compare/nws"
)

type area struct {
	State string `json:"state" jsonschema:"two letters, such as CA"`
}

type place struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func main() {
	srv := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	mcp.AddTool(srv, &mcp.Tool{Name: "get_alerts", Description: "Weather alerts for a state."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in area) (*mcp.CallToolResult, any, error) {
			s, err := nws.Alerts(ctx, in.State)
			return text(s), nil, err
		})
	mcp.AddTool(srv, &mcp.Tool{Name: "get_forecast", Description: "The forecast for a place."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in place) (*mcp.CallToolResult, any, error) {
			s, err := nws.Forecast(ctx, in.Latitude, in.Longitude)
			return text(s), nil, err
		})
	http.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}
