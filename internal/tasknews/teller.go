package tasknews

import (
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/worker"
)

// Node passes on what a Teller tells: an [actors.Node].
type Node interface {
	PushTo(session actors.SessionKey, method string, params []byte) (here bool)
	TellTask(t *actors.TaskChange)
}

// Teller tells the sessions that have made tasks, and the other nodes, how the tasks are. Its methods may be called from any goroutine,
// after Start.
type Teller struct {
	node   Node
	shared bool // other processes have the same store

	mu   sync.Mutex            // guards told
	told map[worker.Key]uint64 // revisions of tasks of which sessions here were told
}

// toldTasks bounds the tasks whose revisions are known. For a task beyond them, an old state may be told after a new one.
const toldTasks = 4096

// Start says whom the Teller serves; shared says that other processes have the same store.
func (t *Teller) Start(node Node, shared bool) { t.node, t.shared = node, shared }

// Tell sends a notification about a task to the session that made it, on whichever node that listens. rev is that of the
// task's record, 0 for what tells nothing of its state, and ended how the task ended, 0 if it has not. It reports whether this node writes the session's stream.
func (t *Teller) Tell(key worker.Key, session string, rev uint64, ended task.Kind, method string, params []byte) (here bool) {
	c := &actors.TaskChange{Tenant: key.Tenant, Server: key.Server, ID: key.ID, Rev: rev, Ended: uint8(ended)}
	if session != "" {
		c.Session, c.Method, c.Params = session, method, params
		if here = t.Push(key, c); here {
			c.Session, c.Method, c.Params = "", "", nil
		}
	}
	if rev != 0 || !here {
		t.node.TellTask(c)
	}
	return here
}

// Push sends a notification about a task to the session that made it, if this node writes that session's stream and the session was told
// of nothing newer. It reports whether this node writes the stream.
func (t *Teller) Push(key worker.Key, c *actors.TaskChange) (here bool) {
	session := actors.SessionKey{Tenant: c.Tenant, Server: c.Server, ID: c.Session}
	if c.Rev == 0 || !t.shared {
		return t.node.PushTo(session, c.Method, c.Params)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told[key] >= c.Rev {
		return true
	}
	if here = t.node.PushTo(session, c.Method, c.Params); here {
		if t.told == nil || len(t.told) >= toldTasks {
			t.told = make(map[worker.Key]uint64)
		}
		t.told[key] = c.Rev
	}
	return here
}
