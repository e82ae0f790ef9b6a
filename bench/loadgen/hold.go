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

// hold begins sessions that stay, looks at the memory of the server, asks each session whether it is there, and ends it. In a revision without
// sessions it leaves calls that ask the user without an answer; they end when the server gives them up.
func hold(ctx context.Context, o *Options, l *ledger) error {
	connections := newCrowd(o, min(o.Clients, o.Count))
	defer connections.close()
	h := &holding{o: o, l: l, ids: make(map[string]bool, o.Count)}
	begin := h.begin
	if o.stateless() {
		begin = h.parkCall
	}
	err := h.measureHeld(ctx, restFor, func() error {
		if err := begin(ctx, connections[0]); err != nil {
			return fmt.Errorf("the first one failed: %w", err)
		}
		h.share(ctx, connections, make([]string, o.Count-1), func(c *client, _ string) error { return begin(ctx, c) })
		return nil
	})
	if err != nil {
		return err
	}
	sessions := slices.Collect(maps.Keys(h.ids))
	h.share(ctx, connections, sessions, func(c *client, session string) error { return h.with(ctx, c, session, c.ping) })
	if !o.Keep {
		ctx := context.WithoutCancel(ctx) // Those of a run that was broken off end, too.
		h.share(ctx, connections, sessions, func(c *client, session string) error { return h.with(ctx, c, session, c.end) })
	}
	return nil
}

// holding is the sessions, calls or streams that are held.
type holding struct {
	o     *Options
	l     *ledger
	there atomic.Int64 // how many are held

	mu  sync.Mutex // guards ids
	ids map[string]bool
}

// measureHeld looks at the memory of the server, begins what is held, looks again a time later, and does what is to be done meanwhile.
func (h *holding) measureHeld(ctx context.Context, stay time.Duration, begin func() error) error {
	before, err := h.o.atRest(ctx)
	if err != nil {
		return err
	}
	stop := h.o.ticker(func() string { return fmt.Sprintf("%d of %d are there", h.there.Load(), h.o.Count) })
	defer stop()
	err = h.l.timed(h.o, func() (time.Duration, error) {
		began := time.Now()
		err := begin()
		return time.Since(began), err
	})
	if err != nil {
		return err
	}
	there := int(h.there.Load())
	if there == 0 && ctx.Err() == nil {
		return errors.New("nothing is held: " + h.l.example())
	}
	wait(ctx, time.Now().Add(stay))
	if err := h.l.keep(ctx, h.o, before, there, stay); err != nil {
		return err
	}
	return h.o.meanwhile(ctx)
}

// begin begins a session and notes it.
func (h *holding) begin(ctx context.Context, c *client) error {
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
		err = wrong("initialize got no session id: this server has no sessions")
	case h.ids[c.session]:
		err = wrong("two sessions have the id %s", c.session)
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
		err = wrong("the call does not wait for the user: its result is %q", r.Type)
	}
	return h.noteBegun(ctx, time.Since(began), err)
}

// noteBegun counts one that was begun, or was not.
func (h *holding) noteBegun(ctx context.Context, took time.Duration, err error) error {
	if ctx.Err() == nil {
		h.l.add(took, 0, err)
	}
	if err == nil {
		h.there.Add(1)
	}
	return err
}

// with has a client do something in a session. The error counts.
func (h *holding) with(ctx context.Context, c *client, session string, do func(context.Context) error) error {
	one, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	c.session = session
	err := do(one)
	if err != nil && ctx.Err() == nil {
		h.l.addError(err)
	}
	return err
}

// share has all connections do something together, once with each session. The ids of those that do not exist yet are empty.
func (h *holding) share(ctx context.Context, connections crowd, sessions []string, do func(c *client, session string) error) {
	left := make(chan string, len(sessions))
	for _, id := range sessions {
		left <- id
	}
	close(left)
	connections.each(len(connections), func(_ int, c *client) {
		for session := range left {
			if ctx.Err() != nil {
				return
			}
			if err := do(c, session); err != nil {
				wait(ctx, time.Now().Add(backOff))
			}
		}
	})
}
