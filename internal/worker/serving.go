package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// serving is a mounted service, and the actor of its queue: it has the queue be asked for work that
// the store may have overlooked.
type serving struct {
	kernel.Actor
	Service
	p      *Pool
	ctx    context.Context // ends with the mount
	cancel context.CancelCauseFunc
	once   sync.Once             // starts its queue
	tried  chan struct{}         // closed when the queue was opened, or could not be
	fault  atomic.Pointer[error] // why there is no queue; nil: there is one, or it is only away
	queue  atomic.Pointer[Queue]

	// Only the actor uses the fields below.
	unseen      map[Key]time.Time // work that was made here, and that no worker of this process has seen yet
	poking      bool              // a timer will look at unseen
	putOffUntil time.Time         // when the last work comes again that was put off
	asking      bool              // the queue is being asked for work that was overlooked
}

// The messages of a queue's actor.
type (
	// workExpected says that work is being made here.
	workExpected struct {
		key Key
		at  time.Time
	}
	// workCame says that the work of a task has come.
	workCame struct{ key Key }
	// workPutOff says when work comes again.
	workPutOff struct{ until time.Time }
	// poke has the queue be asked for what was expected and has not come, and again after twice as
	// long.
	poke struct{ after time.Duration }
	// askDue has the queue be asked for what was put off, once a second.
	askDue struct{}
	// askedAll says that the queue has no more.
	askedAll struct{}
)

// Work that was made here is asked for when no worker of the process has seen it for pokeAfter, and
// again after twice as long each time, until it has been unseen for so long that another process
// must have it.
const (
	pokeAfter  = 3 * time.Millisecond
	unseenTime = 10 * time.Second
)

func (s *serving) Receive(m any) {
	switch m := m.(type) {
	case workExpected:
		if s.unseen[m.key] = m.at; !s.poking {
			s.poking = true
			s.schedulePoke(pokeAfter)
		}
	case workCame:
		delete(s.unseen, m.key)
	case workPutOff:
		if m.until.After(s.putOffUntil) {
			s.putOffUntil = m.until
		}
	case poke:
		s.askForUnseen(m.after)
	case askDue: // work that comes again is overlooked like new work
		if !s.putOffUntil.IsZero() {
			s.askQueue()
		}
		if time.Since(s.putOffUntil) > 2*keepEvery {
			s.putOffUntil = time.Time{}
		}
	case askedAll:
		s.asking = false
	}
}

// Failed has the queue be asked again: what was overlooked comes all the same, only later.
func (s *serving) Failed(any, bool) { s.poking, s.asking = false, false }

func (s *serving) schedulePoke(d time.Duration) {
	time.AfterFunc(d, func() { _ = s.Post(poke{d}) })
}

// askForUnseen asks the queue once more whose work has not come, and does so again later.
func (s *serving) askForUnseen(after time.Duration) {
	for k, made := range s.unseen {
		if time.Since(made) > unseenTime {
			delete(s.unseen, k)
		}
	}
	if s.poking = len(s.unseen) > 0; s.poking {
		s.askQueue()
		s.schedulePoke(min(2*after, keepEvery))
	}
}

// askQueue takes all work that the store has and has not given out. It does not wait for any.
func (s *serving) askQueue() {
	q := s.queue.Load()
	if q == nil || s.asking {
		return
	}
	s.asking = s.p.startGoroutine(func() {
		defer func() { _ = s.Post(askedAll{}) }()
		for s.ctx.Err() == nil {
			w, err := (*q).Poke()
			if w == nil || err != nil {
				return
			}
			s.assignWork(w)
		}
	})
}

// assignWork gives work to a worker, or has it wait for one.
func (s *serving) assignWork(w Work) {
	p := s.p
	tenant, id, from := w.Of()
	key := Key{tenant, s.ID, id}
	g := &assignment{Work: w, s: s, key: key, who: principalOf(tenant, from)}
	g.kept.Store(time.Now().UnixNano())
	_ = s.Post(workCame{key})
	if p.Shared && p.Store.Suspended() { // a newer process has this one's name, or the others take it for dead
		g.deliverLater(time.Second)
		return
	}
	p.books.census.AddAnyway(key, g.who, time.Time{})
	if _, adopted := p.actors.viewTask(key); adopted { // it runs, and has a place
		p.places.TakePlace(g.who, true)
		p.running.Go(g.doWork)
		return
	}
	switch runs, later := p.places.Admit(g.who, g, time.Now()); {
	case runs:
		p.running.Go(g.doWork)
	case later > 0:
		g.deliverLater(later)
	case s.ctx.Err() != nil: // it may have come to its line behind releaseLines
		s.releaseLines()
	}
}

// hasWork reports whether earlier processes have left work for a service. While the store does not
// say, it is asked again.
func (s *serving) hasWork() bool {
	for b := (backoff{}); ; {
		servers, err := s.p.Store.Working(s.ctx)
		if err == nil {
			return slices.Contains(servers, s.ID)
		}
		if !b.sleep(s.ctx) {
			return false
		}
	}
}

// openQueue starts the queue of a service, unless it runs.
func (s *serving) openQueue() {
	s.once.Do(func() { s.p.startGoroutine(s.runQueue) })
}

// runQueue takes the work of a service.
func (s *serving) runQueue() {
	tried := sync.OnceFunc(func() { close(s.tried) })
	defer tried()
	opened, said := false, time.Time{} // when an interruption was told last
	for b := (backoff{}); ; {
		q, err := s.p.Store.Work(s.ctx, s.ID)
		if err == nil {
			b = backoff{}
			opened = true
			s.fault.Store(nil)
			s.queue.Store(&q)
			tried()
			err = s.takeWork(q)
			s.queue.Store(nil)
			q.Close()
		} else if !opened || errors.Is(err, store.ErrNoQueue) { // otherwise the store is away, which is no news
			s.fault.Store(&err)
			tried()
		}
		if s.ctx.Err() != nil {
			s.releaseLines()
			s.retireQueue()
			return
		}
		if time.Since(said) >= time.Minute {
			said = time.Now()
			s.p.Log.Warn("the queue of tasks is interrupted", "server", s.ID, "error", err)
		}
		b.sleep(s.ctx)
	}
}

// releaseLines has the work of a server that was unmounted wait here no more.
func (s *serving) releaseLines() {
	for _, g := range s.p.places.TakeOut(func(g *assignment) bool { return g.s == s }) {
		_ = g.Later(0)
	}
}

// retireQueue says that this process serves a server no more that was unmounted. What a process
// leaves behind that ends, the next one takes up.
func (s *serving) retireQueue() {
	if s.p.base.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.p.base, 5*time.Second)
	defer cancel()
	if err := s.p.Store.Retire(ctx, s.ID); err != nil { // it retires by itself, only later
		s.p.Log.Debug("the queue of a server that was unmounted stays", "server", s.ID, "error", err)
	}
}

// takeWork gives each work to a worker of its own, as many at a time as there are places.
func (s *serving) takeWork(q Queue) error {
	for {
		w, err := q.Next(s.ctx)
		if err != nil {
			return err
		}
		s.assignWork(w)
	}
}

// reclaimGrace is for how long a task may have been in the queue that nobody has begun.
const reclaimGrace = 10 * time.Second

// reclaimWork has at once what an earlier process of this node ran when it died, where the store
// would wait for that process.
func (s *serving) reclaimWork() {
	p := s.p
	if !p.Shared {
		return
	}
	err := p.Store.Reclaim(s.ctx, s.ID, func(tenant, id string) time.Duration {
		r, _, err := p.readRecord(s.ctx, Key{tenant, s.ID, id})
		now := p.Store.Now()
		switch {
		case err != nil:
			return 0
		case r.State == task.Running && r.Node == p.Node && r.Boot != p.Boot:
		case r.State == task.Queued && now.UnixMilli()-r.Updated < reclaimGrace.Milliseconds():
			// That process may have been given it, and have died before it began.
		default:
			return 0
		}
		p.reclaimed.Add(1)
		return r.TimeLeft(now)
	})
	if err != nil && s.ctx.Err() == nil { // they come by themselves, only later
		p.Log.Warn("the tasks of the process before are taken up late", "server", s.ID, "error", err)
	}
}

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
