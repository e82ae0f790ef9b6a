package actors

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// fills sets how much of a budget is in use.
func (m *memory) fills(b store.Budget, used, limit int64) {
	m.used[b].Store(used)
	m.limit[b].Store(limit)
}

// TestStoreIsShared checks that a principal with its share of a budget begins nothing
// more once half of it is in use, that others do until nine tenths, and that a budget
// stops only what needs it.
func TestStoreIsShared(t *testing.T) {
	const limit = 64 << 10
	for _, tt := range []struct {
		name         string
		budget       store.Budget
		used         int64
		mallory, bob bool
		malloryLimit *limits.Row
	}{
		{"sessions, less than half of it in use", store.SessionBudget, limit * 2 / 5, true, true, nil},
		{"sessions, little room", store.SessionBudget, limit * 4 / 5, false, true, limits.StoreShare.Row},
		{"sessions that nobody uses, little room", store.SessionBudget, limit * 4 / 5, false, true, limits.StoreShare.Row},
		{"sessions, nearly full", store.SessionBudget, limit*9/10 + 100, false, false, limits.MaxStore.Row},
		{"calls, less than half of it in use", store.EventBudget, limit * 2 / 5, true, true, nil},
		{"calls, little room", store.EventBudget, limit * 4 / 5, false, true, limits.StoreShare.Row},
		{"calls, nearly full", store.EventBudget, limit*9/10 + 100, false, false, limits.MaxStore.Row},
		{"sessions, while calls have little room", store.SessionBudget, -limit * 4 / 5, true, true, nil},
		{"sessions, while calls have none", store.SessionBudget, -limit, true, true, nil},
		{"calls, while sessions have little room", store.EventBudget, -limit * 4 / 5, true, true, nil},
		{"calls, while sessions have none", store.EventBudget, -limit, true, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, l := 0, Limits{}
			if strings.HasPrefix(tt.name, "sessions that nobody uses") {
				l = freshLimits
			}
			inBubble(t, l, NodeLimits{}, func(t *testing.T, h *held) {
				h.svc.Handler = safeHandler{h.handler}
				h.handler.f = ticks(time.Hour)
				post := func(address, session, body string) *heldConn {
					c := &heldConn{}
					h.postFrom(c, address, session, body)
					return c
				}
				session := make(map[string]string)
				begin := func(address string, size int) bool { // a session, or a call that becomes a stream
					if tt.budget == store.SessionBudget {
						status, _ := post(address, "", initializeAs("2025-11-25")).answer()
						return status == 200
					}
					id++
					body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x","arguments":{"pad":"%s"}}}`, id, strings.Repeat("x", size))
					c := &heldConn{}
					go h.postFrom(c, address, session[address], body)
					time.Sleep(time.Second)
					return len(c.events()) > 0
				}
				const mallory, bob = "192.0.2.66", "192.0.2.1"
				for _, who := range []string{mallory, bob} {
					session[who] = post(who, "", initializeAs("2025-11-25")).name
				}
				for range 12 {
					if !begin(mallory, 1<<10) {
						t.Fatal("refused while there is room")
					}
				}
				if used := tt.used; used < 0 {
					h.mem.fills(store.SessionBudget+store.EventBudget-tt.budget, -used, limit) // the other one
				} else {
					h.mem.fills(tt.budget, used, limit)
				}
				before := h.refused(tt.malloryLimit)
				if got := begin(mallory, 10); got != tt.mallory {
					t.Errorf("who has a share begins something: %v", got)
				}
				if tt.malloryLimit != nil && h.refused(tt.malloryLimit) != before+1 {
					t.Errorf("the refusal is not counted as %s", tt.malloryLimit.Counted)
				}
				if got := begin(bob, 10); got != tt.bob {
					t.Errorf("another begins something: %v", got)
				}
				if time.Sleep(30 * time.Minute); tt.budget == store.EventBudget && tt.malloryLimit == limits.StoreShare.Row && !begin(mallory, 10) {
					t.Error("what has expired is held against its client")
				}
			})
		})
	}
}

// TestWhatIsStoredIsCharged checks that a principal is charged once for sessions, records,
// bodies and events, however often an append is tried, and for a session until it is
// deleted.
func TestWhatIsStoredIsCharged(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const address = "192.0.2.1"
		used := func(b store.Budget) int64 { return h.accounts.Of("anon", address).Used[b].Amount(time.Now()) }
		var refused atomic.Int32
		var full atomic.Bool
		h.mem.before = func(op, _ string) error {
			switch {
			case op == "Append" && refused.Load() < 20:
				refused.Add(1)
				return store.ErrRetry
			case op == "Create" && full.Load():
				return store.ErrFull
			}
			return nil
		}
		session := h.begin("2025-11-25")
		one := used(store.SessionBudget)
		if one < 50 || one > 1000 {
			t.Errorf("a session is charged with %d bytes", one)
		}
		h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			_ = c.Notify(ctx, "n", []byte(`{"pad":"`+strings.Repeat("x", 10_000)+`"}`))
			<-ctx.Done()
			return nil, mcp.NewError(mcp.CodeInternalError, "ended")
		}
		h.svc.Handler = safeHandler{h.handler}
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"pad":"` + strings.Repeat("x", 5000) + `"}}}`
		go h.postOn(&heldConn{}, session, body)
		time.Sleep(time.Minute)
		if got := used(store.EventBudget); refused.Load() != 20 || got < 15_000 || got > 17_000 {
			t.Errorf("a body of 5 kB and an event of 10 kB are charged with %d bytes, after %d tries", got, refused.Load())
		}
		if h.begin("2025-11-25"); used(store.SessionBudget) != 2*one {
			t.Errorf("two sessions are charged with %d bytes, one was %d", used(store.SessionBudget), one)
		}
		h.Delete(h.svc, h.input(session, address, &heldConn{}))
		if got := used(store.SessionBudget); got > one+16 || got < one-16 {
			t.Errorf("once one of them is deleted: %d bytes, want %d", got, one)
		}
		full.Store(true)
		if h.begin("2025-11-25"); used(store.SessionBudget) > one+16 {
			t.Errorf("one that could not be stored is charged: %d bytes", used(store.SessionBudget))
		}
	})
}

// TestWhatIsOnItsWayCounts has sessions, or calls, of many clients that begin while the store answers none of them. No two of them take the same
// room: less than half of it is taken, and some is left for another client.
func TestWhatIsOnItsWayCounts(t *testing.T) {
	for name, op := range map[string]string{"sessions": "Create", "calls": "OpenStream"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Limits{StoreWait: time.Hour}, NodeLimits{}, func(t *testing.T, h *held) {
				h.svc.Handler = safeHandler{h.handler}
				h.handler.f = ticks(time.Hour)
				const clients = 64
				address := func(i int) string { return fmt.Sprintf("192.0.2.%d", i+1) }
				session := make([]string, clients)
				if op == "OpenStream" {
					for i := range session {
						c := &heldConn{}
						h.postFrom(c, address(i), "", initializeAs("2025-11-25"))
						session[i] = c.name
					}
				}
				var waiting atomic.Int32
				goes := make(chan struct{})
				h.mem.before = func(o, _ string) error {
					if o == op {
						waiting.Add(1)
						<-goes
					}
					return nil
				}
				h.mem.fills(store.SessionBudget, 1, 8<<10)
				h.mem.fills(store.EventBudget, 1, 32<<10)
				for i := range clients {
					body := initializeAs("2025-11-25")
					if op == "OpenStream" {
						body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"pad":"` + strings.Repeat("x", 1<<10) + `"}}}`
					}
					go h.postFrom(&heldConn{}, address(i), session[i], body)
				}
				time.Sleep(time.Second)
				if n, refused := int(waiting.Load()), int(h.refused(limits.StoreShare.Row)+h.refused(limits.MaxStore.Row)); n == clients || n < clients/8 || n+refused != clients {
					t.Errorf("%d of %d begin, and %d are refused", n, clients, refused)
				}
				close(goes)
				time.Sleep(time.Second)
				if session, events := h.accounts.storing[store.SessionBudget].Load(), h.accounts.storing[store.EventBudget].Load(); session != 0 || events != 0 {
					t.Errorf("%d bytes of sessions and %d of calls are still on their way", session, events)
				}
			})
		})
	}
}

// TestEventsCountBeforeTheyAreStored has clients whose events wait for the store begin more calls. The events count at once, for
// their client and for all, or else a store with little room would take streams whose events it has no room for.
func TestEventsCountBeforeTheyAreStored(t *testing.T) {
	const limit = 64 << 20
	for _, tt := range []struct {
		name         string
		used         int64
		clients, all int // all calls, by turns of the clients
		least, most  int // of them that begin
	}{
		{"of one client, while there is little room", limit * 6 / 10, 1, 6, 2, 4},
		{"of many, while there seems to be room", limit * 48 / 100, 8, 32, 8, 24},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
				h.handler.f = func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
					_ = c.Notify(ctx, "n", []byte(`{"pad":"`+strings.Repeat("x", 1<<20)+`"}`))
					<-ctx.Done()
					return nil, mcp.NewError(mcp.CodeInternalError, "ended")
				}
				h.mem.fills(store.EventBudget, tt.used, limit)
				stored := make(chan struct{})
				defer close(stored)
				h.mem.before = func(op, _ string) error {
					if op == "Append" {
						<-stored
					}
					return nil
				}
				begins := func(address string, id int) bool {
					c := &heldConn{}
					h.postFrom(c, address, "", initializeAs("2025-11-25"))
					before := h.refused(limits.StoreShare.Row) + h.refused(limits.MaxStore.Row)
					go h.postFrom(&heldConn{}, address, c.name, message(fmt.Sprint(id), "x"))
					time.Sleep(time.Second)
					return h.refused(limits.StoreShare.Row)+h.refused(limits.MaxStore.Row) == before
				}
				begun := 0
				for i := range tt.all {
					if begins(fmt.Sprintf("192.0.2.%d", 1+i%tt.clients), i) {
						begun++
					}
				}
				if begun < tt.least || begun > tt.most {
					t.Errorf("%d of %d calls begin, want %d to %d", begun, tt.all, tt.least, tt.most)
				}
				if !begins("192.0.2.99", 0) {
					t.Error("another client cannot begin a call")
				}
			})
		})
	}
}

// yielding lets others go on while it says how full the store is.
type yielding struct{ store.Store }

func (y yielding) Use(b store.Budget) (used, limit int64) {
	for range 20 {
		runtime.Gosched()
	}
	return y.Store.Use(b)
}

// TestRefusedBytesRefuseNobody has one client ask for ten times what its share of the store is, all at once, and another one for a little: what is refused to the first
// counts for nobody.
func TestRefusedBytesRefuseNobody(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const limit, each, n = 1 << 20, 16 << 10, 640
		h.mem.fills(store.TaskBudget, 0, limit)
		h.accounts.store = yielding{h.mem}
		ask := func(from string, bytes int64) *limits.Row {
			return h.accounts.chargeStore(storeCharge{of: h.accounts.Of("anon", from), in: store.TaskBudget, bytes: bytes, life: time.Hour})
		}
		var all sync.WaitGroup
		var taken, full atomic.Int32
		for i := range n {
			all.Go(func() {
				from, bytes := "greedy", int64(each)
				if i%8 == 0 {
					from, bytes = "modest", 16
				}
				switch no := ask(from, bytes); {
				case no == limits.MaxStore.Row:
					full.Add(1)
				case no == nil && from == "greedy":
					taken.Add(1)
				}
			})
		}
		all.Wait()
		if full.Load() > 0 || taken.Load() > limit/2/each || taken.Load() < limit/2/each-1 {
			t.Errorf("%d times the store was full, and one client had %d of %d", full.Load(), taken.Load(), limit/each)
		}
	})
}
