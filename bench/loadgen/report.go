package loadgen

import (
	"cmp"
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
	URL      string   `json:"url"`
	Others   []string `json:"other_urls,omitempty"`
	Scenario string   `json:"scenario"`
	Revision string   `json:"revision"`
	Clients  int      `json:"clients"`
	Rate     float64  `json:"rate,omitempty"` // 0: a closed loop
	Size     int      `json:"size,omitempty"`
	Count    int      `json:"count,omitempty"` // of the sessions or streams, where there are many
	Tool     string   `json:"tool,omitempty"`
	Seconds  float64  `json:"seconds"`

	Operations int64             `json:"operations"` // that succeeded
	PerSecond  float64           `json:"per_second"`
	Events     int64             `json:"events,omitempty"`
	Errors     map[string]int64  `json:"errors,omitempty"`   // by kind
	Examples   map[string]string `json:"examples,omitempty"` // the first error of each kind
	Late       int64             `json:"late,omitempty"`     // of an open loop: begun more than 10 ms after they were due, as all clients were busy
	Latency    Latency           `json:"latency_ms"`
	First      *Latency          `json:"first_event_ms,omitempty"` // of resume: until the first event came

	Held   *Held   `json:"held,omitempty"`
	Beside *Beside `json:"beside,omitempty"`

	CPU      float64 `json:"server_cpu_us_per_operation,omitempty"`
	Cores    float64 `json:"server_cores,omitempty"` // that it kept busy
	Resident float64 `json:"server_rss_mib,omitempty"`
}

// Held is the memory that a server keeps for sessions or streams that stay. Without PIDs nothing is
// known of it.
type Held struct {
	Count   int     `json:"count"` // that were there
	Seconds float64 `json:"seconds"`
	Before  float64 `json:"rss_before_mib,omitempty"`
	After   float64 `json:"rss_after_mib,omitempty"`
	Each    float64 `json:"rss_each_kib,omitempty"`
}

// Beside is how a run compares with one in which nobody disturbed it, and what came of who did.
type Beside struct {
	Alone          Latency `json:"alone_latency_ms"`
	AlonePerSecond float64 `json:"alone_per_second"`
	P50            float64 `json:"p50_ratio"` // of the run to the one alone
	P99            float64 `json:"p99_ratio"`

	Streams int64            `json:"slow_streams,omitempty"` // that the slow reader opened
	Bytes   int64            `json:"slow_bytes,omitempty"`   // that it read
	Offered float64          `json:"noise_offered_per_second,omitempty"`
	Served  float64          `json:"noise_served_per_second,omitempty"`
	Refused map[string]int64 `json:"noise_errors,omitempty"` // by kind, of operations of the noisy client
}

// Latency is how long operations took that succeeded, in milliseconds. Those of an open loop count
// from when they were due.
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

// Figure is one number of a report.
type Figure struct {
	Name  string // with its unit
	Value float64
}

// Figures returns the numbers of the report, always the same ones in the same order. What the run
// has not measured is 0.
func (r *Report) Figures() []Figure {
	held, beside, first := cmp.Or(r.Held, new(Held)), cmp.Or(r.Beside, new(Beside)), cmp.Or(r.First, new(Latency))
	return []Figure{
		{"operations/s", r.PerSecond}, {"events/s", ratioOf(float64(r.Events), r.Seconds)}, {"p50 ms", r.Latency.P50}, {"p90 ms", r.Latency.P90}, {"p99 ms", r.Latency.P99}, {"p99.9 ms", r.Latency.P999}, {"max ms", r.Latency.Max},
		{"failed", float64(r.Failed())}, {"first event p50 ms", first.P50}, {"first event p99 ms", first.P99},
		{"alone p50 ms", beside.Alone.P50}, {"alone p99 ms", beside.Alone.P99}, {"p50 to p50 alone", beside.P50}, {"p99 to p99 alone", beside.P99}, {"noise served/s", beside.Served},
		{"held", float64(held.Count)}, {"server KiB each", held.Each}, {"held server MiB", held.After}, {"server µs/operation", r.CPU}, {"server cores", r.Cores}, {"server MiB", r.Resident},
	}
}

// Failed is how many operations failed.
func (r *Report) Failed() (n int64) {
	for _, k := range r.Errors {
		n += k
	}
	return n
}

// BesideOf says how the run compares with one in which nobody disturbed it.
func (r *Report) BesideOf(alone *Report) *Beside {
	return &Beside{Alone: alone.Latency, AlonePerSecond: alone.PerSecond, P50: ratioOf(r.Latency.P50, alone.Latency.P50), P99: ratioOf(r.Latency.P99, alone.Latency.P99)}
}

// ratioOf is a as so many times b, 0 if that cannot be said.
func ratioOf(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	loop := fmt.Sprintf("%d clients", r.Clients)
	if r.Rate > 0 {
		loop = fmt.Sprintf("%g/s, at most %d at a time", r.Rate, r.Clients)
	}
	if r.Count > 0 {
		loop = fmt.Sprintf("%d sessions or streams", r.Count)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s\t%s of %s, %s, %.1f s\n", r.Scenario, r.Revision, r.URL, loop, r.Seconds)
	fmt.Fprintf(t, "operations\t%d\n", r.Operations)
	for _, f := range r.Figures() {
		if f.Value != 0 {
			fmt.Fprintf(t, "%s\t%.2f\n", f.Name, f.Value)
		}
	}
	if r.Late > 0 {
		fmt.Fprintf(t, "late\t%d began more than %v after they were due: all clients were busy\n", r.Late, lateAfter)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		fmt.Fprintf(t, "errors\t%d %s (%.120s)\n", r.Errors[kind], kind, strings.ReplaceAll(r.Examples[kind], "\n", " "))
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

// inSeconds is a duration as seconds.
func inSeconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
