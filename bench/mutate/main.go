package main

import (
	"cmp"
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
	ok, err := runTable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// runTable reports whether all mutations that were asked for were caught.
func runTable() (ok bool, err error) {
	which := flag.String("run", "", "make only the mutations whose `promise`, group or folder matches")
	list := flag.Bool("list", false, "print the mutations and make none")
	timeout := flag.Duration("timeout", 2*time.Minute, "how long the tests of one mutation may take; then it is caught, too")
	file := flag.String("out", "", "write the results to this `file` as JSON")
	flag.Parse()
	pattern, err := regexp.Compile(*which)
	if err != nil {
		return false, err
	}
	all := slices.DeleteFunc(allRows(), func(r row) bool {
		return !pattern.MatchString(r.promise) && !pattern.MatchString(r.group) && !pattern.MatchString(r.in)
	})
	if *list {
		return true, listRows(all)
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
	r := &runner{tree: tree{root: root}, tmp: tmp, timeout: *timeout, sound: map[string]error{}}
	results := make([]result, 0, len(all))
	for i := range all {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		res := r.makeMutation(ctx, &all[i])
		results = append(results, res)
		fmt.Printf("%3d/%d  %-8s  %5.1f s  %s: %s  %s\n", i+1, len(all), res.Outcome, res.Seconds, res.Tests, res.Promise, res.By)
	}
	ok, err = printReport(results)
	if *file != "" && err == nil {
		err = record.Of("./bench/mutate", results).Write(*file)
	}
	return ok, err
}

// listRows prints mutations.
func listRows(all []row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.group, r.promise, r.in, strings.TrimSpace(r.testFolder()+" "+r.run))
	}
	return w.Flush()
}

// printReport prints how many mutations of each group were caught, and those that were not. It
// reports whether there are none.
func printReport(results []result) (ok bool, err error) {
	counts := map[string]map[outcome]int{}
	total := map[outcome]int{}
	for _, res := range results {
		if counts[res.Group] == nil {
			counts[res.Group] = map[outcome]int{}
		}
		counts[res.Group][res.Outcome]++
		total[res.Outcome]++
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "group\tcaught\tsurvived\tvoid\t")
	for _, g := range groups {
		if c := counts[g.name]; c != nil {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", g.name, c[caught], c[survived], c[void])
		}
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t\n", total[caught], total[survived], total[void])
	if err := w.Flush(); err != nil {
		return false, err
	}
	for _, res := range results {
		if res.Outcome != caught {
			fmt.Printf("%s: %s (%s, tests of %s) %s\n", res.Outcome, res.Promise, cmp.Or(res.File, res.In), res.Tests, res.By)
		}
	}
	return total[caught] == len(results), nil
}

// groups is the table, by promise.
var groups = []struct {
	name string
	rows []mutation
}{
	{"sessions", sessions},
	{"once", once},
	{"nodes", nodes},
	{"isolation", isolation},
	{"limits", limits},
}

// row is a mutation of the table.
type row struct {
	mutation
	group string
}

// allRows is all mutations.
func allRows() (all []row) {
	for _, g := range groups {
		for _, m := range g.rows {
			all = append(all, row{m, g.name})
		}
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
