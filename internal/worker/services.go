package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/troupe-run/troupe/internal/store"
)

// services are those that are mounted.
type services struct {
	mu sync.Mutex          // guards of
	of map[string]*serving // nil once the pool closes
}

// addService adds a service, unless the pool closes.
func (ss *services) addService(s *serving) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.of == nil {
		return false
	}
	ss.of[s.ID] = s
	return true
}

// removeService removes a service and returns it, nil if it is not mounted.
func (ss *services) removeService(server string) *serving {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := ss.of[server]
	delete(ss.of, server)
	return s
}

// removeServices removes all services for good.
func (ss *services) removeServices() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.of = nil
}

func (ss *services) allServices() []*serving {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return slices.Collect(maps.Values(ss.of))
}

// findService returns a mounted service.
func (ss *services) findService(server string) (*serving, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s := ss.of[server]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("worker: server %s is not mounted: %w", server, store.ErrUnavailable)
}

// awaitQueue opens the queue of a server. nil says that its tasks run here.
func (ss *services) awaitQueue(ctx context.Context, server string) error {
	s, err := ss.findService(server)
	if err != nil {
		return err
	}
	s.openQueue()
	select {
	case <-s.tried:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-ctx.Done():
		return fmt.Errorf("worker: %w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	if fault := s.fault.Load(); fault != nil {
		return fmt.Errorf("worker: tasks of server %s do not run: %w", server, *fault)
	}
	return nil
}

// Serve starts the queue of a server, if it is mounted by now: it may have tasks from now on.
func (ss *services) Serve(server string) {
	if s, err := ss.findService(server); err == nil {
		s.openQueue()
	}
}

// Fault says why tasks of a mounted server do not run, where the store refuses to give out work;
// nil: they do.
func (ss *services) Fault() error {
	for _, s := range ss.allServices() {
		if fault := s.fault.Load(); fault != nil {
			return fmt.Errorf("tasks of server %s do not run: %w", s.ID, *fault)
		}
	}
	return nil
}
