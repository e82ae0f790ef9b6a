package session_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestIssuerWithoutASubject refuses a principal that would be all users of an issuer. The log says so once, and the client
// learns no more than that the server is at fault.
func TestIssuerWithoutASubject(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log host.Lines
		h := host.New(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Authenticate: func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Issuer: r.Header.Get("X-Issuer")}, nil
		}}, nil)
		c := h.Unchecked().Initialize(`{}`)
		c.Header = http.Header{"X-Issuer": {"https://login.example"}}
		for _, a := range []*kit.Answer{c.Post(host.Call("2", "echo", `{"text":"x"}`)), c.Get(""), c.Do("DELETE", ""), c.Post(host.InitializeRequest)} {
			if a.StatusCode != 500 || a.Body != `{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal Server Error"}}` || a.Header.Get("Www-Authenticate") != "" {
				t.Errorf("%s %s %v, want 500", a.Status, a.Body, a.Header)
			}
		}
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "issuer=https://login.example") {
			t.Errorf("the log: %s", got)
		}
		c.Header = nil
		host.Equal(t, "an anonymous client", c.Post(host.Call("2", "echo", `{"text":"x"}`)).Body, host.TextResult("2", "x"))
	})
}

// TestSubjectsOfTwoIssuers checks that a subject counts only with its issuer: the same name
// at another issuer, another split of the two, or a machine of that name is another principal.
func TestSubjectsOfTwoIssuers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
			user, machine := strings.CutSuffix(r.Header.Get("X-User"), " as a machine")
			return troupe.Principal{Issuer: r.Header.Get("X-Issuer"), Subject: user, Machine: machine}, nil
		}}, nil)
		by := func(c *kit.Client, issuer, subject string) *kit.Client {
			c.Header = http.Header{"X-Issuer": {issuer}, "X-User": {subject}}
			return c
		}
		const echo = `{"text":"x"}`
		owner := by(h.Unchecked(), "one", "ada").Initialize(`{}`)
		stream := owner.Post(host.CallWith("1", "count", `{"to":2,"delay_ms":1000}`, `"t"`))
		e, _ := stream.Next()
		for e.Data == "" {
			e, _ = stream.Next()
		}
		stream.Close()
		mine := h.Stateless(host.EveryCapability)
		by(mine.Client, "one", "ada")
		asked, id := mine.Tool("ask", `{"question":"?"}`)
		state := mine.Parked(asked, id, "elicit")
		for _, other := range [][2]string{{"two", "ada"}, {"", "ada"}, {"onea", "da"}, {"", "oneada"}, {"one", "bob"}, {"one", "ada as a machine"}, {"", ""}} {
			c := by(h.Unchecked(), other[0], other[1])
			c.Session = owner.Session
			if a := c.Post(host.Call("2", "echo", echo)); a.StatusCode != 404 {
				t.Errorf("%q: a call in the session: %s %s", other, a.Status, a.Body)
			}
			if a := c.Get(e.ID); a.StatusCode != 404 {
				t.Errorf("%q: a resume: %s", other, a.Status)
			}
			if a := c.Do("DELETE", ""); a.StatusCode != 404 {
				t.Errorf("%q: DELETE: %s", other, a.Status)
			}
			m := h.Stateless(host.EveryCapability)
			by(m.Client, other[0], other[1])
			host.Equal(t, strings.Join(other[:], "/")+": a state", m.Done(m.Tool("ask", `{"question":"?"}`, state, host.Given("elicit", "x"))),
				"error -32602: the requestState is not valid for this request")
		}
		synctest.Wait()
		host.Equal(t, "the owner's session", owner.Post(host.Call("2", "echo", echo)).Body, host.TextResult("2", "x"))
		if got := mine.Done(mine.Tool("ask", `{"question":"?"}`, state, host.Given("elicit", "x"))); strings.HasPrefix(got, "error") {
			t.Errorf("the owner's state: %s", got)
		}
	})
}
