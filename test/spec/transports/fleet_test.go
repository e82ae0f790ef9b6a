package transports_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestMessagesOverSSEToAnotherProcess has a session whose messages reach another process than its connection: all that the session is
// told comes on the connection, the handler serves the principal of the message with its token, and the session ends for all with its
// connection.
func TestMessagesOverSSEToAnotherProcess(t *testing.T) {
	o := troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
		return troupe.Principal{Issuer: "test", Subject: r.Header.Get("X-User"), Token: troupe.NewSecret(r.Header.Get("X-Token"))}, nil
	}, HTTP: troupe.HTTPOptions{StoredHeaders: []string{"X-Kept"}}}
	var served []string
	host.Fleet(t, 2, o, func(h *host.Host) {
		h.AddTool("who", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			p := call.Principal()
			served = append(served, h.Runtime.Node()+" "+p.Subject+" "+p.Token.Reveal()+" "+call.Header().Get("X-Kept"))
			return "", nil
		})
	}, func(t *testing.T, hosts []*host.Host) {
		open := hosts[0].Unchecked()
		open.Header = http.Header{"X-User": {"alice"}}
		s := open.OpenSSE("/sse")
		s.HTTP = hosts[1].HTTP // from now on
		s.Header = http.Header{"X-User": {"alice"}, "X-Token": {"t-1"}, "X-Kept": {"k"}}
		s.Handshake("2024-11-05", `{"sampling":{},"roots":{}}`)
		host.Equal(t, "echo", s.Ask(host.Call("3", "echo", `{"text":"x"}`)), host.TextResult("3", "x"))
		question := s.Ask(host.Call("5", "pingback", `{}`))
		host.Equal(t, "the answer", s.Ask(host.AnswerTo(question, `{}`)), host.TextResult("5", "pong"))
		s.Ask(host.Call("6", "who", `{}`))
		if len(served) != 1 || served[0] != "a alice t-1 k" {
			t.Errorf("served %q", served)
		}
		large := strings.Repeat("x", 2<<20)
		host.Equal(t, "a large message", s.Ask(host.Call("7", "echo", `{"text":"`+large+`"}`)), host.TextResult("7", large))
		s.Post(host.Call("8", "sleep", `{"ms":3600000}`))
		s.Post(host.Cancel("8"))
		synctest.Wait()
		if a := s.Post(host.Call("9", "sleep", `{"ms":3600000}`)); a.StatusCode != 202 {
			t.Errorf("%s %s", a.Status, a.Body)
		}
		if a := s.Post(host.Call("9", "echo", `{"text":"x"}`)); a.StatusCode != 400 {
			t.Errorf("an id in use: %s %s", a.Status, a.Body)
		}
		if n := hosts[1].Actors("request"); n > 0 {
			t.Errorf("the other process runs %d requests", n)
		}
		mallory := *s
		other := *s.Client
		mallory.Client = &other
		mallory.Header = http.Header{"X-User": {"mallory"}}
		unknown(t, "another principal", mallory.Post(host.Call("10", "echo", `{"text":"x"}`)))
		s.Stream.Close()
		time.Sleep(20 * time.Second) // the next comment notices it
		synctest.Wait()
		unknown(t, "after the connection has ended", s.Post(host.Call("10", "echo", `{"text":"x"}`)))
	})
}

func unknown(t *testing.T, what string, a *kit.Answer) {
	t.Helper()
	if a.StatusCode != http.StatusNotFound {
		t.Errorf("%s: %s %s", what, a.Status, a.Body)
	}
}
