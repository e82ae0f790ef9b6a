package upstream

import (
	"context"
	"time"
)

// A Clock is where time comes from.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f on a goroutine of its own after d, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// systemClock is the clock of package time.
type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

func clockOr(c Clock) Clock {
	if c == nil {
		return systemClock{}
	}
	return c
}

// sleepFor waits for d, or returns the cause of the end of ctx.
func sleepFor(ctx context.Context, c Clock, d time.Duration) error {
	over := make(chan struct{})
	stop := c.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		stop()
		return context.Cause(ctx)
	}
}

// withTimeout is context.WithTimeoutCause by the given clock.
func withTimeout(ctx context.Context, c Clock, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := c.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}
