package troupe

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/tasknews"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// news takes what other nodes tell of lists and tasks. The zero value drops it, until startWith.
type news struct {
	rt atomic.Pointer[Runtime]
}

var _ actors.News = (*news)(nil)

// startWith takes what other nodes tell from now on.
func (n *news) startWith(rt *Runtime) {
	rt.taskNews.Start(rt.node, rt.sharesStore)
	rt.reminders.Start(tasknews.Config{Node: rt.node, Tasks: rt.tasks, Log: rt.log, Shared: rt.sharesStore, Server: func(id string) tasknews.Server {
		if s := rt.table.serviceByID(id); s != nil {
			return &s.tasks
		}
		return nil
	}})
	n.rt.Store(rt)
}

// Lists announces changes of lists on another node.
func (n *news) Lists(server string, changed []actors.ListChange) {
	rt := n.rt.Load()
	if rt == nil {
		return
	}
	s := rt.table.serviceByID(server)
	if s == nil {
		return
	}
	for _, c := range changed {
		if list := slices.Index(listNames[:], c.List); list >= 0 && validDigest(c.Digest) {
			s.srv.mount.remoteListChanged(list, c.Digest, c.Again)
		}
	}
}

// Task has those look at a task who follow it here, and passes on what the session that made it is told.
func (n *news) Task(t *actors.TaskChange) {
	rt := n.rt.Load()
	if rt == nil {
		return
	}
	key := worker.Key{Tenant: t.Tenant, Server: t.Server, ID: t.ID}
	if t.Rev != 0 {
		rt.tasks.Heard(key, task.Kind(t.Ended))
	}
	if t.Asks != 0 {
		rt.reminders.Told(key, t)
	}
	if t.Session != "" && t.Method != "" {
		rt.taskNews.Push(key, t)
	}
}

// EndHere ends what an operator has ended on another node.
func (n *news) EndHere(ctx context.Context, e *actors.OperatorEnd) error {
	rt := n.rt.Load()
	if rt == nil {
		return nil
	}
	return rt.operations.endings().EndHere(ctx, e)
}

// Missed has all tasks looked at that somebody follows here.
func (n *news) Missed() {
	if rt := n.rt.Load(); rt != nil {
		rt.tasks.LookAgain()
	}
}

// Repeat tells a client that each list has changed, and each resource that it subscribed to.
func (n *news) Repeat(p *actors.Peer) {
	s := p.Handler().(*service)
	s.lists.announceLists(p, which{true, true, true})
	s.resources.repeatUpdates(p)
}

// taskChanged logs the end of a task, and tells those who follow it on other nodes, and the session that made it how it is, if that listens
// (2025-11-25).
func (n *news) taskChanged(key worker.Key, rev uint64, r *task.Record) {
	rt := n.rt.Load()
	if rt == nil {
		return
	}
	if r.State == task.Ended {
		rt.logTask("a task has ended", key, "status", string(r.Status(mcp.Latest)))
	}
	session, params := "", []byte(nil)
	if revision, ok := mcp.ParseRevision(r.Revision); ok && r.Session != "" && protocol.Has(revision, protocol.FeatureCoreTasks) {
		told := r.CoreTask(key.ID, revision)
		if len(r.Scopes) > 0 && n.needsMore(key.Server, r.Scopes) {
			told.StatusMessage = "" // may have what the call has said, and the stream may be that of a narrower token
		}
		var err error
		if params, err = codec.Marshal(protocol.TaskStatusParams{Task: told}); err == nil {
			session = r.Session
		}
	}
	if session != "" {
		rt.reminders.Watch(key, r)
	}
	if session != "" || rt.sharesStore {
		rt.taskNews.Tell(key, session, rev, r.OutcomeKind(), mcp.NotifyTasksStatus, params)
	}
}

// needsMore reports whether there are other scopes than those without which nobody uses a server.
func (n *news) needsMore(server string, scopes []string) bool {
	var all []string
	if s := n.rt.Load().table.serviceByID(server); s != nil {
		all = s.srv.opts.Scopes
	}
	return len(scope.Union(all, scopes)) > len(all)
}
