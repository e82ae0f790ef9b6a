package worker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// keepEvery is how often a worker says that it still has its work.
	keepEvery = time.Second
	// verifyEvery is in how many of these times it looks whether another process has changed its tasks.
	verifyEvery = 5
	// early is how often work is looked at again whose record does not say yet that there is something to run: who made the
	// work stores that next. The waits are earlyWait, twice that, and so on: 5.5 s together.
	early     = 10
	earlyWait = 100 * time.Millisecond
	// promptly is how long after its work a record is stored at most. Work that is older may have been dropped.
	promptly = 2 * time.Second
	// retryWait is the first wait before something is tried again that the store did not do.
	retryWait = 50 * time.Millisecond
	mostWait  = 2 * time.Second
)

// Config is the configuration of a Pool.
type Config struct {
	Store      Store
	Node, Boot string
	// Running is how many attempts run at a time.
	Running int
	// Shared says that other processes have the same store, and may create work.
	Shared bool
	// Changed, if not nil, is called after this process has changed a task's record. It must not block, nor keep the record.
	Changed func(key Key, r *task.Record)
	Log     *slog.Logger // nil discards
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
	base  context.Context
	stop  context.CancelCauseFunc
	slots chan struct{}
	tasks sync.WaitGroup // the goroutines of attempts that run, and of queues
	ended chan struct{}  // closed when none of them runs, or nobody waits for them any more

	mu        sync.Mutex // guards the fields below
	services  map[string]*serving
	live      map[Key]*Attempt
	starting  map[Key]*given // work whose attempt is about to begin
	followers map[Key]map[*follower]bool
	offers    map[Key]*offer
	closed    bool
}

// serving is a mounted service.
type serving struct {
	Service
	ctx    context.Context // ends with the mount
	cancel context.CancelCauseFunc
	once   sync.Once // starts its queue
	queue  atomic.Pointer[Queue]
	unseen map[Key]time.Time // work that was made here, and that no worker of this process has seen yet; guarded by Pool.mu
	poking bool              // a timer will look at unseen; guarded by Pool.mu
}

// NewPool returns a Pool.
func NewPool(c Config) *Pool {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{Config: c, slots: make(chan struct{}, max(1, c.Running)), services: make(map[string]*serving), live: make(map[Key]*Attempt), starting: make(map[Key]*given), followers: make(map[Key]map[*follower]bool), offers: make(map[Key]*offer), ended: make(chan struct{})}
	p.base, p.stop = context.WithCancelCause(context.Background())
	go p.keep()
	return p
}

// Mount begins to run the tasks of a service, once there are any.
func (p *Pool) Mount(svc Service) {
	s := &serving{Service: svc, unseen: make(map[Key]time.Time)}
	s.ctx, s.cancel = context.WithCancelCause(p.base)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.services[svc.ID] = s
	p.tasks.Go(func() {
		if p.Shared || p.hasWork(s) {
			p.begin(s)
		}
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
	for b := (backoff{}); ; {
		q, err := p.Store.Work(s.ctx, s.ID)
		if err == nil {
			b = backoff{}
			s.queue.Store(&q)
			err = p.take(s, q)
			s.queue.Store(nil)
			q.Close()
		}
		if s.ctx.Err() != nil {
			return
		}
		p.Log.Warn("the queue of tasks is interrupted", "server", s.ID, "error", err)
		if !b.sleep(s.ctx) {
			return
		}
	}
}

// take gives each work to a worker of its own, as many at a time as there are places.
func (p *Pool) take(s *serving, q Queue) error {
	for {
		w, err := q.Next(s.ctx)
		if err != nil {
			return err
		}
		if !p.assign(s, w) {
			return s.ctx.Err()
		}
	}
}

// assign gives work to a worker, once there is a place. It reports false if the service ends before.
func (p *Pool) assign(s *serving, w Work) bool {
	g := &given{Work: w}
	g.kept.Store(time.Now().UnixNano())
	if !p.place(s.ctx, g) {
		_ = w.Later(0)
		return false
	}
	p.tasks.Go(func() { p.work(s, g) })
	return true
}

// Work that was made here is asked for when no worker of the process has seen it for pokeAfter, and again after twice as long each time,
// until it has been unseen for so long that another process must have it.
const (
	pokeAfter = 3 * time.Millisecond
	unseenFor = 10 * time.Second
)

// expect notes that work was made here. mu is held.
func (p *Pool) expect(key Key, now time.Time) {
	s := p.services[key.Server]
	if s == nil || p.closed {
		return
	}
	s.unseen[key] = now
	if !s.poking {
		s.poking = true
		time.AfterFunc(pokeAfter, func() { p.poke(s, pokeAfter) })
	}
}

// poke asks a queue once more whose work has not come, and does so again later.
func (p *Pool) poke(s *serving, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, made := range s.unseen {
		if time.Since(made) > unseenFor {
			delete(s.unseen, k)
		}
	}
	if len(s.unseen) == 0 || s.ctx.Err() != nil || p.closed {
		s.poking = false
		return
	}
	if q := s.queue.Load(); q != nil && len(p.slots) < cap(p.slots) { // otherwise it waits for a place
		p.tasks.Go(func() {
			if w, err := (*q).Poke(); err == nil && w != nil {
				p.assign(s, w)
			}
		})
	}
	after = min(2*after, keepEvery)
	time.AfterFunc(after, func() { p.poke(s, after) })
}

// given is work that this process was given.
type given struct {
	Work
	kept      atomic.Int64 // when it was given, or kept last, unix nanoseconds
	cancelled bool         // its task was cancelled before its attempt began; guarded by Pool.mu
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

// place takes a place among those that run. The work is kept meanwhile.
func (p *Pool) place(ctx context.Context, w *given) bool {
	select {
	case p.slots <- struct{}{}:
		return true
	default:
	}
	t := time.NewTicker(keepEvery)
	defer t.Stop()
	for {
		select {
		case p.slots <- struct{}{}:
			return true
		case <-ctx.Done():
			return false
		case <-t.C:
			w.keep()
		}
	}
}

func (p *Pool) leave() { <-p.slots }

// work does one work: it has a place.
func (p *Pool) work(s *serving, w *given) {
	tenant, id := w.Of()
	key := Key{tenant, s.ID, id}
	if !p.start(key, w) { // another work of the same task is being looked at
		_ = w.Later(time.Second)
		p.leave()
		return
	}
	p.await(s.ctx, key)
	a, err := p.attempt(s, key, w)
	p.started(key)
	switch {
	case err == nil:
		a.run()
		return
	case errors.Is(err, errNothing):
		_ = w.Done()
	case errors.Is(err, actors.ErrNotFound) || errors.Is(err, task.ErrWaiting):
		if n := w.Deliveries(); n < early {
			_ = w.Later(time.Duration(n) * earlyWait)
		} else {
			_ = w.Done() // nobody was told of the task, or it has expired
		}
	case errors.Is(err, errResumed): // its place goes to the handler that waited
		return
	case errors.Is(err, errStale): // another worker has it by now
	case errors.Is(err, errNotKnown):
		_ = w.Later(5 * time.Second)
	case s.ctx.Err() != nil:
		_ = w.Later(0)
	default:
		p.Log.Warn("a task cannot be read now", "server", s.ID, "task", digest(id), "error", err)
		_ = w.Later(time.Second)
	}
	p.leave()
}

// start notes that work is looked at; it reports false if other work of the task is.
func (p *Pool) start(key Key, w *given) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.services[key.Server]; s != nil {
		delete(s.unseen, key)
	}
	if p.starting[key] != nil {
		return false
	}
	p.starting[key] = w
	return true
}

func (p *Pool) started(key Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.starting, key)
}

// What became of work that begins no new run.
var (
	errNothing = errors.New("worker: there is nothing to run")
	errResumed = errors.New("worker: a handler that waited goes on")
	errStale   = errors.New("worker: the work was not kept")

	errNotKnown = errors.New("worker: the service cannot run the task now")
)

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
		p.mu.Lock()
		all := make([]*Attempt, 0, len(p.live))
		for _, a := range p.live {
			all = append(all, a)
		}
		starting := make([]*given, 0, len(p.starting))
		for _, w := range p.starting {
			starting = append(starting, w)
		}
		p.mu.Unlock()
		if check { // work that has not begun is not kept, so that it is not fresh
			for _, a := range all {
				go func() {
					a.verify()
					a.keep()
				}()
			}
			continue
		}
		for _, w := range starting {
			w.keep()
		}
		for _, a := range all {
			a.keep()
		}
	}
}

// offer is work that is stored before the record says that there is any.
type offer struct {
	p    *Pool
	key  Key
	made time.Time     // zero: it is not
	over chan struct{} // closed when the record is stored too, or never will be
}

// offer begins to make work. Until it is settled, the workers of this process wait before they look at the record.
func (p *Pool) offer(key Key) *offer {
	o := &offer{p: p, key: key, over: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offers[key] = o
	return o
}

func (o *offer) settled() {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if o.p.offers[o.key] == o { // not one that came later
		delete(o.p.offers, o.key)
	}
	close(o.over)
}

// await waits until the record of work that was made here is stored.
func (p *Pool) await(ctx context.Context, key Key) {
	p.mu.Lock()
	o := p.offers[key]
	p.mu.Unlock()
	if o == nil {
		return
	}
	t := time.NewTimer(promptly)
	defer t.Stop()
	select {
	case <-o.over:
	case <-t.C:
	case <-ctx.Done():
	}
}

// make stores the work, once.
func (o *offer) make(ctx context.Context, left time.Duration) error {
	if !o.made.IsZero() {
		return nil
	}
	now := time.Now()
	if err := o.p.Store.Offer(ctx, o.key.Tenant, o.key.Server, o.key.ID, left); err != nil {
		return err
	}
	o.made = now
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	o.p.expect(o.key, now)
	return nil
}

// renew stores the work again if the record took so long that a worker may have dropped it.
func (o *offer) renew(ctx context.Context, left time.Duration) error {
	if time.Since(o.made) < promptly {
		return nil
	}
	o.made = time.Time{}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), beginWait)
	defer cancel()
	return o.make(ctx, left)
}

// serveNow starts the queue of a server, if it is mounted by now.
func (p *Pool) serveNow(server string) {
	if s, err := p.service(server); err == nil {
		p.begin(s)
	}
}

// follower is somebody who follows tasks.
type follower struct {
	dirty map[Key]bool  // what may have changed since it looked; guarded by Pool.mu
	wake  chan struct{} // has one place
}

// changed tells those who follow a task that it has changed.
func (p *Pool) changed(key Key, r *task.Record) {
	p.mu.Lock()
	for f := range p.followers[key] {
		f.dirty[key] = true
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	p.mu.Unlock()
	if p.Changed != nil {
		p.Changed(key, r)
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

// Counts says how many attempts run now, and how many handlers wait for their clients.
func (p *Pool) Counts() (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running = len(p.slots)
	for _, a := range p.live {
		if a.parked.Load() {
			waiting++
		}
	}
	return running, waiting
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

// backoff is how long to wait before something is tried again: retryWait, and twice as long each time up to mostWait. The zero value
// is ready to use.
type backoff struct{ last time.Duration }

// sleep waits, and reports whether ctx is still wanted.
func (b *backoff) sleep(ctx context.Context) bool {
	b.last = min(max(2*b.last, retryWait), mostWait)
	t := time.NewTimer(b.last)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// digest is what logs have of a task's id: it may be all that it takes to read the task.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

const idLetters = "abcdefghijklmnopqrstuvwxyz234567"

var idEncoding = base32.NewEncoding(idLetters).WithPadding(base32.NoPadding)

// idLength is the length of a task's id: 130 random bits.
const idLength = 26

func newID() string {
	b := make([]byte, 17)
	_, _ = rand.Read(b) // never fails
	return idEncoding.EncodeToString(b)[:idLength]
}

// read reads a task's record.
func (p *Pool) read(ctx context.Context, key Key) (r task.Record, rev uint64, err error) {
	data, rev, err := p.Store.Get(ctx, key.record())
	if err != nil {
		return r, 0, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, 0, fmt.Errorf("worker: record of a task: %w", err)
	}
	if r.Left(p.Store.Now()) == 0 {
		return r, 0, actors.ErrNotFound
	}
	return r, rev, nil
}
