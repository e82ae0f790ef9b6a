package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// report is what the reports of all scenarios have.
type report struct {
	Scenario string   `json:"scenario"`
	Seed     uint64   `json:"seed"`
	Seconds  float64  `json:"seconds"`
	Broken   []string `json:"broken_promises,omitempty"` // by count
	Over     []string `json:"over_bounds,omitempty"`     // in time or memory, which need a machine that does nothing else

	counts bool // Over does not count
}

func newReport(scenario string, o options) report {
	return report{Scenario: scenario, Seed: o.seed, counts: o.counts}
}

// verdict is the error of a report with a promise that was not kept.
func (r *report) verdict() error {
	all := r.Broken
	if !r.counts {
		all = slices.Concat(r.Broken, r.Over)
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "\n"))
}

func (r *report) addBroken(format string, args ...any) {
	r.Broken = append(r.Broken, fmt.Sprintf(format, args...))
}

func (r *report) addOver(format string, args ...any) {
	r.Over = append(r.Over, fmt.Sprintf(format, args...))
}
