package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestCallThatGoesOnElsewhere checks that a call that may not be sent again, but goes on with what its first run has begun, runs again for a client that comes
// back for it, and has the same key then.
func TestCallThatGoesOnElsewhere(t *testing.T) {
	resumes := func(method, _ []byte) bool { return string(method) == mcp.MethodToolsCall }
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		var keys []string
		ask := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			keys = append(keys, CallKey(ctx, c))
			return []byte(asks(ctx, c, "a")), nil
		}
		h.asker(ask)
		h.svc.Resumes = resumes
		asked := h.call(h.Node, h.svc, "")
		n, svc, end := h.heir(mayAgain{benchHandler{&heldHandler{f: ask}}, func(string) bool { return false }}, Limits{})
		defer end()
		n.mrtr.keys, svc.Resumes = benchKeys{}, resumes
		if _, body := h.call(n, svc, answersTo(asked, `{"a":{"n":1}}`)).answer(); !strings.Contains(body, `"result":{"n":1}`) {
			t.Errorf("a stateless call: %q", body)
		}
		if other := h.call(h.Node, h.svc, ""); other == nil || len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[0] == keys[2] {
			t.Errorf("keys of stateless calls: %q", keys)
		}
	})
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		var attempts atomic.Int32
		var keys []string
		work := func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			attempts.Store(int32(c.Attempt()))
			keys = append(keys, CallKey(ctx, c))
			select {
			case <-ctx.Done():
				return nil, mcp.NewError(mcp.CodeInternalError, "ended")
			case <-time.After(30 * time.Minute):
			}
			return fmt.Appendf(nil, `{"attempt":%d}`, c.Attempt()), nil
		}
		h.handler.f, h.svc.Resumes = work, resumes
		c, session := &heldConn{}, h.begin("2025-11-25")
		go h.postOn(c, session, aCall)
		time.Sleep(time.Minute)
		h.mem.forget()
		time.Sleep(10 * time.Minute)

		n := NewNode(Config{Name: "n", Boot: "c", Store: h.mem})
		svc := NewService("s", &heldHandler{f: work}, Limits{})
		svc.Resumes = resumes
		back := &heldConn{}
		in := h.input(session, "192.0.2.1", back)
		in.LastEventID = c.lastID()
		n.Get(svc, in, nil)
		time.Sleep(time.Hour)
		if got := back.events(); len(got) != 1 || got[0] != `{"jsonrpc":"2.0","id":1,"result":{"attempt":2}}` || attempts.Load() != 2 {
			t.Errorf("a call of a session: %q in attempt %d", got, attempts.Load())
		}
		if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] {
			t.Errorf("keys of a call of a session: %q", keys)
		}
		_ = n.Close(t.Context())
	})
}
