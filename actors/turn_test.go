package actors

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// TestLargeCallsTakeTurns: while others have all turns, the work of a large call waits for as long as its limit says, or
// until the call is cancelled; that of a client that has the process for itself waits for as long as it takes.
func TestLargeCallsTakeTurns(t *testing.T) {
	for name, row := range map[string]struct {
		alone   bool
		stopped time.Duration // after which the call's context ends; 0 is never
		free    time.Duration // after which there is a place
		want    error         // nil: the work is done
		after   time.Duration
	}{
		"there is a place":            {want: nil},
		"in time":                     {free: 4 * time.Second, after: 4 * time.Second},
		"too late":                    {free: time.Hour, want: Unavailable, after: 5 * time.Second},
		"cancelled":                   {free: time.Hour, stopped: time.Second, want: ErrCancelled, after: time.Second},
		"too late, alone":             {alone: true, free: time.Hour, after: time.Hour},
		"cancelled while it is alone": {alone: true, free: time.Hour, stopped: time.Minute, want: ErrCancelled, after: time.Minute},
		"alone, and there is a place": {alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				turns, places := h.accounts.Turns, max(1, runtime.GOMAXPROCS(0)/2)
				other := h.accounts.Of("another client", "")
				if row.free > 0 {
					for range places {
						turns.Take(t.Context(), other)
					}
					time.AfterFunc(row.free, func() {
						for range places {
							turns.Leave()
						}
					})
				}
				done, start := false, time.Now()
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					if row.stopped > 0 {
						stopped, cancel := context.WithCancelCause(ctx)
						defer cancel(nil)
						time.AfterFunc(row.stopped, func() { cancel(ErrCancelled) })
						ctx = stopped
					}
					c.r.stateless.alone = row.alone
					err := c.Turn(ctx, func() error { done = true; return nil })
					if !errors.Is(err, row.want) || done != (row.want == nil) || time.Since(start) != row.after {
						t.Errorf("%v after %v, want %v after %v; the work is done: %v", err, time.Since(start), row.want, row.after, done)
					}
					return []byte("{}"), nil
				}
				c := &heldConn{}
				in := h.input("", "192.0.2.1", c)
				in.Stateless, in.Exchange = true, c
				body := []byte(`{"jsonrpc":"2.0","id":1,"method":"x/y","params":{` + statelessMeta + `}}`)
				var m codec.Message
				if err := codec.Scan(body, &m, codec.Limits{}); err != nil {
					t.Fatal(err)
				}
				h.Post(NewService("s", benchHandler{h.handler}, Limits{MaxCall: 3 * time.Hour}), in, nil, &m, body)
				want := int64(0)
				if row.want == Unavailable {
					want = 1
				}
				if n := h.refusals.of(TurnOfPrincipal); n != want {
					t.Errorf("%d refusals are counted, want %d", n, want)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if n := turns.Waiting(); n != 0 {
					t.Errorf("%d wait", n)
				}
				for range places { // all places came back
					turns.Take(t.Context(), other)
				}
			})
		})
	}
}

// TestARefusedTurnCostsNothing: a call that gets no turn, and so is refused, gets its tokens back, once.
func TestARefusedTurnCostsNothing(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"x/y","params":{` + statelessMeta + `}}`
	for name, post := range map[string]func(h *held){
		"of a session":  func(h *held) { h.post(h.begin("2025-11-25"), body) },
		"over HTTP+SSE": func(h *held) { h.post(h.connect("192.0.2.1", "2024-11-05").name, body); time.Sleep(time.Minute) },
		"of no session": func(h *held) {
			c := &heldConn{}
			in := h.input("", "192.0.2.1", c)
			in.Stateless, in.Exchange = true, c
			var m codec.Message
			_ = codec.Scan([]byte(body), &m, codec.Limits{})
			h.Post(NewService("s", benchHandler{h.handler}, Limits{}), in, nil, &m, []byte(body))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 0.001, Burst: 5}}, func(t *testing.T, h *held) {
				for range max(1, runtime.GOMAXPROCS(0)/2) {
					h.accounts.Turns.Take(t.Context(), nil)
				}
				b := h.accounts.Of("anon", "192.0.2.1").Buckets[rateOfCalls]
				b.TakeN(time.Now(), 2)
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					for range 2 {
						if err := c.Turn(ctx, func() error { return nil }); !errors.Is(err, Unavailable) {
							t.Errorf("got %v", err)
						}
					}
					return nil, Unavailable
				}
				post(h)
				if b.TakeN(time.Now(), 3) != 0 || b.Take(time.Now()) == 0 {
					t.Error("not 3 tokens are left")
				}
			})
		})
	}
}
