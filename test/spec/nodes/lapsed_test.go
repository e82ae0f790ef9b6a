package nodes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestNodeWithoutItsLeaseHoldsNobody cuts a node off from the store, or has a second process take its name. Its clients reach it, and would hear its comments for
// as long as that lasts, while the other node has what they wait for. Once the lease has been over for its own length it sends away, once, whoever can come
// back elsewhere, and nobody else.
func TestNodeWithoutItsLeaseHoldsNobody(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for _, how := range []string{"cut off", "replaced"} {
		t.Run(how, func(t *testing.T) {
			kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
				a, b := payer(t, v, "a"), payer(t, v, "b")
				time.Sleep(20 * time.Second)
				session := a.Unchecked().Initialize(`{}`)
				call, id := pay(t, session, `{"takes":100}`)
				old := a.Unchecked().InitializeAs(host.R20250618, `{}`)
				oldCall, _ := pay(t, old, `{"takes":100}`)
				listener, _ := a.Stateless(`{}`).Listen(`"L"`, `{"toolsListChanged":true}`)
				leave := map[string]*host.Listening{
					"a call": host.Listen(call), "the stream of a session": host.Listen(session.Get("")), "a call of 2025-06-18 that has had an event": host.Listen(oldCall), "a listener": host.Listen(listener),
				}
				silent := a.Unchecked().InitializeAs(host.R20250618, `{}`)
				quiet := make(chan string, 1)
				go func() { quiet <- whole(silent.Post(host.Call("2", "pay", `{"takes":45}`))) }()
				sse := host.Listen(a.SSE().Stream)
				client, plain := a.Stateless(`{}`), make(chan string, 1)
				go func() {
					_, response := client.Send("tools/call", `{"name":"pay","arguments":{"takes":45}}`, "")
					plain <- response
				}()

				time.Sleep(time.Second)
				if how == "replaced" {
					payer(t, v, "a")
				} else {
					v.Line("a").Cut()
				}
				time.Sleep(4 * time.Second)
				for what, l := range leave {
					if _, ended := l.Now(); ended {
						t.Errorf("%s has ended after 4 s", what)
					}
				}
				time.Sleep(9 * time.Second) // twice the lease, from the last renewal, and a beat of the heart
				for what, l := range leave {
					if _, ended := l.Now(); !ended {
						t.Errorf("%s has not ended after 13 s", what)
					}
				}
				if got, ended := sse.Now(); ended {
					t.Errorf("HTTP+SSE has ended: %q", got)
				}
				select {
				case got := <-quiet:
					t.Errorf("a call without an event has ended: %s", got)
				default:
				}
				there := host.Listen(b.Moved(session).Get(id))
				time.Sleep(10 * time.Second)
				if got, ended := there.Now(); !ended || !strings.Contains(strings.Join(got, " "), `"id":1`) {
					t.Errorf("at the other node its client gets %q, ended %v", got, ended)
				}

				// Who comes back here all the same is held, and not sent away by this outage once more.
				held := host.Listen(a.Moved(session).Get(id))
				time.Sleep(55 * time.Second)
				if got, ended := held.Now(); ended || len(got) > 0 {
					t.Errorf("a resume is not held: %q, ended %v", got, ended)
				}
				time.Sleep(10 * time.Second)
				if _, ended := held.Now(); !ended {
					t.Error("a resume is held for more than a minute")
				}
				select {
				case got := <-plain:
					if !strings.Contains(got, `"paid"`) {
						t.Errorf("a stateless call got %s", got)
					}
				case <-time.After(time.Minute):
					t.Error("a stateless call got no response")
				}
				v.Line("a").Heal()
				time.Sleep(20 * time.Second)
			})
		})
	}
}
