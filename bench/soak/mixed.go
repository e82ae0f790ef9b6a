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
)

// mixedPoints is how many samples a report has at most.
const mixedPoints = 120

// mixedReport is what a process held under a load that stayed the same, and after it.
type mixedReport struct {
	Scenario   string               `json:"scenario"`
	Seed       uint64               `json:"seed"`
	Clients    int                  `json:"clients_at_a_time"` // of each kind: with sessions over Streamable HTTP, without sessions, and over HTTP+SSE
	Visitors   int64                `json:"clients_in_all"`
	Seconds    float64              `json:"seconds"`
	Kept       float64              `json:"kept_seconds"`          // for which the process keeps events, tasks and sessions that nobody uses
	Requests   float64              `json:"operations_per_second"` // an operation is one request or several
	Cores      float64              `json:"server_cores"`
	Operations map[string]operation `json:"operations"`
	Counts     map[string]int64     `json:"counts"`
	Judged     bool                 `json:"trends_judged"` // false where the run was too short for that
	Trends     []trend              `json:"trends"`
	Points     []sample             `json:"samples"`
	Idle       map[string]float64   `json:"before"`
	After      map[string]float64   `json:"after"`
	Back       float64              `json:"back_after_seconds"` // from the last client to what there was before
	Refusals   map[string]float64   `json:"refusals"`
	Broken     []string             `json:"broken,omitempty"`
}

// operation is how often something was done, and how long that took beyond what its handler had to, in milliseconds.
type operation struct {
	latency
	Rate float64 `json:"per_second"`
}

func (r *mixedReport) verdict() error {
	if len(r.Broken) > 0 {
		return fmt.Errorf("%d promises were not kept:\n%s", len(r.Broken), strings.Join(r.Broken, "\n"))
	}
	return nil
}

// mixed is clients that come, work for a while and leave.
type mixed struct {
	w     *world
	kept  time.Duration
	began time.Time
	lasts time.Duration // 0: until over
	over  atomic.Bool   // nobody comes any more

	came atomic.Int64 // who have come so far

	mu    sync.Mutex // guards the rest
	times map[string][]time.Duration
}

// What is kept for a time accumulates: the load has to last for several such times before a process holds what it will go on holding.
// A quarter of a run is three of them. Below leastKept the events of a call could be gone while it runs.
const (
	keptShare = 12
	leastKept = 10 * time.Second
	mostKept  = time.Minute
)

// inMemory is how long a session stays in memory that nobody uses, whatever else is kept. So the trends of runs that keep for less than mostKept are
// not judged.
const inMemory = time.Minute

// cleared is how long after its time the store may take to drop what has expired.
const cleared = time.Minute

// mixedMemory is for --max-memory, which sets how much garbage there may be: so the figures do not depend on the machine.
const mixedMemory = "1GiB"

// runMixed has clients of both eras, and of the oldest transport, come, work in all ways and leave for o.time, and judges whether what the process holds stays the same.
func runMixed(ctx context.Context, o options) (*mixedReport, error) {
	o.time = cmp.Or(o.time, time.Minute)
	m := newLoad(nil)
	m.lasts, m.kept = o.time, min(max(o.time/keptShare, leastKept), mostKept)
	kept := m.kept.String()
	w, err := newWorld(ctx, o, "--set", "replay-age="+kept, "--set", "session-idle="+kept, "--set", "session-unused="+(m.kept/2).String(), "--set", "task-max="+kept, "--set", "max-ask="+kept,
		"--set", "sessions-per-principal=0", "--max-memory", mixedMemory)
	if err != nil {
		return nil, err
	}
	m.w = w
	defer w.end()
	w.p.log.alarms = []string{"level=ERROR", "panic"}
	if _, err := w.start(); err != nil {
		return nil, err
	}
	r := &mixedReport{Scenario: "mixed", Seed: o.seed, Clients: o.clients, Kept: m.kept.Seconds(), Judged: o.time >= keptShare*mostKept}
	if r.Idle, err = metricsOf(w.p.addr); err != nil {
		return nil, err
	}
	samples, failed := m.load()
	r.Visitors, r.Seconds = m.came.Load(), time.Since(m.began).Seconds()
	m.sumUp(r)
	if r.After, err = metricsOf(w.p.addr); err != nil {
		return nil, errors.Join(failed, err)
	}
	r.Cores = (r.After["process_cpu_seconds_total"] - r.Idle["process_cpu_seconds_total"]) / r.Seconds
	r.flat(samples, r.Judged && failed == nil)
	switch {
	case failed != nil:
		r.Broken = append(r.Broken, failed.Error())
	case !o.counts:
		r.Broken = append(r.Broken, m.rest(r)...)
	}
	r.Refusals = refusals(r.After)
	for reason, n := range r.Refusals {
		if !slices.Contains(meantRefusals, reason) {
			r.Broken = append(r.Broken, fmt.Sprintf("%.0f refusals: %s", n, reason))
		}
	}
	if n := r.After["troupe_panics_total"]; n > 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%.0f panics", n))
	}
	for _, line := range w.p.log.raised() {
		r.Broken = append(r.Broken, "the log says: "+line)
	}
	r.Idle, r.After = gaugesShown(r.Idle), gaugesShown(r.After)
	return r, nil
}

func newLoad(w *world) *mixed {
	return &mixed{w: w, times: make(map[string][]time.Duration)}
}

// startSSE has n clients of HTTP+SSE at a time come and go, if the run has such visitors, until end is called.
func (m *mixed) startSSE(n int) (end func()) {
	var clients sync.WaitGroup
	m.came.Store(20_000) // resources of others have smaller numbers
	m.began = time.Now()
	if m.w.visited(ofSSE) {
		for n := range max(1, n) {
			u := &sseUser{m: m, rng: rand.New(rand.NewPCG(m.w.o.seed, 300+uint64(n))), turn: n}
			clients.Go(func() { m.comeAndGo(u.rng, u.visit) })
		}
	}
	return func() {
		m.over.Store(true)
		clients.Wait()
	}
}

// flat reports the trends of samples, and judges them.
func (r *mixedReport) flat(all []sample, judged bool) {
	r.Points = thinned(all, mixedPoints)
	if len(all) < 4 {
		return
	}
	for _, b := range mixedBounds {
		t := trendOf(all, b)
		r.Trends = append(r.Trends, t)
		if what := t.rises(); what != "" && judged {
			r.Broken = append(r.Broken, what)
		}
	}
}

// load runs the clients, and takes samples.
func (m *mixed) load() (all []sample, err error) {
	m.began = time.Now()
	var clients sync.WaitGroup
	for n := range uint64(m.w.o.clients) {
		rng := func(kind uint64) *rand.Rand { return rand.New(rand.NewPCG(m.w.o.seed, 6*n+kind)) }
		clients.Go(func() { m.comeAndGo(rng(3), (&sessionUser{m: m, rng: rng(0)}).visit) })
		clients.Go(func() { m.comeAndGo(rng(4), (&statelessUser{m: m, rng: rng(1)}).visit) })
		clients.Go(func() { m.comeAndGo(rng(5), (&sseUser{m: m, rng: rng(2), turn: int(n)}).visit) })
	}
	told := time.Now()
	for every := min(max(m.w.o.time/400, time.Second/2), 5*time.Second); m.w.wait(every) && m.goesOn(); {
		s, err := m.sample()
		if err != nil {
			m.w.violated(nil, "/metrics: %v", err)
			break
		}
		all = append(all, s)
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(m.w.o.log, "%4.0f s: %d clients so far, %d operations; %.0f MiB, %.1f live, %.0f goroutines, %.0f files, %.0f sessions, %.0f events, %.0f tasks, %.0f MiB of data\n", s[at], m.came.Load(), m.operations(),
				s["rss_mib"], s["heap_live_mib"], s["goroutines"], s["files"], s["sessions_stored"], s["events_stored"], s["tasks_stored"], s["data_mib"])
		}
	}
	clients.Wait()
	return all, m.w.cause(nil)
}

// comeAndGo has one client after the other visit while the load lasts.
func (m *mixed) comeAndGo(rng *rand.Rand, visit func()) {
	for m.goesOn() {
		visit()
		m.w.wait(time.Duration(rng.IntN(300)) * time.Millisecond)
	}
}

// goesOn reports that the load goes on.
func (m *mixed) goesOn() bool {
	return !m.over.Load() && (m.lasts == 0 || time.Since(m.began) < m.lasts) && m.w.ctx.Err() == nil
}

// pause is how long a client thinks before it does the next thing.
func (m *mixed) pause(rng *rand.Rand) time.Duration {
	return time.Duration(5+rng.IntN(35)) * time.Millisecond
}

// errExcused ends what a client does whose node is harmed.
var errExcused = errors.New("the node is harmed")

// op does something that must succeed unless the node is harmed, and notes how long that took beyond what it has to. It reports whether it succeeded.
func (m *mixed) op(kind string, least time.Duration, f func() error) bool {
	if m.w.ctx.Err() != nil {
		return false
	}
	began := time.Now()
	err := f()
	took := time.Since(began) - least
	if m.w.ctx.Err() != nil || errors.Is(err, errExcused) {
		return false
	}
	if err != nil {
		m.w.violated(nil, "%s: %v", kind, err)
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times[kind] = append(m.times[kind], took)
	return true
}

// done is how often each operation has succeeded.
func (m *mixed) done() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]int64)
	for kind, took := range m.times {
		all[kind] += int64(len(took))
	}
	return all
}

// operations is how many operations have succeeded.
func (m *mixed) operations() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, all := range m.times {
		n += len(all)
	}
	return n
}

// sumUp reports what was done.
func (m *mixed) sumUp(r *mixedReport) {
	r.Requests = float64(m.operations()) / r.Seconds
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Operations, r.Counts = make(map[string]operation), m.w.tally.counts()
	for kind, all := range m.times {
		r.Operations[kind] = operation{latencyOf(all), float64(len(all)) / r.Seconds}
	}
}

// mixedBounds are what may rise, and by how much. Sizes and pauses are drawn at random, and the medians of two quarters differ by a few per cent where
// nothing leaks. Beside that share memory may rise by what little changes make of it: the garbage before a collection is up to a sixteenth of mixedMemory, twice
// what live heap is here, and the store takes and drops blocks of some MiB. What follows from how fast the clients are, which differs when a machine has other
// work too, has a larger share. A KiB that leaks with each operation is still twenty times what live heap may rise by in half an hour, and a goroutine, file or
// session that leaks with each twentieth client is several times what there may be more of.
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

// sample reads what the process holds.
func (m *mixed) sample() (sample, error) {
	g, err := metricsOf(m.w.p.addr)
	if err != nil {
		return nil, err
	}
	data, err := sizeOf(m.w.o.data)
	if err != nil {
		return nil, err
	}
	const mib = 1 << 20
	outcomes := g[`troupe_memory_held_bytes{kind="parked"}`]
	return sample{
		at: time.Since(m.began).Seconds(), "rss_mib": float64(residentOf(m.w.p.cmd.Process.Pid)) / mib, "heap_live_mib": g["go_gc_heap_live_bytes"] / mib,
		"goroutines": g["go_goroutines"], "files": g["process_open_fds"], "data_mib": float64(data) / mib, "store_mib": sumOf(g, "troupe_store_bytes{") / mib,
		"sessions_stored": g[`troupe_store_messages{stream="sessions"}`], "sessions_active": g["troupe_sessions_active"], "events_stored": g[`troupe_store_messages{stream="events"}`],
		"tasks_stored": g[`troupe_store_messages{stream="tasks"}`], "streams_open": g["troupe_streams_open"], "connections_open": g["troupe_connections_open"],
		"actors": sumOf(g, "troupe_actors{"), "held_mib": (sumOf(g, "troupe_memory_held_bytes{") - outcomes) / mib, "outcomes_mib": outcomes / mib,
	}, nil
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

// rest waits until what is kept for a time is over, and says what remains.
func (m *mixed) rest(r *mixedReport) []string {
	m.w.rt.CloseIdleConnections()
	for began := time.Now(); ; {
		now, err := metricsOf(m.w.p.addr)
		if err != nil {
			return []string{fmt.Sprintf("/metrics: %v", err)}
		}
		r.After, r.Back = now, time.Since(began).Seconds()
		more := whatRemains(r.Idle, now, nil)
		if len(more) == 0 || time.Since(began) > 2*m.kept+inMemory+cleared || !m.w.wait(time.Second) {
			return more
		}
	}
}

// meantRefusals are the reasons of refusals that clients provoke: questions that nobody answers, and ids of a stream that another has replaced.
var meantRefusals = []string{"ask-time", "replay"}

// refusals are those of a process that were any, by their reasons.
func refusals(g map[string]float64) map[string]float64 {
	all := make(map[string]float64)
	for name, v := range g {
		if reason, ok := strings.CutPrefix(name, `troupe_refusals_total{reason="`); ok && v > 0 {
			all[strings.TrimSuffix(reason, `"}`)] = v
		}
	}
	return all
}
