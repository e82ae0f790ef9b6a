// Command hello is the smallest server worth running: one tool, whose sessions
// survive a restart.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type who struct {
	Name string `json:"name" jsonschema:"whom to greet"`
}

func main() {
	srv := troupe.NewServer(mcp.Implementation{Name: "hello", Version: "1.0.0"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "greet", Description: "Greets someone."},
		func(_ context.Context, _ *troupe.Call, in who) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})

	rt, err := troupe.New(troupe.Options{Dir: "hello-data"})
	if err != nil {
		log.Fatal(err)
	}
	rt.Mount("/mcp", srv)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log.Print("serving http://127.0.0.1:8080/mcp")
	if err := rt.Serve(ctx); err != nil {
		log.Fatal(err)
	}
}
