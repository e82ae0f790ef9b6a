package mrtr

import (
	"context"
	"sync"
)

// Mutex is a mutex that its owner may hold for long, because a goroutine that waits for it
// can give up. The zero value is unlocked.
type Mutex struct {
	mu    sync.Mutex // guards the rest
	held  bool
	freed chan struct{} // closed by Unlock; nil while nobody waits
}

// Lock locks m. If ctx or call ends first, it fails with the cause of that context.
func (m *Mutex) Lock(ctx, call context.Context) error {
	for {
		freed := m.tryLock()
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-call.Done():
			return context.Cause(call)
		}
	}
}

// tryLock locks m and returns nil, or returns what Unlock will close.
func (m *Mutex) tryLock() (freed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.held {
		m.held = true
		return nil
	}
	if m.freed == nil {
		m.freed = make(chan struct{})
	}
	return m.freed
}

// Unlock unlocks m, which the caller holds.
func (m *Mutex) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = false
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
}
