package everything

import (
	"context"
	"time"
)

// pause waits for d. If ctx ends first, it returns the cause of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// millis is n thousandths of a second.
func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
