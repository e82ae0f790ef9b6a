package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/examples/everything"
)

// serveGuarded serves the demo to callers that have an access token with the scope demo:read, which
// this process makes: what listens is a proxy that adds a valid one to each request that has none.
// It takes the arguments of `troupe serve` that it needs, so that whatever drives that can drive a
// guarded server. The first line of its output is the address of the MCP endpoint, and the second
// one is that of the server behind the proxy.
func serveGuarded(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "serve" {
		args = args[1:]
	}
	f := flag.NewFlagSet("guarded", flag.ContinueOnError)
	f.Bool("conformance", true, "as troupe serve has it; the tools of the official suite are always there")
	listen := f.String("listen", "127.0.0.1:0", "the address to listen on")
	data := f.String("data", "", "the data directory; none keeps everything in memory")
	takeSettings(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	front, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	defer func() { _ = front.Close() }()
	public := "http://" + front.Addr().String()
	own, err := newMint()
	if err != nil {
		return err
	}
	defer own.close()
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = behind.Close() }()
	hs := &http.Server{Handler: own.proxy(behind.Addr().String(), public+"/mcp"), ReadHeaderTimeout: time.Minute}
	go func() { _ = hs.Serve(front) }()
	defer func() { _ = hs.Close() }()
	return serveBehind(ctx, behind, *data, public, own.issuer())
}

// serveBehind serves what is behind the proxy, until ctx ends.
func serveBehind(ctx context.Context, ln net.Listener, data, public string, issuer auth.Issuer) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	o := troupe.Options{Dir: data, Log: log}
	o.HTTP.PublicURL = public
	o.Limits.LogRate = 1_000_000 // what drives this shares sessions
	o.Auth = &auth.Config{Issuers: []auth.Issuer{issuer}}
	rt, err := troupe.New(o)
	if err != nil {
		return err
	}
	demo := everything.NewConformance(troupe.ServerOptions{Scopes: []string{readScope}})
	if err := rt.TryMount("/mcp", demo); err != nil {
		return err
	}
	fmt.Println(public + "/mcp")
	fmt.Println("http://" + ln.Addr().String() + "/mcp")
	return rt.ServeOn(ctx, ln)
}
