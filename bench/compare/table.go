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
	switch s.group {
	case sessions, rest, streams:
		fmt.Fprintln(t, "server\tbytes each\tMiB\tCPU µs to begin one\tbegun/s\tCPU µs/call\tp50 ms\tp99 ms\tcalls/s\tfailed")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%.0f\t%.0f\t%.1f\t%.2f\t%.2f\t%.0f\t%d\n", r.server, r.each, r.after, r.beginCPU, r.begun.median, r.cpu, r.p50.median, r.p99, r.perSecond.median, r.failed)
		}
	case waiting:
		fmt.Fprintln(t, "server\tlive bytes each\tleft behind\tbegun/s\tfailed")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.0f\t%d\n", r.server, r.live, r.left, r.begun.median, r.failed)
		}
	case beside:
		fmt.Fprintln(t, "server\tp50 ms alone\tdisturbed\tp99 ms alone\tdisturbed\t× alone\tcalls/s\tnoise/s\tfailed")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%d\n", r.server, r.aloneP50, r.p50, r.aloneP99, r.p99, r.times, r.perSecond.median, r.noise, r.failed)
		}
	case nodes:
		fmt.Fprintln(t, "server\tCPU µs/call\tp50 ms\tp99 ms\tcalls/s\tMiB\tfailed")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%.2f\t%.0f\t%.0f\t%d\n", r.server, r.cpu, r.p50.median, r.p99, r.perSecond.median, r.resident.median, r.failed)
		}
	default:
		fmt.Fprintln(t, "server\tCPU µs/request\t× bare\tp50 ms\tp99 ms\trequests/s\tMiB\tfailed")
		for _, r := range rows {
			fmt.Fprintf(t, "%s\t%.1f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%d\n", r.server, r.cpu, r.ratio, r.p50.median, r.p99, r.perSecond.median, r.resident.median, r.failed)
		}
	}
	return t.Flush()
}

// Format writes the median, with the least and the most in parentheses, in the form of its verb.
func (s spread) Format(f fmt.State, verb rune) {
	form := fmt.FormatString(f, verb)
	fmt.Fprintf(f, form+" ("+form+".."+form+")", s.median, s.least, s.most)
}
