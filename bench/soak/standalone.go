package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/bench/client"
)

// standalone is a session's own stream, and the ticks that should be on it.
type standalone struct {
	f     follower
	ended chan struct{}

	mu    sync.Mutex // guards the rest
	ticks []*ticking // in the order they were sent
	at    int        // index of the one whose message came last, -1 before
}

// ticking is a tick call, of which one runs at a time in a session.
type ticking struct {
	k    *call
	n    int
	came int
	over bool // the call is not running any more
	ok   bool // and it was answered with its result
}

// listen opens the session's own stream and follows it.
func (d *driver) listen() error {
	boot := d.w.boot.Load()
	a, err := d.c.Listen(d.w.ctx)
	if err != nil {
		return err
	}
	if a.Events == nil || a.Status != http.StatusOK {
		return fmt.Errorf("%s: the standalone stream got %d %s", d, a.Status, a.Body)
	}
	s := &standalone{ended: make(chan struct{}), at: -1}
	s.f = follower{d: d, rng: rand.New(rand.NewPCG(d.w.o.seed, uint64(d.n))), event: s.event, begun: make(chan struct{})}
	d.mu.Lock()
	d.standalone = s
	d.mu.Unlock()
	go func() {
		defer close(s.ended)
		if !s.f.run(a.Events, boot) {
			d.w.violated(s.f.rec, "%s: the standalone stream broke before its first event", d)
		}
	}()
	select {
	case <-s.f.begun:
		return nil
	case <-s.ended:
		return fmt.Errorf("%s: the standalone stream had no event", d)
	}
}

// event takes the next message of the stream: ticks come one call after the
// other, each counted from 1 without a gap.
func (s *standalone) event(e client.Event) bool {
	if e.Data == "" {
		return false
	}
	m := parse(e.Data)
	if m.Method == "notifications/resources/updated" && m.Params.URI == s.f.d.resource() {
		s.f.d.updates.Add(1)
		s.f.d.w.tally.add("resource_updates")
		return false
	}
	if s.f.d.w.fleet != nil && strings.HasPrefix(m.Method, "notifications/") && strings.HasSuffix(m.Method, "/list_changed") {
		s.f.d.w.tally.add("lists_told_again") // a node has died that may have told of a change last
		return false
	}
	if m.Method == "notifications/tasks/status" && s.f.d.tasked.Load() { // which may come before the id of the task
		return false
	}
	var i, n int
	if _, err := fmt.Sscanf(m.Params.Data, "%d of %d", &i, &n); m.Method != "notifications/message" || m.Params.Logger != "tick" || err != nil {
		s.f.d.w.violated(s.f.rec, "%s: event %s does not belong on the standalone stream", s.f.d, e.ID)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i == 1 {
		for s.at++; s.at < len(s.ticks) && s.ticks[s.at].n != n; s.at++ {
		}
	}
	if s.at < 0 || s.at >= len(s.ticks) || s.ticks[s.at].n != n || s.ticks[s.at].came != i-1 {
		s.f.d.w.violated(s.f.rec, "%s: event %s, tick %d of %d, was not expected", s.f.d, e.ID, i, n)
		return false
	}
	s.ticks[s.at].came = i
	return false
}

// complete reports that every tick is over, and that all of those answered came.
func (s *standalone) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.ticks {
		if !t.over || t.ok && t.came != t.n {
			return false
		}
	}
	return true
}

func (d *driver) newTick(rng *rand.Rand) *call {
	n, every := 5+rng.IntN(20), 10+rng.IntN(60)
	k := d.newCall(rng, "tick", fmt.Sprintf(`{"n":%d,"every_ms":%d}`, n, every))
	k.safe, k.to, k.text = false, n, fmt.Sprintf("ticked %d times", n)
	return k
}

// placeTick begins a tick unless one runs, or its messages could be taken for those
// of one that has sent none so far, and perhaps never will.
func (d *driver) placeTick(k *call) {
	d.mu.Lock()
	s := d.standalone
	d.mu.Unlock()
	t := &ticking{k: k, n: k.to}
	s.mu.Lock()
	l := len(s.ticks)
	if l > 0 && !s.ticks[l-1].over || slices.ContainsFunc(s.ticks[max(0, s.at):], func(e *ticking) bool { return e.n == t.n }) {
		s.mu.Unlock()
		return
	}
	s.ticks = append(s.ticks, t)
	s.mu.Unlock()
	d.place(k)
	go func() {
		<-k.ended
		s.mu.Lock()
		defer s.mu.Unlock()
		t.over, t.ok = true, k.final != nil && k.final.Result != nil && !k.final.Result.IsError
		if k.final != nil && k.final.Error != nil {
			d.w.tally.add("calls_lost_-32010")
		}
	}()
}

// rotate opens a new standalone stream, which ends the one before.
func (d *driver) rotate() {
	d.mu.Lock()
	old := d.standalone
	d.mu.Unlock()
	old.f.replaced.Store(true)
	if err := d.listen(); err != nil {
		d.w.violated(nil, "%v", err)
		return
	}
	if !d.w.until(func() bool {
		select {
		case <-old.ended:
			return true
		default:
			return false
		}
	}) {
		d.w.violated(old.f.rec, "%s: a replaced standalone stream did not end", d)
		return
	}
	if _, err := old.f.rec.Merge(); err != nil {
		d.w.violated(old.f.rec, "%s: standalone stream: %v", d, err)
	}
	last := old.f.ids[len(old.f.ids)-1]
	if !d.w.until(func() bool { return refused(d.w, d.c, last) }) {
		d.w.violated(old.f.rec, "%s: a replaced standalone stream can still be resumed from %s", d, last)
	}
	d.c.Forget(old.f.rec.Stream)
}

// refused reports that an event id is refused as every bad one is.
func refused(w *world, c *client.Client, id string) bool {
	a, err := c.Resume(w.ctx, id)
	if err != nil {
		return false
	}
	a.Close()
	return a.Status == http.StatusBadRequest && string(a.Body) == badEventID
}

// badEventID is what every event id that cannot be resumed from gets.
const badEventID = `{"jsonrpc":"2.0","error":{"code":-32011,"message":"the event id cannot be resumed from"}}`
