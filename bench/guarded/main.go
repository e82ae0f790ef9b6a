package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/examples/everything"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(s string) bool { return s == "serve" })
	if err := run(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "guarded:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("guarded", flag.ContinueOnError)
	f.Bool("conformance", true, "as troupe serve has it; the tools of the official suite are always there")
	listen := f.String("listen", "127.0.0.1:0", "the address to listen on")
	data := f.String("data", "", "the data directory; none keeps everything in memory")
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
	return serve(ctx, behind, *data, public, own.issuer())
}

// serve serves until ctx ends.
func serve(ctx context.Context, ln net.Listener, data, public string, issuer auth.Issuer) error {
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
