package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// benchCommand measures a server, which need not be this program's.
func benchCommand(stdout, stderr io.Writer) *cobra.Command {
	var o loadgen.Options
	var header []string
	var out string
	all := loadgen.Scenarios()
	var about strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&about, "  %-9s %s\n", name, all[name])
	}
	cmd := &cobra.Command{
		Use:   "bench URL...",
		Short: "Measure a server of MCP",
		Long: "Puts load on a server of MCP over streamable HTTP, this program's or any other, and reports latencies, errors by kind and, with\n" +
			"--pid, what the server's process needs. Without --rate each client begins an operation when the last one has ended; with it operations\n" +
			"begin at that rate, and latencies count from when one was due. All answers are checked. Of several URLs, which are those of one server's\n" +
			"nodes, each client sends each request to the next. docs/bench.md says more.\n\nScenarios:\n" + about.String(),
		Example: `  troupe bench http://127.0.0.1:8080/mcp
  troupe bench http://127.0.0.1:8080/mcp --rate 2000 --clients 256 --duration 30s --pid $(pgrep -f 'troupe serve')
  troupe bench http://127.0.0.1:8080/mcp --scenario hold --count 10000 --pid $(pgrep -f 'troupe serve')
  troupe bench https://mcp.example.com/mcp --tool search --arguments '{"query":"x"}' --header "Authorization: Bearer $TOKEN"
  troupe bench compare before.json after.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Others = args[1:]
			o.URL, o.Progress = args[0], stderr
			var err error
			if o.Arguments, err = readContents(o.Arguments); err != nil {
				return benchFailure(fmt.Errorf("arguments: %w", err))
			}
			if o.Header, err = parseHeaders(header); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return measureScenario(ctx, o, out, stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Scenario, "scenario", "echo", "`name` of what the clients do")
	f.StringVar(&o.Revision, "revision", loadgen.DefaultRevision, "`revision` of the protocol; "+loadgen.Stateless+" needs no sessions")
	f.IntVar(&o.Clients, "clients", 32, "`number` of clients, and so of operations at a time")
	f.Float64Var(&o.Rate, "rate", 0, "`operations` that begin per second; 0: each client begins one when the last has ended, but for fanout (4)")
	f.DurationVar(&o.Duration, "duration", 0, "`time` that counts (10s)")
	f.DurationVar(&o.WarmUp, "warm-up", 0, "`time` before that (1s; a negative one is none)")
	f.DurationVar(&o.Timeout, "timeout", 0, "`time` that an operation may take (30s)")
	f.IntVar(&o.Count, "count", 0, "`number` of sessions or streams, of hold (10000), parked, streams, resume and fanout (1000)")
	f.BoolVar(&o.Keep, "keep", false, "leave the sessions of hold to the server")
	f.StringVar(&o.From, "from", "", "`address` of this machine that the clients have (any)")
	f.StringVar(&o.Tool, "tool", "", "`name` of the tool to call, instead of the scenario's")
	f.StringVar(&o.Arguments, "arguments", "", "`JSON` object for it, or @ and the name of a file that has it; with echo any tool will do, and its text is not checked")
	f.IntVar(&o.Size, "size", 64, "`bytes` of the text that echo sends")
	f.StringArrayVar(&header, "header", nil, "`line` for all requests, such as \"Authorization: Bearer ...\"; may be repeated")
	f.IntSliceVar(&o.PIDs, "pid", nil, "`id` of a process of the server on this machine; may be repeated")
	f.StringVar(&out, "json", "", "`file` for the report as JSON, for compare")
	f.SortFlags = false
	cmd.AddCommand(&cobra.Command{
		Use:   "compare BEFORE AFTER",
		Short: "Compare two reports",
		Long:  "Prints in what two reports of --json differ: the settings, and each figure as so many times what it was.",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := loadgen.Read(args[0])
			if err != nil {
				return benchFailure(err)
			}
			after, err := loadgen.Read(args[1])
			if err != nil {
				return benchFailure(err)
			}
			return loadgen.Compare(stdout, before, after)
		},
	})
	return cmd
}

// measureScenario runs a scenario and prints its report. It fails if no operation succeeded.
func measureScenario(ctx context.Context, o loadgen.Options, out string, stdout io.Writer) error {
	r, err := loadgen.Run(ctx, o)
	if err != nil {
		return benchFailure(err)
	}
	if err := r.Print(stdout); err != nil {
		return err
	}
	if out != "" {
		if err := r.Write(out); err != nil {
			return benchFailure(err)
		}
	}
	if r.Operations == 0 {
		return benchFailure(errors.New("no operation succeeded"))
	}
	return nil
}

func benchFailure(err error) error { return &failure{oneLine(err), err} }
