package troupe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// Bad requests of a batch are answered one by one, and the good ones run.
func TestBadRequestsInABatch(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		all := map[string]string{
			method("1", "no/such", ""):                fault("1", noMethod, "method not found: no/such", ""),
			call("2", "no such", `{}`):                fault("2", badParam, "Unknown tool: no such", ""),
			call("3", "echo", `[]`):                   fault("3", badParam, "arguments must be an object", ""),
			call("4", "panic", `{}`):                  fault("4", internal, "internal error", ""),
			method("5", "resources/read", `{}`):       fault("5", badParam, "uri must be an absolute URI", ""),
			method("6", "tools/list", `{"cursor":1}`): fault("6", badParam, "invalid cursor", ""),
			call("7", "echo", `{"text":"good"}`):      textResult("7", "good"),
			method(`"8"`, "ping", ""):                 `{"jsonrpc":"2.0","id":"8","result":{}}`,
			method("8", "elicitation/create", ""):     fault("8", noMethod, "method not found: elicitation/create", ""),
		}
		var bodies, want []string
		for body, answer := range all {
			bodies, want = append(bodies, body), append(want, answer)
		}
		bodies = append(bodies, note("notifications/cancelled", `{"requestId":{}}`), note("tools/call", `{"name":"panic"}`), note("notifications/cancelled", ""))
		got := elements(t, c.Post(batch(bodies...)).Body)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf(" got %q\nwant %q", got, want)
		}
	})
}

// The most that batches may hold of what is worst leaves nothing behind.
func TestHostileBatches(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{CallRate: 1e6, PrincipalRate: 1e6}, nil)
		c := h.batching()
		hundred := func(f func(i int) string) string {
			var all []string
			for i := range 100 {
				all = append(all, f(i))
			}
			return batch(all...)
		}
		// As many questions as there may be, and none is answered.
		asking := c.Post(hundred(func(i int) string { return call(fmt.Sprint(i), "pingback", `{}`) }))
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
		if a := c.Post(hundred(func(i int) string { return call(fmt.Sprint(i), "pingback", `{}`) })); a.StatusCode != 400 {
			t.Errorf("ids in use: %s", a.Status)
		}
		// Cancels of all, and of what is none of this session's.
		other := h.batching()
		if a := other.Post(hundred(func(i int) string { return cancel(fmt.Sprint(i)) })); a.StatusCode != 202 {
			t.Errorf("another's cancels: %s", a.Status)
		}
		if a := c.Post(hundred(func(i int) string { return cancel(fmt.Sprint(i)) })); a.StatusCode != 202 {
			t.Errorf("cancels: %s", a.Status)
		}
		if rest := payloads(asking.All()); len(rest) != 0 {
			t.Errorf("after the cancels: %q", rest)
		}
		// Answers that nobody has asked for.
		if a := c.Post(hundred(func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":"n.b.%d","result":{}}`, i) })); a.StatusCode != 202 {
			t.Errorf("answers: %s", a.Status)
		}
		// Ids, tokens and methods as long as they may be: the record still holds them.
		long := strings.Repeat("x", 2<<10-8)
		a := c.Post(hundred(func(i int) string {
			return callWith(fmt.Sprintf(`"%s%d"`, long, i), "count", `{"to":1,"delay_ms":1000}`, fmt.Sprintf(`"%s%d"`, long, i))
		}))
		if !a.Stream() {
			t.Fatalf("long ids: %s %.200s", a.Status, a.Body)
		}
		if got := payloads(a.All()); len(got) != 200 {
			t.Errorf("%d messages", len(got))
		}
		if a := c.Post(batch(call("1", "sleep", `{"ms":1000}`), method("2", strings.Repeat("x", 3<<20), ""))); !a.Stream() || len(a.All()) != 2 {
			t.Errorf("a long method: %s %.200s", a.Status, a.Body)
		}
		tooLong := fault("", invalid, "the id or the progress token is too long", "")
		equal(t, "an id", c.Post(batch(call("1", "echo", `{}`), call(`"`+long+`12345678"`, "echo", `{}`))).Body, tooLong)
		equal(t, "a token", c.Post(batch(callWith("1", "echo", `{}`, `"`+long+`12345678"`))).Body, tooLong)
		id := `"` + long + `12345678"`
		equal(t, "an id of its own", c.Post(call(id, "echo", `{}`)).Body, fault(id, invalid, "the id or the progress token is too long", ""))
		a = h.client().Post(initialize("1", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+strings.Repeat("x", 256<<10)+`","version":"1"}}`))
		equal(t, "a large client", a.Body, fault("1", badParam, "clientInfo and capabilities are too large", ""))
		// Nothing is left of all that.
		time.Sleep(time.Second)
		synctest.Wait()
		for _, kind := range []string{"request", "stream"} {
			if n := h.actors(kind); n != 0 {
				t.Errorf("%d actors of kind %s are left", n, kind)
			}
		}
		got := elements(t, c.Post(hundred(func(i int) string { return call(fmt.Sprint(i), "echo", `{"text":"x"}`) })).Body)
		if len(got) != 100 {
			t.Errorf("%d answers afterwards", len(got))
		}
	})
}
