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
	"github.com/troupe-run/troupe/bench/program"
)

// world is the nodes of a run and what was found. Whoever breaks a promise is reported to violated,
// which ends the run.
type world struct {
	history
	o     options
	p     *program.Process // the only node, or the address of what is before several
	fleet *fleet           // nil: one node
	rt    connections
	tally tally

	ctx   context.Context
	fail  context.CancelCauseFunc
	round atomic.Int64
	harm  atomic.Value // string: that of the round
	gaps  durations    // how long streams waited for their next event after their connections had broken, by harms

	// answers reports whether a session is served again. nil: the process is ready.
	answers func() bool
	// kept is for how long events are kept where clients come and go, 0 where they stay.
	kept time.Duration
}

// connections are those of a client.
type connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// errOver ends what is under way when a run has come to its end.
var errOver = errors.New("the run is over")

func newWorld(ctx context.Context, o options, more ...string) (*world, error) {
	if o.hosted {
		more = append(more, "--servers", strconv.Itoa(o.servers))
	}
	if o.socket {
		more = append(more, "--drain-delay", "0s") // no load balancer has to notice
	}
	p, err := newProcess(o.bin, o.data, o.seed, more...)
	if err == nil && o.socket {
		p.Socket, err = program.Listen(p.Addr)
	}
	if err != nil {
		return nil, err
	}
	takeTurns(p, &o)
	w := &world{o: o, p: p, rt: client.NewTransport()}
	w.socket = o.socket
	w.harm.Store("")
	w.ctx, w.fail = context.WithCancelCause(ctx)
	return w, nil
}

// violated ends the run: a promise was broken, as rec shows, which may be nil. It does nothing once
// the run has ended.
func (w *world) violated(rec *client.Record, format string, args ...any) {
	if w.ctx.Err() != nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "broken promise in round %d: %s\n", w.round.Load()+1, fmt.Sprintf(format, args...))
	fmt.Fprintf(&b, "the harm is %q; again with: soak ... --seed %d --rounds %d --clients %d\n", w.harm.Load(), w.o.seed, w.round.Load()+1, w.o.clients)
	if rec != nil {
		b.WriteString(rec.String())
	}
	b.WriteString(w.logs())
	w.fail(errors.New(b.String()))
}

// nodes are the only node, or those of the fleet.
func (w *world) nodes() []*program.Process {
	if w.fleet == nil {
		return []*program.Process{w.p}
	}
	return w.fleet.nodes
}

// logs is the end of what each node has logged.
func (w *world) logs() string {
	var b strings.Builder
	for _, p := range w.nodes() {
		fmt.Fprintf(&b, "\nthe end of the log of %s:\n%s", p.Name, p.Log.LastLines(40/len(w.nodes())))
	}
	return b.String()
}

// cause is why the run has ended, else err.
func (w *world) cause(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	return err
}

// rngFor draws for one purpose of the current round.
func (w *world) rngFor(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.o.seed, uint64(w.round.Load())<<32|purpose))
}

// start starts the process, or has the fleet start or heal, and waits until it answers. It returns
// how long that took.
func (w *world) start() (time.Duration, error) {
	boot, began, start := w.boot.Add(1), time.Now(), w.p.Start
	if w.fleet != nil {
		start = w.fleet.start
	}
	if err := start(); err != nil {
		return 0, err
	}
	if w.fleet != nil {
		began = time.Now() // of the last of its nodes, or when it was healed
	}
	answers := w.answers
	if answers == nil {
		answers = w.p.IsReady
	}
	for !answers() {
		if time.Since(began) > patience || !w.wait(2*time.Millisecond) {
			return 0, w.cause(fmt.Errorf("no answer %v after the start:\n%s", patience, w.logs()))
		}
	}
	took := time.Since(began)
	if w.fleet != nil && boot > 1 { // before anybody takes it for well
		w.healed.Store(time.Now().UnixNano())
	}
	w.up.Store(boot)
	return took, nil
}

// wait waits for d, or returns false when the run has ended.
func (w *world) wait(d time.Duration) bool { return client.Sleep(w.ctx, d) }

// until waits for a condition for as long as patience allows, which does not begin while a fleet is
// harmed. It is true when the run has ended.
func (w *world) until(condition func() bool) bool {
	for end := time.Now().Add(patience); !condition(); {
		if w.harmed.Load() {
			end = time.Now().Add(patience)
		}
		if !w.wait(5 * time.Millisecond) {
			return true
		}
		if time.Now().After(end) {
			return condition()
		}
	}
	return true
}

// callsInFlight is how many calls the first node that has any says there are, and "0" if there are
// none.
func (w *world) callsInFlight() string {
	for _, p := range w.nodes() {
		m, err := program.Metrics(p.Addr)
		if n, ok := m["troupe_calls_in_flight"]; !ok || n > 0 {
			return fmt.Sprintf("%.0f of %s (%v)", n, p.Name, err)
		}
	}
	return "0"
}

// end ends what is still under way, the nodes included.
func (w *world) end() {
	w.fail(errOver)
	if w.fleet != nil {
		w.fleet.end()
	}
	_ = w.p.Kill()
	w.rt.CloseIdleConnections()
}
