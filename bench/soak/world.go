package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
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
	tally   tally
	crowd   *crowd // of the round, nil without one

	statelessClients []*statelessClient // clients without a session

	ctx   context.Context
	fail  context.CancelCauseFunc
	round atomic.Int64
	boot  atomic.Int64 // starts so far
	up    atomic.Int64 // the start that has answered
	dying atomic.Int64 // the start that has been, or is just being, killed
	how   atomic.Value // string: the harm of the round
	gaps  gaps
	// paused is set while the only node stands still and until it is ready again.
	paused    atomic.Bool
	pauses    atomic.Int64 // how often it has been paused
	continued atomic.Int64 // when it was ready again, unix nanoseconds
	orderly   atomic.Bool  // the only node ends in order in this round
	ending    atomic.Bool  // it does so now

	answered []time.Duration // from each harm to the next plain call
	ends     []time.Duration // of nodes that were to end in order
	refused  []time.Duration // for which another client was refused, by restarts
}

// gaps are how long streams waited for their next event after their connections had broken, by harms.
type gaps struct {
	mu  sync.Mutex // guards all
	all map[string][]time.Duration
}

// goesOn notes that a stream whose connection broke a while ago has its next event.
func (w *world) goesOn(f *follower, after time.Duration) {
	if w.harm() == "" || !f.paced {
		return
	}
	w.gaps.mu.Lock()
	defer w.gaps.mu.Unlock()
	w.gaps.all[w.harm()] = append(w.gaps.all[w.harm()], after)
}

// harm is that of the round, "" where there is none.
func (w *world) harm() string {
	how, _ := w.how.Load().(string)
	return how
}

// connections are those of all clients.
type connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// broken is a promise that was not kept.
type broken struct{ text string }

func (b *broken) Error() string { return b.text }

// errOver ends what is under way when a run has come to its end.
var errOver = errors.New("the run is over")

func newWorld(ctx context.Context, o options, more ...string) (*world, error) {
	if o.hosted {
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
	fmt.Fprintf(&b, "the harm is %q; again with: soak ... --seed %d --rounds %d --clients %d\n", w.harm(), w.o.seed, w.round.Load()+1, w.o.clients)
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
		fmt.Fprintf(&b, "\nthe end of the log of %s:\n%s", p.name, p.log.lines(15))
	}
	return b.String()
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
	start := w.p.start
	if w.fleet != nil {
		start = w.fleet.start
	}
	if err := start(); err != nil {
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
		return w.p.isReady()
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

// connected reports whether a stream whose connection was made during a start has it to whoever serves it now. Nodes of a fleet
// keep theirs while others are killed.
func (w *world) connected(boot int64) bool {
	return boot != 0 && (w.fleet != nil || boot == w.boot.Load())
}

// now is the start that is the newest, and whether it still goes on. It is asked before a
// request: by the time that one has failed, the process may have come up.
func (w *world) now() (boot int64, starting bool) {
	boot = w.boot.Load()
	return boot, w.up.Load() < boot || w.paused.Load()
}

// grace is for how long after a harm to a fleet is over, or after a roll, clients may still notice it; pauseGrace is the same for the only node,
// which may answer only then what it refused while it had no lease.
const (
	grace      = 10 * time.Second
	pauseGrace = 2 * time.Second
)

// isWithin reports whether a time in unix nanoseconds is less than d ago.
func isWithin(at *atomic.Int64, d time.Duration) bool { return time.Since(time.Unix(0, at.Load())) < d }

// excused reports that a connection made during start boot may have failed
// because of a harm or of a start.
func (w *world) excused(boot int64) bool {
	return w.dying.Load() >= boot || w.up.Load() < boot || w.fleet != nil && isWithin(&w.fleet.healed, grace)
}

// mayFail reports that a request may have failed, for which now said starting.
func (w *world) mayFail(boot int64, starting bool) bool {
	return starting || w.excused(boot) || w.paused.Load() || isWithin(&w.continued, pauseGrace)
}

// mayBreak reports that a stream may have broken, or what a node keeps for a call may be gone: in a roll nodes end in order too, and no request
// may fail.
func (w *world) mayBreak(boot int64) bool {
	return w.excused(boot) || w.rolling() || w.fleet != nil && isWithin(&w.fleet.rolled, grace)
}

// rolling reports that the nodes are restarted in turn.
func (w *world) rolling() bool { return w.fleet != nil && w.fleet.rolling.Load() }

// mayEnd reports that a node may end a stream: as it ends itself in order, it has clients come back.
func (w *world) mayEnd(boot int64) bool {
	return (w.fleet != nil || w.orderly.Load()) && w.mayBreak(boot)
}

// harmed reports that a fleet is harmed now, for however long that is to be.
func (w *world) harmed() bool { return w.fleet != nil && w.fleet.harmed.Load() }

// wait waits for d, or returns false when the run has ended.
func (w *world) wait(d time.Duration) bool { return waitFor(w.ctx, d) }

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
		d := &driver{w: w, n: n, rt: w.connectionsOf(n)}
		d.c = client.New(w.p.url(n*w.o.servers/w.o.clients), d.rt)
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
	for n := 0; n < max(2, w.o.clients/2) && w.visited(ofStateless); n++ {
		w.admit(n, w.p.url(n*w.o.servers/max(2, w.o.clients/2)))
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
		w.tally.add("servers_after_restart")
	}
}

// connectionsOf are those of one client. The proxies of deploy tell clients apart by their addresses.
func (w *world) connectionsOf(n int) connections {
	if w.o.proxy == "" {
		return w.rt
	}
	rt := client.NewTransport()
	rt.DialContext = (&net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(n+1))}}).DialContext
	context.AfterFunc(w.ctx, rt.CloseIdleConnections)
	return balancedTransport{rt}
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
