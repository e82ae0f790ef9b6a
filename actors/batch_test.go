package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe/mcp"
)

func callOf(id, tool string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `"}}`
}

// TestRefusedBatchHasNoEffect checks that a faulty batch, or one without room, has no effect:
// none of its requests runs or holds a place, and its ids are free.
func TestRefusedBatchHasNoEffect(t *testing.T) {
	const response = `{"jsonrpc":"2.0","id":"n.b.1","result":{}}`
	for name, tt := range map[string]struct {
		batch  []string
		status int
		says   string
	}{
		"an id twice":              {[]string{callOf("1", "x"), callOf("1", "x")}, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"batch, message 2: the id of another`},
		"a response and a request": {[]string{response, callOf("1", "x")}, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"a batch holds either`},
		"more than there is room":  {[]string{callOf("1", "x"), callOf("2", "x"), callOf("3", "x")}, 200, `"id":3,"error":{"code":-32600,"message":"too many requests in flight`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{PerSession: 2}, NodeLimits{}, func(t *testing.T, h *held) {
				runs := make(chan struct{}, 10)
				h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) {
					runs <- struct{}{}
					return []byte(`{}`), nil
				}
				session := h.begin("2025-03-26")
				if status, body := h.post(session, "["+strings.Join(tt.batch, ",")+"]").answer(); status != tt.status || strings.Contains(body, `"result"`) || !strings.Contains(body, tt.says) {
					t.Errorf("the batch: got %d %s, want %d with %s and no result", status, body, tt.status, tt.says)
				}
				synctest.Wait()
				if n := len(runs); n != 0 {
					t.Errorf("%d requests of the batch ran", n)
				}
				if status, body := h.post(session, "["+callOf("1", "x")+","+callOf("2", "x")+"]").answer(); status != 200 || strings.Count(body, `"result":{}`) != 2 {
					t.Errorf("the next batch: got %d %s, want two results", status, body)
				}
			})
		})
	}
}

// mixedBatch begins a batch of two calls, the first of which is safe. Both send a
// message; then the first ends if the test says so, and the other never by itself.
func (h *held) mixedBatch(end <-chan struct{}) (session string, c *heldConn) {
	h.svc = NewService("s", mayAgain{benchHandler{h.handler}, func(name string) bool { return name == `"safe"` }}, Limits{})
	h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
		_ = c.Notify(ctx, "began", nil)
		own := end
		if string(c.Message().Name) != `"safe"` {
			own = nil
		}
		select {
		case <-ctx.Done():
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		case <-own:
			return []byte(`"safe"`), nil
		}
	}
	session = h.begin("2025-03-26")
	c = h.post(session, "["+callOf("1", "safe")+","+callOf("2", "other")+"]")
	synctest.Wait()
	return session, c
}

// TestBatchIsHandedOverWhileSomeOfItMayRunAgain checks that a process that ends leaves a batch
// to the next one while a call of the batch may run again there. When that call has its
// response, the client learns at once that the others are lost.
func TestBatchIsHandedOverWhileSomeOfItMayRunAgain(t *testing.T) {
	for name, answered := range map[string]bool{"the safe call runs": false, "the safe call has its response": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				end := make(chan struct{})
				_, c := h.mixedBatch(end)
				if answered {
					close(end)
					synctest.Wait()
				}
				drainer{h.Node}.giveUp(context.Background())
				synctest.Wait()
				lost := 0
				for _, e := range c.events() {
					if strings.Contains(e, fmt.Sprint(mcp.CodeCallLost)) {
						lost++
					}
				}
				want := 0
				if answered {
					want = 1
				}
				if lost != want || !c.over {
					t.Errorf("%d calls are said to be lost, want %d; the stream has ended: %v\n%q", lost, want, c.over, c.events())
				}
			})
		})
	}
}
