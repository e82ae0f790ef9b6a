//go:build conformance

// Command conformance is the server that the Go SDK has for the official conformance suite, in the process of a server of Troupe that hosts it.
//
//	conformance -listen 127.0.0.1:8080 -data DIR [-era legacy]
//
// Its main function and its tools are those of the SDK's own program, in which .ci/conformance/run has this one take the place of standard input and
// output. They are no part of the repository, and without them nothing of this can be built.
package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/adapters/gosdk"
	"github.com/troupe-run/troupe/host"
	protocol "github.com/troupe-run/troupe/mcp"
)

var (
	listen = flag.String("listen", "127.0.0.1:8080", "`HOST:PORT` to serve on")
	data   = flag.String("data", "", "`directory` of the store")
	era    = flag.String("era", "", "in which the SDK's server is spoken to: legacy, modern, or that of the caller")
)

// serveHosted serves the SDK's server at /mcp until SIGTERM.
func serveHosted(ctx context.Context, theirs *mcp.Server) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	srv := troupe.NewServer(protocol.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
	troupe.AddBackend(srv, "hosted", gosdk.Server("everything", theirs), host.Options{Prefix: host.NoPrefix, Era: host.Era(*era), Roots: host.Roots{Forward: true}})
	rt, err := troupe.New(troupe.Options{Listen: *listen, Dir: *data})
	if err != nil {
		return err
	}
	rt.Mount("/mcp", srv)
	return rt.Serve(ctx)
}
