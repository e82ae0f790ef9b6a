package main

import (
	"cmp"
	"slices"
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
		}
		for _, r := range all {
			row.failed += r.Failed
		}
		rows = append(rows, row)
	}
	place := func(name string) int { return slices.IndexFunc(servers, func(s server) bool { return s.name == name }) }
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(place(a.server), place(b.server)) })
	return rows
}
