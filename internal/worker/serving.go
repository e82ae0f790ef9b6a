package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// serving is a mounted service.
type serving struct {
	Service
	ctx    context.Context // ends with the mount
	cancel context.CancelCauseFunc
	once   sync.Once             // starts its queue
	tried  chan struct{}         // closed when the queue was opened, or could not be
	fault  atomic.Pointer[error] // why there is no queue; nil: there is one, or it is only away
	queue  atomic.Pointer[Queue]
	unseen map[Key]time.Time // work that was made here, and that no worker of this process has seen yet; guarded by Pool.mu
	poking bool              // a timer will look at unseen; guarded by Pool.mu
	due    time.Time         // when the last work comes again that was put off; guarded by Pool.mu
	asking atomic.Bool       // the queue is being asked for work that was overlooked
}

// hasWork reports whether earlier processes have left work for a service. While the store does not say, it is asked again.
func (p *Pool) hasWork(s *serving) bool {
	for b := (backoff{}); ; {
		servers, err := p.Store.Working(s.ctx)
		if err == nil {
			return slices.Contains(servers, s.ID)
		}
		if !b.sleep(s.ctx) {
			return false
		}
	}
}

// begin starts the queue of a service, unless it runs.
func (p *Pool) begin(s *serving) {
	s.once.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			p.tasks.Go(func() { p.serve(s) })
		}
	})
}

// serve takes the work of a service.
func (p *Pool) serve(s *serving) {
	tried := sync.OnceFunc(func() { close(s.tried) })
	defer tried()
	opened, said := false, time.Time{} // when an interruption was told last
	for b := (backoff{}); ; {
		q, err := p.Store.Work(s.ctx, s.ID)
		if err == nil {
			b = backoff{}
			opened = true
			s.fault.Store(nil)
			s.queue.Store(&q)
			tried()
			err = p.take(s, q)
			s.queue.Store(nil)
			q.Close()
		} else if !opened || errors.Is(err, ErrNoQueue) { // otherwise the store is away, which is no news
			s.fault.Store(&err)
			tried()
		}
		if s.ctx.Err() != nil {
			p.releaseLines(s)
			p.retire(s)
			return
		}
		if time.Since(said) >= time.Minute {
			said = time.Now()
			p.Log.Warn("the queue of tasks is interrupted", "server", s.ID, "error", err)
		}
		b.sleep(s.ctx)
	}
}

// releaseLines has the work of a server that was unmounted wait here no more.
func (p *Pool) releaseLines(s *serving) {
	for _, g := range p.places.TakeOut(func(g *given) bool { return g.s == s }) {
		_ = g.Later(0)
	}
}

// retire says that this process serves a server no more that was unmounted. What a process leaves behind that ends, the next one takes up.
func (p *Pool) retire(s *serving) {
	if p.base.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(p.base, 5*time.Second)
	defer cancel()
	if err := p.Store.Retire(ctx, s.ID); err != nil { // it retires by itself, only later
		p.Log.Debug("the queue of a server that was unmounted stays", "server", s.ID, "error", err)
	}
}

// serves returns nil if tasks of a server run here, whose queue it opens.
func (p *Pool) serves(ctx context.Context, server string) error {
	s, err := p.service(server)
	if err != nil {
		return err
	}
	p.begin(s)
	select {
	case <-s.tried:
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-ctx.Done():
		return fmt.Errorf("worker: %w: %w", actors.ErrUnavailable, context.Cause(ctx))
	}
	if fault := s.fault.Load(); fault != nil {
		return fmt.Errorf("worker: tasks of server %s do not run: %w", server, *fault)
	}
	return nil
}

// Fault says why tasks of a mounted server do not run, where the store refuses to give out work; nil: they do.
func (p *Pool) Fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, s := range p.services {
		if fault := s.fault.Load(); fault != nil {
			return fmt.Errorf("tasks of server %s do not run: %w", id, *fault)
		}
	}
	return nil
}

// Serve starts the queue of a server, if it is mounted by now: it may have tasks from now on.
func (p *Pool) Serve(server string) {
	if s, err := p.service(server); err == nil {
		p.begin(s)
	}
}

// take gives each work to a worker of its own, as many at a time as there are places.
func (p *Pool) take(s *serving, q Queue) error {
	for {
		w, err := q.Next(s.ctx)
		if err != nil {
			return err
		}
		p.assign(s, w)
	}
}

// service returns a mounted service.
func (p *Pool) service(server string) (*serving, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.services[server]; s != nil && !p.closed {
		return s, nil
	}
	return nil, fmt.Errorf("worker: server %s is not mounted: %w", server, actors.ErrUnavailable)
}
