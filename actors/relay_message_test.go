package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/sim"
)

// says posts a message of a session of HTTP+SSE to the node.
func (m *fellow) says(tenant, session, body string, principal any) *caller {
	c := newCaller()
	var msg codec.Message
	if err := codec.Scan([]byte(body), &msg, codec.Limits{}); err != nil {
		m.t.Fatal(err)
	}
	in := &Input{Tenant: tenant, Address: "192.0.2.1", Session: session, Conn: c, Stateless: strings.Contains(body, mcp.MetaProtocolVersion)}
	go m.Message(m.svc, in, principal, &msg, []byte(body))
	synctest.Wait()
	return c
}

// isStatus fails unless c was answered with a status.
func isStatus(t *testing.T, what string, c *caller, status int) {
	t.Helper()
	if got, body := c.answer(); got != status {
		t.Errorf("%s: got %d %q, want %d", what, got, body, status)
	}
}

// connected begins a session of HTTP+SSE at the node, whose messages go to another one.
func (m *fellow) connected(to *fellow) *heldConn {
	conn := m.connect("192.0.2.1", "")
	isStatus(m.t, "initialize", to.says("anon", conn.name, initializeAs("2024-11-05"), nil), 202)
	isStatus(m.t, "initialized", to.says("anon", conn.name, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil), 202)
	return conn
}

// TestMessagesToAnotherNode checks that messages of a session reach the node with its connection, by whichever node they come,
// and that all that follows goes out there.
func TestMessagesToAnotherNode(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			if answer, err := c.Ask(ctx, []Question{{Method: "roots/list"}}); err == nil {
				return answer[0].Result, nil
			}
			return nil, Unavailable
		})
		conn := s.all[0].connected(s.all[1])
		isStatus(t, "a call", s.all[1].says("anon", conn.name, message("1", "x"), nil), 202)
		got := conn.events()
		question := got[len(got)-1]
		id := codec.Field([]byte(question), "id")
		isStatus(t, "the answer to its question", s.all[1].says("anon", conn.name, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":{"large":"`+strings.Repeat("x", 1<<20)+`"}}`, nil), 202)
		got = conn.events()
		if last := got[len(got)-1]; !strings.Contains(last, `"id":1,"result":{"large":"xxx`) || len(last) < 1<<20 {
			t.Errorf("the response is %.100q", last)
		}
		if in := s.all[1].accounts.InFlight(); in != 0 || s.all[1].runs.Load() != 0 {
			t.Errorf("the other node has %d requests, and ran %d", in, s.all[1].runs.Load())
		}
		isStatus(t, "initialize in a batch", s.all[1].says("anon", conn.name, `[`+initializeAs("2024-11-05")+`]`, nil), 400)
		conn.Cut()
		synctest.Wait()
		isStatus(t, "after the connection has ended", s.all[1].says("anon", conn.name, message("2", "x"), nil), 404)
	})
}

// TestMessagesOfOthers checks that the ids of others, and what is none, get the answer for any unknown id; what cannot be an id is
// not asked for.
func TestMessagesOfOthers(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		var sent atomic.Int64
		s.letters(func(string) sim.Fate { sent.Add(1); return sim.Fate{} })
		conn := s.all[0].connected(s.all[1])
		_, unknown := s.all[0].says("anon", "n0.b."+newID(), message("1", "x"), nil).answer()
		is := func(what string, c *caller, asks int64) {
			t.Helper()
			if status, body := c.answer(); status != 404 || body != unknown {
				t.Errorf("%s: got %d %q", what, status, body)
			}
			if n := sent.Swap(0); n != asks {
				t.Errorf("%s: %d letters", what, n)
			}
		}
		sent.Store(0)
		is("another principal", s.all[1].says("other", conn.name, message("1", "x"), nil), 1)
		own := s.all[1].svc
		s.all[1].svc = NewService("another", own.Handler, Limits{})
		is("another server", s.all[1].says("anon", conn.name, message("1", "x"), nil), 1)
		s.all[1].svc = own
		id := conn.name[strings.LastIndexByte(conn.name, '.')+1:]
		is("a random id", s.all[1].says("anon", "n0.b."+newID(), message("1", "x"), nil), 1)
		is("another boot", s.all[1].says("anon", "n0.c."+id, message("1", "x"), nil), 1)
		is("another node", s.all[1].says("anon", "n7.b."+id, message("1", "x"), nil), 1)
		is("the node itself", s.all[1].says("anon", "n1.b."+id, message("1", "x"), nil), 0)
		for _, bad := range []string{"", id, "n0." + id, "n0.b." + id[1:], "n0.b." + id + "a", "n0.b." + strings.ToUpper(id), "n0..b." + id, "n0.*." + id, ">.b." + id, ".b." + id, "n0.b.x." + id, strings.Repeat("n", 33) + ".b." + id} {
			is("the id "+bad, s.all[1].says("anon", bad, message("1", "x"), nil), 0)
		}
		if n := len(conn.events()); n != 1 {
			t.Errorf("the session got %d messages", n)
		}
		conn.Cut()
	})
}

// TestMessagesWhileTheirNodeIsAway checks that a session of a silent node is not said to be unknown, and one of a dead node is.
func TestMessagesWhileTheirNodeIsAway(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		conn := s.all[0].connected(s.all[1])
		s.letters(loses(exchangeMessage))
		c := s.all[1].says("anon", conn.name, message("1", "x"), nil)
		pass(5 * time.Second)
		isLater(t, "while letters are lost", c)
		s.letters(nil)
		s.all[0].box.Cut(true)
		c = s.all[1].says("anon", conn.name, message("1", "x"), nil)
		pass(5 * time.Second)
		isLater(t, "while the node is cut off", c)
		s.all[0].box.Cut(false)
		s.all[0].drain.closing.Store(true)
		isStatus(t, "while the node ends", s.all[1].says("anon", conn.name, message("1", "x"), nil), 404)
		s.all[0].drain.closing.Store(false)
		s.all[0].box.Kill()
		isStatus(t, "once the node is dead", s.all[1].says("anon", conn.name, message("1", "x"), nil), 404)
		conn.Cut()
	})
}

// TestMessageThatComesAgain loses the reply of the node that has taken a request, so that its client sends it again, by way of either
// node: it runs once. A ping is answered each time, and after half a minute the same content is another request.
func TestMessageThatComesAgain(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		s.asking(func(context.Context, *Call) ([]byte, *mcp.Error) { return []byte(`{}`), nil })
		conn := s.all[0].connected(s.all[1])
		late := func(k string) sim.Fate {
			if k != exchangeMessage {
				return sim.Fate{}
			}
			return sim.Fate{Back: time.Minute}
		}
		says := func(at int, body string, status int) {
			t.Helper()
			c := s.all[at].says("anon", conn.name, body, nil)
			pass(5 * time.Second)
			isStatus(t, fmt.Sprintf("by node %d", at), c, status)
		}
		batch := "[" + message("2", "x") + "," + message("3", "x") + "]"
		before := len(conn.events())
		s.letters(late)
		says(1, message("1", "x"), 503)
		says(1, batch, 503)
		says(1, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, 503)
		s.letters(nil)
		for range 2 {
			says(1, message("1", "x"), 202)
		}
		says(0, message("1", "x"), 202)
		says(1, batch, 202)
		if n := s.all[0].runs.Load(); n != 3 {
			t.Errorf("the requests ran %d times in all, want 3", n)
		}
		says(0, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, 202)
		if got := conn.events()[before:]; len(got) != 4 { // the batch is answered as one
			t.Errorf("the session got %q", got)
		}
		pass(repeatedFor)
		says(1, message("1", "x"), 202)
		if n := s.all[0].runs.Load(); n != 4 {
			t.Errorf("after half a minute the requests ran %d times in all, want 4", n)
		}
		conn.Cut()
	})
}

// secretive is a principal with a part that is not stored.
type secretive struct{ Name, token string }

func (p secretive) Carry() ([]byte, error) {
	return codec.Marshal(map[string]string{"Name": p.Name, "Token": p.token})
}

// TestPrincipalOfAForwardedMessage checks whom a handler serves, and that letters do not show it.
func TestPrincipalOfAForwardedMessage(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		for _, m := range s.all {
			m.mrtr.keys = sealing{}
			m.svc.Carried = func(form []byte, _ map[string][]string) (principal, owner any) {
				return string(form), "owner " + string(form)
			}
		}
		var got any
		s.asking(func(_ context.Context, c *Call) ([]byte, *mcp.Error) {
			got = c.Principal()
			return []byte(`"` + strings.ReplaceAll(c.Peer().Owner().(string), `"`, "'") + `"`), nil
		})
		conn := s.all[0].connected(s.all[1])
		for i, tt := range []struct {
			principal any
			want      string
		}{{secretive{"a", "secret"}, `{"Name":"a","Token":"secret"}`}, {struct{ Name string }{"b"}, `{"Name":"b"}`}, {nil, "null"}} {
			isStatus(t, tt.want, s.all[1].says("anon", conn.name, message(fmt.Sprint(i+1), "x"), tt.principal), 202)
			if got != tt.want {
				t.Errorf("the handler serves %v, want %s", got, tt.want)
			}
			if all := append([]string{""}, conn.events()...); !strings.Contains(all[len(all)-1], "owner "+strings.ReplaceAll(tt.want, `"`, "'")) {
				t.Errorf("the session is owned by %q", all[len(all)-1])
			}
		}
		head := forwardHead{Tenant: "anon", Server: "s", Session: "x"}
		sealed, err := s.all[1].relays.sealPrincipal(secretive{"a", "secret"}, &head)
		if err != nil || strings.Contains(string(sealed), "secret") {
			t.Errorf("%q, %v", sealed, err)
		}
		// A principal that was sealed with another message.
		got, head.Session = "nobody", conn.name[len("n0.b."):]
		head.Principal = sealed
		if reply, err := s.all[1].fleet.forwardRequest(t.Context(), s.all[0].fleet.selfAddress(), exchangeMessage, [16]byte{1}, &head, []byte(message("1", "x"))); err == nil || got != "nobody" {
			t.Errorf("%d, %v, and the handler served %v", reply, err, got)
		}
		conn.Cut()
	})
}

// sealing turns bytes round, and remembers what they are bound to.
type sealing struct{ boundKeys }

func (k sealing) Seal(plain, aad []byte) ([]byte, error) {
	sealed, err := k.boundKeys.Seal(nil, aad)
	for _, b := range plain {
		sealed = append(sealed, ^b)
	}
	return sealed, err
}

func (k sealing) Open(sealed, aad []byte) ([]byte, error) {
	turned, err := k.boundKeys.Open(sealed, aad)
	plain := make([]byte, len(turned))
	for i, b := range turned {
		plain[i] = ^b
	}
	return plain, err
}

// TestForwardedMessagesAreCounted checks the limits of a principal on both nodes.
func TestForwardedMessagesAreCounted(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		conn := s.all[0].connected(s.all[1])
		for _, m := range s.all {
			a := m.accounts.Of("anon", "192.0.2.1")
			for a.Buckets[rateOfMessages].TakeN(time.Now(), 1) == 0 {
			}
			isStatus(t, "with no tokens on node "+m.name, s.all[1].says("anon", conn.name, `{"jsonrpc":"2.0","method":"x"}`, nil), 429)
			time.Sleep(time.Minute)
			a = m.accounts.Of("anon", "192.0.2.1")
			for range m.accounts.limits.Principal.Calls {
				if no, ok := m.accounts.AdmitRequest(a); no != quota.Admitted || !ok {
					t.Fatal("not admitted")
				}
			}
			isStatus(t, "with no place on node "+m.name, s.all[1].says("anon", conn.name, `{"jsonrpc":"2.0","method":"x"}`, nil), 429)
			for range m.accounts.limits.Principal.Calls {
				m.accounts.LeavePlace(a)
			}
			time.Sleep(2 * time.Second) // The other node may have heard of them, and hears that they are over.
			isStatus(t, "with all of it", s.all[1].says("anon", conn.name, `{"jsonrpc":"2.0","method":"x"}`, nil), 202)
		}
		conn.Cut()
	})
}

// TestRetryOnAConnectionOfAnotherNode has a connection that carries stateless requests, one of which belongs to a call of another
// node: the response comes on the connection, which goes on, and a cancel and the end of the connection end the call.
func TestRetryOnAConnectionOfAnotherNode(t *testing.T) {
	together(t, 2, func(t *testing.T, s *several) {
		causes := 0
		s.asking(func(ctx context.Context, c *Call) ([]byte, *mcp.Error) {
			answer := asks(ctx, c, "a")
			_ = c.Notify(ctx, "said", nil)
			select {
			case <-ctx.Done():
				causes++
			case <-time.After(time.Second):
			}
			return []byte(answer), nil
		})
		conn := s.all[1].connect("192.0.2.1", "2024-11-05")
		retry := func(id string) {
			asked := s.all[0].calls("x", "")
			if s.all[1].says("anon", conn.name, toolCall(id, answersTo(&asked.heldConn, `{"a":{"n":1}}`)), nil); len(conn.read()) == 0 {
				t.Error("no message of the call")
			}
		}
		conn.read()
		retry("5")
		pass(2 * time.Second)
		if got := conn.read(); len(got) != 1 || !strings.Contains(got[0], `"id":5,"result":{"n":1}`) || causes != 0 {
			t.Errorf("got %q, and %d calls were cancelled", got, causes)
		}
		retry("6")
		s.all[1].says("anon", conn.name, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`, nil)
		if causes != 1 {
			t.Errorf("%d calls were cancelled", causes)
		}
		retry("7")
		s.letters(loses(exchangeFrame))
		pass(7 * time.Second)
		s.letters(nil)
		if got := conn.read(); len(got) != 1 || !strings.Contains(got[0], "retryAfterMs") || !strings.Contains(got[0], `"id":7`) || conn.over {
			t.Errorf("after a loss got %q, and the connection is over: %v", got, conn.over)
		}
		retry("8")
		conn.Cut()
		if synctest.Wait(); causes != 2 {
			t.Errorf("%d calls were cancelled", causes)
		}
	})
}
