package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// talker returns a handler that sends a message each minute, for a number of minutes.
func talker(minutes int, ended chan<- error) func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
	return func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		for i := range minutes {
			_ = c.Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d}`, i+1))
			select {
			case <-ctx.Done():
				ended <- context.Cause(ctx)
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			case <-time.After(time.Minute):
			}
		}
		ended <- nil
		return []byte(`{"done":true}`), nil
	}
}

func talked(minutes int) (want []string) {
	for i := range minutes {
		want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"n":%d}}`, i+1))
	}
	return append(want, `{"jsonrpc":"2.0","id":1,"result":{"done":true}}`)
}

const aCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`

// TestStoreAwayForAnHour has the store be away, refuse or be silent for as long as a call
// may run: no running call is lost.
func TestStoreAwayForAnHour(t *testing.T) {
	for name, silent := range map[string]time.Duration{"it refuses at once": 0, "it does not answer": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{MaxCall: 2 * time.Hour}, NodeLimits{}, func(t *testing.T, h *held) {
				var gone atomic.Bool
				h.mem.before = func(string, string) error {
					if !gone.Load() {
						return nil
					}
					time.Sleep(silent)
					return store.ErrUnavailable
				}
				ended := make(chan error, 1)
				h.handler.f = talker(70, ended)
				c := &heldConn{}
				go h.postOn(c, h.begin("2025-11-25"), aCall)
				time.Sleep(90 * time.Second)
				gone.Store(true)
				time.Sleep(time.Hour)
				gone.Store(false)
				if err := <-ended; err != nil {
					t.Errorf("the handler was ended: %v", err)
				}
				time.Sleep(time.Minute)
				if diff := cmp.Diff(talked(70), c.events()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// forget removes what the store has of the streams, as the end of their lifetime does.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for path := range m.appends {
		delete(m.records, path)
		delete(m.bodies, path)
		clear(m.appends[path])
	}
}

// TestForgottenIsNotTaken checks what becomes of a call when the store has another writer
// record than the one that the call's writer stored.
func TestForgottenIsNotTaken(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile func(h *held, session string)
		cause     error
	}{
		"the store forgot it": {func(h *held, _ string) { h.mem.forget() }, nil},
		"it was taken": {func(h *held, _ string) {
			h.mem.mu.Lock()
			defer h.mem.mu.Unlock()
			for path := range h.mem.appends {
				h.mem.rev++
				h.mem.records[path] = stored{[]byte(`{"v":2,"node":"m","boot":"c","epoch":9}`), h.mem.rev}
			}
		}, ErrStreamLost},
		"it was rewritten under our name": {func(h *held, _ string) {
			h.mem.mu.Lock()
			defer h.mem.mu.Unlock()
			for path := range h.mem.appends {
				h.mem.rev++
				h.mem.records[path] = stored{h.mem.records[path].data, h.mem.rev}
			}
		}, nil},
		"the session is gone, too": {func(h *held, session string) {
			h.mem.forget()
			_ = h.mem.Delete(h.t.Context(), SessionKey{"anon", "s", session}.recordKey(), 0)
		}, ErrStreamLost},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				ended := make(chan error, 1)
				h.handler.f = talker(5, ended)
				c, session := &heldConn{}, h.begin("2025-11-25")
				go h.postOn(c, session, aCall)
				time.Sleep(90 * time.Second)
				before := h.epochs()
				tt.meanwhile(h, session)
				if err := <-ended; !errors.Is(err, tt.cause) {
					t.Errorf("the handler ended with %v, want %v", err, tt.cause)
				}
				time.Sleep(time.Second)
				if diff := cmp.Diff(talked(5), c.events()); (diff == "") != (tt.cause == nil) {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				// What was sent before is not sent again under its event ids, whatever the store may still have of that.
				if name == "the store forgot it" {
					for path, epoch := range before {
						if now := h.epochs()[path]; now <= epoch {
							t.Errorf("stored again in epoch %d, after %d", now, epoch)
						}
					}
				}
			})
		})
	}
}

// epochs are those of the writer records, by their streams.
func (h *held) epochs() map[string]uint64 {
	h.mem.mu.Lock()
	defer h.mem.mu.Unlock()
	all := make(map[string]uint64)
	for path := range h.mem.appends {
		rec, err := record.Decode(h.mem.records[path].data)
		if err != nil {
			h.t.Error(err)
		}
		all[path] = rec.Epoch
	}
	return all
}

// TestForgottenCallRunsAgain checks that a record that was stored again gives a later run
// everything that the run before did, and has the body.
func TestForgottenCallRunsAgain(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		var attempts atomic.Int32
		work := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			attempts.Store(int32(c.Attempt()))
			answer := func() string {
				as, err := c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create", Params: []byte(`{}`)}})
				if err != nil {
					return err.Error()
				}
				return string(as[0].Result)
			}
			first := answer()
			select {
			case <-ctx.Done():
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			case <-time.After(30 * time.Minute):
			}
			return []byte(first), nil
		}
		h.handler.f = work
		h.svc.Handler = safeHandler{h.handler}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(time.Second)
		asked := c.events()
		if len(asked) != 1 {
			t.Fatalf("asked %q", asked)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(asked[0], `{"jsonrpc":"2.0","id":`), ",")
		h.post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"a":"first"}}`)
		h.mem.forget()
		time.Sleep(10 * time.Minute) // the record was due by then

		n := NewNode(Config{Name: "n", Boot: "c", Store: h.mem})
		svc := NewService("s", safeHandler{&heldHandler{f: work}}, Limits{})
		back := &heldConn{}
		in := h.input(session, "192.0.2.1", back)
		in.LastEventID = c.lastID()
		n.Get(svc, in, nil)
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","id":1,"result":{"a":"first"}}`}, back.events()); diff != "" || attempts.Load() != 2 {
			t.Errorf("attempt %d (-want +got):\n%s", attempts.Load(), diff)
		}
		_ = n.Close(t.Context())
	})
}

// TestTakeoverReadsTailAndDigest counts the appends of a long log that a takeover, and
// the resume that caused it, read.
func TestTakeoverReadsTailAndDigest(t *testing.T) {
	inBubble(t, Limits{ReplayAge: 10 * time.Minute}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			for i := range 900 {
				_ = c.Notify(ctx, "n", fmt.Appendf(nil, `{"n":%d}`, i+1))
				time.Sleep(time.Second)
			}
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(20 * time.Minute)
		h.mem.reads.Store(0)
		n := NewNode(Config{Name: "n", Boot: "c", Store: h.mem})
		back := &heldConn{}
		in := h.input(session, "192.0.2.1", back)
		in.LastEventID = c.lastID()
		n.Get(NewService("s", h.handler, Limits{}), in, nil)
		time.Sleep(time.Minute)
		if n.Stats().Takeovers != 1 || !slices.ContainsFunc(back.events(), func(e string) bool { return strings.Contains(e, "-32010") }) {
			t.Fatalf("takeovers %d, events %q", n.Stats().Takeovers, back.events())
		}
		if reads := h.mem.reads.Load(); reads > 20 {
			t.Errorf("%d appends were read", reads)
		}
		_ = n.Close(t.Context())
	})
}

// TestTooMuchToRecall checks that a call that got more answers than its record holds may
// not run again, and that this is counted once.
func TestTooMuchToRecall(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_, _ = c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create", Params: []byte(`{}`)}})
			time.Sleep(30 * time.Minute)
			return []byte(`{}`), nil
		}
		h.svc.Handler = safeHandler{h.handler}
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(time.Second)
		id, _, _ := strings.Cut(strings.TrimPrefix(c.events()[0], `{"jsonrpc":"2.0","id":`), ",")
		h.post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"a":"`+strings.Repeat("x", record.MaxDigest)+`"}}`)
		time.Sleep(20 * time.Minute)
		if n := h.refused(limits.Recall.Row); n != 1 {
			t.Errorf("%d calls lost their right to run again, want 1", n)
		}
		h.streams.Each(func(s *streamActor) {
			rec, _, err := h.streams.readWriter(t.Context(), s.key)
			if err != nil || len(rec.Calls) != 1 || !rec.Calls[0].Never || len(rec.Digest.Questions) != 0 {
				t.Errorf("the record is %+v, %v", rec, err)
			}
		})
		time.Sleep(20 * time.Minute)
	})
}

// TestNothingBeginsWithoutALease has a call that came while the lease was certain begin its stream after it was over. Others take over what a
// node without a lease has, so that its client hears nothing of it before the lease is certain again, or is refused.
func TestNothingBeginsWithoutALease(t *testing.T) {
	for name, back := range map[string]time.Duration{"the lease is back": 3 * time.Second, "it does not come back": time.Minute} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				store := &uncertain{memory: h.mem}
				_ = h.Close(context.Background())
				h.Node = NewNode(Config{Name: "m", Boot: "c", Store: store})
				defer func() { _ = h.Close(context.Background()) }()
				h.svc, h.handler.f = NewService("s", h.handler, Limits{}), ticks(time.Second)
				session := h.begin("2025-11-25")
				h.mem.before = func(op, _ string) error {
					if op == "OpenStream" {
						store.on.Store(true)
						time.AfterFunc(back, func() { store.on.Store(false) })
					}
					return nil
				}
				c := &heldConn{}
				go h.postOn(c, session, aCall)
				time.Sleep(2 * time.Second)
				if status, body := c.answer(); c.begun() || status != 0 {
					t.Errorf("without a lease the client has %d %s, begun %v", status, body, c.begun())
				}
				time.Sleep(18 * time.Second)
				status, body := c.answer()
				if refused := strings.Contains(body, "temporarily unavailable"); refused != (back == time.Minute) || refused == (len(c.events()) > 0) {
					t.Errorf("it is answered %d %s, with %d events", status, body, len(c.events()))
				}
			})
		})
	}
}
