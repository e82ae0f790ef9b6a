package actors

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
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
				if n := h.refused(limits.TurnWait.Row); n != want {
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

// TestALargeFilter: the filter of a listener is decoded in turn if it is large, and counted before. Who gets no turn has
// lost nothing.
func TestALargeFilter(t *testing.T) {
	const length = 100 << 10
	filter := `{"jsonrpc":"2.0","id":1,"method":"` + mcp.MethodSubscriptionsListen + `","params":{"x":"` + strings.Repeat("x", length) + `",` + statelessMeta + `}}`
	for name, row := range map[string]struct {
		body   string
		taken  bool // all places are, for an hour
		served bool
	}{
		"in turn":               {body: filter, served: true},
		"no turn":               {body: filter, taken: true},
		"small, without a turn": {body: strings.Replace(filter, strings.Repeat("x", length), "", 1), taken: true, served: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{Principal: PrincipalLimits{Rate: 0.001, Burst: 50}}, func(t *testing.T, h *held) {
				if row.taken {
					for range max(1, runtime.GOMAXPROCS(0)/2) {
						h.accounts.Turns.Take(t.Context(), nil)
					}
				}
				said := Listening{URIs: []string{"x:2", "x:1"}, Accepted: []byte("{}")}
				h.handler.listening = func() Listening {
					if n := h.accounts.BytesOf(quota.Listeners); n < int64(3*(len(row.body)-200)) {
						t.Errorf("%d bytes are counted while the filter is decoded", n)
					}
					return said
				}
				c := &heldConn{}
				in := h.input("", "192.0.2.1", c)
				in.Stateless, in.Exchange = true, c
				var m codec.Message
				_ = codec.Scan([]byte(row.body), &m, codec.Limits{})
				b := h.accounts.Of("anon", "192.0.2.1").Buckets[rateOfCalls]
				start := time.Now()
				h.Post(h.svc, in, nil, &m, []byte(row.body))
				synctest.Wait()
				a := h.accounts.Of("anon", "192.0.2.1")
				streams, bytes, free := a.Held[heldStreams].Load(), h.accounts.BytesOf(quota.Listeners), b.TakeN(time.Now(), 50) == 0
				if row.served {
					if streams != 1 || bytes != said.memorySize() || free {
						t.Errorf("%d streams, %d bytes counted, want 1, %d; all tokens are left: %v", streams, bytes, said.memorySize(), free)
					}
					h.ResourceUpdated(h.svc, "x:1", false)
					h.ResourceUpdated(h.svc, "x:2", false)
					synctest.Wait()
					if got := strings.Join(c.got, "\n"); !strings.Contains(got, `"x:1"`) || !strings.Contains(got, `"x:2"`) {
						t.Errorf("the listener got %s", got)
					}
					return
				}
				if streams != 0 || bytes != 0 || !free || time.Since(start) != 5*time.Second || c.status != 503 {
					t.Errorf("status %d after %v: %d streams, %d bytes counted; all tokens are left: %v", c.status, time.Since(start), streams, bytes, free)
				}
				if n := h.refused(limits.TurnWait.Row); n != 1 {
					t.Errorf("%d refusals are counted", n)
				}
			})
		})
	}
}

// TestManyResources: what a listener holds for its resources is asked for beside what its request takes, and given back
// by who is refused, or whose handler panics.
func TestManyResources(t *testing.T) {
	for name, row := range map[string]struct {
		uris    int
		panics  bool
		streams int64
	}{
		"few":                {10, false, 1},
		"more than its room": {1000, false, 0},
		"a panic":            {10, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{Bytes: 512 << 10}, func(t *testing.T, h *held) {
				said := Listening{Accepted: []byte("{}")}
				for i := range row.uris {
					said.URIs = append(said.URIs, fmt.Sprintf("x:%d", i))
				}
				h.handler.listening = func() Listening {
					if row.panics {
						panic("a handler's")
					}
					return said
				}
				c := &heldConn{}
				func() {
					defer func() {
						if v := recover(); (v != nil) != row.panics {
							t.Errorf("recovered %v", v)
						}
					}()
					h.listenTo(nil, c)
				}()
				synctest.Wait()
				want := int64(0)
				if row.streams > 0 {
					want = said.memorySize()
				}
				a := h.accounts.Of("anon", "192.0.2.1")
				if streams, bytes := a.Held[heldStreams].Load(), h.accounts.BytesOf(quota.Listeners); streams != row.streams || bytes != want {
					t.Errorf("%d streams and %d bytes are counted, want %d, %d: status %d, %s", streams, bytes, row.streams, want, c.status, c.body)
				}
			})
		})
	}
}
