package worker

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/mcp"
)

const (
	// keepEvery is how often a worker says that it still has its work.
	keepEvery = time.Second
	// verifyEvery is in how many of these times it looks whether another process has changed its
	// tasks.
	verifyEvery = 5
	// recountEvery is in how many of these times the census is compared with the store.
	recountEvery = 10
	// earlyLooks is how often work is looked at again soon whose record does not say yet that there
	// is something to run: who made the work stores that next. The waits are earlyLookWait, twice
	// that, and so on, 5.5 s together; then 1 s, 2 s, 4 s and so on up to maxLookWait.
	earlyLooks    = 10
	earlyLookWait = 100 * time.Millisecond
	// maxLookWait is no multiple of the half minute after which a queue is asked anew: the same
	// process would get the work each time.
	maxLookWait = 47 * time.Second
	// recordWait is how long after its work a record is stored as a rule.
	recordWait = 2 * time.Second
	// remoteWaitRetry is how soon work comes again that belongs to a handler in another
	// process: the store gives it to the processes in turn.
	remoteWaitRetry = 30 * time.Millisecond
	// remoteRunRetry is how soon work comes again whose task runs, by other work of it.
	remoteRunRetry = 5 * time.Second
	// unknownToolRetry is how soon work comes again whose tool the service does not have.
	unknownToolRetry = 5 * time.Second
)

// Config is the configuration of a Pool.
type Config struct {
	Store      Store
	Node, Boot string
	// Running is how many attempts run at a time.
	Running int `option:"Shared.TasksPerNode"`
	// PerPrincipal and PerNode are how many tasks of a principal, and of all, may not have ended; 0
	// or less is no limit.
	PerPrincipal int `option:"Shared.OpenTasksPerPrincipal"`
	PerNode      int `option:"Shared.OpenTasksPerNode"`
	// Tag makes the second half of an id, which shows without a look into the store that it is no
	// guess: 8 bytes that only the nodes of the store can make, or none. nil makes none.
	Tag func(data []byte) []byte
	// Shared says that other processes have the same store, and may create work.
	Shared bool
	// Ledger counts what tasks store; nil counts nothing.
	Ledger Ledger
	// Changed, if not nil, is called after this process has changed a task's record, which has the
	// revision since. It must not block, nor keep the record.
	Changed func(key Key, rev uint64, r *task.Record)
	Log     *slog.Logger // nil discards
	// Kernel has the actors of tasks, which are of TaskKind there, and of the queues of servers,
	// which are of QueueKind; nil is one of their own.
	Kernel              *kernel.Kernel
	TaskKind, QueueKind kernel.Kind
}

// Service is a server whose tasks the node runs.
type Service struct {
	ID string
	// Run runs an attempt. Its context ends when the attempt is over: see the causes of package
	// worker.
	Run func(ctx context.Context, a *Attempt) Result
	// Known reports whether the service can run a task now. One that it cannot waits in the queue:
	// the program may add the tool later.
	Known func(method, name string) bool
	// Safe reports whether a task may run again after its worker was lost.
	Safe func(method, name string) bool
	// Makes reports whether there are calls of the service that may become tasks; nil is yes. Where
	// processes share a store, the queue of a service that does not is opened once Serve says so,
	// there is work, or another process says that there is a task.
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
	background
	services
	Reader
	followers
	actors    taskActors
	books     books
	places    *quota.Places[*assignment]
	suspects  suspects
	comparing sync.Once    // starts the comparer, with the first service
	parked    atomic.Int64 // handlers that wait here for their clients
	reclaimed atomic.Int64 // tasks of an earlier process of this node that were taken up at once
}

// NewPool returns a Pool.
func NewPool(c Config) *Pool {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Kernel == nil {
		c.Kernel, c.TaskKind, c.QueueKind = kernel.New(kernel.Config{Log: c.Log, Kinds: []string{"task", "queue"}}), 0, 1
	}
	if c.Ledger == nil {
		c.Ledger = noLedger{}
	}
	p := &Pool{
		Config:   c,
		services: services{kernel.NewDirectory[string, *serving]()},
		places:   quota.NewPlaces[*assignment](c.Running, c.roomInLines()),
		books:    books{c.Ledger, quota.NewCensus[Key, taskCharges](c.PerPrincipal, c.PerNode)},
		suspects: make(suspects, mostSuspects),
	}
	p.ended = make(chan struct{})
	p.base, p.stop = context.WithCancelCause(context.Background())
	p.actors = taskActors{kernel.NewDirectory[Key, *taskActor](), p}
	p.Reader = Reader{records{c.Store, c.Tag, p.announceChange}}
	p.followers = followers{reader: &p.Reader, closing: p.base, of: make(map[Key]map[*follower]bool)}
	go p.keepWork()
	return p
}

// roomInLines is how much work waits in this process for a place. Where other processes have the
// same store, less does: they may have places for it.
func (c *Config) roomInLines() int {
	if c.Shared {
		return limits.TasksInLine.Value() / 16
	}
	return limits.TasksInLine.Value()
}

// Mount begins to run the tasks of a service, once there are any.
func (p *Pool) Mount(svc Service) {
	s := &serving{Service: svc, p: p, tried: make(chan struct{}), unseen: make(map[Key]time.Time)}
	s.ctx, s.cancel = context.WithCancelCause(p.base)
	p.Kernel.Start(&s.Actor, p.QueueKind, svc.ID, s)
	context.AfterFunc(s.ctx, s.Stop)
	p.mounted.Put(s.ID, s)
	p.comparing.Do(func() { p.startGoroutine((&comparer{p}).repeatComparison) })
	p.startGoroutine(func() {
		if p.Shared && (s.Makes == nil || s.Makes()) { // another process may make work at any time
			s.openQueue()
		}
		if s.hasWork() { // the store may overlook it as it may overlook what is new
			s.openQueue()
			_ = s.Post(workExpected{Key{Server: s.ID}, time.Now()})
		}
		s.reclaimWork()
	})
}

// Unmount ends the attempts of a service on this node. Its tasks go on elsewhere, or where it is
// mounted next.
func (p *Pool) Unmount(server string) {
	if s, ok := p.mounted.Get(server); ok {
		p.mounted.Drop(server, s)
		s.cancel(ErrClosing)
	}
}

// keepWork says every second that the node still has the work that it does.
func (p *Pool) keepWork() {
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
			go p.recountTasks()
		}
		p.mounted.Each(func(s *serving) { _ = s.Post(askDue{}) })
		p.actors.Each(func(t *taskActor) { _ = t.Post(keepWork{look: check}) })
		if check { // work that has not begun is not kept, so that it is not fresh
			continue
		}
		for _, w := range p.places.WaitingWork() {
			if w.isFresh() { // otherwise another may have it
				w.keepWork()
			}
		}
	}
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
	return p.books.census.Counts()
}

// Room reports whether a principal may have one more task: ErrTooMany and ErrFull say that it may
// not.
func (p *Pool) Room(tenant, from string) error {
	return openError(p.books.census.RoomFor(principalOf(tenant, clientToken(from))))
}

// recountTasks drops the tasks whose end this process has not seen, as long as there are many.
func (p *Pool) recountTasks() {
	ctx, cancel := context.WithTimeout(p.base, recountEvery*keepEvery)
	defer cancel()
	for dropped := quota.RecountedAtOnce; dropped > quota.RecountedAtOnce/2; {
		dropped = 0
		for _, key := range p.books.census.Sweep(p.Store.Now()) {
			r, _, err := p.readRecord(ctx, key)
			switch {
			case err == nil && r.State == task.Ended:
				p.books.taskEnded(key, r.OutcomeKind())
				dropped++
			case errors.Is(err, store.ErrNotFound):
				if made, _ := p.actors.viewTask(key); !made {
					p.books.taskEnded(key, 0)
					dropped++
				}
			case err == nil:
				p.books.census.AddAnyway(key, principalOf(key.Tenant, clientToken(r.From)), r.Expires())
			default:
				return
			}
		}
	}
}

// Close ends the attempts. Handlers see ErrClosing as the cause of their context; what they do not
// finish within ctx goes on elsewhere.
func (p *Pool) Close(ctx context.Context) error { return p.endAll(ctx) }

// Reclaimed is how many tasks of an earlier process of this node were taken up at once.
func (p *Pool) Reclaimed() int64 { return p.reclaimed.Load() }

// announceChange tells those who follow a task that it has changed.
func (p *Pool) announceChange(key Key, rev uint64, r *task.Record) {
	p.wakeFollowers(key)
	if r.State == task.Ended {
		p.books.taskEnded(key, r.OutcomeKind())
	}
	if p.Changed != nil {
		p.Changed(key, rev, r)
	}
}

// Heard says that another process has made or changed a task: those who follow it look at it now,
// and so does a run of it here. From the first task of a server on its work is taken here, too.
// ended is how the task ended, 0 if it has not.
func (p *Pool) Heard(key Key, ended task.Kind) {
	if ended != 0 {
		p.books.taskEnded(key, ended)
	} else {
		p.Serve(key.Server)
	}
	p.wakeFollowers(key)
	p.actors.tellIfHeld(key, changeHeard{})
}

// LookAgain has those who follow tasks look at all of them: other processes may have changed some,
// or have made the first ones of a server.
func (p *Pool) LookAgain() {
	p.wakeAll()
	if p.Shared {
		p.startGoroutine(func() { _ = p.serveWorking() }) // an error: it is asked for again with the next comparison
	}
}

// serveWorking starts the queues of mounted servers that have work, which another process may have
// made.
func (p *Pool) serveWorking() error {
	servers, err := p.Store.Working(p.base)
	for _, server := range servers {
		p.Serve(server)
	}
	return err
}

// dropParts deletes what a task that has ended needs no more: its request, and all parts of one
// that was cancelled.
func (p *Pool) dropParts(ctx context.Context, key Key, how task.Kind) error {
	name := requestPart
	if how == task.Cancelled {
		name = ""
	}
	return p.Store.DropPart(ctx, key.path(), name, math.MaxInt)
}

// dropEnded is drop for a task that has ended, and reports whether it has. One that goes on, or
// only seems to have expired, needs all that it has.
func (p *Pool) dropEnded(ctx context.Context, key Key) (ended bool, err error) {
	r, _, err := p.readRecord(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		p.books.taskEnded(key, 0)
		return false, nil
	}
	if err == nil && r.State == task.Ended {
		p.books.taskEnded(key, r.OutcomeKind())
		return true, p.dropParts(ctx, key, r.OutcomeKind())
	}
	return false, err
}
