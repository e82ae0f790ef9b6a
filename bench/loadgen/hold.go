package loadgen

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// restFor is how long a server is left alone before its memory is looked at.
const restFor = time.Second

// runHold begins sessions that stay, looks at the memory of the server, asks each session whether
// it is there, and ends it. In a revision without sessions it leaves calls that ask the user
// without an answer; they end when the server gives them up.
func runHold(ctx context.Context, o *Options, l *ledger) error {
	connections := newCrowd(o, min(o.Clients, o.Count))
	defer connections.closeConnections()
	h := &holding{o: o, l: l, ids: make(map[string]bool, o.Count)}
	begin := h.beginSession
	if o.stateless() {
		begin = h.parkCall
	}
	err := h.measureHeld(ctx, restFor, func() error {
		if err := begin(ctx, connections[0]); err != nil {
			return fmt.Errorf("the first one failed: %w", err)
		}
		h.forEachSession(ctx, connections, make([]string, o.Count-1), func(c *client, _ string) error { return begin(ctx, c) })
		return nil
	})
	if err != nil {
		return err
	}
	sessions := slices.Collect(maps.Keys(h.ids))
	h.forEachSession(ctx, connections, sessions, func(c *client, session string) error { return h.doInSession(ctx, c, session, c.ping) })
	if !o.Keep {
		ctx := context.WithoutCancel(ctx) // Those of a run that was broken off end, too.
		h.forEachSession(ctx, connections, sessions, func(c *client, session string) error { return h.doInSession(ctx, c, session, c.endSession) })
	}
	return nil
}

// runStreams opens event streams on which nothing happens, keeps them open for a time, and looks at
// the memory of the server. A stream that ends meanwhile is an error. What comes on one counts as
// an event, and comments are nothing.
func runStreams(ctx context.Context, o *Options, l *ledger) error {
	all := newCrowd(o, o.Count)
	defer all.closeConnections()
	ready, err := all.beginSessions(ctx, l)
	if err != nil {
		return err
	}
	defer ready.endSessions(ctx)
	ready.closeConnections() // The connection of a stream belongs to what the stream takes.
	waitUntil(ctx, time.Now().Add(restFor))
	open, cut := context.WithCancel(ctx)
	defer cut()
	h := &holding{o: o, l: l}
	streams := make([]*stream, len(ready))
	var readers sync.WaitGroup
	err = h.measureHeld(ctx, o.Duration, func() error {
		ready.forEach(prepareAtOnce, func(i int, c *client) {
			begins := time.Now()
			s, err := openListener(open, c, "")
			if h.noteBegun(ctx, time.Since(begins), err) == nil {
				streams[i] = s
				readers.Go(func() { h.readIdle(open, s) })
			}
		})
		return nil
	})
	cut()
	for _, s := range streams {
		if s != nil {
			s.close()
		}
	}
	readers.Wait()
	return err
}

// holding is the sessions, calls or streams that are held.
type holding struct {
	o     *Options
	l     *ledger
	there atomic.Int64 // how many are held

	mu  sync.Mutex // guards ids
	ids map[string]bool
}

// measureHeld looks at the memory of the server, begins what is held, looks again a time later, and
// does what is to be done meanwhile.
func (h *holding) measureHeld(ctx context.Context, stay time.Duration, begin func() error) error {
	before, err := h.o.atRest(ctx)
	if err != nil {
		return err
	}
	stop := h.o.keepPrinting(func() string { return fmt.Sprintf("%d of %d are there", h.there.Load(), h.o.Count) })
	defer stop()
	err = h.l.timeRun(h.o, func() (time.Duration, error) {
		began := time.Now()
		err := begin()
		return time.Since(began), err
	})
	if err != nil {
		return err
	}
	there := int(h.there.Load())
	if there == 0 && ctx.Err() == nil {
		return errors.New("nothing is held: " + h.l.anyExample())
	}
	waitUntil(ctx, time.Now().Add(stay))
	if err := h.l.noteHeld(ctx, h.o, before, there, stay); err != nil {
		return err
	}
	return h.o.callMeanwhile(ctx)
}

// beginSession begins a session and notes it.
func (h *holding) beginSession(ctx context.Context, c *client) error {
	one, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	c.session = ""
	began := time.Now()
	err := c.initialize(one)
	took := time.Since(began)
	h.mu.Lock()
	switch {
	case err != nil:
	case c.session == "":
		err = wrongAnswer("initialize got no session id: this server has no sessions")
	case h.ids[c.session]:
		err = wrongAnswer("two sessions have the id %s", c.session)
	default:
		h.ids[c.session] = true
	}
	h.mu.Unlock()
	return h.noteBegun(ctx, took, err)
}

// parkCall makes a call that asks the user, and leaves it.
func (h *holding) parkCall(ctx context.Context, c *client) error {
	one, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	began := time.Now()
	r, err := c.callTool(one, c.toolOr("ask"), askArguments, "", nil)
	if err == nil && r.Type != "input_required" {
		err = wrongAnswer("the call does not wait for the user: its result is %q", r.Type)
	}
	return h.noteBegun(ctx, time.Since(began), err)
}

// noteBegun counts one that was begun, or was not.
func (h *holding) noteBegun(ctx context.Context, took time.Duration, err error) error {
	if ctx.Err() == nil {
		h.l.addOperation(took, 0, err)
	}
	if err == nil {
		h.there.Add(1)
	}
	return err
}

// doInSession has a client do something in a session. The error counts.
func (h *holding) doInSession(ctx context.Context, c *client, session string, do func(context.Context) error) error {
	one, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	c.session = session
	err := do(one)
	if err != nil && ctx.Err() == nil {
		h.l.addError(err)
	}
	return err
}

// forEachSession has all connections do something together, once with each session. The ids of
// those that do not exist yet are empty.
func (h *holding) forEachSession(ctx context.Context, connections crowd, sessions []string, do func(c *client, session string) error) {
	left := make(chan string, len(sessions))
	for _, id := range sessions {
		left <- id
	}
	close(left)
	connections.forEach(len(connections), func(_ int, c *client) {
		for session := range left {
			if ctx.Err() != nil {
				return
			}
			if err := do(c, session); err != nil {
				waitUntil(ctx, time.Now().Add(backOff))
			}
		}
	})
}

// readIdle reads a stream on which nothing should happen until ctx ends.
func (h *holding) readIdle(ctx context.Context, s *stream) {
	for {
		_, err := s.nextMessage(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			h.l.addError(err)
			h.there.Add(-1)
			s.close()
			return
		}
		h.l.addEvent()
	}
}
