package tasknews

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// What nodes tell each other of the questions of a task.
const (
	pleaseAsk  uint8 = iota + 1 // who writes the session's stream puts them there
	callAsks                    // a tasks/result puts them: nobody else does
	streamAsks                  // they are on the standalone stream
	nobodyAsks                  // who put them does so no more
)

// taskPatience is how long a task waits for a tasks/result before its session is reminded. A reminder that met nobody comes again after twice
// as long each time, up to mostPatience.
var taskPatience = limits.TaskPatience.Value()

const mostPatience = time.Minute

// Config says whom Reminders serve.
type Config struct {
	Node  *actors.Node
	Tasks interface {
		Get(ctx context.Context, key worker.Key) (worker.Snapshot, error)
	}
	Log    *slog.Logger
	Shared bool // other processes have the same store
	// Server returns a server that is served here, nil if it is not.
	Server func(id string) Server
}

// Server puts the questions of its tasks to their clients.
type Server interface {
	// AskOnStream puts the open questions of a task on the standalone stream of the session that made it, all at once, and takes the
	// answers. It calls begins before the first, and over when it is done; cancel ends it.
	AskOnStream(ctx context.Context, cancel context.CancelCauseFunc, key worker.Key, p *actors.Peer, begins func() (over func())) error
	// MaxAsk is how long a question may wait.
	MaxAsk() time.Duration
}

// Reminders are the tasks that wait for their clients. Their methods may be called from any goroutine, after Start.
type Reminders struct {
	c      Config
	asking sync.Map // *asker that puts a task's questions to its client here, by the task's worker.Key

	mu        sync.Mutex // guards the fields below
	closed    bool
	due       map[worker.Key]*reminder
	elsewhere map[worker.Key]*time.Timer // tasks whose questions another node puts to the client, until it has ended or the timer has
}

// reminder watches a task that waits for its client, until the task waits no more or asks something else.
type reminder struct {
	asked int // how many questions the task had asked when it began
	timer *time.Timer
}

// Start says whom they serve.
func (rs *Reminders) Start(c Config) { rs.c = c }

// Watch watches a task of a session of 2025-11-25 that waits for its client, unless it is watched already. A task that has asked another question
// since then begins to wait anew.
func (rs *Reminders) Watch(key worker.Key, r *task.Record) {
	revision, _ := mcp.ParseRevision(r.Revision)
	if r.State != task.Waiting || r.Session == "" || !protocol.Has(revision, protocol.FeatureCoreTasks) {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	old, me := rs.due[key], &reminder{asked: len(r.Questions)}
	if rs.closed || old != nil && old.asked >= me.asked {
		return
	}
	if old != nil {
		old.timer.Stop()
	}
	if rs.due == nil {
		rs.due = make(map[worker.Key]*reminder)
	}
	rs.due[key] = me
	me.timer = time.AfterFunc(taskPatience, func() { rs.remindSession(key, me, taskPatience) })
}

// Close ends all reminders.
func (rs *Reminders) Close() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.closed = true
	for _, d := range rs.due {
		d.timer.Stop()
	}
	for _, t := range rs.elsewhere {
		t.Stop()
	}
	rs.due, rs.elsewhere = nil, nil
}

// remindSession has the session asked that made a task, if the task still waits and nobody asks, and looks again later.
func (rs *Reminders) remindSession(key worker.Key, me *reminder, waited time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), taskPatience)
	t, err := rs.c.Tasks.Get(ctx, key)
	cancel()
	over := err == nil && t.Record.State != task.Waiting || errors.Is(err, worker.ErrUnknown)
	rs.mu.Lock()
	switch {
	case rs.due[key] != me: // it is closed, or the task has asked again since it was read
		over = true
	case over:
		delete(rs.due, key)
	default:
		next := min(2*waited, mostPatience)
		me.timer = time.AfterFunc(next, func() { rs.remindSession(key, me, next) })
	}
	rs.mu.Unlock()
	if over || err != nil || rs.isAsked(key) {
		return
	}
	if !rs.askHere(key, t.Record.Session) && rs.c.Shared {
		rs.tellAsked(key, pleaseAsk, t.Record.Session)
	}
}

// isAsked reports whether another node puts the questions of a task to the client.
func (rs *Reminders) isAsked(key worker.Key) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.elsewhere[key] != nil
}

// setAsked notes that another node puts the questions of a task to the client for so long at most, or, with 0, that none does.
func (rs *Reminders) setAsked(key worker.Key, most time.Duration) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if old := rs.elsewhere[key]; old != nil {
		old.Stop()
		delete(rs.elsewhere, key)
	}
	if most == 0 || rs.closed {
		return
	}
	if rs.elsewhere == nil {
		rs.elsewhere = make(map[worker.Key]*time.Timer)
	}
	var lost *time.Timer
	lost = time.AfterFunc(most, func() { // that node is gone, or its last letter
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.elsewhere[key] == lost {
			delete(rs.elsewhere, key)
		}
	})
	rs.elsewhere[key] = lost
}

// tellAsked tells the other nodes who asks.
func (rs *Reminders) tellAsked(key worker.Key, asks uint8, session string) {
	rs.c.Node.TellTask(&actors.TaskChange{Tenant: key.Tenant, Server: key.Server, ID: key.ID, Asks: asks, Session: session})
}

// Told takes what another node tells.
func (rs *Reminders) Told(key worker.Key, t *actors.TaskChange) {
	s := rs.c.Server(key.Server)
	if s == nil {
		return
	}
	if t.Asks == pleaseAsk {
		rs.askHere(key, t.Session)
		return
	}
	if t.Asks == nobodyAsks {
		rs.setAsked(key, 0)
	} else {
		rs.setAsked(key, s.MaxAsk())
	}
	if here, ok := rs.asking.Load(key); ok {
		switch me := here.(*asker); {
		case t.Asks == callAsks:
			me.cancel(ErrAnswered)
		case me.how == callAsks: // that node has not heard of it, or those who have heard that node do not know of it any more
			rs.tellAsked(key, callAsks, "")
		}
	}
}

// ErrAnswered ends an asker that has no question of a task to put any more: the task waits no more, or another asks.
var ErrAnswered = errors.New("troupe: the questions of the task are not this call's")

// asker is who puts a task's questions to its client.
type asker struct {
	cancel context.CancelCauseFunc
	how    uint8 // callAsks or streamAsks
}

// AskByCall notes that a tasks/result puts the questions of a task to its client, until over is called. Another asker here is ended: its
// client may be gone, so the newest call asks.
func (rs *Reminders) AskByCall(key worker.Key, cancel context.CancelCauseFunc) (over func()) {
	me := &asker{cancel, callAsks}
	if before, ok := rs.asking.Swap(key, me); ok {
		before.(*asker).cancel(ErrAnswered)
	}
	return rs.tellAsks(key, me)
}

// tellAsks tells the other nodes that an asker of this one puts the questions of a task to the client, until over is called. An asker that has
// given way to another one here ends without a word: that one goes on.
func (rs *Reminders) tellAsks(key worker.Key, me *asker) (over func()) {
	if rs.c.Shared {
		rs.tellAsked(key, me.how, "")
	}
	return func() {
		if rs.asking.CompareAndDelete(key, me) && rs.c.Shared {
			rs.tellAsked(key, nobodyAsks, "")
		}
	}
}

// askHere begins to put the open questions of a task to its session, and reports whether this node writes the session's stream. It does not wait.
func (rs *Reminders) askHere(key worker.Key, session string) bool {
	s := rs.c.Server(key.Server)
	p := rs.c.Node.Writer(actors.SessionKey{Tenant: key.Tenant, Server: key.Server, ID: session})
	if s == nil || p == nil {
		return false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	me := &asker{cancel, streamAsks}
	if _, asked := rs.asking.LoadOrStore(key, me); asked {
		cancel(nil)
		return true
	}
	go func() {
		defer cancel(nil)
		defer rs.asking.CompareAndDelete(key, me)
		if rs.isAsked(key) { // after it is known that this one asks, so that one of two gives way
			return
		}
		if err := s.AskOnStream(ctx, cancel, key, p, func() func() { return rs.tellAsks(key, me) }); err != nil {
			rs.c.Log.Debug("the questions of a task are not on the stream of its session", "server", key.Server, "task", key.Digest(), "error", err)
		}
	}()
	return true
}
