package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/bench/loadgen"
)

// A result has the figures of one run of one server.
type result struct {
	Scenario  string  `json:"scenario"`
	Server    string  `json:"server"`
	Round     int     `json:"round"`
	CPU       float64 `json:"server_cpu_us_per_request"`
	Ratio     float64 `json:"times_bare"` // 0 if bare failed in this round
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	PerSecond float64 `json:"requests_per_second"`
	Failed    int64   `json:"failed"`
	Resident  float64 `json:"server_mib"`
	// Errors says by kind what failed, with an example of each.
	Errors map[string]string `json:"errors,omitempty"`

	Held   *kept           `json:"held,omitempty"`   // then the figures above are of calls meanwhile
	Beside *loadgen.Beside `json:"beside,omitempty"` // then the figures above are of calls beside who disturbs them
}

// kept is the memory of a server after a collection, without and with sessions or streams, and what it took to begin them.
type kept struct {
	Count     int     `json:"count"`
	Before    float64 `json:"before_mib"`
	After     float64 `json:"after_mib"`
	Each      float64 `json:"bytes_each"`
	CPU       float64 `json:"server_cpu_us_to_begin_one"`
	PerSecond float64 `json:"begun_per_second"`

	Live float64 `json:"live_bytes_each,omitempty"` // in heap and stacks, of what waits
	Left float64 `json:"left_bytes_each,omitempty"` // the same once all of it has ended
}

// fail adds what failed by a report.
func (r *result) fail(p *loadgen.Report) {
	for kind, n := range p.Errors {
		if r.Errors == nil {
			r.Errors = make(map[string]string)
		}
		r.Failed += n
		r.Errors[kind] = p.Examples[kind]
	}
}

// failOver notes that one bound was passed.
func (r *result) failOver(format string, args ...any) {
	r.fail(&loadgen.Report{Errors: map[string]int64{"over": 1}, Examples: map[string]string{"over": fmt.Sprintf(format, args...)}})
}

// relate sets the ratios in the results of one scenario and round.
func relate(results []result) {
	i := slices.IndexFunc(results, func(r result) bool { return r.Server == base })
	if i < 0 || results[i].CPU == 0 {
		return
	}
	of := results[i].CPU
	for j := range results {
		results[j].Ratio = results[j].CPU / of
	}
}

// A spread has the median, the least and the most of a figure.
type spread struct{ median, least, most float64 }

// spreadOf returns the spread of figures that are not 0. Of two in the middle, the median is their mean.
func spreadOf(figures []float64) spread {
	known := slices.DeleteFunc(slices.Clone(figures), func(f float64) bool { return f == 0 })
	n := len(known)
	if n == 0 {
		return spread{}
	}
	slices.Sort(known)
	return spread{(known[(n-1)/2] + known[n/2]) / 2, known[0], known[n-1]}
}

// A row sums up what a server did in a scenario.
type row struct {
	server                                    string
	cpu, ratio, p50, p99, perSecond, resident spread
	failed                                    int64

	each, after, beginCPU, begun spread // of sessions or streams that are held
	live, left                   spread // of what waits
	noise                        spread // calls of the noisy client that were served in a second
	aloneP50, aloneP99, times    spread // of calls without who disturbs them; times is how many times longer p99 was beside them
}

// summarize returns the rows of a scenario, in the order of [servers].
func summarize(results []result, scenario string) (rows []row) {
	of := make(map[string][]result)
	for _, r := range results {
		if r.Scenario == scenario {
			of[r.Server] = append(of[r.Server], r)
		}
	}
	for name, all := range of {
		figure := func(f func(result) float64) spread {
			var figures []float64
			for _, r := range all {
				figures = append(figures, f(r))
			}
			return spreadOf(figures)
		}
		row := row{
			server:    name,
			cpu:       figure(func(r result) float64 { return r.CPU }),
			ratio:     figure(func(r result) float64 { return r.Ratio }),
			p50:       figure(func(r result) float64 { return r.P50 }),
			p99:       figure(func(r result) float64 { return r.P99 }),
			perSecond: figure(func(r result) float64 { return r.PerSecond }),
			resident:  figure(func(r result) float64 { return r.Resident }),
			each:      figure(func(r result) float64 { return cmp.Or(r.Held, new(kept)).Each }),
			after:     figure(func(r result) float64 { return cmp.Or(r.Held, new(kept)).After }),
			beginCPU:  figure(func(r result) float64 { return cmp.Or(r.Held, new(kept)).CPU }),
			begun:     figure(func(r result) float64 { return cmp.Or(r.Held, new(kept)).PerSecond }),
			live:      figure(func(r result) float64 { return cmp.Or(r.Held, new(kept)).Live }),
			left:      figure(func(r result) float64 { return cmp.Or(r.Held, new(kept)).Left }),
			noise:     figure(func(r result) float64 { return cmp.Or(r.Beside, new(loadgen.Beside)).Served }),
			aloneP50:  figure(func(r result) float64 { return cmp.Or(r.Beside, new(loadgen.Beside)).Alone.P50 }),
			aloneP99:  figure(func(r result) float64 { return cmp.Or(r.Beside, new(loadgen.Beside)).Alone.P99 }),
			times:     figure(func(r result) float64 { return cmp.Or(r.Beside, new(loadgen.Beside)).P99 }),
		}
		for _, r := range all {
			row.failed += r.Failed
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(place(a.server), place(b.server)) })
	return rows
}

// place returns the place of a server in [servers], -1 if it has none.
func place(name string) int {
	return slices.IndexFunc(servers, func(s server) bool { return s.name == name })
}
