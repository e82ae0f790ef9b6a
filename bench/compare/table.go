package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// table writes the rows of a scenario. A figure is the median over the rounds; the least and the most follow in parentheses.
func table(w io.Writer, s scenario, rows []row) error {
	if _, err := fmt.Fprintf(w, "\n== %s: %v\n", s.name, s); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "server\tCPU µs/request\t× bare\tp50 ms\tp99 ms\trequests/s\tMiB\tfailed")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%.1f (%.1f..%.1f)\t%.2f (%.2f..%.2f)\t%.2f\t%.2f (%.2f..%.2f)\t%.0f\t%.0f\t%d\n", r.server,
			r.cpu.median, r.cpu.least, r.cpu.most, r.ratio.median, r.ratio.least, r.ratio.most,
			r.p50.median, r.p99.median, r.p99.least, r.p99.most, r.perSecond.median, r.resident.median, r.failed)
	}
	return t.Flush()
}
