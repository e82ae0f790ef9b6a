package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/bench/client"
)

// standalone is a session's own stream, and what should be on it.
type standalone struct {
	v       *session
	f       *follower
	ended   chan struct{}
	updates atomic.Int64 // that came for the session's resource
	wanted  atomic.Int64 // as many at least: each touch is followed by one

	mu    sync.Mutex // guards the rest
	ticks []*ticking // in the order they were sent
	at    int        // index of the one whose message came last, -1 before
}

// ticking is a tick call, which sends messages to its session. One runs at a time.
type ticking struct {
	x    *exchange
	n    int
	came int
	over bool // the call is not running any more
	ok   bool // and it was answered with its result
}

// openStandalone opens the session's own stream and follows it.
func (v *session) openStandalone() error {
	boot := v.w.boot.Load()
	a, err := v.c.OpenStandalone(v.w.ctx)
	if err != nil {
		return err
	}
	if a.Events == nil || a.Status != http.StatusOK {
		return fmt.Errorf("%s: the standalone stream got %d %s", v, a.Status, a.Body)
	}
	s := &standalone{v: v, ended: make(chan struct{}), at: -1}
	s.f = newFollower(&v.visitor, v.c, v.rng, s.onEvent)
	v.own = s
	go func() {
		defer close(s.ended)
		if !s.f.follow(a.Events, boot) {
			v.accuse(s.f.rec, "the standalone stream broke before its first event")
		}
	}()
	select {
	case <-s.f.begun:
		return nil
	case <-s.ended:
		return fmt.Errorf("%s: the standalone stream had no event", v)
	}
}

// onEvent takes the next message: ticks come one call after the other, each counted from 1 without
// a gap.
func (s *standalone) onEvent(e client.Event) bool {
	m := parse(e.Data)
	switch {
	case e.Data == "":
		return false
	case m.Method == "notifications/resources/updated" && m.Params.URI == s.v.resource():
		s.updates.Add(1)
		s.v.w.tally.add("resource_updates")
		return false
	case s.v.w.several && strings.HasPrefix(m.Method, "notifications/") && strings.HasSuffix(m.Method, "/list_changed"):
		return false // a node has died that may have told of a change last
	case m.Method == "notifications/tasks/status" && s.v.isCalm(): // only there it makes tasks
		return false
	}
	var i, n int
	_, err := fmt.Sscanf(m.Params.Data, "%d of %d", &i, &n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i == 1 {
		for s.at++; s.at < len(s.ticks) && s.ticks[s.at].n != n; s.at++ {
		}
	}
	if err != nil || m.Params.Logger != "tick" || s.at < 0 || s.at >= len(s.ticks) || s.ticks[s.at].n != n || s.ticks[s.at].came != i-1 {
		s.v.accuse(s.f.rec, "event %s of the standalone stream was not expected: %s", e.ID, e.Data)
		return false
	}
	s.ticks[s.at].came = i
	return false
}

// isComplete reports that all updates came, that every tick is over, and that all of those answered
// came.
func (s *standalone) isComplete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	lacks := func(t *ticking) bool { return !t.over || t.ok && t.came != t.n }
	return s.updates.Load() >= s.wanted.Load() && !slices.ContainsFunc(s.ticks, lacks)
}

// touchResource has the session's resource updated, which the stream has to tell afterwards,
// whatever happens to the process in between.
func (s *standalone) touchResource() {
	v, before := s.v, s.updates.Load()
	if _, answered := v.tryRequest("tools/call", `{"name":"touch","arguments":{"uri":"`+v.resource()+`"}}`); !answered {
		return
	}
	v.w.tally.add("resources_touched")
	for w := s.wanted.Load(); w < before+1 && !s.wanted.CompareAndSwap(w, before+1); w = s.wanted.Load() {
	}
}

// placeTick begins a tick unless one runs, or its messages could be taken for those of one that has
// sent none so far, and perhaps never will.
func (s *standalone) placeTick(rng *rand.Rand) {
	n := 5 + rng.IntN(20)
	k := s.v.newCall("tick", fmt.Sprintf(`{"n":%d,"every_ms":%d}`, n, 10+rng.IntN(60)), fmt.Sprintf("ticked %d times", n))
	k.safe = false
	t := &ticking{x: s.v.newExchange(rng, k), n: n}
	s.mu.Lock()
	l := len(s.ticks)
	if l > 0 && !s.ticks[l-1].over || slices.ContainsFunc(s.ticks[max(0, s.at):], func(e *ticking) bool { return e.n == n }) {
		s.mu.Unlock()
		return
	}
	s.ticks = append(s.ticks, t)
	s.mu.Unlock()
	s.v.placeCall(t.x)
	go func() {
		<-t.x.ended
		s.mu.Lock()
		defer s.mu.Unlock()
		t.over, t.ok = true, k.final != nil && k.final.Result != nil && !k.final.Result.IsError
	}()
}
