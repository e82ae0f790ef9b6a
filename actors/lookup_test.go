package actors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
)

// crowd is a limit on calls that a crowd of requests exceeds.
func crowd() NodeLimits {
	return NodeLimits{Calls: 10, Principal: PrincipalLimits{Calls: 5, Rate: 100, Burst: 100}}
}

// TestUnknownSessionsAreAdmittedFirst: what the store is asked for on behalf of a session
// that nobody knows counts as what its principal has in flight, and costs it tokens.
func TestUnknownSessionsAreAdmittedFirst(t *testing.T) {
	inBubble(t, Limits{}, crowd(), func(t *testing.T, h *held) {
		var asked, waiting, most atomic.Int64
		h.mem.before = func(op, _ string) error {
			if op == "Get" {
				asked.Add(1)
				most.Store(max(most.Load(), waiting.Add(1)))
				time.Sleep(4 * time.Second)
				waiting.Add(-1)
			}
			return nil
		}
		conns := make([]*heldConn, 300)
		for i := range conns {
			conns[i] = &heldConn{}
			go h.postOn(conns[i], h.newID(), message("1", "x"))
		}
		synctest.Wait()
		if n := most.Load(); n != 5 {
			t.Errorf("%d requests of one address wait for the store at once, want the 5 that it may have in flight", n)
		}
		time.Sleep(5 * time.Second)
		unknown, refused := 0, 0
		for _, c := range conns {
			switch status, _ := c.answer(); status {
			case 404:
				unknown++
			case 200: // with an error, so that a client of a session goes on
				refused++
			}
		}
		if unknown != 5 || refused != len(conns)-5 || asked.Load() != 5 {
			t.Errorf("%d are unknown, %d refused, the store was asked %d times", unknown, refused, asked.Load())
		}
		if n := h.accounts.InFlight(); n != 0 {
			t.Errorf("%d requests are in flight", n)
		}
		// One after the other they cost tokens, and a session that is known does not.
		h.mem.before = nil
		codes := make(map[int]int)
		for range 150 {
			c := &heldConn{}
			h.postOn(c, h.newID(), message("1", "x"))
			status, _ := c.answer()
			codes[status]++
		}
		if codes[404] > 100 || codes[404] < 90 {
			t.Errorf("%v, want the store asked for as many as there are tokens", codes)
		}
	})
}

// TestKnownSessionsCostNoTokens: after a restart all sessions are looked for, which takes
// nothing from their calls.
func TestKnownSessionsCostNoTokens(t *testing.T) {
	inBubble(t, Limits{}, crowd(), func(t *testing.T, h *held) {
		sessions := make([]string, 150)
		for i := range sessions {
			sessions[i] = h.begin("2025-11-25")
		}
		time.Sleep(3 * time.Minute) // they have left memory
		for i, session := range sessions {
			c := &heldConn{}
			h.postOn(c, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			if status, body := c.answer(); status != 202 {
				t.Fatalf("session %d: %d %s", i, status, body)
			}
		}
	})
}

// slowKeys are a key ring that the store is slow to tell.
type slowKeys struct{ waiting, most atomic.Int64 }

func (k *slowKeys) Seal(plain, _ []byte) ([]byte, error) { return plain, nil }
func (k *slowKeys) Open(_, _ []byte) ([]byte, error) {
	k.most.Store(max(k.most.Load(), k.waiting.Add(1)))
	time.Sleep(5 * time.Second)
	k.waiting.Add(-1)
	return nil, ErrUnavailable
}

// TestStatesAreAdmittedFirst: a requestState that takes a look into the store is opened for
// requests that were admitted.
func TestStatesAreAdmittedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &slowKeys{}
		n := NewNode(Config{Name: "n", Boot: "b", Store: newMemory(), Keys: keys, Limits: crowd()})
		svc := NewService("s", &heldHandler{}, Limits{})
		body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"requestState":"AQAAAAAAAAAB"}}`)
		conns := make([]*heldConn, 300)
		for i := range conns {
			conns[i] = &heldConn{}
			go func() {
				var m codec.Message
				_ = codec.Scan(body, &m, anyMessage)
				n.Post(svc, &Input{Tenant: "anon", Address: "192.0.2.1", Conn: conns[i], Alone: true}, nil, &m, body)
			}()
		}
		synctest.Wait()
		if most := keys.most.Load(); most != 5 {
			t.Errorf("%d states of one address are opened at once, want the 5 that it may have in flight", most)
		}
		time.Sleep(10 * time.Second)
		for i, c := range conns {
			if status, _ := c.answer(); status != 429 && status != 503 {
				t.Errorf("request %d is answered %d", i, status)
			}
		}
		if left := n.accounts.InFlight(); left != 0 {
			t.Errorf("%d requests are in flight", left)
		}
		_ = n.Close(t.Context())
	})
}
