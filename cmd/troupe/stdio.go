package main

import (
	"context"
	"errors"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
)

// stdioGroups are the settings that stdio shares with serve.
var stdioGroups = []flagGroup{
	{"Servers of others; the section backends of the file says more", []string{"servers", "max-instances", "learn-wait"}},
	{"Requests", []string{"max-body", "max-depth", "max-batch", "max-values", "max-uri", "max-call", "max-ask", "log-rate", "ping-every", "calls-per-session", "pending-per-session", "subscriptions-per-session", "max-queued", "page-size", "revisions", "conformance", "drain-wait"}},
	{"This process", []string{"log-level", "log-format", "log-requests", "metrics-detail", "trace-principals"}},
}

var stdioFlags = []string{"servers", "revisions", "log-level", "log-format"}

func stdioCommand(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "stdio [flags] [-- COMMAND ARGS]",
		Short: "Serve MCP servers of others on standard input and output, or the demo",
		Long: "Serves the server that the command behind -- is, or those of --servers, or else the demo, to the one client that\n" +
			"started this process: one JSON-RPC message per line on standard input and output, and the log on standard error.\n" +
			"It ends when standard input does, or on SIGTERM, and all that it has started with it.",
		Example: `  troupe stdio                              as the command of a server in a client's configuration:
                                            {"mcpServers": {"demo": {"command": "troupe", "args": ["stdio"]}}}
  troupe stdio --log-level debug 2>log.txt  to see what the client asks for
  troupe stdio -- npx -y @modelcontextprotocol/server-everything
  troupe stdio --servers servers.json       several servers as one`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if s.command, err = commandBehind(cmd, args); err != nil {
				return err
			}
			if s.helpLimits {
				return s.table.writeSettings(cmd)
			}
			s.memory = true
			if err := s.readServable(); err != nil {
				return err
			}
			return s.serveStdio(cmd.Context(), stdin, stdout, stderr)
		},
	}
	cmd.Flags().SetInterspersed(false) // so that a command to host without -- keeps its flags, and the error can say what to write
	s.register(cmd, stdioGroups, stdioFlags...)
	// A host shows a server's standard error to its user, to whom any line looks like a fault.
	level := s.table.Lookup("log-level")
	_ = level.Value.Set("warn") // cannot fail: it is a text
	level.DefValue = "warn"
	return cmd
}

// serveStdio serves what is hosted, or the demo, until the client or a signal ends it.
func (s *settings) serveStdio(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	tuneGC(ctx, 0) // the process of one user stays small
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	// A client that is gone causes a failed write, and does not end the process.
	signal.Ignore(syscall.SIGPIPE)
	o := s.options()
	o.Auth = nil        // who starts the process may do everything
	o.Hosting.Keep = -1 // there is nobody who could go on with what this process has started
	sent, provider, err := s.observe(ctx, &o, stderr, true)
	if err != nil {
		return explain(err, o)
	}
	defer sent.close(provider)
	logUnknown(o.Log, s.variables)
	rt, err := troupe.New(o)
	if err != nil {
		return explain(err, o)
	}
	srv, _, err := newServer(s, o.Log)
	if err != nil {
		return explain(errors.Join(err, rt.Close(context.WithoutCancel(ctx))), o)
	}
	if err := rt.ServePipe(ctx, srv, stdin, stdout); err != nil {
		return explain(err, o)
	}
	return nil
}
