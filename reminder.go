package troupe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// In 2025-11-25 a client takes the questions of a task from tasks/result. Clients that call it only after the end, and poll tasks/get until then,
// would never have them, so the node that runs the task, and any that is asked how it is, reminds the session that made it: the node that
// writes the session's standalone stream puts the questions there. Whoever puts questions tells all nodes, so that nobody else does.

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

// reminders are the tasks that wait for their clients. The zero value has no runtime yet.
type reminders struct {
	rt *Runtime

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

// watchTask watches a task of a session of 2025-11-25 that waits for its client, unless it is watched already. A task that has asked another question
// since then begins to wait anew.
func (rs *reminders) watchTask(key worker.Key, r *task.Record) {
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

// closeAll ends all reminders.
func (rs *reminders) closeAll() {
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
func (rs *reminders) remindSession(key worker.Key, me *reminder, waited time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), taskPatience)
	t, err := rs.rt.tasks.Get(ctx, key)
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
	if !rs.askHere(key, t.Record.Session) && rs.rt.sharesStore() {
		rs.tellAsked(key, pleaseAsk, t.Record.Session)
	}
}

// isAsked reports whether another node puts the questions of a task to the client.
func (rs *reminders) isAsked(key worker.Key) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.elsewhere[key] != nil
}

// setAsked notes that another node puts the questions of a task to the client for so long at most, or, with 0, that none does.
func (rs *reminders) setAsked(key worker.Key, most time.Duration) {
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
func (rs *reminders) tellAsked(key worker.Key, asks uint8, session string) {
	rs.rt.node.TellTask(&actors.TaskChange{Tenant: key.Tenant, Server: key.Server, ID: key.ID, Asks: asks, Session: session})
}

// noteTold takes what another node tells.
func (rs *reminders) noteTold(key worker.Key, t *actors.TaskChange) {
	s := rs.rt.table.serviceByID(key.Server)
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
		rs.setAsked(key, s.limits.MaxAsk)
	}
	if here, ok := s.tasks.asking.Load(key.ID); ok {
		switch me := here.(*asker); {
		case t.Asks == callAsks:
			me.cancel(errAnswered)
		case me.how == callAsks: // that node has not heard of it, or those who have heard that node do not know of it any more
			rs.tellAsked(key, callAsks, "")
		}
	}
}

// askHere begins to put the open questions of a task to its session, and reports whether this node writes the session's stream. It does not wait.
func (rs *reminders) askHere(key worker.Key, session string) bool {
	s := rs.rt.table.serviceByID(key.Server)
	p := rs.rt.node.Writer(actors.SessionKey{Tenant: key.Tenant, Server: key.Server, ID: session})
	if s == nil || p == nil {
		return false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	me := &asker{cancel, streamAsks}
	if _, asked := s.tasks.asking.LoadOrStore(key.ID, me); asked {
		cancel(nil)
		return true
	}
	go func() {
		defer cancel(nil)
		defer s.tasks.asking.CompareAndDelete(key.ID, me)
		if rs.isAsked(key) { // after it is known that this one asks, so that one of two gives way
			return
		}
		if err := s.askOnStream(ctx, me, key, &Peer{p}); err != nil {
			s.rt.log.Debug("the questions of a task are not on the stream of its session", "server", s.id, "task", key.Digest(), "error", err)
		}
	}()
	return true
}

// askOnStream puts the open questions of a task on the standalone stream of the session that made it, all at once, and takes the answers.
func (s *service) askOnStream(ctx context.Context, me *asker, key worker.Key, p *Peer) error {
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return err
	}
	open := openFor(p, t, make(map[string]bool))
	if open == nil {
		return nil
	}
	defer s.tasks.tellAsks(key, me)()
	return s.tasks.putForTask(ctx, me.cancel, key, open, func(ctx context.Context, qs []hosted.Question) ([]hosted.Outcome, error) {
		var err error
		outcomes, ends := make([]hosted.Outcome, len(qs)), make(chan error, len(qs))
		for i := range qs {
			go func() {
				a, err := p.p.Ask(ctx, qs[i].Question)
				outcomes[i].Answer = a
				if err != nil {
					me.cancel(err)
				}
				ends <- err
			}()
		}
		for range qs {
			if e := <-ends; err == nil {
				err = e
			}
		}
		return outcomes, err
	})
}
