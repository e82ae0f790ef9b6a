package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// watched is the resource whose updates streams listen for.
	watched = "test://template/bench/data"
	// settleFor is how long streams are read before the first update and after the last, for events
	// that come twice.
	settleFor = 200 * time.Millisecond
)

// runFanout updates a resource again and again and waits each time until all streams that listen
// for it have heard.
func runFanout(ctx context.Context, o *Options, l *ledger) error {
	all := newCrowd(o, o.Count+1) // the first one updates
	defer all.closeConnections()
	ready, err := all.beginSessions(ctx, l)
	if err != nil {
		return err
	}
	defer ready.endSessions(ctx)
	open, cut := context.WithCancel(ctx)
	defer cut()
	a := &audience{o: o, l: l, speaker: ready[0], streams: make([]*stream, len(ready)-1), heard: make(chan hearing, len(ready))}
	ready[1:].forEach(prepareAtOnce, func(i int, c *client) {
		s, err := openListener(open, c, watched)
		if a.streams[i] = s; err != nil && ctx.Err() == nil {
			l.addError(err)
		}
	})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cut()
	for i, s := range a.streams {
		if s != nil {
			a.live++
			readers.Go(func() { a.readStream(open, i, s) })
		}
	}
	if a.live == 0 {
		return errors.New("no stream was opened: " + l.anyExample())
	}
	a.has, a.gone = make([]bool, len(a.streams)), make([]bool, len(a.streams))
	o.printProgress("%d streams listen", a.live)
	a.awaitStrays(ctx, false) // A stream may begin with an update of what it listens for: its client cannot know what it has missed.
	switch n, err := a.updateOnce(ctx, false); {
	case err != nil:
		return fmt.Errorf("the first update failed: %w", err)
	case n == 0 && ctx.Err() == nil:
		return fmt.Errorf("no stream of %d heard of the first update", a.live)
	}
	a.awaitStrays(ctx, false)
	return l.timeRun(o, func() (time.Duration, error) { return a.repeatUpdates(ctx), nil })
}

// hearing says that a stream has got an event, or that it has ended.
type hearing struct {
	stream int
	at     time.Time
	err    error
}

// audience is the streams that listen. All but read belongs to one goroutine.
type audience struct {
	o       *Options
	l       *ledger
	speaker *client
	streams []*stream
	heard   chan hearing
	live    int    // streams that are open
	has     []bool // by stream: it has got the event of this round
	gone    []bool // by stream: it has ended
}

// readStream reads a stream to its end.
func (a *audience) readStream(ctx context.Context, i int, s *stream) {
	defer s.close()
	for {
		m, err := s.nextMessage(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && m.updatedURI() != watched:
			continue
		}
		select {
		case a.heard <- hearing{i, time.Now(), err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// repeatUpdates updates the resource for the time of the run, at its rate if it has one, and
// returns how long that took.
func (a *audience) repeatUpdates(ctx context.Context) time.Duration {
	began := time.Now()
	until := began.Add(a.o.Duration)
	stop := a.o.keepPrinting(func() string { return fmt.Sprintf("%.0f s left", max(0, time.Until(until).Seconds())) })
	defer stop()
	for n := 0; ctx.Err() == nil; n++ {
		due := time.Now()
		if a.o.Rate > 0 {
			due = began.Add(time.Duration(float64(n) / a.o.Rate * float64(time.Second)))
		}
		if !due.Before(until) || !time.Now().Before(until) {
			break
		}
		waitUntil(ctx, due)
		if _, err := a.updateOnce(ctx, true); err != nil && ctx.Err() == nil {
			a.l.addError(err)
			waitUntil(ctx, time.Now().Add(backOff))
		}
	}
	took := time.Since(began)
	a.awaitStrays(ctx, true)
	return took
}

// updateOnce updates the resource once, and returns how many streams heard of it. What comes before
// the update is one that came twice.
func (a *audience) updateOnce(ctx context.Context, counts bool) (n int, err error) {
	for len(a.heard) > 0 {
		a.noteHearing(<-a.heard, time.Time{}, counts)
	}
	clear(a.has)
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	began, answered := time.Now(), make(chan error, 1)
	go func() {
		_, err := a.speaker.callTool(ctx, a.speaker.toolOr("touch"), `{"uri":`+quoteJSON(watched)+`}`, "", nil)
		answered <- err
	}()
	done := false
	for !done || n < a.live {
		select {
		case h := <-a.heard:
			if a.noteHearing(h, began, counts) {
				n++
			}
			if h.err != nil && a.has[h.stream] {
				n--
			}
		case err := <-answered:
			if done = true; err != nil {
				return n, err
			}
		case <-ctx.Done():
			switch {
			case context.Cause(ctx) != context.DeadlineExceeded:
				return n, nil // The run was broken off.
			case !done:
				return n, <-answered
			}
			for i, s := range a.streams {
				if s != nil && !a.has[i] && !a.gone[i] && counts {
					a.l.addError(&Failure{"lost", fmt.Sprintf("stream %d did not hear of an update within %v", i, a.o.Timeout)})
				}
			}
			return n, nil
		}
	}
	return n, nil
}

// noteHearing counts what was heard, and reports whether it is the event of this round. began is
// when the update was sent, zero if it was not yet.
func (a *audience) noteHearing(h hearing, began time.Time, counts bool) bool {
	switch {
	case h.err != nil:
		a.live--
		a.gone[h.stream] = true
		a.l.addError(h.err)
	case a.has[h.stream] || began.IsZero():
		if !counts {
			break
		}
		a.l.addError(&Failure{"doubled", fmt.Sprintf("stream %d heard of an update twice", h.stream)})
	default:
		a.has[h.stream] = true
		if counts {
			a.l.addOperation(h.at.Sub(began), 1, nil)
		}
		return true
	}
	return false
}

// awaitStrays waits for events that come beside those of the updates.
func (a *audience) awaitStrays(ctx context.Context, counts bool) {
	late := time.NewTimer(settleFor)
	defer late.Stop()
	for {
		select {
		case h := <-a.heard:
			a.noteHearing(h, time.Time{}, counts)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
