package actors

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// TestParkedCallKeepsNoRoundTrip checks that a parked call, which may wait for long,
// keeps nothing of the exchanges of its round trips: not of the first, and not of a
// later one.
func TestParkedCallKeepsNoRoundTrip(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		h.svc = NewService("s", benchHandler{h.handler}, Limits{})
		h.mrtr.keys = benchKeys{}
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			for range 3 {
				if _, err := c.Ask(ctx, []Question{{Key: "k", Method: "elicitation/create"}}); err != nil {
					return nil, &mcp.Error{Code: mcp.CodeInternalError, Message: err.Error()}
				}
			}
			return []byte(`{}`), nil
		}
		more := ""
		for round := range 3 {
			kept := func() weak.Pointer[heldConn] {
				c := &heldConn{}
				in := Input{Tenant: "anon", Conn: c, Exchange: c, Stateless: true}
				body := []byte(toolCall("1", more))
				var m codec.Message
				if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
					t.Fatal(err)
				}
				h.Post(h.svc, &in, nil, &m, body)
				status, asked := c.answer()
				if status != 200 {
					t.Fatalf("answered %d", status)
				}
				more = again(asked)
				return weak.Make(c)
			}()
			synctest.Wait()
			runtime.GC()
			if kept.Value() != nil {
				t.Errorf("round %d: the call is parked and keeps the exchange that has its answer", round+1)
			}
		}
	})
}
