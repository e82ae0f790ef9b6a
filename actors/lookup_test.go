package actors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/store"
)

// crowd is a limit on calls that a crowd of requests exceeds.
func crowd() NodeLimits {
	return NodeLimits{Calls: 10, Principal: PrincipalLimits{Calls: 5, Rate: 100, Burst: 100}}
}

// TestSessionsAreLookedForInTurn checks that the node reads few sessions from the store at
// a time, however many requests name a session. It refuses no request that it would have
// served otherwise, whatever limits the calls have reached.
func TestSessionsAreLookedForInTurn(t *testing.T) {
	inBubble(t, Limits{}, crowd(), func(t *testing.T, h *held) {
		var waiting, most, slow atomic.Int64
		h.mem.before = func(op, _ string) error {
			if op == "Get" {
				most.Store(max(most.Load(), waiting.Add(1)))
				time.Sleep(time.Duration(slow.Load()))
				waiting.Add(-1)
			}
			return nil
		}
		known := make([]string, 300)
		for i := range known {
			known[i] = h.begin("2025-11-25")
		}
		time.Sleep(3 * time.Minute) // they have left memory
		slow.Store(int64(100 * time.Millisecond))
		const notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		conns := make(map[*heldConn]int)
		for i := range 3 * len(known) / 2 {
			c := &heldConn{}
			if session := newID(); i < len(known) {
				conns[c] = 202
				go h.postOn(c, known[i], notification)
			} else {
				conns[c] = 404
				go h.postOn(c, session, notification)
			}
		}
		time.Sleep(4800 * time.Millisecond) // 450 of them, 10 at a time
		if n := most.Load(); n != 10 {
			t.Errorf("the store was asked for %d sessions at once, want 10", n)
		}
		for c, want := range conns {
			if status, body := c.answer(); status != want {
				t.Fatalf("%d %s, want %d", status, body, want)
			}
		}
		// A request that waits for longer than the store may take gets an error that says
		// when to come back.
		slow.Store(int64(4 * time.Second))
		late := make([]*heldConn, 30)
		for i := range late {
			late[i] = &heldConn{}
			go h.postOn(late[i], newID(), notification)
		}
		time.Sleep(10 * time.Second)
		codes := make(map[int]int)
		for _, c := range late {
			status, _ := c.answer()
			codes[status]++
		}
		if codes[404] != 20 || codes[503] != 10 || len(h.sessions.lookups) != 0 {
			t.Errorf("%v, %d turns are taken", codes, len(h.sessions.lookups))
		}
	})
}

// slowKeys is a key ring that the store reads slowly.
type slowKeys struct{ waiting, most atomic.Int64 }

func (k *slowKeys) Seal(plain, _ []byte) ([]byte, error) { return plain, nil }
func (k *slowKeys) Open(_, _ []byte) ([]byte, error) {
	k.most.Store(max(k.most.Load(), k.waiting.Add(1)))
	time.Sleep(5 * time.Second)
	k.waiting.Add(-1)
	return nil, store.ErrUnavailable
}

// TestStatesAreAdmittedFirst checks that the node opens a requestState that needs a read
// from the store only for requests that it has admitted.
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
				n.Post(svc, &Input{Tenant: "anon", Address: "192.0.2.1", Conn: conns[i], Stateless: true, Exchange: conns[i]}, nil, &m, body)
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

// TestRevisionOfASession checks that a request that names a revision is served only if its
// session has that revision.
func TestRevisionOfASession(t *testing.T) {
	inBubble(t, Limits{}, NodeLimits{}, func(t *testing.T, h *held) {
		const notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		session := h.begin("2025-06-18")
		for version, want := range map[string]int{"": 202, "2025-06-18": 202, "2025-11-25": 400, "2025-03-26": 400} {
			var m codec.Message
			if err := codec.Scan([]byte(notification), &m, codec.Limits{}); err != nil {
				t.Fatal(err)
			}
			c := &heldConn{}
			in := h.input(session, "192.0.2.1", c)
			in.Version = version
			h.Post(h.svc, in, nil, &m, []byte(notification))
			if status, body := c.answer(); status != want {
				t.Errorf("%q: got %d %s, want %d", version, status, body, want)
			}
		}
	})
}

func (*slowKeys) Tag([]byte) []byte { return nil }
