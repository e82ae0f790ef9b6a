package loadgen

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// prepareAtOnce bounds the clients that begin or end at a time.
	prepareAtOnce = 64
	// partFor bounds how long sessions take to end; those that are left expire.
	partFor = 5 * time.Second
)

// crowd is many clients.
type crowd []*client

func newCrowd(o *Options, n int) crowd {
	all := make(crowd, n)
	for i := range all {
		all[i] = newClient(o)
		all[i].next = i // Clients begin at different endpoints.
	}
	return all
}

// forEach calls do for each client, most of them at a time, and returns when all have returned.
func (all crowd) forEach(most int, do func(i int, c *client)) {
	var group sync.WaitGroup
	places := make(chan struct{}, most)
	for i, c := range all {
		places <- struct{}{}
		group.Go(func() {
			do(i, c)
			<-places
		})
	}
	group.Wait()
}

// beginSessions has all clients begin their sessions, the first one alone. The error is that of the
// first, without which there is nothing to measure; those of others are counted. It returns the
// clients that are ready.
func (all crowd) beginSessions(ctx context.Context, l *ledger) (crowd, error) {
	good := make([]bool, len(all))
	var first error
	one := func(i int, c *client) {
		ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
		defer cancel()
		err := c.initialize(ctx)
		switch good[i] = err == nil; {
		case err != nil && i == 0:
			first = fmt.Errorf("the first client failed: %w", err)
		case err != nil && ctx.Err() == nil:
			l.addError(err)
		}
	}
	if one(0, all[0]); first != nil {
		return nil, first
	}
	all[1:].forEach(prepareAtOnce, func(i int, c *client) { one(i+1, c) })
	var ready crowd
	for i, c := range all {
		if good[i] {
			ready = append(ready, c)
		}
	}
	return ready, ctx.Err()
}

// endSessions ends the sessions, as far as that takes no longer than an operation may.
func (all crowd) endSessions(ctx context.Context) {
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(all[0].o.Timeout, partFor))
	defer cancel()
	all.forEach(prepareAtOnce, func(_ int, c *client) { _ = c.endSession(ctx) }) // Sessions that are left expire.
}

func (all crowd) closeConnections() {
	for _, c := range all {
		c.closeConnections()
	}
}
