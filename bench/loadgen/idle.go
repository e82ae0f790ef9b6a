package loadgen

import (
	"context"
	"sync"
	"time"
)

// idle opens event streams on which nothing happens, keeps them open for a time, and looks at the memory of the server. A stream that ends
// meanwhile is an error. What comes on one counts as an event, and comments are nothing.
func idle(ctx context.Context, o *Options, l *ledger) error {
	all := newCrowd(o, o.Count)
	defer all.close()
	ready, err := all.begin(ctx, l)
	if err != nil {
		return err
	}
	defer ready.end(ctx)
	ready.close() // The connection of a stream belongs to what the stream takes.
	wait(ctx, time.Now().Add(restFor))
	open, cut := context.WithCancel(ctx)
	defer cut()
	h := &holding{o: o, l: l}
	streams := make([]*stream, len(ready))
	var readers sync.WaitGroup
	err = h.measureHeld(ctx, o.Duration, func() error {
		ready.each(prepareAtOnce, func(i int, c *client) {
			begins := time.Now()
			s, err := c.listen(open, "")
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

// readIdle reads a stream on which nothing should happen until ctx ends.
func (h *holding) readIdle(ctx context.Context, s *stream) {
	for {
		_, err := s.next(ctx)
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
