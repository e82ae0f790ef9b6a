package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/program"
)

// mixedReport is what a process held under a load that stayed the same, and after it.
type mixedReport struct {
	report
	Clients  int                `json:"clients_at_a_time"` // of each kind: with sessions over Streamable HTTP, without sessions, and over HTTP+SSE
	Visitors int64              `json:"clients_in_all"`
	Kept     float64            `json:"kept_seconds"` // for which the process keeps events, tasks and sessions that nobody uses
	Cores    float64            `json:"server_cores"`
	Counts   map[string]int64   `json:"counts"`
	Judged   bool               `json:"trends_judged"` // false where the run was too short for that
	Trends   []trend            `json:"trends"`
	Samples  int                `json:"samples"`
	Idle     map[string]float64 `json:"before"`
	After    map[string]float64 `json:"after"`
	Back     float64            `json:"back_after_seconds"` // from the last client to what there was before
	Refusals map[string]float64 `json:"refusals"`
}

// What is kept for a time accumulates: the load has to last for several such times before a process
// holds what it will go on holding. A quarter of a run is three of them. Below leastKept the events
// of a call could be gone while it runs.
const (
	keptShare = 12
	leastKept = 10 * time.Second
	mostKept  = time.Minute
)

// inMemory is how long a session stays in memory that nobody uses, whatever else is kept. So the
// trends of runs that keep for less than mostKept are not judged.
const inMemory = time.Minute

// cleared is how long after its time the store may take to drop what has expired.
const cleared = time.Minute

// mixedMemory is for --max-memory, which sets how much garbage there may be: so the figures do not
// depend on the machine.
const mixedMemory = "1GiB"

// runMixed has clients of both eras, and of the oldest transport, come, work in all ways and leave
// for o.time, and judges whether what the process holds stays the same.
func runMixed(ctx context.Context, o options) (*mixedReport, error) {
	o.time = cmp.Or(o.time, time.Minute)
	keep := min(max(o.time/keptShare, leastKept), mostKept)
	kept := keep.String()
	w, err := newWorld(ctx, o, "--set", "replay-age="+kept, "--set", "session-idle="+kept, "--set", "session-unused="+(keep/2).String(), "--set", "task-max="+kept, "--set", "max-ask="+kept,
		"--set", "sessions-per-principal=0", "--max-memory", mixedMemory)
	if err != nil {
		return nil, err
	}
	defer w.end()
	w.kept, w.p.Log.Alarms = keep, []string{"level=ERROR", "panic"}
	if _, err := w.start(); err != nil {
		return nil, err
	}
	r := &mixedReport{report: newReport("mixed", o), Clients: o.clients, Kept: keep.Seconds(), Judged: o.time >= keptShare*mostKept}
	if r.Idle, err = program.Metrics(w.p.Addr); err != nil {
		return nil, err
	}
	samples, failed := r.load(w)
	if r.After, err = program.Metrics(w.p.Addr); err != nil {
		return nil, errors.Join(failed, err)
	}
	r.Counts, r.Cores = w.tally.counts(), (r.After["process_cpu_seconds_total"]-r.Idle["process_cpu_seconds_total"])/r.Seconds
	r.judgeTrends(samples, r.Judged && failed == nil)
	switch {
	case failed != nil:
		r.addBroken("%v", failed)
	case !o.counts:
		w.rt.CloseIdleConnections()
		began := time.Now()
		now, rest := awaitRest(w.ctx, w.p.Addr, 2*w.kept+inMemory+cleared, func(now map[string]float64) []string { return whatRemains(r.Idle, now, nil) })
		r.After, r.Back, r.Broken = now, time.Since(began).Seconds(), append(r.Broken, rest...)
	}
	r.Refusals = make(map[string]float64)
	for name, n := range r.After {
		reason, ok := strings.CutPrefix(name, `troupe_refusals_total{reason="`)
		if reason = strings.TrimSuffix(reason, `"}`); !ok || n == 0 {
			continue
		}
		if r.Refusals[reason] = n; !slices.Contains(meantRefusals, reason) {
			r.addBroken("%.0f refusals: %s", n, reason)
		}
	}
	if n := r.After["troupe_panics_total"]; n > 0 {
		r.addBroken("%.0f panics", n)
	}
	for _, line := range w.p.Log.Alarmed() {
		r.addBroken("the log says: %s", line)
	}
	r.Idle, r.After = gaugesShown(r.Idle), gaugesShown(r.After)
	return r, nil
}

// meantRefusals are the reasons of refusals that clients provoke: questions that nobody answers,
// and ids of a stream that are another's, or have gone.
var meantRefusals = []string{"ask-time", "replay"}

// load runs the clients, and takes samples.
func (r *mixedReport) load(w *world) (all []sample, err error) {
	var clients sync.WaitGroup
	var came atomic.Int64
	began := time.Now()
	goesOn := func() bool { return time.Since(began) < w.o.time && w.ctx.Err() == nil }
	for i := range 3 * w.o.clients {
		rng := rand.New(rand.NewPCG(w.o.seed, uint64(i)))
		visit := []func(*world, int, int, *rand.Rand){visitWithSession, visitStateless, visitOverSSE}[i%3]
		clients.Go(func() {
			for turn := i / 3; goesOn(); turn++ {
				visit(w, int(came.Add(1)), turn, rng)
				w.wait(time.Duration(rng.IntN(300)) * time.Millisecond)
			}
		})
	}
	told := time.Now()
	for every := min(max(w.o.time/400, time.Second/2), 5*time.Second); w.wait(every) && goesOn(); {
		s, err := takeSample(w, began)
		if err != nil {
			w.violated(nil, "/metrics: %v", err)
			break
		}
		all = append(all, s)
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(w.o.log, "%4.0f s: %d clients so far; %.0f MiB, %.1f live, %.0f goroutines, %.0f files, %.0f sessions, %.0f events, %.0f tasks, %.0f MiB of data\n", s[at], came.Load(),
				s["rss_mib"], s["heap_live_mib"], s["goroutines"], s["files"], s["sessions_stored"], s["events_stored"], s["tasks_stored"], s["data_mib"])
		}
	}
	clients.Wait()
	r.Visitors, r.Seconds = came.Load(), time.Since(began).Seconds()
	return all, w.cause(nil)
}

// visitWithSession is one client with a session from its first connection to its last.
func visitWithSession(w *world, n, turn int, rng *rand.Rand) {
	conns := newConnSet()
	defer conns.breakAll()
	v := newSession(w, n, []string{batching, middle, primed, primed}[turn%4], w.p.URL(0), conns)
	if rng.IntN(16) == 0 {
		err := answeredWith(`"protocolVersion"`)(v.c.SendRequest(w.ctx, "0", "initialize", `{"protocolVersion":"`+v.revision+`","capabilities":{},"clientInfo":{"name":"troupe-bench","version":"1"}}`))
		if err != nil {
			v.accuse(nil, "initialize: %v", err)
		}
		w.tally.add("initialize_and_no_more")
		return
	}
	if err := v.begin(); err != nil {
		v.accuse(nil, "its begin: %v", err)
		return
	}
	v.startRound(visitTakes, visitTakes)
	v.settleRound(rng.IntN(2) == 0)
	v.checkKept(rng)
	v.leave(conns)
}

// visitTakes is how long a client begins something, before it waits for what has not ended.
const visitTakes = 1500 * time.Millisecond

// visitStateless is one client of 2026-07-28 from its first connection to its last.
func visitStateless(w *world, n, _ int, rng *rand.Rand) {
	conns := newConnSet()
	defer conns.breakAll()
	v := newStateless(w, n, w.p.URL(0), conns)
	var listening sync.WaitGroup
	listening.Go(v.hears.run)
	v.startRound(visitTakes, visitTakes)
	v.settleRound(true)
	v.checkKept(rng)
	v.hears.leave()
	listening.Wait()
}

// judgeTrends reports the trends of samples, and judges them.
func (r *mixedReport) judgeTrends(all []sample, judged bool) {
	r.Samples = len(all)
	if len(all) < 4 {
		return
	}
	for _, b := range mixedBounds {
		t := trendOf(all, b)
		r.Trends = append(r.Trends, t)
		if what := t.tellRise(); what != "" && judged {
			r.addBroken("%s", what)
		}
	}
}

// mixedBounds are what may rise, and by how much. Sizes and pauses are drawn at random, and the
// medians of two quarters differ by a few per cent where nothing leaks. Beside that share memory
// may rise by what little changes make of it: the garbage before a collection is up to a sixteenth
// of mixedMemory, twice what live heap is here, and the store takes and drops blocks of some MiB.
// What follows from how fast the clients are, which differs when a machine has other work too, has
// a larger share. A KiB that leaks with each operation is still twenty times what live heap may
// rise by in half an hour, and a goroutine, file or session that leaks with each twentieth client
// is several times what there may be more of.
var mixedBounds = []bound{
	{"rss_mib", 0.05, 16},
	{"heap_live_mib", 0.05, 4},
	{"goroutines", 0.1, 10},
	{"files", 0.1, 5},
	{"data_mib", 0.05, 32},
	{"store_mib", 0.1, 4},
	{"sessions_stored", 0.25, 10},
	{"sessions_active", 0.25, 10},
	{"events_stored", 0.25, 500},
	{"tasks_stored", 0.25, 50},
	{"streams_open", 0.25, 5},
	{"connections_open", 0.25, 5},
	{"actors", 0.25, 20},
	{"held_mib", 0.1, 2},
	{"outcomes_mib", 0.1, 4}, // kept for ten minutes in any case
}

// takeSample reads what the process holds.
func takeSample(w *world, began time.Time) (sample, error) {
	g, err := program.Metrics(w.p.Addr)
	if err != nil {
		return nil, err
	}
	data, err := sizeOf(w.o.data)
	_, resident := w.p.Used()
	const mib = 1 << 20
	outcomes := g[`troupe_memory_held_bytes{kind="parked"}`]
	return sample{
		at: time.Since(began).Seconds(), "rss_mib": float64(resident) / mib, "heap_live_mib": g["go_gc_heap_live_bytes"] / mib,
		"goroutines": g["go_goroutines"], "files": g["process_open_fds"], "data_mib": float64(data) / mib, "store_mib": sumOf(g, "troupe_store_bytes{") / mib,
		"sessions_stored": g[`troupe_store_messages{stream="sessions"}`], "sessions_active": g["troupe_sessions_active"], "events_stored": g[`troupe_store_messages{stream="events"}`],
		"tasks_stored": g[`troupe_store_messages{stream="tasks"}`], "streams_open": g["troupe_streams_open"], "connections_open": g["troupe_connections_open"],
		"actors": sumOf(g, "troupe_actors{"), "held_mib": (sumOf(g, "troupe_memory_held_bytes{") - outcomes) / mib, "outcomes_mib": outcomes / mib,
	}, err
}

// sumOf adds up the series whose names begin so.
func sumOf(g map[string]float64, prefix string) (sum float64) {
	for name, v := range g {
		if strings.HasPrefix(name, prefix) {
			sum += v
		}
	}
	return sum
}

// sizeOf is how many bytes a folder has, without files that go while it looks.
func sizeOf(dir string) (n int64, err error) {
	return n, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Size()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
}
