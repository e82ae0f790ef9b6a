package session_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRefusedRequestsOfASession checks that a refused request of a session gets HTTP 200 and an error that says
// why, because clients may take any other status for the end of their connection. Other statuses are for messages
// that are not requests of a session.
func TestRefusedRequestsOfASession(t *testing.T) {
	for _, revision := range troupe.Revisions()[:4] { // those with sessions
		t.Run(revision, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 1, CallBurst: 2, CallsPerSession: 1, StreamsPerSession: 1}, Shared: troupe.SharedLimits{SessionsPerPrincipal: 1}}, nil)
				c := h.Unchecked().InitializeAs(revision, `{}`)
				answered := func(what, body string, status int, want string) {
					t.Helper()
					a := c.Post(body)
					if a.StatusCode != status || a.Body != want {
						t.Errorf("%s: %s %s, want %d %s", what, a.Status, a.Body, status, want)
					}
				}
				ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }

				long := `"` + strings.Repeat("x", 3000) + `"`
				answered("a long id", ping(long), 200, host.Fault(long, host.Invalid, "the id or the progress token is too long", ""))
				running := c.Post(host.Call("1", "sleep", `{"ms":10000}`))
				defer running.Close()
				answered("an id in flight", ping("1"), 200, host.Fault("1", host.Invalid, "the id is in use by a request in flight", ""))
				answered("one more in flight", ping("2"), 200, host.Fault("2", host.Invalid, "too many requests in flight in this session", `{"retryAfterMs":1000}`))
				c.Post(host.Cancel("1"))
				synctest.Wait()
				answered("the last in time", host.Call("3", "echo", `{"text":"x"}`), 200, host.TextResult("3", "x"))
				answered("one more in a second", host.Call("4", "echo", `{"text":"x"}`), 200, host.Fault("4", host.Invalid, "too many calls per second in this session", `{"retryAfterMs":750}`))

				answered("no message", `{"jsonrpc":"2.0","id":5}`, 400, host.Fault("5", host.Invalid, "a message needs a method, a result or an error", ""))
				answered("no JSON", `{`, 400, host.Fault("", -32700, "unexpected end of the message, at byte 2", ""))
				answered("a notification", host.Note("notifications/x", ""), 202, "")
				listening := c.Get("")
				defer listening.Close()
				if a := c.Get(""); a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" {
					t.Errorf("one more GET: %s", a.Status)
				}
				other := h.Unchecked()
				if a := other.Post(`{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); a.StatusCode != 429 || a.Header.Get("Retry-After") == "" {
					t.Errorf("one more session: %s %s", a.Status, a.Body)
				}
				other.Session = "aaaaaaaaaaaaaaaaaaaaaaaaaa"
				if a := other.Post(ping("7")); a.StatusCode != 404 {
					t.Errorf("an unknown session: %s %s", a.Status, a.Body)
				}
				other.Session = ""
				if a := other.Post(host.Call("8", "echo", `{"text":"x"}`)); a.StatusCode != 400 {
					t.Errorf("no session: %s %s", a.Status, a.Body)
				}
			})
		})
	}
}
