package session_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestIssuerWithoutASubject checks that a principal with an issuer and no subject is not the
// anonymous one, and does not have what belongs to the anonymous one.
func TestIssuerWithoutASubject(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Issuer: r.Header.Get("X-Issuer")}, nil
		}}, nil)
		issuers := []string{"", "one", "two"}
		for _, owner := range issuers {
			c := h.Unchecked()
			c.Header = http.Header{"X-Issuer": {owner}}
			c.Initialize(`{}`)
			for _, other := range issuers {
				c.Header = http.Header{"X-Issuer": {other}}
				want := 404
				if other == owner {
					want = 200
				}
				if a := c.Post(host.Call("2", "echo", `{"text":"x"}`)); a.StatusCode != want {
					t.Errorf("a call of %q in the session of %q: %s, want %d", other, owner, a.Status, want)
				}
			}
		}
	})
}

// TestSubjectsOfTwoIssuers checks that a subject counts only with its issuer: the same name
// at another issuer, or another split of the two, is another principal.
func TestSubjectsOfTwoIssuers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Issuer: r.Header.Get("X-Issuer"), Subject: r.Header.Get("X-User")}, nil
		}}, nil)
		by := func(c *testkit.Client, issuer, subject string) *testkit.Client {
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
		for _, other := range [][2]string{{"two", "ada"}, {"", "ada"}, {"onea", "da"}, {"", "oneada"}, {"one", "bob"}, {"one", ""}, {"", ""}} {
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
