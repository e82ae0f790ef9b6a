package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// patience is how long anything may take before it counts as lost.
const patience = 30 * time.Second

// world is one run: the process, the sessions, and what was found.
type world struct {
	o       options
	p       *process // with a fleet, the address of what is before its nodes
	fleet   *fleet   // nil: one process
	rt      connections
	drivers []*driver
	copies  []*client.Client // a session with each server, where there are several
	figures figures

	statelessClients []*statelessClient // clients without a session
	stateless        statelessFigures

	ctx   context.Context
	fail  context.CancelCauseFunc
	round atomic.Int64
	boot  atomic.Int64 // starts so far
	up    atomic.Int64 // the start that has answered
	dying atomic.Int64 // the start that has been, or is just being, killed
	early []time.Duration
	gaps  gaps
	// paused is set while the process is stopped and until it is ready again.
	paused atomic.Bool
}

// connections are those of all clients.
type connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// figures count what happened.
type figures struct {
	Events, Connections, Resumes, EarlierResumes, Replays            atomic.Int64
	Calls, Answered, Lost, Unprimed, Unavailable, Reruns, CallsLost  atomic.Int64
	Echoes, AnswersGiven, AnswersAgain, Foreign, Survivors, Stranded atomic.Int64
	Dropped, Cancelled, Evicted, KillsInStart                        atomic.Int64
	Batches, Touched, Updates, Repeated, CopiesSurvived              atomic.Int64
}

// broken is a promise that was not kept.
type broken struct{ text string }

func (b *broken) Error() string { return b.text }

// errOver ends what is under way when a run has come to its end.
var errOver = errors.New("the run is over")

func newWorld(ctx context.Context, o options, more ...string) (*world, error) {
	if o.servers > 1 {
		more = append(more, "--servers", strconv.Itoa(o.servers))
	}
	p, err := newProcess(o.bin, o.data, o.seed, more...)
	if err != nil {
		return nil, err
	}
	p.next = o.oldBin
	w := &world{o: o, p: p, rt: client.NewTransport()}
	w.ctx, w.fail = context.WithCancelCause(ctx)
	return w, nil
}

// violated ends the run: a promise was broken, as rec shows, which may be nil.
func (w *world) violated(rec *client.Record, format string, args ...any) {
	var b strings.Builder
	fmt.Fprintf(&b, "broken promise in round %d: %s\n", w.round.Load()+1, fmt.Sprintf(format, args...))
	fmt.Fprintf(&b, "again with: soak ... --seed %d --rounds %d --clients %d\n", w.o.seed, w.round.Load()+1, w.o.clients)
	if rec != nil {
		b.WriteString(rec.String())
	}
	b.WriteString(w.logs())
	w.fail(&broken{b.String()})
}

// logs is the end of what the server, or each of them, has logged.
func (w *world) logs() string {
	if w.fleet == nil {
		return "the end of the server's log:\n" + w.p.log.lines(40)
	}
	var b strings.Builder
	for _, p := range w.fleet.nodes {
		fmt.Fprintf(&b, "\nthe end of the log of %s:\n%s", p.node(), p.log.lines(15))
	}
	return b.String()
}

// startWorld is newWorld with its process started.
func startWorld(ctx context.Context, o options, more ...string) (*world, error) {
	w, err := newWorld(ctx, o, more...)
	if err != nil {
		return nil, err
	}
	if _, err := w.start(); err != nil {
		w.end()
		return nil, err
	}
	return w, nil
}

// session begins a session of the first server.
func (w *world) session() (*client.Client, error) {
	c := client.New(w.p.url(0), w.rt)
	if err := c.Initialize(w.ctx, `{}`); err != nil {
		return nil, err
	}
	return c, nil
}

// rng draws for one purpose of the current round.
func (w *world) rng(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.o.seed, uint64(w.round.Load())<<32|purpose))
}

// start starts the process and waits until a session's request is answered, or,
// before there are sessions, until it is ready. It returns how long that took.
func (w *world) start() (time.Duration, error) {
	boot := w.boot.Add(1)
	began := time.Now()
	if err := w.startProcess(); err != nil {
		return 0, err
	}
	if w.fleet != nil {
		began = time.Now() // of the last of its nodes, or when it was healed
	}
	for time.Since(began) < patience && w.ctx.Err() == nil {
		if w.answers() {
			took := time.Since(began)
			if w.fleet != nil && boot > 1 { // before anybody takes it for well
				w.fleet.healed.Store(time.Now().UnixNano())
			}
			w.up.Store(boot)
			return took, nil
		}
		if !w.wait(2 * time.Millisecond) {
			break
		}
	}
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("no answer %v after the start:\n%s", patience, w.logs())
}

func (w *world) answers() bool {
	if len(w.drivers) == 0 {
		return w.ready()
	}
	d := w.drivers[int(w.round.Load())%len(w.drivers)]
	a, err := d.c.Call(w.ctx, d.newID(), "tools/call", `{"name":"echo","arguments":{"text":"first"}}`)
	if err != nil {
		return false
	}
	a.Close()
	if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"text":"first"`) {
		w.violated(nil, "the first call after a start got %d %s", a.Status, a.Body)
	}
	return true
}

// kill kills the process.
func (w *world) kill() error {
	w.dying.Store(w.boot.Load())
	if w.fleet != nil {
		return w.fleet.harm(w.rng(1))
	}
	return w.p.kill()
}

func (w *world) startProcess() error {
	if w.fleet != nil {
		return w.fleet.start()
	}
	return w.p.start()
}

// connected reports whether a stream whose connection was made during a start has it to whoever serves it now. Nodes of a fleet
// keep theirs while others are killed.
func (w *world) connected(boot int64) bool {
	return boot != 0 && (w.fleet != nil || boot == w.boot.Load())
}

// now is the start that is the newest, and whether it still goes on. It is asked before a
// request: by the time that one has failed, the process may have come up.
func (w *world) now() (boot int64, starting bool) {
	boot = w.boot.Load()
	return boot, w.up.Load() < boot
}

// excused reports that a connection made during start boot may have failed
// because of a kill or of a start.
func (w *world) excused(boot int64) bool {
	return w.dying.Load() >= boot || w.up.Load() < boot || w.fleet != nil && time.Since(time.Unix(0, w.fleet.healed.Load())) < convalescence
}

// harmed reports that a fleet is harmed now, for however long that is to be.
func (w *world) harmed() bool { return w.fleet != nil && w.fleet.harmed.Load() }

// convalescence is for how long after a node of a fleet is back others may still wait for it.
const convalescence = 10 * time.Second

// wait waits for d, or returns false when the run has ended.
func (w *world) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// until waits for a condition for as long as patience allows, which does not begin while a fleet is harmed.
func (w *world) until(condition func() bool) bool {
	for end := time.Now().Add(patience); !condition(); {
		if w.harmed() {
			end = time.Now().Add(patience)
		}
		if time.Now().After(end) || !w.wait(5*time.Millisecond) {
			return condition()
		}
	}
	return true
}

// begin opens the sessions of a run.
func (w *world) begin() error {
	if _, err := w.start(); err != nil {
		return err
	}
	for n := range w.o.clients {
		d := &driver{w: w, n: n, c: client.New(w.p.url(n*w.o.servers/w.o.clients), w.rt)}
		if err := d.begin(); err != nil {
			return err
		}
		w.drivers = append(w.drivers, d)
	}
	for n := range w.o.servers {
		c := client.New(w.p.url(n), w.rt)
		if err := c.Initialize(w.ctx, `{}`); err != nil {
			return err
		}
		w.copies = append(w.copies, c)
	}
	return nil
}

// copiesSurvive checks that each server knows its own session after a restart, and
// that the next one does not.
func (w *world) copiesSurvive() {
	for n, c := range w.copies {
		if len(w.copies) == 1 || w.ctx.Err() != nil {
			return
		}
		text := fmt.Sprintf("copy %d", n)
		a, err := c.Call(w.ctx, "1", "tools/call", `{"name":"echo","arguments":{"text":"`+text+`"}}`)
		if err != nil || a.Status != http.StatusOK || !strings.Contains(string(a.Body), text) {
			w.violated(nil, "server %d has lost its session: %v %+v", n, err, a)
			return
		}
		next := w.p.url((n + 1) % len(w.copies))
		w.same("a session id of another server", func(x *probe) { x.keep(c.At(next).Call(w.ctx, "1", "ping", "")) },
			func(x *probe) { x.keep(c.WithSession(strings.Repeat("a", 26)).At(next).Call(w.ctx, "1", "ping", "")) }, http.StatusNotFound, "")
		w.figures.CopiesSurvived.Add(1)
	}
}

// end ends what is still under way, the process included.
func (w *world) end() {
	w.fail(errOver)
	if w.fleet != nil {
		w.fleet.end()
	}
	_ = w.p.kill()
	w.rt.CloseIdleConnections()
}
