package actors

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// TestLargeBodiesAreStoredForThoseWhoInsist begins calls that may run again, with messages around 256 KiB. After a crash
// a call runs again if its message was stored; otherwise it ends with -32010, and is counted.
func TestLargeBodiesAreStoredForThoseWhoInsist(t *testing.T) {
	for name, tt := range map[string]struct {
		more    int // bytes beyond the limit
		batch   bool
		insists func(method, name []byte) bool
		runs    int32 // calls that run again
		recall  int64
	}{
		"at the limit":                {0, false, nil, 1, 0},
		"beyond the limit":            {1, false, nil, 0, 1},
		"beyond, for who insists":     {1, false, func(_, name []byte) bool { return string(name) == `"x"` }, 1, 0},
		"beyond, another insists":     {1, false, func(_, name []byte) bool { return string(name) == `"y"` }, 0, 1},
		"a batch at the limit":        {0, true, nil, 2, 0},
		"a batch beyond the limit":    {1, true, nil, 0, 2},
		"a batch with one to insist":  {1, true, func(_, name []byte) bool { return string(name) == `"y"` }, 1, 1},
		"a batch of those who insist": {1, true, func(_, _ []byte) bool { return true }, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.svc.Handler, h.svc.Insists = safeHandler{h.handler}, tt.insists
				h.handler.f = ticks(time.Hour)
				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"pad":""}}}`
				calls := int32(1)
				if tt.batch {
					body, calls = "["+body+`,{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"y"}}]`, 2
				}
				body = strings.Replace(body, `"pad":"`, `"pad":"`+strings.Repeat("x", maxRerunBody+tt.more-len(body)), 1)
				session, c := h.begin("2025-03-26"), &heldConn{}
				go h.postOn(c, session, body)
				time.Sleep(10 * time.Second)
				if n := h.refused(limits.Recall.Row); n != tt.recall {
					t.Errorf("%d calls are counted, want %d", n, tt.recall)
				}
				var again atomic.Int32
				n, svc, end := h.heir(safeHandler{&heldHandler{f: func(context.Context, *Call) ([]byte, *mcp.Error) {
					again.Add(1)
					return []byte(`{}`), nil
				}}}, Limits{})
				defer end()
				back := h.resume(n, svc, session, c.lastID())
				time.Sleep(10 * time.Second)
				if got := again.Load(); got != tt.runs {
					t.Errorf("%d calls run again, want %d", got, tt.runs)
				}
				if lost := strings.Count(strings.Join(back.events(), ""), "-32010"); lost != int(calls-tt.runs) {
					t.Errorf("%d calls end with -32010, want %d", lost, calls-tt.runs)
				}
			})
		})
	}
}

// TestLargeCallsAreEndedByTheirNode checks that the end of a node takes a call whose message is not stored for one that
// only this node can end.
func TestLargeCallsAreEndedByTheirNode(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc.Handler = safeHandler{h.handler}
		m := &codec.Message{Method: []byte(mcp.MethodToolsCall), Name: []byte(`"x"`)}
		h.drain.sparing.Store(true)
		for size, own := range map[int]bool{0: false, maxRerunBody: false, maxRerunBody + 1: true} {
			r := &requestActor{pool: &h.calls, size: size, call: &Call{callFacts: callFacts{msg: m}}, svc: h.svc, way: way{returns: true}}
			if got, refused := (lastingCall{r}).endsOnlyHere(), h.svc.refusedBy(&h.drain, nil, m, size); got != own || refused != own {
				t.Errorf("a call of %d bytes is this node's alone: %t, and refused late: %t, want %t", size, got, refused, own)
			}
		}
	})
}

// TestResponsesAreNotKept checks that no actor of a request refers to the response once that is delivered: neither while the
// record of its stream is stored, nor when it is idle.
func TestResponsesAreNotKept(t *testing.T) {
	for name, streams := range map[string]bool{"plain": false, "a stream": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				var r *requestActor
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if r = c.r; streams {
						_ = c.Notify(ctx, "x", []byte(`{}`))
					}
					return []byte(`"` + strings.Repeat("x", 1<<20) + `"`), nil
				}
				session, stored := h.begin("2025-11-25"), make(chan struct{})
				h.mem.before = func(op, _ string) error {
					if op == "OpenStream" {
						<-stored
					}
					return nil
				}
				c := &heldConn{}
				go h.postOn(c, session, message("1", "x"))
				synctest.Wait()
				if r.result.data != nil || r.out != nil {
					t.Errorf("%d bytes of the response are kept", len(r.result.data))
				}
				close(stored)
				time.Sleep(time.Second)
				if _, got := c.answer(); !streams && len(got) < 1<<20 {
					t.Errorf("the response has %d bytes", len(got))
				}
				if n := len(strings.Join(c.events(), "")); streams && n < 1<<20 {
					t.Errorf("the events have %d bytes", n)
				}
			})
		})
	}
}
