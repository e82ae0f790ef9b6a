package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/bench/record"
)

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 6, "rounds; each runs every server in every scenario")
	seconds := flag.Float64("seconds", 3, "`seconds` that count of each run; one more is for warming up")
	only := flag.String("servers", "", "`names` of the servers, with commas; bare is always one (all)")
	loads := flag.String("scenarios", "", "`names` of scenarios or groups of them, with commas (calls); the groups are calls, sizes, sessions, streams, memory, which is those two, rest, waiting, beside, nodes and hosted")
	name := flag.String("name", time.Now().UTC().Format(time.DateOnly)+"-peers", "`name` of the results")
	results := flag.String("results", "bench/results", "`directory` for the results")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := comparison{rounds: *rounds, length: time.Duration(*seconds * float64(time.Second)), servers: servers}
	err := c.chooseLoad(*only, *loads)
	if err == nil {
		err = c.runRounds(ctx)
	}
	if len(c.results) > 0 {
		err = errors.Join(err, c.writeResults(filepath.Join(*results, *name)))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// A comparison is a number of rounds, and what came of them.
type comparison struct {
	rounds    int
	length    time.Duration
	servers   []server
	scenarios []scenario
	results   []result
}

// chooseLoad leaves the servers that are named, or all, and has the scenarios that are named.
func (c *comparison) chooseLoad(names, loads string) error {
	if c.rounds < 1 || c.length <= 0 {
		return errors.New("rounds and seconds must be positive")
	}
	if names != "" {
		left := strings.Split(names+","+base, ",")
		c.servers = slices.DeleteFunc(slices.Clone(c.servers), func(s server) bool { return !slices.Contains(left, s.name) })
		for _, name := range left {
			if !slices.ContainsFunc(c.servers, func(s server) bool { return s.name == name }) {
				return fmt.Errorf("no server is called %q", name)
			}
		}
	}
	var err error
	c.scenarios, err = scenariosNamed(loads)
	return err
}

// runRounds builds everything and runs the rounds. A server that fails in a scenario has no figures
// there, and does not end the rest; neither do operations that fail. The error tells of both.
func (c *comparison) runRounds(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "troupe-compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(os.Stderr, "building")
	bins, err := buildBinaries(ctx, dir, c.servers, c.scenarios)
	if err != nil {
		return err
	}
	var failed error
	began, total := time.Now(), 0
	for _, s := range c.scenarios {
		for _, v := range c.servers {
			if v.speaks(s) {
				total += c.rounds
			}
		}
	}
	done := 0
	for round := 1; round <= c.rounds; round++ {
		for _, s := range c.scenarios {
			from := len(c.results)
			for i := range c.servers {
				v := c.servers[(i+round-1)%len(c.servers)] // another one is the first in each round
				if !v.speaks(s) {
					continue
				}
				r, err := measureServer(ctx, bins, v, s, c.length)
				if ctx.Err() != nil {
					return errors.Join(failed, context.Cause(ctx))
				}
				done++
				if err != nil {
					err = fmt.Errorf("%s, %s, round %d: %w", v.name, s.name, round, err)
					fmt.Fprintln(os.Stderr, err)
					failed = errors.Join(failed, err)
					continue
				}
				r.Round = round
				c.results = append(c.results, r)
				if r.Failed > 0 {
					failed = errors.Join(failed, fmt.Errorf("%s, %s, round %d: %d failed: %v", v.name, s.name, round, r.Failed, r.Errors))
				}
				left := time.Since(began) / time.Duration(done) * time.Duration(total-done)
				fmt.Fprintf(os.Stderr, "%d of %d, %v left: round %d %s %s\n", done, total, left.Round(time.Second), round, s.name, v.name)
			}
			setRatios(c.results[from:])
		}
	}
	return failed
}

// benchstat makes the tables.
const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"

// writeResults writes the results as JSON, and as text: what was measured, a line for each run, and
// tables of the medians. path is the name of the files without what follows the dot.
func (c *comparison) writeResults(path string) error {
	rec := record.Of("./bench/compare", c.results)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := rec.Write(path + ".json"); err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%s at commit %s, %s, %d CPUs; %d rounds of %v\n", rec.Command, rec.Commit, runtime.Version(), rec.CPUs, c.rounds, c.length)
	for _, s := range c.scenarios {
		fmt.Fprintf(&text, "%s is %v\n", s.name, s)
	}
	writeLines(&text, c.results)
	if err := os.WriteFile(path+".txt", text.Bytes(), 0o644); err != nil {
		return err
	}
	tables, err := exec.Command("go", "run", benchstat, "-table", "/scenario", "-row", "/server", path+".txt").CombinedOutput()
	fmt.Fprintf(&text, "\n%s", tables)
	_, failed := os.Stdout.Write(text.Bytes())
	return errors.Join(err, failed, os.WriteFile(path+".txt", text.Bytes(), 0o644))
}
