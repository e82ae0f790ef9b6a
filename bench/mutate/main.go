package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/troupe-run/troupe/bench/record"
)

func main() {
	ok, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run reports whether all mutations that were asked for were caught.
func run() (ok bool, err error) {
	which := flag.String("run", "", "make only the mutations whose `name` or file matches")
	list := flag.Bool("list", false, "print the mutations and make none")
	timeout := flag.Duration("timeout", 2*time.Minute, "how long the tests of one mutation may take; then it is caught, too")
	file := flag.String("out", "", "write the results to this `file` as JSON")
	flag.Parse()
	pattern, err := regexp.Compile(*which)
	if err != nil {
		return false, err
	}
	all := slices.DeleteFunc(table(), func(m mutation) bool { return !pattern.MatchString(m.name) && !pattern.MatchString(m.file) })
	if *list {
		return true, show(all)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := moduleRoot()
	if err != nil {
		return false, err
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	r := &runner{root: root, tmp: tmp, timeout: *timeout, sound: map[string]error{}}
	results := make([]result, 0, len(all))
	for i := range all {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		res := r.make(ctx, &all[i])
		results = append(results, res)
		fmt.Printf("%3d/%d  %-8s  %5.1f s  %s: %s  %s\n", i+1, len(all), res.Outcome, res.Seconds, res.Tests, res.Name, res.By)
	}
	ok, err = report(results)
	if *file != "" && err == nil {
		err = record.Of("./bench/mutate", results).Write(*file)
	}
	return ok, err
}

// show prints mutations.
func show(all []mutation) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.name, m.kind, m.file, strings.TrimSpace(m.tests()+" "+m.run))
	}
	return w.Flush()
}

// report prints how many mutations of each kind were caught, and those that were not. It
// reports whether there are none.
func report(results []result) (ok bool, err error) {
	counts := map[kind]map[outcome]int{}
	total := map[outcome]int{}
	for _, res := range results {
		if counts[res.Kind] == nil {
			counts[res.Kind] = map[outcome]int{}
		}
		counts[res.Kind][res.Outcome]++
		total[res.Outcome]++
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kind\tcaught\tsurvived\tvoid\t")
	for _, k := range []kind{guard, merge, limit, seal, expiry, negotiation, validation} {
		if c := counts[k]; c != nil {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", k, c[caught], c[survived], c[void])
		}
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t\n", total[caught], total[survived], total[void])
	if err := w.Flush(); err != nil {
		return false, err
	}
	for _, res := range results {
		if res.Outcome != caught {
			fmt.Printf("%s: %s (%s, tests of %s) %s\n", res.Outcome, res.Name, res.File, res.Tests, res.By)
		}
	}
	return total[caught] == len(results), nil
}

// table is all mutations, bottom layer first.
func table() (all []mutation) {
	for _, part := range [][]mutation{protocol, machines, storage, remote, told, relayed, acting, tasks, carrying, memory, public, extensions, calling, scopes, apiKeys, revoked, ends, tokens, door} {
		all = append(all, part...)
	}
	return all
}

// moduleRoot is the folder of the module that this is a part of.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", fmt.Errorf("not within the module")
	}
	return filepath.Dir(mod), nil
}
