package troupe

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// news takes what other nodes tell of lists and tasks. The zero value drops it, until startWith.
type news struct {
	rt atomic.Pointer[Runtime]

	mu   sync.Mutex            // guards told
	told map[worker.Key]uint64 // revisions of tasks of which sessions here were told
}

var _ actors.News = (*news)(nil)

// toldTasks bounds the tasks whose revisions are known. For a task beyond them, an old state may be told after a new one.
const toldTasks = 4096

// startWith takes what other nodes tell from now on.
func (n *news) startWith(rt *Runtime) {
	rt.reminders.rt = rt // before the next line, after which another goroutine may hear of questions
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
		rt.reminders.noteTold(key, t)
	}
	if t.Session != "" && t.Method != "" {
		n.pushTask(rt, key, t)
	}
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

// pushTask sends a notification about a task to the session that made it, if this node writes that session's stream and the session was told
// of nothing newer. It reports whether this node writes the stream.
func (n *news) pushTask(rt *Runtime, key worker.Key, t *actors.TaskChange) (here bool) {
	session := actors.SessionKey{Tenant: t.Tenant, Server: t.Server, ID: t.Session}
	if t.Rev == 0 || !rt.sharesStore() {
		return rt.node.PushTo(session, t.Method, t.Params)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.told[key] >= t.Rev {
		return true
	}
	if here = rt.node.PushTo(session, t.Method, t.Params); here {
		if n.told == nil || len(n.told) >= toldTasks {
			n.told = make(map[worker.Key]uint64)
		}
		n.told[key] = t.Rev
	}
	return here
}

// taskNews tells sessions and other nodes how tasks are.
type taskNews struct {
	*Runtime
}

// tellSession sends a notification about a task to the session that made it, on whichever node that listens. rev is that of the
// task's record, 0 for what tells nothing of its state, and ended how the task ended, 0 if it has not. It reports whether this node writes the session's stream.
func (rt *taskNews) tellSession(key worker.Key, session string, rev uint64, ended task.Kind, method string, params []byte) (here bool) {
	t := &actors.TaskChange{Tenant: key.Tenant, Server: key.Server, ID: key.ID, Rev: rev, Ended: uint8(ended)}
	if session != "" {
		t.Session, t.Method, t.Params = session, method, params
		if here = rt.news.pushTask(rt.Runtime, key, t); here {
			t.Session, t.Method, t.Params = "", "", nil
		}
	}
	if rev != 0 || !here {
		rt.node.TellTask(t)
	}
	return here
}

// taskChanged logs the end of a task, and tells those who follow it on other nodes, and the session that made it how it is, if that listens
// (2025-11-25).
func (rt *taskNews) taskChanged(key worker.Key, rev uint64, r *task.Record) {
	if r.State == task.Ended {
		rt.logTask("a task has ended", key, "status", string(r.Status(mcp.Latest)))
	}
	session, params := "", []byte(nil)
	if revision, ok := mcp.ParseRevision(r.Revision); ok && r.Session != "" && protocol.Has(revision, protocol.FeatureCoreTasks) {
		told := r.Core(key.ID, revision)
		if len(r.Scopes) > 0 && rt.needsMore(key.Server, r.Scopes) {
			told.StatusMessage = "" // may have what the call has said, and the stream may be that of a narrower token
		}
		var err error
		if params, err = codec.Marshal(protocol.TaskStatusParams{Task: told}); err == nil {
			session = r.Session
		}
	}
	if session != "" {
		rt.reminders.watchTask(key, r)
	}
	if session != "" || rt.sharesStore() {
		rt.tellSession(key, session, rev, r.How(), mcp.NotifyTasksStatus, params)
	}
}

// needsMore reports whether there are other scopes than those without which nobody uses a server.
func (rt *taskNews) needsMore(server string, scopes []string) bool {
	var all []string
	if s := rt.table.serviceByID(server); s != nil {
		all = s.srv.opts.Scopes
	}
	return len(scope.Union(all, scopes)) > len(all)
}

// logTask logs what happened to a task, at debug: a busy server has thousands of these lines in a second. The tenant stands for the
// principal, or for all anonymous clients.
func (rt *taskNews) logTask(what string, key worker.Key, name, value string) {
	if rt.log.Enabled(context.Background(), slog.LevelDebug) {
		rt.log.Debug(what, "server", key.Server, "tenant", key.Tenant, "task", key.Digest(), name, value)
	}
}
