package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/bench/client"
	"github.com/troupe-run/troupe/bench/program"
)

// abandonedReport is what became of the instances of sessions that nobody ended.
type abandonedReport struct {
	report
	Sessions int            `json:"sessions"`
	Max      int            `json:"instances_allowed"`
	Most     int            `json:"processes_at_most"`
	Idle     float64        `json:"idle_seconds"`
	Refused  map[string]int `json:"refused"`
	Gone     float64        `json:"last_session_to_no_process_seconds"`
}

// abandonedShare is how many times an instance may be idle in a run.
const (
	abandonedShare = 10
	leastIdle      = 2 * time.Second
	mostIdle       = time.Minute
)

// runAbandoned has clients begin sessions for --time and leave without a word. Never may there be more processes than max, and all
// must be gone once they were idle for long enough.
func runAbandoned(ctx context.Context, o options) (*abandonedReport, error) {
	o.time = cmp.Or(o.time, time.Minute)
	idle := min(max(o.time/abandonedShare, leastIdle), mostIdle)
	r := &abandonedReport{report: newReport("abandoned", o), Max: 2 * o.clients, Idle: idle.Seconds(), Refused: map[string]int{}}
	h, err := newHosting(ctx, o, map[string]string{"good": "plain"}, map[string]string{"good": fmt.Sprintf(", idle: %v, max: %d, max-per-principal: 0", idle, r.Max)}, "--set", "max-call="+idle.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.p.Kill() }()
	if err := h.p.StartReady(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	var mu sync.Mutex // guards the report
	var clients sync.WaitGroup
	goesOn := func() bool { return time.Since(began) < o.time && ctx.Err() == nil }
	for i := range o.clients {
		rng := rand.New(rand.NewPCG(o.seed, uint64(i)))
		clients.Go(func() {
			for goesOn() {
				err := h.abandon(rng)
				mu.Lock()
				r.Sessions++
				if refused, ok := errors.AsType[*refusedError](err); ok {
					r.Refused[fmt.Sprint(refused.code)]++
				} else if err != nil {
					r.addBroken("a session: %v", err)
				}
				mu.Unlock()
				client.Sleep(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
			}
		})
	}
	for goesOn() && client.Sleep(ctx, 20*time.Millisecond) {
		n := len(program.Named(h.named))
		mu.Lock()
		if r.Most = max(r.Most, n); n > r.Max {
			r.addBroken("there are %d processes, of %d allowed", n, r.Max)
			mu.Unlock()
			break
		}
		mu.Unlock()
	}
	clients.Wait()
	r.Seconds = time.Since(began).Seconds()
	client.Sleep(ctx, 2*idle) // the last call that never ends has its time, and then its instance
	r.Gone = 2*idle.Seconds() + h.awaitNone(&r.report, "nobody has come for a while").Seconds()
	for _, line := range h.p.Log.Alarmed() {
		r.addBroken("the log says: %s", line)
	}
	if err := h.p.End(); err != nil {
		r.addBroken("the end of serve: %v", err)
	}
	return r, context.Cause(ctx)
}

// abandon begins a session, has its instance count, perhaps in a call that never ends, and leaves.
func (h *hosting) abandon(rng *rand.Rand) error {
	ctx, leave := context.WithCancel(h.ctx)
	defer leave()
	away := *h
	away.ctx = ctx
	b, err := away.board("good")
	if err == nil && rng.IntN(3) == 0 {
		b.hold()
		client.Sleep(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
	}
	return err
}
