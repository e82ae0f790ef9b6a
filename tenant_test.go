package troupe_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestSubjectsOfTwoIssuers holds that a subject is somebody at its issuer alone: the
// same name at another one, or the two put together otherwise, is somebody else.
func TestSubjectsOfTwoIssuers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
			return troupe.Principal{Issuer: r.Header.Get("X-Issuer"), Subject: r.Header.Get("X-User")}, nil
		}}, nil)
		by := func(c *testkit.Client, issuer, subject string) *testkit.Client {
			c.Header = http.Header{"X-Issuer": {issuer}, "X-User": {subject}}
			return c
		}
		const echo = `{"text":"x"}`
		owner := by(h.unchecked(), "one", "ada").Initialize(`{}`)
		stream := owner.Post(callWith("1", "count", `{"to":2,"delay_ms":1000}`, `"t"`))
		e, _ := stream.Next()
		for e.Data == "" {
			e, _ = stream.Next()
		}
		stream.Close()
		mine := h.modern(everyCapability)
		by(mine.c, "one", "ada")
		asked, id := mine.tool("ask", `{"question":"?"}`)
		state := mine.parked(asked, id, "elicit")
		for _, other := range [][2]string{{"two", "ada"}, {"", "ada"}, {"onea", "da"}, {"", "oneada"}, {"one", "bob"}, {"one", ""}, {"", ""}} {
			c := by(h.unchecked(), other[0], other[1])
			c.Session = owner.Session
			if a := c.Post(call("2", "echo", echo)); a.StatusCode != 404 {
				t.Errorf("%q: a call in the session: %s %s", other, a.Status, a.Body)
			}
			if a := c.Get(e.ID); a.StatusCode != 404 {
				t.Errorf("%q: a resume: %s", other, a.Status)
			}
			if a := c.Do("DELETE", ""); a.StatusCode != 404 {
				t.Errorf("%q: DELETE: %s", other, a.Status)
			}
			m := h.modern(everyCapability)
			by(m.c, other[0], other[1])
			equal(t, strings.Join(other[:], "/")+": a state", m.done(m.tool("ask", `{"question":"?"}`, state, given("elicit", "x"))),
				"error -32602: the requestState is not valid for this request")
		}
		synctest.Wait()
		equal(t, "the owner's session", owner.Post(call("2", "echo", echo)).Body, textResult("2", "x"))
		if got := mine.done(mine.tool("ask", `{"question":"?"}`, state, given("elicit", "x"))); strings.HasPrefix(got, "error") {
			t.Errorf("the owner's state: %s", got)
		}
	})
}
