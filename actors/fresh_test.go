package actors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit/when"
)

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// freshLimits are those of sessions that end after ten minutes if their client says nothing.
var freshLimits = Limits{Session: session.Lifetime{Idle: 72 * time.Hour, Fresh: 10 * time.Minute}}

// TestFreshSessionsExpire begins sessions whose clients send something after initialize, or nothing. Each is looked for
// after a crash, an hour later.
func TestFreshSessionsExpire(t *testing.T) {
	when.Long(t, "virtual hours")
	echo := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
	for name, tt := range map[string]struct {
		then func(h *held, session string)
		want int
	}{
		"nothing":               {func(*held, string) {}, 404},
		"nothing for too long":  {func(h *held, s string) { time.Sleep(10*time.Minute + time.Second); h.post(s, initialized) }, 404},
		"initialized":           {func(h *held, s string) { h.post(s, initialized) }, 200},
		"initialized, late":     {func(h *held, s string) { time.Sleep(9 * time.Minute); h.post(s, initialized) }, 200},
		"a request":             {func(h *held, s string) { h.post(s, echo) }, 200},
		"an answer":             {func(h *held, s string) { h.post(s, `{"jsonrpc":"2.0","id":"n.b.1","result":{}}`) }, 200},
		"a GET":                 {func(h *held, s string) { h.Get(h.svc, h.input(s, "192.0.2.1", &heldConn{}), nil) }, 200},
		"something of its own":  {func(h *held, s string) { h.post(s, `{"jsonrpc":"2.0","method":"acme/x"}`) }, 200},
		"for another session":   {func(h *held, s string) { h.post(h.begin("2025-11-25"), initialized) }, 404},
		"a value of the server": {func(h *held, s string) { _ = setValue(h.t, h.peerOf(s), "1") }, 404},
		"of another revision": {func(h *held, s string) {
			in := h.input(s, "192.0.2.1", &heldConn{})
			in.Version = "2025-06-18"
			h.Get(h.svc, in, nil)
		}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, freshLimits, NodeLimits{}, func(t *testing.T, h *held) {
				session := h.begin("2025-11-25")
				tt.then(h, session)
				// What the client has got a response for is stored, whenever the process ends.
				n, svc, end := h.heir(h.handler, freshLimits)
				defer end()
				time.Sleep(time.Hour)
				c := &heldConn{}
				var m codec.Message
				if err := codec.Scan([]byte(echo), &m, codec.Limits{}); err != nil {
					t.Fatal(err)
				}
				n.Post(svc, h.input(session, "192.0.2.1", c), nil, &m, []byte(echo))
				if status, body := c.answer(); status != tt.want {
					t.Errorf("an hour later: %d %s, want %d", status, body, tt.want)
				}
			})
		})
	}
}

// TestFreshSessionIsStoredAgainOnce counts the writes of a session's record.
func TestFreshSessionIsStoredAgainOnce(t *testing.T) {
	inBubble(t, freshLimits, NodeLimits{}, func(t *testing.T, h *held) {
		var updates atomic.Int32
		var away atomic.Bool
		h.mem.before = func(op, _ string) error {
			if op == "Update" {
				if away.Load() {
					return store.ErrUnavailable
				}
				updates.Add(1)
			}
			return nil
		}
		echo := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`
		id := h.begin("2025-11-25")
		fresh, all := h.accounts.Of("anon", "192.0.2.1").Used[usedFresh].Amount(time.Now()), h.accounts.Of("anon", "192.0.2.1").Used[store.SessionBudget].Amount(time.Now())
		if fresh < 50 || all != 0 {
			t.Errorf("a fresh session is charged with %d bytes for minutes and %d for days", fresh, all)
		}
		away.Store(true)
		if status, body := h.post(id, echo).answer(); status != 200 {
			t.Errorf("while the record cannot be stored: %d %s", status, body)
		}
		away.Store(false)
		for range 5 {
			h.post(id, initialized)
			h.post(id, echo)
		}
		synctest.Wait()
		if n := updates.Load(); n != 1 {
			t.Errorf("the record was stored again %d times, want once", n)
		}
		a := h.accounts.Of("anon", "192.0.2.1")
		if fresh, all := a.Used[usedFresh].Amount(time.Now()), a.Used[store.SessionBudget].Amount(time.Now()); fresh != 0 || all < 50 || storedFor(a, store.SessionBudget) != all {
			t.Errorf("once it is used it is charged with %d bytes for minutes and %d for days", fresh, all)
		}
		h.Delete(h.svc, h.input(id, "192.0.2.1", &heldConn{}))
		h.Delete(h.svc, h.input(h.begin("2025-11-25"), "192.0.2.1", &heldConn{}))
		if n := updates.Load(); n != 1 || storedFor(a, store.SessionBudget) > 16 {
			t.Errorf("a DELETE stores a record again, or leaves a charge: %d updates, %d bytes", n, storedFor(a, store.SessionBudget))
		}
		gone := h.begin("2025-11-25")
		if err := h.mem.Delete(t.Context(), SessionKey{"anon", "s", gone}.recordKey(), 0); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if status, body := h.post(gone, echo).answer(); status != 404 {
				t.Errorf("a session that was deleted elsewhere: %d %s, want 404", status, body)
			}
		}
	})
}
