package main

import (
	"context"
	"net"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
)

// unlimited is no limit, for those that would refuse load from one client.
const unlimited = -1

// troupeHandler serves a Runtime with tools of its own.
func troupeHandler(ln net.Listener, o options) error {
	srv := troupe.NewServer(mcp.Implementation{Name: name, Version: version}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "echo", Description: aboutEcho}, func(_ context.Context, _ *troupe.Call, in text) (string, error) {
		return in.Text, nil
	})
	troupe.AddTool(srv, troupe.Tool{Name: "count", Description: aboutCount}, func(ctx context.Context, call *troupe.Call, in number) (string, error) {
		for n := 1; n <= in.To; n++ {
			if err := call.Progress(ctx, float64(n), float64(in.To), ""); err != nil {
				return "", err
			}
		}
		return counted, nil
	})
	return serveRuntime(ln, o, srv)
}

// serveAdapted serves a Runtime that hosts a server of another library, in this process.
func serveAdapted(ln net.Listener, o options, other host.Target) error {
	srv := troupe.NewServer(mcp.Implementation{Name: name, Version: version}, nil)
	troupe.AddBackend(srv, "theirs", other, host.Options{Prefix: host.NoPrefix})
	return serveRuntime(ln, o, srv)
}

// serveRuntime serves a Runtime as a handler of the server that the others have. No limit keeps one
// client from being the whole load.
func serveRuntime(ln net.Listener, o options, srv *troupe.Server) error {
	rt, err := troupe.New(troupe.Options{Dir: o.data, Limits: troupe.Limits{CallRate: unlimited},
		Shared: troupe.SharedLimits{PrincipalRate: unlimited, SessionsPerPrincipal: unlimited, StreamsPerPrincipal: unlimited}})
	if err != nil {
		return err
	}
	rt.Mount(path, srv)
	return serveHandler(ln, rt)
}
