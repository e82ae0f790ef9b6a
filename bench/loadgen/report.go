package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Report is what came of a run.
type Report struct {
	URL      string  `json:"url"`
	Scenario string  `json:"scenario"`
	Revision string  `json:"revision"`
	Clients  int     `json:"clients"`
	Rate     float64 `json:"rate,omitempty"` // 0: a closed loop
	Size     int     `json:"size,omitempty"`
	Tool     string  `json:"tool,omitempty"`
	Seconds  float64 `json:"seconds"`

	Operations int64             `json:"operations"` // that succeeded
	PerSecond  float64           `json:"per_second"`
	Events     int64             `json:"events,omitempty"`
	Errors     map[string]int64  `json:"errors,omitempty"`   // by kind
	Examples   map[string]string `json:"examples,omitempty"` // the first error of each kind
	Late       int64             `json:"late,omitempty"`     // of an open loop: begun more than 10 ms after they were due, as all clients were busy
	Latency    Latency           `json:"latency_ms"`

	CPU      float64 `json:"server_cpu_us_per_operation,omitempty"`
	Cores    float64 `json:"server_cores,omitempty"` // that it kept busy
	Resident float64 `json:"server_rss_mib,omitempty"`
}

// Latency is how long operations took that succeeded, in milliseconds. Those of an open loop count from when they were due.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// latencyOf sums up a histogram of microseconds.
func latencyOf(h *hdrhistogram.Histogram) Latency {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return Latency{h.Mean() / 1000, ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(90)), ms(h.ValueAtQuantile(99)), ms(h.ValueAtQuantile(99.9)), ms(h.Max())}
}

// Failed is how many operations failed.
func (r *Report) Failed() (n int64) {
	for _, k := range r.Errors {
		n += k
	}
	return n
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	loop := fmt.Sprintf("%d clients", r.Clients)
	if r.Rate > 0 {
		loop = fmt.Sprintf("%g/s, at most %d at a time", r.Rate, r.Clients)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s of %s, %s, %.1f s\n", r.Scenario, r.Revision, r.URL, loop, r.Seconds)
	fmt.Fprintf(t, "operations\t%d, %.1f/s\n", r.Operations, r.PerSecond)
	if r.Events > 0 {
		fmt.Fprintf(t, "events\t%d, %.1f/s\n", r.Events, float64(r.Events)/r.Seconds)
	}
	l := r.Latency
	fmt.Fprintf(t, "latency\tp50 %.2f ms, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n", l.P50, l.P90, l.P99, l.P999, l.Max)
	if r.Late > 0 {
		fmt.Fprintf(t, "late\t%d began more than %v after they were due: all clients were busy\n", r.Late, lateAfter)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(t, "errors\t%d %s (%.120s)\n", r.Errors[kind], kind, strings.ReplaceAll(r.Examples[kind], "\n", " "))
	}
	if r.CPU > 0 {
		fmt.Fprintf(t, "server\t%.1f µs of processor time for an operation, %.2f cores, %.0f MiB resident\n", r.CPU, r.Cores, r.Resident)
	}
	return t.Flush()
}

// Write writes the report to a file as JSON.
func (r *Report) Write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// Read reads a report that Write wrote.
func Read(file string) (*Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(data, r); err != nil || r.Scenario == "" {
		return nil, fmt.Errorf("%s is no report: %v", file, err)
	}
	return r, nil
}

// Compare writes how two reports differ: the settings, and each figure of b as so many times that of a.
func Compare(w io.Writer, a, b *Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range []struct{ what, a, b string }{
		{"url", a.URL, b.URL}, {"scenario", a.Scenario, b.Scenario}, {"revision", a.Revision, b.Revision}, {"clients", fmt.Sprint(a.Clients), fmt.Sprint(b.Clients)},
		{"rate", fmt.Sprint(a.Rate), fmt.Sprint(b.Rate)}, {"size", fmt.Sprint(a.Size), fmt.Sprint(b.Size)}, {"tool", a.Tool, b.Tool},
	} {
		if s.a != s.b {
			fmt.Fprintf(t, "%s\t%s\t%s\tdiffers\t\n", s.what, s.a, s.b)
		}
	}
	for _, f := range []struct {
		what string
		a, b float64
	}{
		{"operations/s", a.PerSecond, b.PerSecond}, {"p50 ms", a.Latency.P50, b.Latency.P50}, {"p90 ms", a.Latency.P90, b.Latency.P90}, {"p99 ms", a.Latency.P99, b.Latency.P99},
		{"p99.9 ms", a.Latency.P999, b.Latency.P999}, {"max ms", a.Latency.Max, b.Latency.Max}, {"failed", float64(a.Failed()), float64(b.Failed())},
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

// rounded is a duration as seconds.
func rounded(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
