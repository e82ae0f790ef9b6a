package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// keepEvery is how often a worker says that it still has its work.
	keepEvery = time.Second
	// verifyEvery is in how many of these times it looks whether another process has changed its tasks.
	verifyEvery = 5
	// recountEvery is in how many of these times the census is compared with the store.
	recountEvery = 10
	// earlyLooks is how often work is looked at again soon whose record does not say yet that there is something to run: who made the
	// work stores that next. The waits are earlyLookWait, twice that, and so on, 5.5 s together; then 1 s, 2 s, 4 s and so on up to maxLookWait.
	earlyLooks    = 10
	earlyLookWait = 100 * time.Millisecond
	// maxLookWait is no multiple of the half minute after which a queue is asked anew: the same process would get the work each time.
	maxLookWait = 47 * time.Second
	// recordWait is how long after its work a record is stored as a rule.
	recordWait = 2 * time.Second
	// retryWait is the first wait before something is tried again that the store did not do, and maxRetryWait the longest.
	retryWait    = 50 * time.Millisecond
	maxRetryWait = 2 * time.Second
	// waitsElsewhereRetry is how soon work comes again that belongs to a handler in another process: the store gives it to the processes in turn.
	waitsElsewhereRetry = 30 * time.Millisecond
	// runsElsewhereRetry is how soon work comes again whose task runs, by other work of it.
	runsElsewhereRetry = 5 * time.Second
	// unknownRetry is how soon work comes again whose tool the service does not have.
	unknownRetry = 5 * time.Second
	// beginWait is for how long the store may take to begin an attempt. Its work is kept meanwhile.
	beginWait = time.Minute
)

// Config is the configuration of a Pool.
type Config struct {
	Store      Store
	Node, Boot string
	// Running is how many attempts run at a time.
	Running int
	// PerPrincipal and PerNode are how many tasks of a principal, and of all, may not have ended; 0 or less is no limit.
	PerPrincipal, PerNode int
	// Tag makes the second half of an id, which shows without a look into the store that it is no guess: 8 bytes that only the nodes of the
	// store can make, or none. nil makes none.
	Tag func(data []byte) []byte
	// Shared says that other processes have the same store, and may create work.
	Shared bool
	// Ledger counts what tasks store; nil counts nothing.
	Ledger Ledger
	// Changed, if not nil, is called after this process has changed a task's record, which has the revision since. It must not block, nor
	// keep the record.
	Changed func(key Key, rev uint64, r *task.Record)
	Log     *slog.Logger // nil discards
	// Kernel has the actors of the tasks, and Kind is what they are there; nil is one of their own.
	Kernel *kernel.Kernel
	Kind   kernel.Kind
}

// Service is a server whose tasks the node runs.
type Service struct {
	ID string
	// Run runs an attempt. Its context ends when the attempt is over: see the causes of package worker.
	Run func(ctx context.Context, a *Attempt) Result
	// Known reports whether the service can run a task now. One that it cannot waits in the queue: the program may add the tool later.
	Known func(method, name string) bool
	// Safe reports whether a task may run again after its worker was lost.
	Safe func(method, name string) bool
	// Makes reports whether there are calls of the service that may become tasks; nil is yes. Where processes share a store, the queue of a service that does not is
	// opened once Serve says so, there is work, or another process says that there is a task.
	Makes func() bool
}

// Result is what a handler returned: a result as the newest revision has it, or an error.
type Result struct {
	Value   []byte
	IsError bool // the result of a tool says so
	Err     *mcp.Error
}

// Pool runs the tasks of a node. Make it with NewPool.
type Pool struct {
	Config
	base   context.Context
	stop   context.CancelCauseFunc
	actors *kernel.Directory[Key, *taskActor]
	parked atomic.Int64 // handlers that wait here for their clients
	places *quota.Places[*given]
	// suspects are the places of tasks that may be what ends processes.
	suspects  chan struct{}
	census    *quota.Census[Key, charged] // the tasks that have not ended, as far as this process has made them or been given them, and has not seen them end
	comparing sync.Once                   // starts compare, with the first service
	tasks     sync.WaitGroup              // the goroutines of attempts that run, and of queues
	ended     chan struct{}               // closed when none of them runs, or nobody waits for them any more
	again     atomic.Int64                // tasks of an earlier process of this node that were taken up at once

	mu        sync.Mutex // guards the fields below, and those of the services that say so
	services  map[string]*serving
	followers map[Key]map[*follower]bool
	closed    bool
}

// NewPool returns a Pool.
func NewPool(c Config) *Pool {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Kernel == nil {
		c.Kernel, c.Kind = kernel.New(kernel.Config{Log: c.Log, Kinds: []string{"task"}}), 0
	}
	if c.Ledger == nil {
		c.Ledger = freely{}
	}
	p := &Pool{Config: c, places: quota.NewPlaces[*given](c.Running, c.roomInLines()), census: quota.NewCensus[Key, charged](c.PerPrincipal, c.PerNode), services: make(map[string]*serving), followers: make(map[Key]map[*follower]bool), actors: kernel.NewDirectory[Key, *taskActor](), ended: make(chan struct{}), suspects: make(chan struct{}, mostSuspects)}
	p.base, p.stop = context.WithCancelCause(context.Background())
	go p.keep()
	return p
}

// roomInLines is how much work waits in this process for a place. Where other processes have the same store, less does: they may have places for it.
func (c *Config) roomInLines() int {
	if c.Shared {
		return limits.TasksInLine.Value() / 16
	}
	return limits.TasksInLine.Value()
}

// Mount begins to run the tasks of a service, once there are any.
func (p *Pool) Mount(svc Service) {
	s := &serving{Service: svc, tried: make(chan struct{}), unseen: make(map[Key]time.Time)}
	s.ctx, s.cancel = context.WithCancelCause(p.base)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.services[svc.ID] = s
	p.comparing.Do(func() { p.tasks.Go(p.compare) })
	p.tasks.Go(func() {
		if p.Shared && (s.Makes == nil || s.Makes()) { // another process may make work at any time
			p.begin(s)
		}
		if p.hasWork(s) { // the store may overlook it as it may overlook what is new
			p.begin(s)
			p.expect(Key{Server: s.ID}, time.Now())
		}
		p.reclaim(s)
	})
}

// Unmount ends the attempts of a service on this node. Its tasks go on elsewhere, or where it is mounted next.
func (p *Pool) Unmount(server string) {
	p.mu.Lock()
	s := p.services[server]
	delete(p.services, server)
	p.mu.Unlock()
	if s != nil {
		s.cancel(ErrClosing)
	}
}

// assign gives work to a worker, or has it wait for one.
func (p *Pool) assign(s *serving, w Work) {
	tenant, id, from := w.Of()
	key := Key{tenant, s.ID, id}
	g := &given{Work: w, s: s, key: key, who: principal(tenant, from)}
	g.kept.Store(time.Now().UnixNano())
	p.seen(s, key)
	if p.Shared && p.Store.Suspended() { // a newer process has this one's name, or the others take it for dead
		p.later(g, time.Second)
		return
	}
	p.census.See(key, g.who, time.Time{})
	if _, adopted := p.view(key); adopted { // it runs, and has a place
		p.places.Take(g.who, true)
		p.tasks.Go(func() { p.work(g) })
		return
	}
	switch runs, later := p.places.Admit(g.who, g, time.Now()); {
	case runs:
		p.tasks.Go(func() { p.work(g) })
	case later > 0:
		p.later(g, later)
	case s.ctx.Err() != nil: // it may have come to its line behind releaseLines
		p.releaseLines(s)
	}
}

// later has the store give work out again after a time.
func (p *Pool) later(w *given, d time.Duration) {
	_ = w.Later(d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := time.Now().Add(d); at.After(w.s.due) {
		w.s.due = at
	}
}

// late puts work off whose record does not say that there is something to run, nor that the task has ended. It is never removed: the record may be about to be stored, or have expired only by
// the clock of this process. Work that nobody needs expires with its task.
func (p *Pool) late(w *given) {
	n := w.Deliveries()
	if n < earlyLooks {
		p.later(w, time.Duration(n)*earlyLookWait)
		return
	}
	_ = w.Later(min(time.Second<<min(n-earlyLooks, 20), maxLookWait)) // nobody asks for it again each second
}

// given is work that this process was given.
type given struct {
	Work
	s    *serving
	key  Key          // of its task
	who  string       // whose task it is
	kept atomic.Int64 // when it was given, or kept last, unix nanoseconds
}

// keep says that the work is being done.
func (g *given) keep() {
	now := time.Now().UnixNano()
	if g.Keep() == nil {
		g.kept.Store(now)
	}
}

// fresh reports whether the work was kept so lately that nobody else has been given it.
func (g *given) fresh() bool { return time.Now().UnixNano()-g.kept.Load() < int64(4*keepEvery) }

// free gives the place of work back, to work that waits for one.
func (p *Pool) free(w *given) {
	if next, ok := p.places.Leave(w.who); ok {
		p.tasks.Go(func() { p.work(next) })
	}
}

// keep says every second that the node still has the work that it does.
func (p *Pool) keep() {
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	last := time.Now()
	for tick := 1; ; tick++ {
		select {
		case <-p.ended:
			return
		case <-t.C:
		}
		// A process that stood still may have lost what it had.
		check := time.Since(last) > 3*keepEvery || p.Shared && tick%verifyEvery == 0
		last = time.Now()
		if tick%recountEvery == 0 {
			go p.recount()
		}
		p.mu.Lock()
		for _, s := range p.services { // work that comes again is overlooked like new work
			if !s.due.IsZero() {
				p.ask(s)
			}
			if time.Since(s.due) > 2*keepEvery {
				s.due = time.Time{}
			}
		}
		p.mu.Unlock()
		p.actors.Each(func(t *taskActor) { _ = t.Post(keepWork{look: check}) })
		if check { // work that has not begun is not kept, so that it is not fresh
			continue
		}
		for _, w := range p.places.Waiting() {
			if w.fresh() { // otherwise another may have it
				w.keep()
			}
		}
	}
}

// follower is somebody who follows tasks.
type follower struct {
	dirty map[Key]bool  // what may have changed since it looked; guarded by Pool.mu
	wake  chan struct{} // has one place
}

// Counts says how many attempts run now, and how many handlers wait for their clients.
func (p *Pool) Counts() (running, waiting int) {
	running, _ = p.places.Counts()
	return running, int(p.parked.Load())
}

// Queued is how many tasks wait in this process for a place.
func (p *Pool) Queued() int {
	_, n := p.places.Counts()
	return n
}

// Open says how many tasks have not ended, and how many of them are of the principal with most.
func (p *Pool) Open() (all, most int) {
	return p.census.Counts()
}

// Room reports whether a principal may have one more task: ErrTooMany and ErrFull say that it may not.
func (p *Pool) Room(tenant, from string) error {
	return openError(p.census.Room(principal(tenant, token(from))))
}

// The errors of a Pool that has as many tasks as it may. None was made.
var (
	// ErrTooMany reports that too many tasks of the principal have not ended.
	ErrTooMany = errors.New("worker: too many tasks of this principal have not ended")
	// ErrFull reports that too many tasks of the node have not ended.
	ErrFull = errors.New("worker: too many tasks of this node have not ended")
)

// openError is the error for what the census has said.
func openError(no quota.Refusal) error {
	switch no {
	case quota.Admitted:
		return nil
	case quota.Full:
		return ErrFull
	}
	return ErrTooMany
}

// recount drops the tasks whose end this process has not seen, as long as there are many.
func (p *Pool) recount() {
	ctx, cancel := context.WithTimeout(p.base, recountEvery*keepEvery)
	defer cancel()
	for dropped := quota.RecountedAtOnce; dropped > quota.RecountedAtOnce/2; {
		dropped = 0
		for _, key := range p.census.Sweep(p.Store.Now()) {
			r, _, err := p.read(ctx, key)
			switch {
			case err == nil && r.State == task.Ended:
				p.over(key, r.How())
				dropped++
			case errors.Is(err, actors.ErrNotFound):
				if made, _ := p.view(key); !made {
					p.over(key, 0)
					dropped++
				}
			case err == nil:
				p.census.See(key, principal(key.Tenant, token(r.From)), r.Expires())
			default:
				return
			}
		}
	}
}

// Close ends the attempts. Handlers see ErrClosing as the cause of their context; what they do not finish within ctx goes on
// elsewhere.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	defer close(p.ended)
	p.stop(ErrClosing)
	done := make(chan struct{})
	go func() {
		p.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("worker: handlers of tasks still run: %w", context.Cause(ctx))
	}
}

// backoff is how long to wait before something is tried again: retryWait, and twice as long each time up to maxRetryWait. The zero value
// is ready to use.
type backoff struct{ last time.Duration }

// sleep waits, and reports whether ctx is still wanted.
func (b *backoff) sleep(ctx context.Context) bool {
	b.last = min(max(2*b.last, retryWait), maxRetryWait)
	t := time.NewTimer(b.last)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads a task's record. ErrNotFound is certain.
func (p *Pool) read(ctx context.Context, key Key) (r task.Record, rev uint64, err error) {
	return p.readBy(ctx, key, p.Store.Get)
}

// readAsked is read for a key that a client names, and may have made up.
func (p *Pool) readAsked(ctx context.Context, key Key) (r task.Record, rev uint64, err error) {
	if key.tagged(p.Tag) {
		return p.read(ctx, key)
	}
	return p.readBy(ctx, key, p.Store.Peek)
}

func (p *Pool) readBy(ctx context.Context, key Key, get func(ctx context.Context, key string) ([]byte, uint64, error)) (r task.Record, rev uint64, err error) {
	data, rev, err := get(ctx, key.record())
	if err != nil {
		return r, 0, err
	}
	if r, err = task.Decode(data); err != nil {
		return r, 0, fmt.Errorf("worker: record of a task: %w", err)
	}
	if r.Left(p.Store.Now()) == 0 {
		return r, 0, actors.ErrNotFound
	}
	return r, rev, nil
}

// put stores a record for as long as the task is kept. It reports actors.ErrConflict if the record has changed, and finds out what
// became of a write without an answer. While the store is full or away it tries again until ctx ends.
func (p *Pool) put(ctx context.Context, key Key, r *task.Record, rev uint64) (uint64, error) {
	data, err := r.Encode()
	if err != nil {
		return 0, fmt.Errorf("worker: record of a task: %w", err)
	}
	if len(data) > maxRecord {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are stored", errTooBig, len(data), maxRecord)
	}
	unknown := false
	for b := (backoff{}); ; {
		left := r.Left(p.Store.Now())
		if left == 0 {
			return 0, actors.ErrNotFound
		}
		next, err := p.Store.Update(ctx, key.record(), data, rev, left)
		if errors.Is(err, actors.ErrConflict) && unknown {
			stored, now, gone := p.Store.Get(ctx, key.record())
			switch {
			case gone == nil && bytes.Equal(stored, data):
				next, err = now, nil // it was done after all
			case gone != nil && !errors.Is(gone, actors.ErrNotFound):
				err = gone
			}
		}
		switch {
		case err == nil:
			p.changed(key, next, r)
			return next, nil
		case errors.Is(err, actors.ErrUnavailable):
			unknown = true
		case !errors.Is(err, actors.ErrAgain) && !errors.Is(err, actors.ErrFull):
			return 0, err
		}
		if !b.sleep(ctx) {
			return 0, fmt.Errorf("worker: %w: %w", context.Cause(ctx), err)
		}
	}
}
