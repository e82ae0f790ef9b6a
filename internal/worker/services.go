package worker

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/store"
)

// services are those that are mounted, by their ids.
type services struct {
	mounted *kernel.Directory[string, *serving]
}

// findService returns a mounted service.
func (ss services) findService(server string) (*serving, error) {
	if s, ok := ss.mounted.Get(server); ok && s.ctx.Err() == nil {
		return s, nil
	}
	return nil, fmt.Errorf("worker: server %s is not mounted: %w", server, store.ErrUnavailable)
}

// awaitQueue opens the queue of a server. nil says that its tasks run here.
func (ss services) awaitQueue(ctx context.Context, server string) error {
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
func (ss services) Serve(server string) {
	if s, err := ss.findService(server); err == nil {
		s.openQueue()
	}
}

// Fault says why tasks of a mounted server do not run, where the store refuses to give out work;
// nil: they do.
func (ss services) Fault() (err error) {
	ss.mounted.Each(func(s *serving) {
		if fault := s.fault.Load(); fault != nil {
			err = fmt.Errorf("tasks of server %s do not run: %w", s.ID, *fault)
		}
	})
	return err
}
