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

// troupeHandler serves a Runtime with tools of its own as a handler of the server that the others have.
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
	rt, err := newRuntime(o, srv)
	if err != nil {
		return err
	}
	return serveHandler(ln, rt)
}

// serveAdapted serves a Runtime that hosts a server of another library, in this process, as programs do that have nothing else to serve.
func serveAdapted(ln net.Listener, o options, other host.Target) error {
	srv := troupe.NewServer(mcp.Implementation{Name: name, Version: version}, nil)
	troupe.AddBackend(srv, "theirs", other, host.Options{Prefix: host.NoPrefix})
	rt, err := newRuntime(o, srv)
	if err != nil {
		return err
	}
	return rt.ServeOn(context.Background(), ln)
}

// newRuntime mounts a server where every kind serves. No limit keeps one client from being the whole load.
func newRuntime(o options, srv *troupe.Server) (*troupe.Runtime, error) {
	rt, err := troupe.New(troupe.Options{Dir: o.data, Limits: troupe.Limits{CallRate: unlimited},
		Shared: troupe.SharedLimits{PrincipalRate: unlimited, SessionsPerPrincipal: unlimited, StreamsPerPrincipal: unlimited}})
	if err != nil {
		return nil, err
	}
	rt.Mount(path, srv)
	return rt, nil
}
