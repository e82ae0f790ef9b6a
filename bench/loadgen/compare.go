package loadgen

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Compare writes how two reports differ: the settings, and each figure of b as so many times that
// of a.
func Compare(w io.Writer, a, b *Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range []struct{ what, a, b string }{
		{"url", a.URL, b.URL}, {"scenario", a.Scenario, b.Scenario}, {"revision", a.Revision, b.Revision}, {"clients", fmt.Sprint(a.Clients), fmt.Sprint(b.Clients)},
		{"rate", fmt.Sprint(a.Rate), fmt.Sprint(b.Rate)}, {"size", fmt.Sprint(a.Size), fmt.Sprint(b.Size)}, {"count", fmt.Sprint(a.Count), fmt.Sprint(b.Count)}, {"tool", a.Tool, b.Tool},
	} {
		if s.a != s.b {
			fmt.Fprintf(t, "%s\t%s\t%s\tdiffers\t\n", s.what, s.a, s.b)
		}
	}
	var each [2]float64
	var beside [2]Beside
	var first [2]Latency
	for i, r := range []*Report{a, b} {
		if r.Held != nil {
			each[i] = r.Held.Each
		}
		if r.Beside != nil {
			beside[i] = *r.Beside
		}
		if r.First != nil {
			first[i] = *r.First
		}
	}
	for _, f := range []struct {
		what string
		a, b float64
	}{
		{"operations/s", a.PerSecond, b.PerSecond}, {"p50 ms", a.Latency.P50, b.Latency.P50}, {"p90 ms", a.Latency.P90, b.Latency.P90}, {"p99 ms", a.Latency.P99, b.Latency.P99},
		{"p99.9 ms", a.Latency.P999, b.Latency.P999}, {"max ms", a.Latency.Max, b.Latency.Max}, {"failed", float64(a.Failed()), float64(b.Failed())},
		{"first event p50 ms", first[0].P50, first[1].P50}, {"first event p99 ms", first[0].P99, first[1].P99},
		{"p50 to p50 alone", beside[0].P50, beside[1].P50}, {"p99 to p99 alone", beside[0].P99, beside[1].P99}, {"server KiB each", each[0], each[1]},
		{"server µs/operation", a.CPU, b.CPU}, {"server MiB", a.Resident, b.Resident},
	} {
		switch {
		case f.a == 0 && f.b == 0:
		case f.a == 0 || f.b == 0:
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\t\t\n", f.what, f.a, f.b)
		default:
			fmt.Fprintf(t, "%s\t%.2f\t%.2f\tx %.2f\t\n", f.what, f.a, f.b, f.b/f.a)
		}
	}
	return t.Flush()
}
