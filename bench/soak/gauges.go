package main

import (
	"fmt"
	"slices"
	"strings"
)

// gauges are what a process says that it holds.
type gauges struct {
	Held     map[string]float64 `json:"held_bytes"` // by kind
	InFlight float64            `json:"calls_in_flight"`
	Open     float64            `json:"connections_open"`
	Parked   float64            `json:"calls_parked"`
	Heap     float64            `json:"heap_mib"`
	RSS      float64            `json:"rss_mib"`
}

// gauges asks the process at /metrics.
func (w *greedy) gauges() gauges {
	g := gauges{Held: make(map[string]float64), InFlight: -1, RSS: float64(residentOf(w.p.cmd.Process.Pid)) / (1 << 20)}
	m, err := metricsOf(w.p.addr)
	if err != nil {
		return g
	}
	g.InFlight, g.Open, g.Parked, g.Heap = m["troupe_calls_in_flight"], m["troupe_connections_open"], m["troupe_calls_parked"], m["go_memstats_heap_inuse_bytes"]/(1<<20)
	for name, v := range m {
		if kind, ok := strings.CutPrefix(name, `troupe_memory_held_bytes{kind="`); ok {
			g.Held[strings.TrimSuffix(kind, `"}`)] = v
		}
	}
	return g
}

// keptOutcomes is how much a process may hold of the outcomes of parked calls, for ten minutes: 16 MiB, and what is
// counted for each beside.
const keptOutcomes = 22 << 20

// keptMiB is how much more memory a process may have than at its start once it holds nothing for clients: the store keeps
// events for ten minutes, and an index of them in memory.
const keptMiB = 256

// beyond says what there is more of than in idle, "" if that is nothing. Sessions, which stay in memory for a minute, count
// only with everything.
func (g gauges) beyond(idle gauges, everything bool) string {
	var more []string
	for kind, v := range g.Held {
		most := idle.Held[kind]
		if kind == "parked" {
			most += keptOutcomes
		}
		if v > most && (everything || kind != "sessions") {
			more = append(more, fmt.Sprintf("%.0f bytes of %s", v, kind))
		}
	}
	for _, k := range []struct {
		what      string
		now, idle float64
	}{{"calls in flight", g.InFlight, idle.InFlight}, {"open streams", g.Open, idle.Open}, {"parked calls", g.Parked, idle.Parked}} {
		if k.now != k.idle {
			more = append(more, fmt.Sprintf("%.0f %s", k.now, k.what))
		}
	}
	if everything && g.RSS > idle.RSS+keptMiB {
		more = append(more, fmt.Sprintf("%.0f MiB of memory, %.0f of heap", g.RSS, g.Heap))
	}
	slices.Sort(more)
	return strings.Join(more, ", ")
}
