package actors

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/mcp"
)

// TestWhatKeepsASession uses a session for a long time in one way alone. Whatever its client sends keeps it.
func TestWhatKeepsASession(t *testing.T) {
	for name, use := range map[string]func(h *held, session, event string) *heldConn{
		"requests": func(h *held, session, _ string) *heldConn { return h.post(session, ping) },
		"notifications": func(h *held, session, _ string) *heldConn {
			return h.post(session, `{"jsonrpc":"2.0","method":"notifications/x"}`)
		},
		"answers": func(h *held, session, _ string) *heldConn {
			return h.post(session, `{"jsonrpc":"2.0","id":"x","result":{}}`)
		},
		"resumes": func(h *held, session, event string) *heldConn {
			return h.resume(h.Node, h.svc, session, event)
		},
		"streams": func(h *held, session, _ string) *heldConn {
			c := &heldConn{}
			h.Get(h.svc, h.input(session, "192.0.2.1", c), nil)
			c.Cut()
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The session leaves memory later than it expires, and nothing looks whether it is in use.
			l := Limits{SessionDrop: time.Hour, Session: session.Lifetime{Idle: 20 * time.Second, Absolute: time.Hour}}
			inBubble(t, l, NodeLimits{}, func(t *testing.T, h *held) {
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					_ = c.Notify(ctx, "n", nil)
					return []byte(`{}`), nil
				}
				session, stream := h.begin("2025-11-25"), &heldConn{}
				h.postOn(stream, session, aCall)
				for range 20 {
					time.Sleep(6 * time.Second)
					if c := use(h, session, stream.lastID()); c.status == 404 {
						t.Fatalf("it is answered %d %s", c.status, c.body)
					}
				}
				time.Sleep(time.Minute)
				if status, body := h.post(session, ping).answer(); status != 404 {
					t.Errorf("a session that nobody uses answers %d %s", status, body)
				}
			})
		})
	}
}
