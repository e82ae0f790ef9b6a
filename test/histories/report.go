package histories

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var reportTo = flag.String("report", "", "file for a report as JSON")

// Report is what came of histories, as -report has it in a file.
type Report struct {
	Histories int            `json:"histories"`
	Seed      uint64         `json:"seed"` // of the first, the others follow
	Seconds   float64        `json:"seconds"`
	Failed    []uint64       `json:"failed"` // seeds
	Sums      map[string]int `json:"sums"`   // how often each thing has happened
}

// Add adds another part of the same histories.
func (r *Report) Add(o Report) {
	r.Histories += o.Histories
	r.Failed = append(r.Failed, o.Failed...)
	slices.Sort(r.Failed)
	for what, n := range o.Sums {
		r.Sums[what] += n
	}
}

// Print says what has happened.
func (r *Report) Print() {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(r.Sums)) {
		all = append(all, fmt.Sprintf("%d %s", r.Sums[what], what))
	}
	fmt.Printf("%d histories in %.1f s: %s\n", r.Histories, r.Seconds, strings.Join(all, ", "))
}

// Must fails the test if one of these things has never happened, unless it has failed.
func (r *Report) Must(t *testing.T, things ...string) {
	t.Helper()
	for _, what := range things {
		if r.Sums[what] == 0 && !t.Failed() {
			t.Errorf("in no history there were %s", what)
		}
	}
}

// Write writes the report to the file that -report names, if it does.
func (r *Report) Write(t *testing.T) {
	t.Helper()
	if *reportTo == "" {
		return
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(*reportTo, append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
