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
	"time"

	"github.com/troupe-run/troupe/bench/record"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// scenarios are the subcommands.
var scenarios = map[string]func(context.Context, options) (any, error){
	"kill": func(ctx context.Context, o options) (any, error) { return runKill(ctx, o) },
	"stop": func(ctx context.Context, o options) (any, error) { return runStop(ctx, o) },

	"balance": func(ctx context.Context, o options) (any, error) { return runBalance(ctx, o) },
	"roll":    func(ctx context.Context, o options) (any, error) { return runRoll(ctx, o) },
	"costs":   func(ctx context.Context, o options) (any, error) { return runCosts(ctx, o) },
	"restart": func(ctx context.Context, o options) (any, error) {
		if o.events > 0 {
			return runBehind(ctx, o)
		}
		return runRestart(ctx, o)
	},
	"resume": func(ctx context.Context, o options) (any, error) { return runResume(ctx, o) },

	"cancel": func(ctx context.Context, o options) (any, error) { return runCancel(ctx, o) },

	"tasks": func(ctx context.Context, o options) (any, error) { return runTasks(ctx, o) },

	"chaos": func(ctx context.Context, o options) (any, error) { return runChaos(ctx, o) },

	"nodes": func(ctx context.Context, o options) (any, error) { return runNodes(ctx, o) },

	"mixed": func(ctx context.Context, o options) (any, error) { return runMixed(ctx, o) },

	"auth": func(ctx context.Context, o options) (any, error) { return runAuth(ctx, o) },

	"greed": func(ctx context.Context, o options) (any, error) { return runGreed(ctx, o) },
}

// options are the settings of a run.
type options struct {
	rounds  int
	clients int
	servers int // copies of the demo in the process; more than one builds bench/host
	seed    uint64
	bin     string        // the program; "" builds it
	old     string        // kill: the commit of another release that takes turns; "" for none
	oldBin  string        // its program
	data    string        // the data directory; "" takes a temporary one
	out     string        // where the report goes as JSON, "" nowhere
	within  time.Duration // in which a handler has to end, 0 whenever it does
	early   bool          // some answer a question before they have its stream again
	time    time.Duration // balance: how long behind each proxy; roll, mixed: how long; restart: how long the call takes
	flags   []string      // further ones for the program
	log     io.Writer

	events int // restart, resume: how many are stored first

	nats int // servers of nodes and chaos

	sync    bool // NATS flushes each write
	streams int  // costs large: how many

	herd int           // chaos: clients that come back within a second
	away time.Duration // chaos: for how long NATS is away

	greedy   int           // clients that take all they can get
	duration time.Duration // of each attack
	attacks  []string      // their names; nil is all of them, and then all at once
	counts   bool          // only what is judged by counting matters, and mixed does not wait until what is kept is gone
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "attack" { // by greed, in a process of its own
		return runAttack(args[1:], os.Stdin, stdout, stderr)
	}
	if len(args) > 0 && args[0] == "guess" { // by auth, in a process of its own
		return runGuess(args[1:], os.Stdin, stdout, stderr)
	}
	if len(args) == 0 || scenarios[args[0]] == nil {
		fmt.Fprintln(stderr, "usage: soak kill|stop|balance|roll|costs|restart|resume|cancel|tasks|nodes|chaos|greed|auth|mixed [--rounds N] [--nats N] [--sync] [--streams N] [--herd N] [--away TIME] [--events N] [--clients N] [--servers N] [--seed N] [--bin PATH] [--old COMMIT] [--data DIR] [--out FILE] [--early] [--within TIME] [--time TIME] [--greedy N] [--duration TIME] [ATTACK...|HARM...|PART...]")
		return 2
	}
	o := options{log: stderr}
	f := flag.NewFlagSet("soak "+args[0], flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&o.rounds, "rounds", 50, "how often to kill, stop or restart the process, to close connections, or to attack (auth)")
	f.IntVar(&o.clients, "clients", 8, "sessions that live across all rounds; mixed: clients of each kind at a time")
	f.IntVar(&o.servers, "servers", 1, "copies of the demo in the process, over which the sessions are spread")
	f.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "seed of all random choices")
	f.StringVar(&o.bin, "bin", "", "the troupe program; built if empty")
	f.StringVar(&o.old, "old", "", "kill: a commit whose release takes turns with this one on the same data")
	f.StringVar(&o.data, "data", "", "data directory; a temporary one if empty")
	f.StringVar(&o.out, "out", "", "file for the report as JSON")
	f.BoolVar(&o.early, "early", false, "kill: answer some questions after the restart before resuming their stream")
	f.IntVar(&o.events, "events", 0, "restart: kill the process behind so many stored events; resume: events of others")
	f.IntVar(&o.nats, "nats", 1, "nodes, chaos, roll, costs: number of NATS servers, 1 or 3")
	f.BoolVar(&o.sync, "sync", false, "nodes, chaos, roll, costs: NATS has each write on the disk before it is acknowledged")
	f.IntVar(&o.streams, "streams", 1000, "costs large: streams of 3.9 MB")
	f.IntVar(&o.herd, "herd", 100, "chaos: clients that come back within a second when a node dies; 0: none")
	f.DurationVar(&o.away, "away", 10*time.Second, "chaos: how long the NATS servers are away, once; 0: never")
	f.DurationVar(&o.within, "within", 100*time.Millisecond, "cancel: how soon a handler must end; 0 sets no limit")
	f.DurationVar(&o.time, "time", time.Minute, "balance: how long behind each proxy; roll, mixed: how long; restart: how long the call takes")
	f.IntVar(&o.greedy, "greedy", 1, "greed: clients that take all they can get, each from an address of its own; chaos: calls that such a client has with each node at a time, 0: none")
	f.DurationVar(&o.duration, "duration", 4*time.Second, "greed, auth: how long each attack lasts")
	if err := f.Parse(args[1:]); err != nil {
		return 2
	}
	o.attacks = f.Args()
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
	if r, ok := report.(judged); ok {
		if err := r.verdict(); err != nil {
			fmt.Fprintf(stderr, "soak %s: %v\n", args[0], err)
			return 1
		}
	}
	return 0
}

// judged is a report that may tell of promises that were not kept. It is shown in any case.
type judged interface{ verdict() error }

// perform runs a scenario with a program and a data directory.
func perform(ctx context.Context, name string, o options) (report any, err error) {
	dir, err := os.MkdirTemp("", "troupe-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if name == "tasks" || name == "nodes" || name == "chaos" || name == "roll" || name == "costs" { // the tool that it calls is in bench/host
		o.servers = 2
	}
	if o.bin == "" {
		if o.bin, err = build(ctx, dir, o.servers); err != nil {
			return nil, err
		}
	}
	if o.old != "" {
		if name != "kill" || o.servers != 1 {
			return nil, errors.New("--old is for kill with one server")
		}
		if o.oldBin, err = buildAt(ctx, dir, o.old); err != nil {
			return nil, err
		}
	}
	if o.data == "" {
		o.data = filepath.Join(dir, "data")
	}
	return scenarios[name](ctx, o)
}
