package troupe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
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
	elsewhere map[worker.Key]time.Time // tasks whose questions another node puts to the client, and until when it may
}

// reminder watches a task that waits for its client, until the task waits no more or asks something else.
type reminder struct {
	asked int // how many questions the task had asked when it began
	timer *time.Timer
}

// begin watches a task of a session of 2025-11-25 that waits for its client, unless it is watched already. A task that has asked another question
// since then begins to wait anew.
func (rs *reminders) begin(key worker.Key, r *task.Record) {
	revision, _ := mcp.ParseRevision(r.Revision)
	if r.State != task.Waiting || r.Session == "" || !revision.Has(mcp.FeatureCoreTasks) {
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
	me.timer = time.AfterFunc(taskPatience, func() { rs.remind(key, me, taskPatience) })
}

// close ends all reminders.
func (rs *reminders) close() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.closed = true
	for _, d := range rs.due {
		d.timer.Stop()
	}
	rs.due = nil
}

// remind has the session asked that made a task, if the task still waits and nobody asks, and looks again later.
func (rs *reminders) remind(key worker.Key, me *reminder, waited time.Duration) {
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
		me.timer = time.AfterFunc(next, func() { rs.remind(key, me, next) })
	}
	rs.mu.Unlock()
	if over || err != nil || rs.isAsked(key) {
		return
	}
	if !rs.askHere(key, t.Record.Session) && rs.rt.shared() {
		rs.tell(key, pleaseAsk, t.Record.Session)
	}
}

// isAsked reports whether another node puts the questions of a task to the client.
func (rs *reminders) isAsked(key worker.Key) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	until, ok := rs.elsewhere[key]
	if ok && time.Now().After(until) { // that node is gone
		delete(rs.elsewhere, key)
		return false
	}
	return ok
}

// tell tells the other nodes who asks.
func (rs *reminders) tell(key worker.Key, asks uint8, session string) {
	rs.rt.node.TellTask(&actors.TaskChange{Tenant: key.Tenant, Server: key.Server, ID: key.ID, Asks: asks, Session: session})
}

// asks tells the other nodes that this one puts the questions of a task to the client, until over is called.
func (rs *reminders) asks(key worker.Key, how uint8) (over func()) {
	if !rs.rt.shared() {
		return func() {}
	}
	rs.tell(key, how, "")
	return func() { rs.tell(key, nobodyAsks, "") }
}

// heard takes what another node tells.
func (rs *reminders) heard(key worker.Key, t *actors.TaskChange) {
	s := rs.service(key.Server)
	if s == nil {
		return
	}
	switch t.Asks {
	case pleaseAsk:
		rs.askHere(key, t.Session)
		return
	case nobodyAsks:
		rs.mu.Lock()
		delete(rs.elsewhere, key)
		rs.mu.Unlock()
		return
	}
	rs.mu.Lock()
	if rs.elsewhere == nil {
		rs.elsewhere = make(map[worker.Key]time.Time)
	}
	rs.elsewhere[key] = time.Now().Add(s.limits.MaxAsk)
	rs.mu.Unlock()
	if here, ok := s.asking.Load(key.ID); ok {
		if me := here.(*asker); t.Asks == callAsks {
			me.cancel(errAnswered)
		} else if me.call { // that node has not heard of it
			rs.tell(key, callAsks, "")
		}
	}
}

// service is a server that is mounted here, nil if it is not.
func (rs *reminders) service(id string) *service {
	rs.rt.mu.Lock()
	defer rs.rt.mu.Unlock()
	if m := rs.rt.mounts[rs.rt.ids[id]]; m != nil {
		return m.service
	}
	return nil
}

// askHere begins to put the open questions of a task to its session, and reports whether this node writes the session's stream. It does not wait.
func (rs *reminders) askHere(key worker.Key, session string) bool {
	s := rs.service(key.Server)
	p := rs.rt.node.Writer(actors.SessionKey{Tenant: key.Tenant, Server: key.Server, ID: session})
	if s == nil || p == nil {
		return false
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	me := &asker{cancel, false}
	if _, asked := s.asking.LoadOrStore(key.ID, me); asked {
		cancel(nil)
		return true
	}
	go func() {
		defer cancel(nil)
		defer s.asking.CompareAndDelete(key.ID, me)
		if rs.isAsked(key) { // after it is known that this one asks, so that one of two gives way
			return
		}
		if err := s.askOnStream(ctx, cancel, key, &Peer{p}); err != nil {
			s.rt.log.Debug("the questions of a task are not on the stream of its session", "server", s.id, "task", key.Digest(), "error", err)
		}
	}()
	return true
}

// askOnStream puts the open questions of a task on the standalone stream of the session that made it, all at once, and takes the answers.
func (s *service) askOnStream(ctx context.Context, cancel context.CancelCauseFunc, key worker.Key, p *Peer) error {
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return err
	}
	open := openFor(p, t, make(map[string]bool))
	if open == nil {
		return nil
	}
	defer s.rt.reminders.asks(key, streamAsks)()
	return s.putForTask(ctx, cancel, key, open, func(ctx context.Context, qs []hosted.Question) ([]hosted.Outcome, error) {
		var err error
		outcomes, ends := make([]hosted.Outcome, len(qs)), make(chan error, len(qs))
		for i := range qs {
			go func() {
				a, err := p.p.Ask(ctx, qs[i].Question)
				outcomes[i].Answer = a
				if err != nil {
					cancel(err)
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
