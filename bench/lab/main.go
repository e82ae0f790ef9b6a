// Command lab runs the servers that the programs of bench, the conformance suite and the tests of
// interop need beside `troupe serve`. Each ends in order on SIGTERM.
//
//	lab nats --data DIR [--port 4222]            a NATS server with JetStream
//	lab serve --listen ADDRESS --servers 100     many copies of the demo, and the tools ledger, emit and fault
//	lab guarded serve --listen ADDRESS           the demo behind a proxy that adds an access token
//	lab fleet 3 PROGRAM serve --listen ADDRESS   nodes of a program behind a load balancer
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

var commands = map[string]func(ctx context.Context, args []string) error{
	"nats": runNATS, "serve": serveCopies, "guarded": serveGuarded, "fleet": serveFleet,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "lab: want one of %v\n", slices.Sorted(maps.Keys(commands)))
		os.Exit(2)
	}
	if err := commands[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "lab %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
