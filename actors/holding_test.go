package actors

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// outage makes every operation of a store fail with ErrUnavailable while it is set.
type outage struct{ atomic.Bool }

func (o *outage) before(string, string) error {
	if o.Load() {
		return store.ErrUnavailable
	}
	return nil
}

// streamed runs a call that sends one message before its response, and whose client
// loses the connection. It returns the id of that message's event.
func streamed(h *held, session string) (event string) {
	h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		_ = c.Notify(ctx, "x", []byte(`{}`))
		time.Sleep(time.Second)
		return []byte(`"here"`), nil
	}
	c := &namedConn{}
	m := new(codec.Message)
	if err := codec.Scan([]byte(message("1", "x")), m, anyMessage); err != nil {
		h.t.Fatal(err)
	}
	h.Post(h.svc, h.input(session, "192.0.2.1", c), nil, m, nil)
	time.Sleep(500 * time.Millisecond)
	defer c.Cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[1] // the first one is the priming event
}

// namedConn is a heldConn that keeps the ids of events.
type namedConn struct {
	heldConn
	ids []string
}

func (c *namedConn) Event(id string, retry int, data []byte) {
	c.mu.Lock()
	c.ids = append(c.ids, id)
	c.mu.Unlock()
	c.heldConn.Event(id, retry, data)
}

// back resumes a stream after an event, on a goroutine of its own.
func (h *held) back(session, event string) *heldConn {
	c := &heldConn{}
	in := h.input(session, "192.0.2.1", c)
	in.LastEventID, in.Version = event, "2025-11-25"
	go h.Get(h.svc, in, nil)
	return c
}

// leaves waits until the session has left memory and is only in the store.
func leaves(h *held) {
	time.Sleep(3 * time.Minute)
	if n := h.k.Live(KindSession); n != 0 {
		h.t.Fatalf("%d sessions are in memory", n)
	}
}

// TestResumeIsHeldForItsSession checks that a resume of a session that is not in memory
// waits for the store like any other.
func TestResumeIsHeldForItsSession(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		session := h.begin("2025-11-25")
		event := streamed(h, session)
		leaves(h)
		var away outage
		away.Store(true)
		h.mem.before = away.before
		c := h.back(session, event)
		other := h.post(session, message("2", "x"))
		time.Sleep(30 * time.Second)
		if status, body := c.answer(); status != 0 || !c.begun() {
			t.Errorf("the resume is answered %d %s while the store is away", status, body)
		}
		if at := c.lastID(); at != event { // the node may end now, and the client remember only what this connection has carried
			t.Errorf("the held resume is at %q, want %q", at, event)
		}
		if status, body := other.answer(); status != 200 || !strings.Contains(body, `"data":{"retryAfterMs":1000}`) {
			t.Errorf("a request is answered %d %s", status, body)
		}
		away.Store(false)
		time.Sleep(5 * time.Second)
		if got := c.events(); len(got) != 1 || !strings.Contains(got[0], "here") || !c.over {
			t.Errorf("once the store is back: %q, over %v", got, c.over)
		}
	})
}

// TestHeldResumeOfWhatIsNotThere checks that the node cuts a held resume for which
// there is nothing to resume. The client learns the reason when it comes back.
func TestHeldResumeOfWhatIsNotThere(t *testing.T) {
	for name, tt := range map[string]struct {
		session, event string // "" stands for a good one
		want           int
	}{
		"session": {session: "aaaaaaaaaaaaaaaaaaaaaaaaaa", want: 404},
		"stream":  {event: "aaaaaaaaaaaaaaaaaaaaaaaaaa.1.0", want: 400},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				session := h.begin("2025-11-25")
				event := streamed(h, session)
				if tt.session != "" {
					session = tt.session
				}
				if tt.event != "" {
					event = tt.event
				}
				leaves(h)
				var away outage
				away.Store(true)
				h.mem.before = away.before
				c := h.back(session, event)
				time.Sleep(5 * time.Second)
				if !c.begun() || c.over {
					t.Errorf("the resume is not held: begun %v, over %v", c.begun(), c.over)
				}
				away.Store(false)
				time.Sleep(5 * time.Second)
				if status, body := c.answer(); status != 0 || !c.over || len(c.events()) > 0 {
					t.Errorf("%d %s, over %v, %q", status, body, c.over, c.events())
				}
				again := h.back(session, event)
				time.Sleep(time.Second)
				if status, body := again.answer(); status != tt.want {
					t.Errorf("the next one is answered %d %s, want %d", status, body, tt.want)
				}
			})
		})
	}
}

// TestEndOfAHeldResume checks that a resume is held no longer than Limits.ResumeWait,
// than its client waits, and than the node serves.
func TestEndOfAHeldResume(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(h *held, c *heldConn)
		held time.Duration
	}{
		"time":     {func(*held, *heldConn) {}, time.Minute},
		"client":   {func(_ *held, c *heldConn) { c.Cut() }, 10 * time.Second},
		"drain":    {func(h *held, _ *heldConn) { h.HandOver(context.Background(), nil) }, 10 * time.Second},
		"the node": {func(h *held, _ *heldConn) { _ = h.Close(context.Background()) }, 10 * time.Second},
		"retired":  {func(h *held, _ *heldConn) { h.Unmount(h.svc) }, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				session := h.begin("2025-11-25")
				event := streamed(h, session)
				leaves(h)
				var away outage
				away.Store(true)
				h.mem.before = away.before
				c := &heldConn{}
				in := h.input(session, "192.0.2.1", c)
				in.LastEventID = event
				time.AfterFunc(10*time.Second, func() { tt.end(h, c) })
				begin := time.Now()
				h.Get(h.svc, in, nil)
				if d := time.Since(begin); d < tt.held || d > tt.held+2*time.Second || !c.over {
					t.Errorf("held for %v, over %v", d, c.over)
				}
				away.Store(false)
			})
		})
	}
}

// TestHeldResumesAreCounted checks that held resumes of sessions that cannot be read
// count for their principal all the same.
func TestHeldResumesAreCounted(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Streams: 2}}, func(t *testing.T, h *held) {
		session := h.begin("2025-11-25")
		event := streamed(h, session)
		leaves(h)
		var away outage
		away.Store(true)
		h.mem.before = away.before
		all := []*heldConn{h.back(session, event), h.back(session, event)}
		time.Sleep(5 * time.Second)
		more := h.back(session, event)
		synctest.Wait()
		if status, body := more.answer(); status != 429 {
			t.Errorf("the third of two is answered %d %s", status, body)
		}
		for _, c := range all {
			c.Cut()
		}
		time.Sleep(5 * time.Second)
		next := h.back(session, event)
		time.Sleep(5 * time.Second)
		if status, _ := next.answer(); status != 0 || !next.begun() {
			t.Errorf("after they are gone one is answered %d", status)
		}
		next.Cut()
		away.Store(false)
	})
}
