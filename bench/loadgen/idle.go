package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	before, err := o.atRest(ctx)
	if err != nil {
		return err
	}
	open, cut := context.WithCancel(ctx)
	defer cut()
	streams := make([]*stream, len(ready))
	var there atomic.Int64
	stop := o.ticker(func() string { return fmt.Sprintf("%d of %d streams", there.Load(), o.Count) })
	defer stop()
	err = l.timed(o, func() (time.Duration, error) {
		began := time.Now()
		ready.each(prepareAtOnce, func(i int, c *client) {
			begins := time.Now()
			s, err := c.listen(open, "")
			if ctx.Err() != nil {
				return
			}
			l.add(time.Since(begins), 0, err)
			if err == nil {
				there.Add(1)
				streams[i] = s
			}
		})
		return time.Since(began), nil
	})
	if err != nil {
		return err
	}
	if there.Load() == 0 && ctx.Err() == nil {
		return errors.New("no stream was opened: " + l.example())
	}
	var readers sync.WaitGroup
	for _, s := range streams {
		if s == nil {
			continue
		}
		readers.Go(func() {
			for {
				_, err := s.next(open)
				switch {
				case open.Err() != nil:
					return
				case err != nil:
					l.addError(err)
					there.Add(-1)
					s.close()
					return
				}
				l.addEvent()
			}
		})
	}
	opened := int(there.Load())
	wait(ctx, time.Now().Add(o.Duration))
	if err = l.keep(ctx, o, before, opened, o.Duration); err == nil {
		err = o.meanwhile(ctx)
	}
	cut()
	for _, s := range streams {
		if s != nil {
			s.close()
		}
	}
	readers.Wait()
	return err
}
