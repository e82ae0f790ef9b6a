package actors

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// faultyConn panics in the operations that fails names.
type faultyConn struct {
	namedConn
	fails    func(op string, data []byte) bool
	comments atomic.Int64
}

func (c *faultyConn) fault(op string, data []byte) {
	if c.fails != nil && c.fails(op, data) {
		panic("a fault in the transport: " + op)
	}
}
func (c *faultyConn) Answer(status int, body []byte) bool {
	c.fault("Answer", body)
	return c.namedConn.Answer(status, body)
}
func (c *faultyConn) Event(id string, retry int, data []byte) {
	c.namedConn.Event(id, retry, data)
	c.fault("Event", data)
}
func (c *faultyConn) Comment() {
	c.comments.Add(1)
	c.fault("Comment", nil)
}
func (c *faultyConn) Cut() {
	c.namedConn.Cut()
	c.fault("Cut", nil)
}
func (c *faultyConn) Finish() { c.namedConn.Cut() }

// postTo sends a message whose response goes to c, on a goroutine of its own.
func (h *held) postTo(c *faultyConn, in *Input, body string) (done chan struct{}) {
	h.t.Helper()
	m := new(codec.Message)
	if err := codec.Scan([]byte(body), m, anyMessage); err != nil {
		h.t.Fatal(err)
	}
	in.Conn = c
	done = make(chan struct{})
	go func() { h.Post(h.svc, in, nil, m, []byte(body)); close(done) }()
	return done
}

// hasReturned fails unless done is closed within a minute.
func hasReturned(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("the request is not over")
	}
}

// TestPanicWhileAnEventIsSent has the connection panic when it gets an event. The
// stream then ends as if its process had been lost: the call ends, the connection is
// cut, and a resume gets the end of the stream. Other goroutines that wait for that
// step go on.
func TestPanicWhileAnEventIsSent(t *testing.T) {
	for name, safe := range map[string]bool{"never": false, "safe": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{Queue: 1}, NodeLimits{}, func(t *testing.T, h *held) {
				if safe {
					h.svc = NewService("s", safeHandler{h.handler}, Limits{Queue: 1})
				}
				ends, told := make(chan error, 1), make(chan error, 2)
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if c.Attempt() > 1 {
						return []byte(`"again"`), nil
					}
					for range 2 { // the second one waits for the first one
						go func() { told <- c.Notify(context.Background(), "x", []byte(`{}`)) }()
					}
					<-ctx.Done()
					ends <- context.Cause(ctx)
					return nil, nil
				}
				session := h.begin("2025-11-25")
				release := h.hold("Append")
				c := &faultyConn{fails: func(op string, data []byte) bool { return op == "Cut" || op == "Event" && len(data) > 0 }}
				done := h.postTo(c, h.input(session, "192.0.2.1", nil), message("1", "x"))
				time.Sleep(time.Second)
				release()
				hasReturned(t, done)
				select {
				case err := <-ends:
					if !errors.Is(err, ErrStreamLost) {
						t.Errorf("the call ends for %v", err)
					}
				default:
					t.Fatal("the call runs on")
				}
				synctest.Wait()
				if len(told) != 2 {
					t.Error("the handler waits for what will never be sent")
				}
				if n := h.k.Live(KindStream); n != 0 || !c.over {
					t.Errorf("%d streams are written; the connection is over: %v", n, c.over)
				}
				back := h.back(session, c.ids[0])
				time.Sleep(5 * time.Second)
				want := "-32010"
				if safe {
					want = "again"
				}
				if got := back.events(); len(got) == 0 || !strings.Contains(got[len(got)-1], want) || !back.over {
					t.Errorf("the resume got %q, over %v, want %s", got, back.over, want)
				}
			})
		})
	}
}

// TestPanicWhileAStreamOpens checks that a panic in the opening of a response leaves no
// goroutine waiting.
func TestPanicWhileAStreamOpens(t *testing.T) {
	for _, op := range []string{"call", "batch", "listen"} {
		t.Run(op, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					_ = c.Notify(ctx, "x", nil)
					<-ctx.Done()
					return nil, nil
				}
				c := &faultyConn{fails: func(op string, data []byte) bool { return op == "Event" }}
				var done chan struct{}
				switch op {
				case "call":
					done = h.postTo(c, h.input(h.begin("2025-11-25"), "192.0.2.1", nil), message("1", "x"))
				case "batch": // its first event is the first response
					done = h.postTo(c, h.input(h.begin("2025-03-26"), "192.0.2.1", nil), "["+message("1", "x")+","+message("2", "x")+"]")
				default:
					in := h.input(h.begin("2025-11-25"), "192.0.2.1", c)
					done = make(chan struct{})
					go func() { h.Get(h.svc, in, nil); close(done) }()
				}
				hasReturned(t, done)
				time.Sleep(time.Minute)
				if n, calls := h.k.Live(KindStream), h.Stats().InFlight; n != 0 || calls != 0 || !c.over {
					t.Errorf("%d streams are written, %d calls run; the connection is over: %v", n, calls, c.over)
				}
			})
		})
	}
}

const statelessMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

// TestPanicWhileARequestIsAnswered checks the same of stateless requests and of
// listeners.
func TestPanicWhileARequestIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct{ op, body string }{
		"answer":   {"Answer", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + statelessMeta + `}}`},
		"event":    {"Event", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"talks",` + statelessMeta + `}}`},
		"listener": {"Event", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + statelessMeta + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.svc = NewService("s", askingHandler{h.handler}, Limits{})
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if string(c.Message().Name) == `"talks"` {
						_ = c.Notify(ctx, "x", nil)
					}
					return []byte(`{}`), nil
				}
				c := &faultyConn{fails: func(op string, _ []byte) bool { return op == tt.op }}
				in := h.input("", "192.0.2.1", nil)
				in.Stateless, in.Exchange = true, c
				hasReturned(t, h.postTo(c, in, tt.body))
				time.Sleep(time.Minute)
				if n, subs := h.Stats().InFlight, h.k.Live(KindSubscription); n != 0 || subs != 0 || !c.over {
					t.Errorf("%d requests in flight, %d listeners; the connection is over: %v", n, subs, c.over)
				}
			})
		})
	}
}

// askingHandler is a heldHandler whose calls may ask, and which listens.
type askingHandler struct{ *heldHandler }

func (askingHandler) MayAsk(_, _ []byte) bool { return true }
func (askingHandler) Listening(context.Context, *Call) (Listening, *mcp.Error) {
	return Listening{Accepted: []byte(`{}`)}, nil
}

// TestPanicInAComment checks that a connection that panics at each comment keeps
// neither the other connections from their comments nor the node from its heartbeat.
func TestPanicInAComment(t *testing.T) {
	inBubble(t, Limits{KeepAlive: time.Second}, NodeLimits{}, func(t *testing.T, h *held) {
		all := make([]*faultyConn, 5)
		for i := range all {
			all[i] = &faultyConn{fails: func(op string, _ []byte) bool { return i == 2 && op == "Comment" }}
			in := h.input(h.begin("2025-06-18"), "192.0.2.1", all[i])
			go h.Get(h.svc, in, nil)
		}
		time.Sleep(time.Minute)
		for i, c := range all {
			if n := c.comments.Load(); n < 50 {
				t.Errorf("connection %d has had %d comments in a minute", i, n)
			}
		}
	})
}
