package main

import (
	"context"
	"net"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// unlimited is no limit, for those that would refuse load from one client.
const unlimited = -1

// troupeHandler serves a Runtime that keeps everything in memory, as a handler of the server that the others have.
func troupeHandler(ln net.Listener, _ int) error {
	srv := troupe.NewServer(mcp.Implementation{Name: name, Version: version}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "echo", Description: about}, func(_ context.Context, _ *troupe.Call, in text) (string, error) {
		return in.Text, nil
	})
	rt, err := troupe.New(troupe.Options{Limits: troupe.Limits{CallRate: unlimited}, Shared: troupe.SharedLimits{PrincipalRate: unlimited}})
	if err != nil {
		return err
	}
	rt.Mount(path, srv)
	return serve(ln, rt)
}
