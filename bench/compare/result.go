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

// kept is the memory of a server after a collection, without and with sessions or streams, and what
// it took to begin them.
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

// spreadOf returns the spread of figures that are not 0. Of two in the middle, the median is their
// mean.
func spreadOf(figures []float64) spread {
	known := slices.DeleteFunc(slices.Clone(figures), func(f float64) bool { return f == 0 })
	n := len(known)
	if n == 0 {
		return spread{}
	}
	slices.Sort(known)
	return spread{(known[(n-1)/2] + known[n/2]) / 2, known[0], known[n-1]}
}

// A row has the runs of a server in a scenario.
type row struct {
	server string
	runs   []result
}

// spread is that of a figure over the runs.
func (r row) spread(of func(result) float64) spread {
	var figures []float64
	for _, run := range r.runs {
		figures = append(figures, of(run))
	}
	return spreadOf(figures)
}

// failures is how much has failed in all runs.
func (r row) failures() (n int64) {
	for _, run := range r.runs {
		n += run.Failed
	}
	return n
}

// The figures of a run. Those of what it has not measured are 0.
func cpu(r result) float64         { return r.CPU }
func ratio(r result) float64       { return r.Ratio }
func p50(r result) float64         { return r.P50 }
func p99(r result) float64         { return r.P99 }
func perSecond(r result) float64   { return r.PerSecond }
func resident(r result) float64    { return r.Resident }
func heldEach(r result) float64    { return cmp.Or(r.Held, new(kept)).Each }
func heldAfter(r result) float64   { return cmp.Or(r.Held, new(kept)).After }
func heldCPU(r result) float64     { return cmp.Or(r.Held, new(kept)).CPU }
func heldBegun(r result) float64   { return cmp.Or(r.Held, new(kept)).PerSecond }
func heldLive(r result) float64    { return cmp.Or(r.Held, new(kept)).Live }
func heldLeft(r result) float64    { return cmp.Or(r.Held, new(kept)).Left }
func aloneP50(r result) float64    { return cmp.Or(r.Beside, new(loadgen.Beside)).Alone.P50 }
func aloneP99(r result) float64    { return cmp.Or(r.Beside, new(loadgen.Beside)).Alone.P99 }
func timesAlone(r result) float64  { return cmp.Or(r.Beside, new(loadgen.Beside)).P99 }
func noiseServed(r result) float64 { return cmp.Or(r.Beside, new(loadgen.Beside)).Served }

// rowsOf returns the rows of a scenario, in the order of [servers].
func rowsOf(results []result, scenario string) (rows []row) {
	for _, v := range servers {
		r := row{server: v.name}
		for _, run := range results {
			if run.Scenario == scenario && run.Server == v.name {
				r.runs = append(r.runs, run)
			}
		}
		if r.runs != nil {
			rows = append(rows, r)
		}
	}
	return rows
}

// placeOf returns the place of a server in [servers], -1 if it has none.
func placeOf(name string) int {
	return slices.IndexFunc(servers, func(s server) bool { return s.name == name })
}
