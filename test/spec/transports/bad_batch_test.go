package transports_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestBadRequestsInABatch checks that each bad request of a batch gets its own error,
// and that the good ones run.
func TestBadRequestsInABatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		all := map[string]string{
			host.Method("1", "no/such", ""):                host.Fault("1", host.NoMethod, "method not found: no/such", ""),
			host.Call("2", "no such", `{}`):                host.Fault("2", host.BadParam, "Unknown tool: no such", ""),
			host.Call("3", "echo", `[]`):                   host.Fault("3", host.BadParam, "arguments must be an object", ""),
			host.Call("4", "panic", `{}`):                  host.Fault("4", host.Internal, "internal error", ""),
			host.Method("5", "resources/read", `{}`):       host.Fault("5", host.BadParam, "uri must be an absolute URI", ""),
			host.Method("6", "tools/list", `{"cursor":1}`): host.Fault("6", host.BadParam, "invalid cursor", ""),
			host.Call("7", "echo", `{"text":"good"}`):      host.TextResult("7", "good"),
			host.Method(`"8"`, "ping", ""):                 `{"jsonrpc":"2.0","id":"8","result":{}}`,
			host.Method("8", "elicitation/create", ""):     host.Fault("8", host.NoMethod, "method not found: elicitation/create", ""),
		}
		var bodies, want []string
		for body, answer := range all {
			bodies, want = append(bodies, body), append(want, answer)
		}
		bodies = append(bodies, host.Note("notifications/cancelled", `{"requestId":{}}`), host.Note("tools/call", `{"name":"panic"}`), host.Note("notifications/cancelled", ""))
		got := host.Elements(t, c.Post(host.Batch(bodies...)).Body)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf(" got %q\nwant %q", got, want)
		}
	})
}

// TestHostileBatches fills batches with as many of the worst requests as they may hold:
// nothing is left behind.
func TestHostileBatches(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 1e6}, Shared: troupe.SharedLimits{PrincipalRate: 1e6}}, nil)
		c := h.BatchingSession()
		hundred := func(f func(i int) string) string {
			var all []string
			for i := range 100 {
				all = append(all, f(i))
			}
			return host.Batch(all...)
		}
		// As many questions as there may be, all without an answer.
		asking := c.Post(hundred(func(i int) string { return host.Call(fmt.Sprint(i), "pingback", `{}`) }))
		questions, refused := 0, 0
		for questions+refused < 100 {
			e, ok := asking.Next()
			switch {
			case !ok:
				t.Fatalf("the stream ended after %d questions and %d refusals", questions, refused)
			case strings.Contains(e.Data, `"method":"ping"`):
				questions++
			case strings.Contains(e.Data, "too many calls wait"):
				refused++
			default:
				t.Fatal(e.Data)
			}
		}
		if questions != 64 {
			t.Errorf("%d questions and %d refusals", questions, refused)
		}
		// The same ids again, while they are in use.
		if a := c.Post(hundred(func(i int) string { return host.Call(fmt.Sprint(i), "pingback", `{}`) })); a.StatusCode != 400 {
			t.Errorf("ids in use: %s", a.Status)
		}
		// Cancels of all of them, and of a request of another session.
		other := h.BatchingSession()
		if a := other.Post(hundred(func(i int) string { return host.Cancel(fmt.Sprint(i)) })); a.StatusCode != 202 {
			t.Errorf("another's cancels: %s", a.Status)
		}
		if a := c.Post(hundred(func(i int) string { return host.Cancel(fmt.Sprint(i)) })); a.StatusCode != 202 {
			t.Errorf("cancels: %s", a.Status)
		}
		if rest := host.Payloads(asking.All()); len(rest) != 0 {
			t.Errorf("after the cancels: %q", rest)
		}
		// Answers without questions.
		if a := c.Post(hundred(func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":"n.b.%d","result":{}}`, i) })); a.StatusCode != 202 {
			t.Errorf("answers: %s", a.Status)
		}
		// Ids, tokens and methods of the greatest length: the record still holds them.
		long := strings.Repeat("x", 2<<10-8)
		a := c.Post(hundred(func(i int) string {
			return host.CallWith(fmt.Sprintf(`"%s%d"`, long, i), "count", `{"to":1,"delay_ms":1000}`, fmt.Sprintf(`"%s%d"`, long, i))
		}))
		if !a.Stream() {
			t.Fatalf("long ids: %s %.200s", a.Status, a.Body)
		}
		if got := host.Payloads(a.All()); len(got) != 200 {
			t.Errorf("%d messages", len(got))
		}
		if a := c.Post(host.Batch(host.Call("1", "sleep", `{"ms":1000}`), host.Method("2", strings.Repeat("x", 3<<20), ""))); !a.Stream() || len(a.All()) != 2 {
			t.Errorf("a long method: %s %.200s", a.Status, a.Body)
		}
		tooLong := host.Fault("", host.Invalid, "the id or the progress token is too long", "")
		host.Equal(t, "an id", c.Post(host.Batch(host.Call("1", "echo", `{}`), host.Call(`"`+long+`12345678"`, "echo", `{}`))).Body, tooLong)
		host.Equal(t, "a token", c.Post(host.Batch(host.CallWith("1", "echo", `{}`, `"`+long+`12345678"`))).Body, tooLong)
		id := `"` + long + `12345678"`
		host.Equal(t, "an id of its own", c.Post(host.Call(id, "echo", `{}`)).Body, host.Fault(id, host.Invalid, "the id or the progress token is too long", ""))
		a = h.Client().Post(host.Initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+strings.Repeat("x", 256<<10)+`","version":"1"}}`))
		host.Equal(t, "a large client", a.Body, host.Fault("1", host.BadParam, "clientInfo: name and version are longer than 8192 bytes", ""))
		// Nothing remains of all that.
		time.Sleep(time.Second)
		synctest.Wait()
		for _, kind := range []string{"request", "stream"} {
			if n := h.Actors(kind); n != 0 {
				t.Errorf("%d actors of kind %s are left", n, kind)
			}
		}
		got := host.Elements(t, c.Post(hundred(func(i int) string { return host.Call(fmt.Sprint(i), "echo", `{"text":"x"}`) })).Body)
		if len(got) != 100 {
			t.Errorf("%d answers afterwards", len(got))
		}
	})
}
