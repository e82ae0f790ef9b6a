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
	// earlierShare is how often a stream is resumed from an earlier event than
	// the last one, which then has to come again.
	earlierShare = 0.3
	// dropShare is how often a client breaks a connection off after an event.
	dropShare = 0.005
	// recent is how many events back a resume goes: the log keeps 1,000 appends.
	recent = 400
)

// errDropped is the end of a connection that the client broke off.
var errDropped = errors.New("dropped by the client")

// follower reads one stream over as many connections as it takes.
type follower struct {
	d     *driver
	rng   *rand.Rand
	rec   *client.Record // set once begun is closed
	begun chan struct{}
	ids   []string        // of all events, in the order they first came
	seen  map[string]bool // ids
	// event gets each event once; it returns true for the last one.
	event     func(client.Event) bool
	attached  atomic.Int64 // the start on which a connection is open, 0 if none is
	over      bool         // the last event came
	replaced  atomic.Bool  // nothing more is expected of it
	cancelled atomic.Bool  // the client has taken the call back: it may end without an answer
	paced     bool         // events come all the time
	broke     time.Time    // when the connection broke, until the next event has come
	// hold, if not nil, is called before each resume and may take its time.
	hold func()
}

// run reads the stream until its last event came or the run has ended. It
// returns false when the first connection broke before there was anything to
// resume from.
func (f *follower) run(ev *client.Events, boot int64) bool {
	f.seen = make(map[string]bool)
	for {
		f.d.w.tally.add("connections")
		f.attached.Store(boot)
		err := f.read(ev)
		f.attached.Store(0)
		switch {
		case f.d.w.ctx.Err() != nil:
			return true
		case f.over, f.replaced.Load():
			return true
		case errors.Is(err, errDropped):
			f.d.w.tally.add("dropped_by_client")
		case errors.Is(err, io.EOF) && f.cancelled.Load():
			return true
		case errors.Is(err, io.EOF) && f.d.w.mayEnd(boot): // a node that ends has its clients come back
		case errors.Is(err, io.EOF):
			f.d.w.violated(f.rec, "%s: a stream ended without its last event", f.d)
			return true
		case client.Failed(err) == 0:
			f.d.w.violated(f.rec, "%s: %v", f.d, err)
			return true
		case !f.d.w.mayBreak(boot):
			f.d.w.violated(f.rec, "%s: a stream's connection broke and nobody was killed: %v", f.d, err)
			return true
		case len(f.ids) == 0:
			return false
		}
		if !errors.Is(err, errDropped) && f.broke.IsZero() {
			f.broke = time.Now()
		}
		if ev, boot = f.resume(); ev == nil {
			return true
		}
	}
}

func (f *follower) read(ev *client.Events) error {
	defer ev.Close()
	for {
		e, err := ev.Next()
		if err != nil {
			return err
		}
		f.d.w.tally.add("events")
		if f.rec == nil {
			p, _ := client.ParseID(e.ID) // Next has looked at it
			f.rec = f.d.c.Record(p.Stream)
			close(f.begun)
		}
		if f.seen[e.ID] {
			continue
		}
		f.seen[e.ID] = true
		if !f.broke.IsZero() {
			f.d.w.goesOn(f, time.Since(f.broke))
			f.broke = time.Time{}
		}
		f.ids = append(f.ids, e.ID)
		if f.over {
			f.d.w.violated(f.rec, "%s: event %s came after the last one", f.d, e.ID)
		}
		f.over = f.event(e)
		if !f.over && f.rng.Float64() < dropShare {
			return errDropped
		}
	}
}

// resume connects again, and goes on trying until the server is back. It
// returns nil when the run has ended.
func (f *follower) resume() (*client.Events, int64) {
	w := f.d.w
	if f.hold != nil {
		f.hold()
	}
	from := f.ids[len(f.ids)-1]
	if f.rng.Float64() < earlierShare {
		from = f.earlier(f.rng)
		w.tally.add("resumes_from_earlier")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if w.harmed() {
			end = time.Now().Add(patience)
		}
		boot, starting := w.now()
		a, err := f.d.c.Resume(w.ctx, from)
		switch {
		case w.ctx.Err() != nil:
			return nil, 0
		case f.replaced.Load():
			if err == nil {
				a.Close()
			}
			return nil, 0
		case err != nil && !w.mayFail(boot, starting) && !w.mayBreak(boot):
			w.violated(f.rec, "%s: resume after %s: %v", f.d, from, err)
			return nil, 0
		case err != nil:
		case a.Status >= 500 && w.mayBreak(boot):
		case f.cancelled.Load() && a.Status == http.StatusNoContent: // it has ended meanwhile, without an answer
			return nil, 0
		case a.Events == nil || a.Status != http.StatusOK:
			w.violated(f.rec, "%s: resume after %s got %d %s", f.d, from, a.Status, a.Body)
			return nil, 0
		case w.boot.Load() == boot:
			w.tally.add("resumes")
			return a.Events, boot
		default:
			a.Close() // killed in between: it is not known which start has answered
		}
		if !w.wait(time.Duration(1+f.rng.IntN(20)) * time.Millisecond) {
			return nil, 0
		}
	}
	w.violated(f.rec, "%s: no resume after %s in %v", f.d, from, patience)
	return nil, 0
}

// earlier is the id of one of the recent events.
func (f *follower) earlier(rng *rand.Rand) string {
	n := min(len(f.ids), recent)
	return f.ids[len(f.ids)-1-rng.IntN(n)]
}
