package worker

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// beginWait is for how long the store may take to begin an attempt, whose work is kept meanwhile,
// or to do what is tried in the background.
const beginWait = time.Minute

// background has the goroutines of a pool that its end waits for.
type background struct {
	base    context.Context // ends with the pool
	stop    context.CancelCauseFunc
	ended   chan struct{} // closed when none of them runs, or nobody waits for them any more
	running sync.WaitGroup

	mu     sync.Mutex // guards closed
	closed bool
}

// holdEnd has the end wait for one Done of running, unless the pool is closed. It reports whether
// it does.
func (b *background) holdEnd() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.running.Add(1)
	}
	return !b.closed
}

// startGoroutine runs f on a goroutine, unless the pool is closed. It reports whether it does.
func (b *background) startGoroutine(f func()) bool {
	if !b.holdEnd() {
		return false
	}
	go func() {
		defer b.running.Done()
		f()
	}()
	return true
}

// keepTrying does something on a goroutine, again and again for beginWait while it fails, and then
// calls end. A pool that closes leaves it.
func (b *background) keepTrying(f func(ctx context.Context) error, end func(err error)) {
	if !b.startGoroutine(func() {
		ctx, cancel := context.WithTimeout(b.base, beginWait)
		defer cancel()
		for wait := (backoff{}); ; {
			err := f(ctx)
			if err == nil || !wait.sleep(ctx) {
				end(err)
				return
			}
		}
	}) {
		go end(ErrClosing)
	}
}

// endAll ends the context of all goroutines, and waits for them until ctx ends. It does so once.
func (b *background) endAll(ctx context.Context) error {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	b.mu.Unlock()
	if closed {
		return nil
	}
	defer close(b.ended)
	b.stop(ErrClosing)
	done := make(chan struct{})
	go func() {
		b.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker: handlers of tasks still run: %w", context.Cause(ctx))
	}
}
