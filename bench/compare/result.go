package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// A result is what came of one run of one server.
type result struct {
	Scenario string `json:"scenario"`
	Server   string `json:"server"`
	Round    int    `json:"round"`
	// Ratio is the processor time of a call as a multiple of that at bare in the same round; 0 if
	// that is not known.
	Ratio float64         `json:"times_bare,omitempty"`
	Calls *loadgen.Report `json:"calls,omitempty"`
	Begun *loadgen.Report `json:"begun,omitempty"`                  // of sessions or streams that are there beside the calls
	Live  float64         `json:"live_bytes_each,omitempty"`        // in heap and stacks, of what waits
	Left  float64         `json:"left_behind_bytes_each,omitempty"` // the same once all of it has ended
	// Errors says by kind what failed, with an example of each.
	Failed int64             `json:"failed"`
	Errors map[string]string `json:"errors,omitempty"`
}

// addFailures adds what failed by a report.
func (r *result) addFailures(p *loadgen.Report) {
	for kind, n := range p.Errors {
		if r.Errors == nil {
			r.Errors = make(map[string]string)
		}
		r.Failed += n
		r.Errors[kind] = p.Examples[kind]
	}
}

// addOverrun notes that one bound was passed.
func (r *result) addOverrun(format string, args ...any) {
	r.addFailures(&loadgen.Report{Errors: map[string]int64{"over": 1}, Examples: map[string]string{"over": fmt.Sprintf(format, args...)}})
}

// setRatios sets the ratios in the results of one scenario and round.
func setRatios(results []result) {
	i := slices.IndexFunc(results, func(r result) bool { return r.Server == base })
	if i < 0 || results[i].Calls == nil || results[i].Calls.CPU == 0 {
		return
	}
	of := results[i].Calls.CPU
	for j := range results {
		if results[j].Calls != nil {
			results[j].Ratio = results[j].Calls.CPU / of
		}
	}
}

// unshown are figures of a report that the tables leave out.
var unshown = []string{"p90 ms", "p99.9 ms", "max ms", "failed", "server cores", "held"}

// figures are those of the tables. What was not measured is 0.
func (r *result) figures() []loadgen.Figure {
	all := []loadgen.Figure{{Name: "times bare", Value: r.Ratio}, {Name: "live bytes each", Value: r.Live}, {Name: "left behind bytes each", Value: r.Left}}
	if r.Calls != nil {
		all = append(all, r.Calls.Figures()...)
	}
	if r.Begun != nil {
		for _, f := range r.Begun.Figures() {
			all = append(all, loadgen.Figure{Name: "begin " + f.Name, Value: f.Value})
		}
	}
	all = append(all, loadgen.Figure{Name: "failed operations", Value: float64(r.Failed)})
	return slices.DeleteFunc(all, func(f loadgen.Figure) bool {
		return f.Value == 0 || slices.Contains(unshown, strings.TrimPrefix(f.Name, "begin "))
	})
}

// writeLines writes each result as the line of a benchmark, of which benchstat makes tables.
func writeLines(w io.Writer, results []result) {
	for _, r := range results {
		fmt.Fprintf(w, "BenchmarkLoad/scenario=%s/server=%s 1", r.Scenario, r.Server)
		for _, f := range r.figures() {
			fmt.Fprintf(w, " %g %s", f.Value, strings.ReplaceAll(f.Name, " ", "-"))
		}
		fmt.Fprintln(w)
	}
}
