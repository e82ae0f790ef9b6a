package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// band is several nodes on one store, which send each other messages.
type band struct {
	t      *testing.T
	mem    *memory
	office *sim.Office
	all    []*mate

	mu   sync.Mutex // guards the rest
	fate map[string]sim.Fate
	sent map[string]int
	less map[string]int // how many messages of a kind are lost from now on
}

// mate is a node of a band.
type mate struct {
	*held
	box   *sim.Box
	door  *door
	ended atomic.Int64 // sessions whose end the program was told of
	news  *heardNews
}

// heardNews keeps what a node hears, and repeats an update of each resource.
type heardNews struct {
	mu       sync.Mutex // guards the rest
	lists    []ListChange
	tasks    []TaskChange
	missed   []time.Time
	repeated []time.Time // for sessions
}

var _ News = (*heardNews)(nil)

func (h *heardNews) Lists(server string, changed []ListChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if server == "s" {
		h.lists = append(h.lists, changed...)
	}
}

func (h *heardNews) Task(t *TaskChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks = append(h.tasks, *t)
}

func (h *heardNews) EndHere(context.Context, *OperatorEnd) error { return nil }

func (h *heardNews) Missed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missed = append(h.missed, time.Now())
}

func (h *heardNews) Repeat(p *Peer) {
	h.mu.Lock()
	h.repeated = append(h.repeated, time.Now())
	h.mu.Unlock()
	p.Push(mcp.NotifyToolsListChanged, nil)
	for _, uri := range p.Subscribed() {
		p.PushUpdate(uri)
	}
}

// door is one node's way to the store.
type door struct {
	*memory
	shut  atomic.Bool  // no record can be read
	reads atomic.Int64 // of records of sessions
}

func (d *door) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	d.reads.Add(1)
	if d.shut.Load() {
		return nil, 0, store.ErrUnavailable
	}
	return d.memory.Get(ctx, key)
}

func (d *door) Peek(ctx context.Context, key string) ([]byte, uint64, error) { return d.Get(ctx, key) }

// inBand runs f with nodes n1, n2, … in virtual time.
func inBand(t *testing.T, nodes int, l Limits, f func(t *testing.T, c *band)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &band{t: t, mem: newMemory(), fate: make(map[string]sim.Fate), sent: make(map[string]int)}
		c.office = sim.NewOffice(c.what)
		for i := range nodes {
			c.join("n"+string(rune('1'+i)), l)
		}
		f(t, c)
		for _, m := range c.all {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := m.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			cancel()
		}
		time.Sleep(time.Minute) // for goroutines that end by themselves
	})
}

// join adds a node.
func (c *band) join(name string, l Limits) *mate {
	m := &mate{held: &held{t: c.t, mem: c.mem, handler: &heldHandler{}}, box: c.office.Join(name, "b"), door: &door{memory: c.mem}, news: &heardNews{}}
	m.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte("{}"), nil }
	m.Node = NewNode(Config{Name: name, Boot: "b", Store: m.door, Mail: m.box, News: m.news})
	m.svc = NewService("s", m.handler, l)
	m.svc.Ended = func(*Peer, Ending) { m.ended.Add(1) }
	c.all = append(c.all, m)
	return m
}

// what is the fate of a message, which it counts.
func (c *band) what(kind string) sim.Fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[kind]++
	if c.less[kind] > 0 {
		c.less[kind]--
		return sim.Fate{Lost: true}
	}
	return c.fate[kind]
}

// let decides what happens to messages of some kinds from now on.
func (c *band) let(f sim.Fate, kinds ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range kinds {
		c.fate[k] = f
	}
}

// lose loses the next n messages of a kind.
func (c *band) lose(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.less = map[string]int{kind: n}
}

// count is how many messages of a kind were sent so far.
func (c *band) count(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[kind]
}

// told counts the ends of sessions that the programs were told of.
func (c *band) told() (n int) {
	for _, m := range c.all {
		n += int(m.ended.Load())
	}
	return n
}

// listen opens a standalone stream.
func (m *mate) listen(session string) *heldConn {
	c := &heldConn{}
	go m.Get(m.svc, m.input(session, "192.0.2.1", c), nil)
	synctest.Wait()
	return c
}

// postBeside is post on a goroutine of its own.
func (m *mate) postBeside(session, body string) *heldConn {
	c := &heldConn{}
	go m.postOn(c, session, body)
	synctest.Wait()
	return c
}

// remove sends DELETE.
func (m *mate) remove(session string) (status int) {
	c := &heldConn{}
	m.Delete(m.svc, m.input(session, "192.0.2.1", c))
	status, _ = c.answer()
	return status
}

// has reports whether a session is in the node's memory.
func (m *mate) has(session string) bool {
	_, ok := m.sessions.Get(SessionKey{"anon", "s", session})
	return ok
}

// over reports whether a connection that was open is over.
func (c *heldConn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open && c.over
}

// live reports whether a connection is open.
func (c *heldConn) live() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open && !c.over
}

// until waits until what is so, for d at most, and returns how long that took.
func until(d time.Duration, what func() bool) (took time.Duration, ok bool) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		if took = time.Since(began); what() {
			return took, true
		}
		if took > d {
			return took, false
		}
	}
}
