package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	wire "github.com/troupe-run/troupe/bench/client"
)

const (
	// lateAfter is how much later than due an operation of an open loop may begin, and not count as
	// late.
	lateAfter = 10 * time.Millisecond
	// tellEvery is how often progress is told.
	tellEvery = 2 * time.Second
	// backOff is how long a client waits after a failure: one that is refused at once would do
	// nothing else.
	backOff = 10 * time.Millisecond
	// endless is how long a loop lasts that something else ends.
	endless = 1000 * time.Hour
)

// loop has clients do an operation over and over.
type loop struct {
	o       *Options
	s       *scenario
	clients crowd
	l       *ledger

	began, from, to time.Time // of the loop, and of the operations that count
	next            atomic.Int64
	done, failed    atomic.Int64 // all so far, for progress
}

// newLoop makes the clients of a run of a scenario of the kind that they repeat.
func newLoop(o *Options, s *scenario, l *ledger) *loop {
	return &loop{o: o, s: s, l: l, clients: newCrowd(o, o.Clients)}
}

// beginClients begins the sessions of the clients, if they need some. Those that fail are counted, and
// are no part of the run.
func (r *loop) beginClients(ctx context.Context) (err error) {
	if !r.s.bare {
		r.clients, err = r.clients.beginSessions(ctx, r.l)
	}
	return err
}

// runOnce has the clients repeat the operation for the time of the run, and fills in the report.
func (r *loop) runOnce(ctx context.Context) error {
	r.began = time.Now()
	r.from = r.began.Add(r.o.WarmUp)
	r.to = r.from.Add(r.o.Duration)
	if r.o.Meanwhile != nil {
		r.to = r.from.Add(endless)
	}
	window, stop := context.WithDeadline(ctx, r.to)
	defer stop()
	var before, after usage
	var problem, failed error
	var watched sync.WaitGroup
	if r.o.Meanwhile != nil {
		watched.Go(func() {
			defer stop()
			failed = r.o.Meanwhile(ctx)
		})
	}
	watched.Go(func() {
		waitUntil(window, r.from)
		before, problem = usageOf(r.o.PIDs)
		<-window.Done()
		var err error
		after, err = usageOf(r.o.PIDs)
		problem = errors.Join(problem, err)
	})
	defer r.o.keepPrinting(r.progressLine())()
	var working sync.WaitGroup
	for _, c := range r.clients {
		working.Go(func() { r.repeatOperation(ctx, window, c) })
	}
	working.Wait()
	watched.Wait()
	elapsed := r.o.Duration
	if r.o.Meanwhile != nil {
		elapsed = time.Since(r.from)
	} else if ctx.Err() != nil {
		elapsed = max(time.Millisecond, min(elapsed, time.Since(r.from)))
	}
	if problem != nil || ctx.Err() != nil {
		after = usage{} // Half of a run says nothing of it.
	}
	r.l.fillReport(elapsed, before, after)
	return errors.Join(problem, failed)
}

// waitUntil waits until a time, or until ctx ends.
func waitUntil(ctx context.Context, until time.Time) {
	wire.Sleep(ctx, time.Until(until))
}

// repeatOperation has a client do one operation after the other until the window ends. What is
// under way then ends within its own time.
func (r *loop) repeatOperation(ctx, window context.Context, c *client) {
	for {
		due, free := time.Now(), false
		if r.o.Rate > 0 {
			n := r.next.Add(1) - 1
			due = r.began.Add(time.Duration(float64(n) / r.o.Rate * float64(time.Second)))
			if !due.Before(r.to) {
				return
			}
			free = time.Now().Before(due)
			waitUntil(window, due)
		}
		switch {
		case ctx.Err() != nil, window.Err() != nil && (r.o.Rate == 0 || time.Now().Before(r.to)):
			return
		case window.Err() != nil && !free: // It was due, and nobody was free until the end: to leave it out would hide the worst.
			r.countOperation(due, time.Now(), 0, &Failure{"not begun", "all clients were busy until the end"})
			continue
		}
		begins := time.Now()
		one, cancel := context.WithTimeout(ctx, r.o.Timeout)
		events, err := r.s.do(one, c)
		cancel()
		if ctx.Err() != nil {
			return // it was broken off
		}
		r.countOperation(due, begins, events, err)
		if err != nil {
			waitUntil(window, time.Now().Add(backOff))
		}
	}
}

// countOperation notes an operation that was due at a time.
func (r *loop) countOperation(due, begins time.Time, events int64, err error) {
	took := time.Since(due)
	r.done.Add(1)
	if err != nil {
		r.failed.Add(1)
	}
	if due.Before(r.from) || !due.Before(r.to) {
		return
	}
	r.l.addOperation(took, events, err)
	if r.o.Rate > 0 && begins.Sub(due) > lateAfter {
		r.l.addLate()
	}
}

// resetFor makes the run ready to work once more, for another ledger.
func (r *loop) resetFor(l *ledger) {
	r.l = l
	r.next.Store(0)
	r.done.Store(0)
	r.failed.Store(0)
}

// progressLine returns what tells how far the run is.
func (r *loop) progressLine() func() string {
	last := int64(0)
	return func() string {
		n := r.done.Load()
		rate := float64(n-last) / tellEvery.Seconds()
		last = n
		return fmt.Sprintf("%.0f/s, %d failed, %.0f s left", rate, r.failed.Load(), max(0, time.Until(r.to).Seconds()))
	}
}
