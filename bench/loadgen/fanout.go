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
	a := &audience{o: o, l: l, speaker: ready[0], streams: make([]heard, len(ready)-1)}
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cut()
	ready[1:].forEach(prepareAtOnce, func(i int, c *client) {
		s, err := openListener(open, c, watched)
		if err != nil {
			if ctx.Err() == nil {
				l.addError(err)
			}
			return
		}
		a.mu.Lock()
		a.streams[i].open = true
		a.live++
		a.mu.Unlock()
		readers.Go(func() { a.readStream(open, i, s) })
	})
	live, _ := a.countStreams()
	if live == 0 {
		return errors.New("no stream was opened: " + l.anyExample())
	}
	o.printProgress("%d streams listen", live)
	waitUntil(ctx, time.Now().Add(settleFor)) // A stream may begin with an update of what it listens for: its client cannot know what it has missed.
	if err := a.updateOnce(ctx, false); err != nil {
		return fmt.Errorf("the first update failed: %w", err)
	}
	if live, left := a.countStreams(); left == live && ctx.Err() == nil {
		return fmt.Errorf("no stream of %d heard of the first update", live)
	}
	waitUntil(ctx, time.Now().Add(settleFor))
	return l.timeRun(o, func() (time.Duration, error) { return a.repeatUpdates(ctx), nil })
}

// audience is the streams that listen.
type audience struct {
	o       *Options
	l       *ledger
	speaker *client

	mu      sync.Mutex // guards the rest
	streams []heard
	live    int           // streams that are open
	left    int           // of them, those that have not heard of the update that is under way
	began   time.Time     // when that was sent, zero while none is
	counts  bool          // what is heard counts: the first update does not
	all     chan struct{} // closed once none is left
}

// countStreams returns how many streams are open, and how many of them have not heard of the last
// update.
func (a *audience) countStreams() (live, left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live, a.left
}

// heard is what a stream has heard.
type heard struct{ open, now bool } // now: of the update that is under way

// readStream reads a stream to its end.
func (a *audience) readStream(ctx context.Context, i int, s *stream) {
	defer s.close()
	for {
		m, err := s.nextMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil || m.updatedURI() == watched {
			a.noteHearing(i, err)
		}
		if err != nil {
			return
		}
	}
}

// noteHearing counts an update that a stream has heard of, or the end of the stream.
func (a *audience) noteHearing(i int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &a.streams[i]
	isNew := !a.began.IsZero() && !s.now
	switch {
	case err != nil:
		s.open = false
		a.live--
		a.l.addError(err)
	case isNew && a.counts:
		a.l.addOperation(time.Since(a.began), 1, nil)
	case a.counts:
		a.l.addError(&Failure{"doubled", fmt.Sprintf("stream %d heard of an update twice", i)})
	}
	if s.now = true; isNew {
		if a.left--; a.left == 0 {
			close(a.all)
		}
	}
}

// updateOnce updates the resource once, and waits until all streams have heard of it.
func (a *audience) updateOnce(ctx context.Context, counts bool) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	a.mu.Lock()
	for i := range a.streams {
		a.streams[i].now = false
	}
	all := make(chan struct{})
	a.began, a.counts, a.left, a.all = time.Now(), counts, a.live, all
	if a.live == 0 {
		close(all)
	}
	a.mu.Unlock()
	_, err := a.speaker.callTool(ctx, a.speaker.toolOr("touch"), `{"uri":`+quoteJSON(watched)+`}`, "", nil)
	if err == nil {
		select {
		case <-all:
		case <-ctx.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Time{}
	if err != nil || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) { // or the run was broken off
		return err
	}
	for i, s := range a.streams {
		if s.open && !s.now && counts {
			a.l.addError(&Failure{"lost", fmt.Sprintf("stream %d did not hear of an update within %v", i, a.o.Timeout)})
		}
	}
	return nil
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
		if err := a.updateOnce(ctx, true); err != nil && ctx.Err() == nil {
			a.l.addError(err)
			waitUntil(ctx, time.Now().Add(backOff))
		}
	}
	took := time.Since(began)
	waitUntil(ctx, time.Now().Add(settleFor)) // for what comes twice
	return took
}
