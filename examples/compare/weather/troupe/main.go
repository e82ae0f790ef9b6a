// Command troupe is the weather server with Troupe.
package main

import (
	"context"
	"log"
	"os"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/compare/nws"
	"github.com/troupe-run/troupe/mcp"
)

type area struct {
	State string `json:"state" jsonschema:"two letters, such as CA"`
}

type place struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "get_alerts", Description: "Weather alerts for a state.", Rerun: troupe.Safe},
		func(ctx context.Context, _ *troupe.Call, in area) (string, error) { return nws.Alerts(ctx, in.State) })
	troupe.AddTool(srv, troupe.Tool{Name: "get_forecast", Description: "The forecast for a place.", Rerun: troupe.Safe},
		func(ctx context.Context, _ *troupe.Call, in place) (string, error) {
			return nws.Forecast(ctx, in.Latitude, in.Longitude)
		})
	rt, err := troupe.New(troupe.Options{Listen: os.Getenv("LISTEN"), Dir: os.Getenv("DATA")})
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	log.Fatal(rt.Serve(context.Background()))
}
