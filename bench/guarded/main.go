package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
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
	var issuer auth.Issuer
	var introspection auth.Introspection
	f := flag.NewFlagSet("guarded", flag.ContinueOnError)
	f.Bool("conformance", true, "as troupe serve has it; the tools of the official suite are always there")
	listen := f.String("listen", "127.0.0.1:0", "the address to listen on")
	data := f.String("data", "", "the data directory; none keeps everything in memory")
	f.StringVar(&issuer.URL, "issuer", "", "the authorization server; none makes tokens itself")
	f.StringVar(&introspection.URL, "introspect", "", "its endpoint for opaque tokens")
	f.StringVar(&introspection.ClientID, "client", "", "who asks there")
	f.StringVar(&introspection.ClientSecret, "secret", "", "its secret")
	if err := f.Parse(args); err != nil {
		return err
	}
	front, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	defer func() { _ = front.Close() }()
	public := "http://" + front.Addr().String()
	behind := front
	if issuer.URL == "" {
		own, err := newMint()
		if err != nil {
			return err
		}
		defer own.close()
		if behind, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		defer func() { _ = behind.Close() }()
		issuer = own.issuer()
		hs := &http.Server{Handler: own.proxy(behind.Addr().String(), public+"/mcp"), ReadHeaderTimeout: time.Minute}
		go func() { _ = hs.Serve(front) }()
		defer func() { _ = hs.Close() }()
	}
	if introspection.URL != "" {
		issuer.Introspection = &introspection
	}
	return serve(ctx, behind, *data, public, issuer)
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
	addWhoami(demo)
	addGuarded(demo)
	if err := rt.TryMount("/mcp", demo); err != nil {
		return err
	}
	fmt.Println(public + "/mcp")
	fmt.Println("http://" + ln.Addr().String() + "/mcp")
	return rt.ServeOn(ctx, ln)
}

// caller is what whoami answers.
type caller struct {
	Subject string   `json:"subject"`
	Client  string   `json:"client"`
	Machine bool     `json:"machine"`
	Scopes  []string `json:"scopes"`
}

func addWhoami(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "whoami", Description: "Says who calls.", Rerun: troupe.Safe},
		func(_ context.Context, c *troupe.Call, _ struct{}) (string, error) {
			p := c.Principal()
			text, err := json.Marshal(caller{p.Subject, p.Client, p.Machine, slices.Sorted(slices.Values(p.Scopes))})
			return string(text), err
		})
}

func addGuarded(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "guarded", Description: "Needs the scope " + writeScope + ".", Scopes: []string{writeScope}, Rerun: troupe.Safe},
		func(_ context.Context, c *troupe.Call, _ struct{}) (string, error) {
			return "written by " + strings.Join(slices.Sorted(slices.Values(c.Principal().Scopes)), " "), nil
		})
}
