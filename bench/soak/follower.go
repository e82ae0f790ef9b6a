package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

const (
	// earlierShare is how often a stream is resumed from an earlier event than the last one, which
	// then comes again.
	earlierShare = 0.3
	// dropShare is how often a client breaks a connection off after an event.
	dropShare = 0.005
	// recent is how many events back a resume goes: the log keeps 1,000 appends.
	recent = 400
)

// errDropped is the end of a connection that the client broke off.
var errDropped = errors.New("dropped by the client")

// follower reads one stream of a session over as many connections as it takes.
type follower struct {
	v     *visitor
	c     *client.Client
	rng   *rand.Rand
	rec   *client.Record // set once begun is closed
	begun chan struct{}
	ids   []string        // of all events, in the order they first came
	seen  map[string]bool // ids

	onEvent   func(client.Event) bool // gets each event once; it returns true for the last one
	attached  atomic.Int64            // the start on which a connection is open, 0 if none is
	over      bool                    // the last event came
	replaced  atomic.Bool             // nothing more is expected of it
	cancelled atomic.Bool             // the client has taken the call back: it may end without an answer
	paced     bool                    // events come all the time
	broke     time.Time               // when the connection broke, until the next event has come
}

func newFollower(v *visitor, c *client.Client, rng *rand.Rand, onEvent func(client.Event) bool) *follower {
	return &follower{v: v, c: c, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), begun: make(chan struct{}), seen: make(map[string]bool), onEvent: onEvent}
}

// follow reads the stream until its last event came or the run has ended. It returns false when the
// first connection broke before there was anything to resume from.
func (f *follower) follow(events *client.Events, boot int64) bool {
	w := f.v.w
	for {
		w.tally.add("connections")
		f.attached.Store(boot)
		err := f.readEvents(events)
		f.attached.Store(0)
		switch {
		case w.ctx.Err() != nil, f.over, f.replaced.Load():
			return true
		case errors.Is(err, errDropped):
			w.tally.add("dropped_by_client")
		case errors.Is(err, io.EOF) && f.cancelled.Load():
			return true
		case errors.Is(err, io.EOF) && w.mayEnd(boot): // a node that ends has its clients come back
		case errors.Is(err, io.EOF), client.Failed(err) == 0, !w.mayBreak(boot):
			f.v.accuse(f.rec, "a stream ended without its last event, and nobody was killed: %v", err)
			return true
		case len(f.ids) == 0:
			return false
		}
		if !errors.Is(err, errDropped) && f.broke.IsZero() {
			f.broke = time.Now()
		}
		if events, boot = f.resume(); events == nil {
			return true
		}
	}
}

func (f *follower) readEvents(events *client.Events) error {
	defer events.Close()
	for {
		e, err := events.Next()
		if err != nil {
			return err
		}
		f.v.w.tally.add("events")
		if f.rec == nil {
			p, _ := client.ParseID(e.ID) // Next has looked at it
			f.rec = f.c.StreamRecord(p.Stream)
			close(f.begun)
		}
		if f.seen[e.ID] {
			continue
		}
		f.seen[e.ID] = true
		f.ids = append(f.ids, e.ID)
		if harm := f.v.w.harm.Load().(string); f.paced && !f.broke.IsZero() {
			f.v.w.gaps.add(harm, time.Since(f.broke))
		}
		f.broke = time.Time{}
		if f.over {
			f.v.accuse(f.rec, "event %s came after the last one", e.ID)
		}
		if f.over = f.onEvent(e); !f.over && f.rng.Float64() < dropShare {
			return errDropped
		}
	}
}

// resume connects again, and goes on trying until the server is back. It returns nil when nothing
// more is to come.
func (f *follower) resume() (*client.Events, int64) {
	w, from := f.v.w, f.lastID()
	if f.rng.Float64() < earlierShare {
		from = f.earlierID(f.rng)
		w.tally.add("resumes_from_earlier")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if w.harmed.Load() {
			end = time.Now().Add(patience)
		}
		boot, starting := w.currentBoot()
		a, err := f.c.ResumeStream(w.ctx, from)
		switch {
		case w.ctx.Err() != nil, f.replaced.Load():
			if err == nil {
				a.Close()
			}
			return nil, 0
		case err != nil && !w.mayFail(boot, starting) && !w.mayBreak(boot):
			f.v.accuse(f.rec, "resume after %s: %v", from, err)
			return nil, 0
		case err != nil:
		case a.Status >= 500 && w.mayBreak(boot):
		case f.cancelled.Load() && a.Status == http.StatusNoContent: // it has ended meanwhile, without an answer
			return nil, 0
		case a.Events == nil || a.Status != http.StatusOK:
			f.v.accuse(f.rec, "resume after %s got %d %s", from, a.Status, a.Body)
			return nil, 0
		case w.boot.Load() == boot:
			w.tally.add("resumes")
			return a.Events, boot
		default:
			a.Close() // killed in between: it is not known which start has answered
		}
		w.wait(time.Duration(1+f.rng.IntN(20)) * time.Millisecond)
	}
	f.v.accuse(f.rec, "no resume after %s in %v", from, patience)
	return nil, 0
}

// replayAfter resumes a stream that has ended after one of its events: the rest comes, and the
// response ends. ok is false if that was not as it should be, or nobody knows.
func (f *follower) replayAfter(id string) (rest []client.Event, ok bool) {
	w := f.v.w
	w.tally.add("replays_of_answered")
	boot, starting := w.currentBoot()
	a, err := f.c.ResumeStream(w.ctx, id)
	switch {
	case err != nil && (w.mayFail(boot, starting) || w.mayBreak(boot)):
		return nil, false
	case err != nil:
		f.v.accuse(f.rec, "replay after %s: %v", id, err)
		return nil, false
	case a.Status == http.StatusNoContent && id == f.lastID():
		return nil, true // nothing more is to come
	case a.Events == nil || a.Status != http.StatusOK:
		f.v.accuse(f.rec, "replay after %s got %d %s", id, a.Status, a.Body)
		return nil, false
	}
	defer a.Close()
	for {
		e, err := a.Events.Next()
		switch {
		case err == nil:
			w.tally.add("events")
			rest = append(rest, e)
			continue
		case errors.Is(err, io.EOF):
			return rest, true
		case !w.mayBreak(boot):
			f.v.accuse(f.rec, "replay after %s: %v", id, err)
		}
		return nil, false
	}
}

// checkReplay replays the rest after an event, and looks where it ends.
func (f *follower) checkReplay(id string) {
	rest, ok := f.replayAfter(id)
	last := id
	if len(rest) > 0 {
		last = rest[len(rest)-1].ID
	}
	if ok && last != f.lastID() {
		f.v.accuse(f.rec, "replay after %s ended with %s and not with %s", id, last, f.lastID())
	}
}

func (f *follower) lastID() string { return f.ids[len(f.ids)-1] }

// earlierID is the id of one of the recent events.
func (f *follower) earlierID(rng *rand.Rand) string {
	return f.ids[len(f.ids)-1-rng.IntN(min(len(f.ids), recent))]
}

// isRefused reports that an event id is refused as every bad one is.
func isRefused(w *world, c *client.Client, id string) bool {
	a, err := c.ResumeStream(w.ctx, id)
	if err != nil {
		return false
	}
	a.Close()
	return a.Status == http.StatusBadRequest && string(a.Body) == `{"jsonrpc":"2.0","error":{"code":-32011,"message":"the event id cannot be resumed from"}}`
}
