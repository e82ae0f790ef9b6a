// Command tally reads the output of go test -json and tells the outcome in a few lines: the output of what failed, the packages,
// and how many tests were skipped for which reason. It ends with exit status 1 if anything failed, or if no test ran.
//
//	go test -json ./... | tally
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	t := newTally()
	if err := t.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	if !t.report(os.Stdout) {
		os.Exit(1)
	}
}

// An event is a line of go test -json, as `go doc test2json` describes it.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build, in place of Package
	Test       string
	Output     string
	Elapsed    float64
}

// A test is one test of a package. Its name is empty for the package as a whole.
type test struct{ pkg, name string }

// A tally is what the events of a run come to.
type tally struct {
	output   map[test][]string   // of tests that have not ended
	builds   map[string][]string // output of builds by import path
	skipped  map[string]int      // tests by the reason why they were skipped
	passed   int
	failed   []test
	packages map[string]string // outcome
	slow     map[string]float64
	failures []string // output of what failed
}

func newTally() *tally {
	return &tally{output: map[test][]string{}, builds: map[string][]string{}, skipped: map[string]int{}, packages: map[string]string{}, slow: map[string]float64{}}
}

// read takes events until the end of r. A line that is no event is kept as output of the run: the go command writes such
// lines when it cannot begin.
func (t *tally) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				t.failures = append(t.failures, line+"\n")
			} else {
				t.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// add takes one event.
func (t *tally) add(e event) {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		t.builds[e.ImportPath] = append(t.builds[e.ImportPath], e.Output)
	case "build-fail":
		t.failures = append(t.failures, t.builds[e.ImportPath]...)
	case "output":
		t.output[id] = append(t.output[id], e.Output)
	case "pass", "skip", "fail":
		if e.Test == "" {
			t.packages[e.Package] = e.Action
			t.slow[e.Package] = e.Elapsed
		}
		t.end(id, e.Action)
		delete(t.output, id)
	}
}

// end counts a test that has ended.
func (t *tally) end(id test, action string) {
	switch {
	case action == "fail":
		t.failed = append(t.failed, id)
		t.failures = append(t.failures, t.output[id]...)
		for unfinished, output := range t.output { // a panic, and a test that ran out of time, end no test
			if id.name == "" && unfinished.pkg == id.pkg && unfinished.name != "" {
				t.failed = append(t.failed, unfinished)
				t.failures = append(t.failures, output...)
				delete(t.output, unfinished)
			}
		}
	case id.name == "":
	case action == "skip":
		t.skipped[reason(t.output[id])]++
	default:
		t.passed++
	}
}

var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason returns why a test was skipped, by its output.
func reason(output []string) string {
	for _, line := range output {
		if place.MatchString(line) {
			return strings.TrimSpace(place.ReplaceAllString(line, ""))
		}
	}
	return "no reason given"
}

// report writes the outcome and tells whether all is well. Its last line is that of a test runner.
func (t *tally) report(w io.Writer) bool {
	for _, line := range t.failures {
		fmt.Fprint(w, line)
	}
	slowest := slices.SortedFunc(maps.Keys(t.slow), func(a, b string) int { return cmp.Compare(t.slow[b], t.slow[a]) })
	for _, pkg := range slowest[:min(5, len(slowest))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", t.slow[pkg], pkg)
	}
	skipped := 0
	for _, why := range slices.Sorted(maps.Keys(t.skipped)) {
		fmt.Fprintf(w, "skipped %3d: %s\n", t.skipped[why], why)
		skipped += t.skipped[why]
	}
	for _, id := range t.failed {
		fmt.Fprintf(w, "FAIL %s %s\n", id.pkg, id.name)
	}
	ok := len(t.failed) == 0 && len(t.failures) == 0 && t.passed > 0
	fmt.Fprintf(w, "%d packages\n%d passed, %d failed, %d skipped\n", len(t.packages), t.passed, len(t.failed), skipped)
	return ok
}
