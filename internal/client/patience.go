package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// The pause before a request is sent again grows from shortest to longest, unless the server says more.
const (
	shortest = 100 * time.Millisecond
	longest  = 2 * time.Second
)

// patience counts how long a server has been away.
type patience struct {
	c     *Client
	since time.Time // it has been away; zero: it is not
	pause time.Duration
	told  string
}

// mayRepeat reports whether a request that failed may be sent again, and when. A request that only reads may be sent again after anything that
// may pass.
func mayRepeat(err error, reads bool) (after time.Duration, ok bool) {
	if errors.Is(err, ErrLost) { // it has been tried again
		return 0, false
	}
	if e, ok := errors.AsType[*laterError](err); ok {
		return e.after, true
	}
	if _, ok := errors.AsType[*goneError](err); ok {
		return 0, true
	}
	if !reads {
		return 0, false
	}
	if _, ok := errors.AsType[*brokenError](err); ok {
		return 0, true
	}
	// A proxy in front of a server that is away.
	if e, ok := errors.AsType[*StatusError](err); ok && (e.Status == http.StatusBadGateway || e.Status == http.StatusGatewayTimeout) {
		return 0, true
	}
	return 0, false
}

// waitForServer waits before the next try, at least for as long as the server said. It returns why the last one failed if that would take too long.
func (p *patience) waitForServer(ctx context.Context, after time.Duration, why error) error {
	now := time.Now()
	if p.since.IsZero() {
		p.since, p.pause = now, shortest
	}
	pause := max(after, p.pause)
	p.pause = min(2*p.pause, longest)
	left := p.since.Add(p.c.o.Patience).Sub(now)
	if pause > left {
		if after > left && p.c.o.Patience > 0 {
			return fmt.Errorf("%w; it may come again in %v, which is too long to wait", why, after)
		}
		if p.c.o.Patience > 0 {
			return fmt.Errorf("%w: gave up after %v", why, p.c.o.Patience)
		}
		return why
	}
	if text := why.Error(); text != p.told {
		p.told = text
		p.c.o.sayStatus(fmt.Sprintf("%s; trying again for %v", text, left.Round(time.Second)))
	}
	return sleepFor(ctx, pause)
}

// serverIsBack says that the server answers.
func (p *patience) serverIsBack() {
	if !p.since.IsZero() {
		p.since, p.told = time.Time{}, ""
		p.c.o.sayStatus("the server answers again")
	}
}

// sleepFor waits, or returns the cause of the end of ctx.
func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
