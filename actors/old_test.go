package actors

import (
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// TestResumeByAnOldLog: a node wrote the standalone stream of a session, which has left its memory, and is cut off with a server that led. The other node takes
// the stream over and adds to it. A client that comes back to the first one with an event id from there is held: the log that is read there does not have
// the event, and the record says that the stream is this node's, and neither says anything.
func TestResumeByAnOldLog(t *testing.T) {
	limits := Limits{SessionDrop: 30 * time.Second}
	inBand(t, 0, limits, func(t *testing.T, c *band) {
		var cut atomic.Bool // from then on the first node's store only answers reads, with what it has
		c.mem.before = func(op, _ string) error {
			switch op {
			case "Get", "Peek", "Writer", "Read", "Tail", "Body":
				return nil
			}
			if cut.Load() {
				return store.ErrUnavailable
			}
			return nil
		}
		a := c.join("n1", limits)
		session := a.begin("2025-11-25")
		key := a.sessionOf(session)
		change := func(m *mate, conn *heldConn) string {
			t.Helper()
			s, _ := m.sessions.Get(key)
			if s == nil {
				t.Fatal("the node does not have the session")
			}
			s.peer.Push(mcp.NotifyToolsListChanged, nil)
			synctest.Wait()
			time.Sleep(time.Second)
			return conn.lastID()
		}
		conn := a.listen(session)
		id := change(a, conn)
		conn.Cut()
		time.Sleep(12 * time.Minute) // the stream has left memory, and its record lives
		now := newMemory()
		c.mem.mu.Lock()
		now.rev, now.records = c.mem.rev, maps.Clone(c.mem.records)
		for path, log := range c.mem.appends {
			now.appends[path] = maps.Clone(log)
		}
		c.mem.mu.Unlock()
		cut.Store(true)
		c.mem = now
		a.box.Kill()
		b := c.join("n2", limits)
		resume := func(m *mate, id string) *heldConn {
			back := &heldConn{}
			in := m.input(session, "192.0.2.1", back)
			in.LastEventID = id
			go m.Get(m.svc, in, nil)
			time.Sleep(2 * time.Second)
			return back
		}
		there := resume(b, id)
		later := change(b, there)
		if there.Cut(); later == id {
			t.Fatal("the other node has added nothing")
		}
		back := resume(a, later)
		if status, body := back.answer(); status == 400 || back.ended() {
			t.Errorf("the resume is refused: %d %s", status, body)
		}
		back.Cut()
		time.Sleep(5 * time.Second)
	})
}
