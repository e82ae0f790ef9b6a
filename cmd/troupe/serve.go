package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/memory"
	"github.com/troupe-run/troupe/internal/procs"
)

func serveCommand(stderr io.Writer) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "serve [flags] [-- COMMAND ARGS]",
		Short: "Serve MCP servers of others over HTTP, or the demo",
		Long: "Serves the server that the command behind -- is, or those of --servers and of the section backends of the file of\n" +
			"--config, or else the demo, which has every feature: at /mcp, and at /sse for clients of HTTP+SSE unless --revisions\n" +
			"leaves out 2024-11-05, with /healthz, /readyz and /metrics beside it.\n" +
			"The data directory keeps sessions and event streams: kill the process, start it again, and clients go on where they\n" +
			"were; commands live on meanwhile, for as long as --keep. SIGHUP reads the files of --config and --servers again:\n" +
			"which backends there are and whose tokens count applies at once.\n" +
			"Each setting has an environment variable, too: TROUPE_LISTEN is that of --listen, which wins over it.",
		Example: `  troupe serve -- npx -y @modelcontextprotocol/server-everything
  troupe serve --servers .mcp.json                    those that a client has, in any of their files
  troupe serve                                        the demo on 127.0.0.1:8080, data in ~/.local/state/troupe
  troupe serve --memory --listen 127.0.0.1:0          to try something: no data, any free port
  troupe serve --data /var/lib/troupe --max-store 20GiB --log-format json
  troupe serve --nats nats://127.0.0.1:4222           a store for several processes
  troupe serve --revisions 2025-06-18,2025-11-25      only clients with sessions, which outlive the process
  troupe serve --listen 0.0.0.0:8080 --public-url https://mcp.example.com --allow-host mcp.example.com --auth-issuer https://id.example.com
  troupe serve --config troupe.yaml --log-level debug the command line wins over the file
  troupe serve --set max-body=64MiB                   any other setting: see --help-limits`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if s.command, err = commandBehind(cmd, args); err != nil {
				return err
			}
			if s.helpLimits {
				return s.table.writeSettings(cmd)
			}
			asked := awaitSignals() // from here on, as the first process of a container they do nothing by themselves
			defer asked.stop()
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			end := &ending{cancel: cancel, observed: make(chan struct{})}
			go end.await(ctx, asked.ends) // settings may be in a file that nobody writes, or on a disk that is gone
			if s.inherited, err = inheritSockets(); err != nil {
				return &failure{oneLine(err), err}
			}
			if err := s.readServable(); err != nil {
				return err
			}
			return s.serveHTTP(ctx, cmd, asked.hangups, end, stderr)
		},
	}
	cmd.Flags().SetInterspersed(false) // so that a command to host without -- keeps its flags, and the error can say what to write
	s.register(cmd, settingGroups, serveFlags...)
	return cmd
}

// signals are what the process is asked for from outside.
type signals struct{ ends, hangups chan os.Signal }

func awaitSignals() signals {
	asked := signals{make(chan os.Signal, 2), make(chan os.Signal, 1)}
	signal.Notify(asked.ends, syscall.SIGINT, syscall.SIGTERM)
	signal.Notify(asked.hangups, syscall.SIGHUP)
	return asked
}

func (s signals) stop() {
	signal.Stop(s.ends)
	signal.Stop(s.hangups)
}

// startPatience is how long a process that is to end before it serves goes on with its start. What is left then is what a
// kill would leave, which the next start repairs.
const startPatience = 5 * time.Second

// ending is the end of a process that a signal asks for, from before it reads its settings.
type ending struct {
	cancel   context.CancelFunc
	serving  atomic.Bool
	observed chan struct{} // closed once the fields below are set
	log      *slog.Logger
	sent     *exporters
}

// await waits for the first signal until ctx ends. A second one ends the process at once.
func (e *ending) await(ctx context.Context, ends <-chan os.Signal) {
	var sig os.Signal
	select {
	case <-ctx.Done():
		return
	case sig = <-ends:
	}
	serving := e.serving.Load()
	if !serving {
		time.AfterFunc(startPatience, func() {
			if !e.serving.Load() {
				os.Exit(1)
			}
		})
	}
	select {
	case <-e.observed:
		e.note(sig, serving)
		e.cancel()
	default:
		e.cancel()
		select {
		case <-ends:
			os.Exit(1)
		case <-e.observed:
		}
		e.note(sig, serving)
	}
	<-ends
	e.sent.writeLines(time.Second)
	os.Exit(1)
}

// note logs why the process ends.
func (e *ending) note(sig os.Signal, serving bool) {
	text := "ending, without having served; a second signal ends the process at once"
	if serving {
		text = "draining: waiting for running calls; a second signal ends the process at once"
	}
	e.log.Info(text, "signal", sig.String())
}

// serveHTTP serves what is hosted, or the demo, until ctx ends, and then drains.
func (s *settings) serveHTTP(ctx context.Context, cmd *cobra.Command, hangups <-chan os.Signal, end *ending, stderr io.Writer) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	defer stop()
	procs.Spread(running)

	o := s.options()
	o.Hosting.LearnAtStart = true // its user finds in the log whether a command starts, and clients find its lists
	o.Shared.MaxMemory = cmp.Or(o.Shared.MaxMemory, memory.Available())
	memory.Keep(o.Shared.MaxMemory)
	tuneGC(ctx, o.Shared.MaxMemory)
	sent, provider, err := s.observe(ctx, &o, stderr, false)
	if err != nil {
		return explain(err, o)
	}
	defer sent.close(provider)
	logUnknown(o.Log, s.variables)
	end.log, end.sent = o.Log, sent
	close(end.observed)

	manager := newServiceManager(o.Log)
	var status string // set before it serves
	o.HTTP.Serving = func() { manager.ready(status) }
	o.HTTP.Draining = func() { manager.stopping(max(0, o.DrainDelay) + o.DrainWait + afterDrain) }
	if s.inherited.health != nil {
		o.HTTP.HealthListener = troupe.KeepSocket(s.inherited.health)
	}
	rt, err := troupe.New(o)
	if err != nil {
		return explain(err, o)
	}
	var ln net.Listener
	srv, backends, err := newServer(s, o.Log)
	if err == nil {
		err = rt.TryMount("/mcp", srv)
	}
	if err == nil && ctx.Err() == nil {
		ln, err = s.inherited.listen(rt, o)
	}
	if err != nil {
		return explain(errors.Join(err, rt.Close(context.WithoutCancel(ctx))), o)
	}
	if ln == nil { // it is to end already
		if err := rt.Close(context.WithoutCancel(ctx)); err != nil {
			return explain(err, o)
		}
		o.Log.Info("ended")
		return nil
	}
	end.serving.Store(true)
	s.announce(stderr, o.Log, rt.Node(), ln.Addr(), rt.StoreAddr())
	status = "serving MCP on " + baseURL(ln.Addr().String(), s.tlsCert != "") + "/mcp"
	go memory.GiveBack(ctx)
	again, err := newReloader(s, cmd, rt, backends, o.Log, provider, manager, status)
	if err != nil {
		return explain(errors.Join(err, rt.Close(context.WithoutCancel(ctx))), o)
	}
	go again.watchSignals(ctx, hangups)
	if every := watchdogInterval(o.Log); every > 0 {
		go manager.keepAlive(running, every, rt.Healthy)
	}
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
