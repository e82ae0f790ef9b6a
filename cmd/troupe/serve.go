package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/memory"
	"github.com/troupe-run/troupe/internal/procs"
)

func serveCommand(stderr io.Writer) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve the demo over HTTP",
		Long: "Serves the demo, which has every feature, at /mcp, and at /sse for clients of HTTP+SSE unless --revisions leaves\n" +
			"out 2024-11-05, with /healthz, /readyz and /metrics beside it.\n" +
			"The data directory keeps sessions and event streams: kill the process, start it again, and\n" +
			"clients go on where they were. SIGHUP reads the file of --config again: whose tokens count applies at once.\n" +
			"Each setting has an environment variable, too: TROUPE_LISTEN is that of --listen, which wins over it.",
		Example: `  troupe serve                                        on 127.0.0.1:8080, data in ~/.local/state/troupe
  troupe serve --memory --listen 127.0.0.1:0          to try something: no data, any free port
  troupe serve --data /var/lib/troupe --max-store 20GiB --log-format json
  troupe serve --nats nats://127.0.0.1:4222           a store for several processes
  troupe serve --revisions 2025-06-18,2025-11-25      only clients with sessions, which outlive the process
  troupe serve --listen 0.0.0.0:8080 --public-url https://mcp.example.com --allow-host mcp.example.com --auth-issuer https://id.example.com
  troupe serve --config troupe.yaml --log-level debug the command line wins over the file
  troupe serve --set max-body=64MiB                   any other setting: see --help-limits`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.helpLimits {
				return s.table.writeSettings(cmd)
			}
			if err := s.readSettings(); err != nil {
				return err
			}
			return s.serveDemo(cmd, stderr)
		},
	}
	s.register(cmd, settingGroups, serveFlags...)
	return cmd
}

// serveDemo serves the demo until a signal, and then drains.
func (s *settings) serveDemo(cmd *cobra.Command, stderr io.Writer) error {
	ctx := cmd.Context()
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	defer stop()
	procs.Spread(running)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)

	o := s.options()
	o.Shared.MaxMemory = cmp.Or(o.Shared.MaxMemory, memory.Available())
	memory.Keep(o.Shared.MaxMemory)
	tuneGC(ctx, o.Shared.MaxMemory)
	sent, provider, err := s.observe(ctx, &o, stderr, false)
	if err != nil {
		return explain(err, o)
	}
	defer sent.close(provider)
	logUnknown(o.Log, s.variables)
	go func() {
		sig := <-signals
		o.Log.Info("draining: waiting for running calls; a second signal ends the process at once", "signal", sig.String())
		cancel()
		<-signals
		os.Exit(1)
	}()

	rt, err := troupe.New(o)
	if err != nil {
		return explain(err, o)
	}
	var ln net.Listener
	if err = rt.TryMount("/mcp", s.demo()); err == nil {
		ln, err = rt.Listen()
	}
	if err != nil {
		return explain(errors.Join(err, rt.Close(context.WithoutCancel(ctx))), o)
	}
	s.announce(stderr, o.Log, rt.Node(), ln.Addr(), rt.StoreAddr())
	go memory.GiveBack(ctx)
	again, err := newReloader(s, cmd, rt, o.Log, provider)
	if err != nil {
		return explain(errors.Join(err, rt.Close(context.WithoutCancel(ctx))), o)
	}
	go again.watchSignals(ctx, hangups)
	if err := rt.ServeOn(ctx, ln); err != nil {
		return explain(err, o)
	}
	o.Log.Info("ended")
	return nil
}

// tuneGC paces the garbage collector for many small requests on a small live heap, in a process that may use total bytes. GOGC
// stays the operator's.
func tuneGC(ctx context.Context, total int64) {
	if os.Getenv("GOGC") == "" {
		memory.Pace(ctx, total)
	}
}
