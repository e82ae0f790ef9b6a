package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/examples/everything"
)

// serveCopies serves many copies of the demo from one Runtime: the first at /mcp, the others at
// /s/1/mcp, /s/2/mcp and so on. Scenarios run against it that need more servers than the command
// troupe has, or the tools ledger, emit and fault of the first of them. It takes flags of `troupe serve`.
func serveCopies(ctx context.Context, args []string) error {
	o := troupe.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address to listen on")
	f.StringVar(&o.Dir, "data", "", "data directory; empty keeps everything in memory")
	f.StringVar(&o.Store.NATS.URL, "nats", "", "URL of NATS servers that keep the store")
	f.StringVar(&o.Store.Node, "node", "", "name of this node")
	f.Int64Var(&o.Store.MaxStore, "max-store", 0, "bytes of the store; 0 is the default")
	f.DurationVar(&o.Store.Lease, "lease", 5*time.Second, "time for which a silent node is taken for alive")
	f.Float64Var(&o.Limits.CallRate, "call-rate", 100, "tool calls and completions per second of a session")
	f.Float64Var(&o.Shared.PrincipalRate, "principal-rate", 1000, "tool calls and completions per second of a principal")
	f.DurationVar(&o.DrainWait, "drain-wait", 30*time.Second, "how long a node that ends waits for its calls")
	logs := f.Float64("log-rate", 500, "log messages to a client per second; 0 is no limit")
	conformance := f.Bool("conformance", false, "with the tools of the conformance suite, too")
	servers := f.Int("servers", 100, "how many copies")
	takeSettings(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.Limits.LogRate = *logs; o.Limits.LogRate == 0 {
		o.Limits.LogRate = -1
	}
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return err
	}
	o.Telemetry.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	o.Telemetry.Metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	rt, err := troupe.New(o)
	if err != nil {
		return err
	}
	demo := everything.NewWith
	if *conformance {
		demo = everything.NewConformance
	}
	first := demo(troupe.ServerOptions{})
	addLedger(first)
	addEmit(first)
	addFault(first)
	rt.Mount("/mcp", first)
	for n := 1; n < *servers; n++ {
		rt.Mount(fmt.Sprintf("/s/%d/mcp", n), demo(troupe.ServerOptions{ID: fmt.Sprintf("copy-%d", n)}))
	}
	return rt.Serve(ctx)
}

// takeSettings has f take --set NAME=VALUE for each of its flags, as `troupe serve` does for its
// settings.
func takeSettings(f *flag.FlagSet) {
	f.Func("set", "a setting, as NAME=VALUE", func(setting string) error {
		name, value, ok := strings.Cut(setting, "=")
		if !ok {
			return fmt.Errorf("want NAME=VALUE")
		}
		return f.Set(name, value)
	})
}
