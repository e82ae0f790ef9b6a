package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A column of a table shows a figure in a form: the median over the rounds, with the least and the
// most in parentheses unless it stands alone.
type column struct {
	title, form string
	of          func(result) float64
	alone       bool
}

// The columns that several tables have.
var (
	cpuColumn  = column{"CPU µs/call", "%.1f", cpu, false}
	p50Column  = column{"p50 ms", "%.2f", p50, true}
	p99Column  = column{"p99 ms", "%.2f", p99, false}
	rateColumn = column{"calls/s", "%.0f", perSecond, true}
	mibColumn  = column{"MiB", "%.0f", resident, true}
)

// columnsOf are those of the table of a group.
func columnsOf(g group) []column {
	switch g {
	case sessions, rest, streams:
		return []column{{"bytes each", "%.0f", heldEach, false}, {"MiB", "%.1f", heldAfter, false}, {"CPU µs to begin one", "%.0f", heldCPU, false},
			{"begun/s", "%.0f", heldBegun, true}, cpuColumn, p50Column, p99Column, rateColumn}
	case waiting:
		return []column{{"live bytes each", "%.0f", heldLive, false}, {"left behind", "%.0f", heldLeft, false}, {"begun/s", "%.0f", heldBegun, true}}
	case beside:
		return []column{{"p50 ms alone", "%.2f", aloneP50, false}, {"disturbed", "%.2f", p50, false}, {"p99 ms alone", "%.2f", aloneP99, false},
			{"disturbed", "%.2f", p99, false}, {"× alone", "%.2f", timesAlone, false}, rateColumn, {"noise/s", "%.0f", noiseServed, false}}
	case nodes:
		return []column{cpuColumn, p50Column, p99Column, rateColumn, mibColumn}
	}
	return []column{cpuColumn, {"× bare", "%.2f", ratio, false}, p50Column, p99Column, rateColumn, mibColumn}
}

// writeTable writes the rows of a scenario.
func writeTable(w io.Writer, s scenario, rows []row) error {
	if _, err := fmt.Fprintf(w, "\n== %s: %v\n", s.name, s); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "server\t")
	for _, c := range columnsOf(s.group) {
		fmt.Fprint(t, c.title, "\t")
	}
	fmt.Fprintln(t, "failed")
	for _, r := range rows {
		fmt.Fprint(t, r.server, "\t")
		for _, c := range columnsOf(s.group) {
			f := r.spread(c.of)
			fmt.Fprintf(t, c.form, f.median)
			if !c.alone {
				fmt.Fprintf(t, " ("+c.form+".."+c.form+")", f.least, f.most)
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t, r.failures())
	}
	return t.Flush()
}
