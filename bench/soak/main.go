package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/record"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// scenarios are the subcommands.
var scenarios = map[string]func(context.Context, options) (judged, error){
	"world":     func(ctx context.Context, o options) (judged, error) { return runWorld(ctx, o) },
	"mixed":     func(ctx context.Context, o options) (judged, error) { return runMixed(ctx, o) },
	"greed":     func(ctx context.Context, o options) (judged, error) { return runGreed(ctx, o) },
	"costs":     func(ctx context.Context, o options) (judged, error) { return runCosts(ctx, o) },
	"orphans":   func(ctx context.Context, o options) (judged, error) { return runOrphans(ctx, o) },
	"survival":  func(ctx context.Context, o options) (judged, error) { return runSurvival(ctx, o) },
	"hosted":    func(ctx context.Context, o options) (judged, error) { return runHosted(ctx, o) },
	"abandoned": func(ctx context.Context, o options) (judged, error) { return runAbandoned(ctx, o) },
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "attack" { // by greed, in a process of its own
		return runAttack(args[1:], stdout, stderr)
	}
	if len(args) == 0 || scenarios[args[0]] == nil {
		fmt.Fprintln(stderr, "usage: soak world|mixed|greed|costs|orphans|abandoned|survival|hosted [FLAGS] [ATTACK...|PART...]; soak MODE --help shows the flags")
		return 2
	}
	o := options{log: stderr}
	f := flag.NewFlagSet("soak "+args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", 15, "how often to harm the nodes; orphans: how often to kill; survival: how often serve ends; hosted: how often each is measured; costs behind, resume: how often to kill, or to resume")
	f.IntVar(&o.clients, "clients", 8, "sessions that live across all rounds; mixed: clients of each kind at a time; abandoned: clients at a time; survival: questions that wait in each era")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "seed of all random choices")
	f.DurationVar(&o.time, "time", 0, "how long the run may take, 0: all rounds; mixed, abandoned: how long the load lasts")
	f.StringVar(&o.bin, "bin", "", "the program, which for world is bench/lab; built if empty")
	f.StringVar(&o.data, "data", "", "data directory; a temporary one if empty")
	f.StringVar(&o.out, "out", "", "file for the report as JSON")
	f.BoolVar(&o.counts, "counts", false, "judge no times, which need a machine that does nothing else")
	f.IntVar(&o.nodes, "nodes", 1, "world: nodes; one has a data directory, several share NATS servers")
	f.StringVar(&o.proxy, "proxy", "", "world: nginx, haproxy or caddy, as deploy/proxy has them, before three nodes")
	f.DurationVar(&o.idle, "idle", time.Second, "world: how long streams are silent behind --proxy")
	f.BoolVar(&o.socket, "socket", false, "world: the only node is given a socket that stays open while it restarts, as by systemd")
	f.IntVar(&o.nats, "nats", 1, "world: number of NATS servers, 1 or 3")
	f.BoolVar(&o.sync, "sync", false, "world: NATS has each write on the disk before it is acknowledged")
	f.IntVar(&o.servers, "servers", 1, "world: copies of the demo in the only node, over which the sessions are spread")
	f.Var(&o.harms, "harms", "world: what is done to the nodes, in this order, with commas between; all that fit, in an order of the seed, if empty: "+strings.Join(harmNames(), ", "))
	f.Var(&o.visitors, "visitors", "world: who works with them; all that fit if empty: "+strings.Join(allVisitors, ", "))
	f.StringVar(&o.old, "old", "", "world: bench/lab of another release: each start of a node is of the other one, on the same data, and the first is of this")
	f.DurationVar(&o.away, "away", 10*time.Second, "world: how long the NATS servers are away, once; 0: never")
	f.IntVar(&o.greedy, "greedy", 1, "greed: clients that take all they can get, each from an address of its own; world: calls that such a client has with each node at a time, 0: none")
	f.DurationVar(&o.duration, "duration", 4*time.Second, "greed: how long each attack lasts")
	f.IntVar(&o.events, "events", 0, "costs behind, resume: how many events of others are stored first")
	if err := f.Parse(args[1:]); err != nil {
		return 2
	}
	o.parts = f.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := perform(ctx, args[0], o)
	if err != nil {
		fmt.Fprintf(stderr, "soak %s: %v\n", args[0], err)
		return 1
	}
	if o.out != "" {
		err = record.Of("./bench/soak", report).Write(o.out)
	}
	text, failed := json.MarshalIndent(report, "", "  ")
	if err = errors.Join(err, failed); err != nil {
		fmt.Fprintf(stderr, "soak %s: %v\n", args[0], err)
		return 1
	}
	fmt.Fprintf(stdout, "%s\n", text)
	if err := report.verdict(); err != nil {
		fmt.Fprintf(stderr, "soak %s: %v\n", args[0], err)
		return 1
	}
	return 0
}

// judged is a report that may tell of promises that were not kept. It is shown in any case.
type judged interface{ verdict() error }

// perform runs a scenario with a program and a data directory.
func perform(ctx context.Context, name string, o options) (report judged, err error) {
	dir, err := os.MkdirTemp("", "troupe-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.proxy != "" {
		o.nodes = 3
	}
	if (o.servers > 1 || o.socket) && o.nodes > 1 {
		return nil, errors.New("--servers and --socket are for one node")
	}
	o.hosted = name == "world" && !o.socket // the tools ledger and emit are in bench/lab, which takes no socket
	if o.bin == "" {
		if o.bin, err = build(ctx, dir, o.hosted); err != nil {
			return nil, err
		}
	}
	if o.data == "" {
		o.data = filepath.Join(dir, "data")
	}
	return scenarios[name](ctx, o)
}
