package troupe_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// batching returns a client with a session of the revision that has batches.
func (h *host) batching() *testkit.Client {
	h.t.Helper()
	return h.unchecked().InitializeAs("2025-03-26", `{"sampling":{},"roots":{}}`)
}

func batch(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// elements returns the messages of a JSON array in the order of their text.
func elements(t *testing.T, body string) []string {
	t.Helper()
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(body), &raw); err != nil {
		t.Fatalf("no array: %v: %s", err, body)
	}
	var all []string
	for _, r := range raw {
		all = append(all, string(r))
	}
	slices.Sort(all)
	return all
}

func TestBatchAnsweredInTimeIsAnArray(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		a := c.Post(batch(call("1", "echo", `{"text":"one"}`), `{"jsonrpc":"2.0","method":"notifications/unheard"}`,
			call(`"1"`, "sleep", `{"ms":200}`), `{"jsonrpc":"2.0","id":2,"method":"none/such"}`, `{"jsonrpc":"2.0","id":3,"method":"ping"}`))
		if a.Stream() || a.StatusCode != 200 {
			t.Fatalf("%s, stream %v", a.Status, a.Stream())
		}
		want := []string{textResult(`"1"`, "slept"), textResult("1", "one"),
			`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"method not found: none/such"}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`}
		slices.Sort(want)
		if diff := cmp.Diff(want, elements(t, a.Body)); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		if n := h.actors("stream"); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		// The ids are free again.
		if got := elements(t, c.Post(batch(call("1", "echo", `{"text":"again"}`))).Body); !slices.Equal(got, []string{textResult("1", "again")}) {
			t.Error(got)
		}
	})
}

func TestBatchThatTakesLongIsAStream(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		begin := time.Now()
		a := c.Post(batch(call("1", "echo", `{"text":"one"}`), call("2", "sleep", `{"ms":1000}`), call("3", "sleep", `{"ms":2000}`)))
		if !a.Stream() || time.Since(begin) != 250*time.Millisecond {
			t.Fatalf("after %v: stream %v", time.Since(begin), a.Stream())
		}
		first, _ := a.Next()
		equal(t, "first", first.Data, textResult("1", "one"))
		if first.Retry != "" {
			t.Errorf("a stream of 2025-03-26 is primed: %+v", first)
		}
		second, _ := a.Next()
		equal(t, "second", second.Data, textResult("2", "slept"))
		if d := time.Since(begin); d != time.Second {
			t.Errorf("after %v", d)
		}
		a.Close()
		rest := c.Get(first.ID).All()
		if diff := cmp.Diff([]string{second.Data, textResult("3", "slept")}, payloads(rest)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBatchWithProgressIsAStreamAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		begin := time.Now()
		a := c.Post(batch(callWith("1", "count", `{"to":2,"delay_ms":10}`, `"a"`), callWith("2", "count", `{"to":3,"delay_ms":10}`, `"b"`)))
		if !a.Stream() || time.Since(begin) != 0 {
			t.Fatalf("after %v: stream %v", time.Since(begin), a.Stream())
		}
		got := payloads(a.All())
		progress := func(token string, n, of int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":%d,"total":%d}}`, token, n, of)
		}
		for _, want := range [][]string{
			{progress("a", 1, 2), progress("a", 2, 2), textResult("1", "counted to 2")},
			{progress("b", 1, 3), progress("b", 2, 3), progress("b", 3, 3), textResult("2", "counted to 3")},
		} {
			at := -1
			for _, m := range want {
				i := slices.Index(got, m)
				if i <= at {
					t.Errorf("%s at %d, after %d: %v", m, i, at, got)
				}
				at = i
			}
		}
		if len(got) != 7 {
			t.Errorf("%d messages: %v", len(got), got)
		}
	})
}

func TestBatchesThatAreRefused(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{CallsPerSession: 3}, nil)
		c := h.batching()
		refused := func(name, body, message string, status int) {
			t.Helper()
			a := c.Post(body)
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32600,"message":%q}}`, message); a.StatusCode != status || a.Body != want {
				t.Errorf("%s: %s %s, want %d %s", name, a.Status, a.Body, status, want)
			}
		}
		ran := call("9", "echo", `{"text":"x"}`)
		refused("empty", `[]`, "the batch is empty", 400)
		refused("over 100", batch(slices.Repeat([]string{ran}, 101)...), "the batch has too many messages", 400)
		refused("initialize", batch(ran, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), "initialize must not be part of a batch", 400)
		refused("mixed", batch(ran, `{"jsonrpc":"2.0","id":"x","result":{}}`), "a batch holds either responses or requests and notifications", 400)
		refused("nested", batch(ran, batch(ran)), "a batch cannot hold a batch", 400)
		refused("no message", batch(ran, `1`), "batch, message 2: the message must be an object or a batch", 400)
		refused("same id", batch(ran, ran), "batch, message 2: the id of another request of the batch", 400)
		no := func(id string) string {
			return fault(id, invalid, "too many requests in flight in this session", `{"retryAfterMs":1000}`)
		}
		equal(t, "too many", c.Post(batch(call("1", "echo", `{}`), call("2", "echo", `{}`), call("3", "echo", `{}`), call("4", "echo", `{}`))).Body,
			batch(no("1"), no("2"), no("3"), no("4")))
		long := c.Post(call("9", "sleep", `{"ms":5000}`))
		refused("id in flight", batch(call("1", "echo", `{}`), ran), "the id is in use by a request in flight", 400)
		long.All()
		// Nothing of all that is left, and none of it has run.
		synctest.Wait()
		if n := h.actors("stream"); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		if got := elements(t, c.Post(batch(call("1", "echo", `{"text":"a"}`), call("2", "echo", `{"text":"b"}`), call("3", "echo", `{"text":"c"}`))).Body); len(got) != 3 {
			t.Error(got)
		}
		newer := h.session()
		a := newer.Post(batch(ran))
		equal(t, "2025-11-25", a.Body, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"revision 2025-11-25 has no batches: send one message at a time"}}`)
	})
}

func TestBatchesWithoutRequestsAreAccepted(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		a := c.Post(call("1", "pingback", `{}`))
		question, _ := a.Next()
		for _, body := range []string{
			batch(`{"jsonrpc":"2.0","method":"notifications/unheard"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`),
			batch(answerTo(question.Data, `{}`), `{"jsonrpc":"2.0","id":"unknown","result":{}}`),
		} {
			if got := c.Post(body); got.StatusCode != 202 || got.Body != "" {
				t.Errorf("%s: %s %s", body, got.Status, got.Body)
			}
		}
		if got := payloads(a.All()); !slices.Equal(got, []string{textResult("1", "pong")}) {
			t.Error(got)
		}
	})
}

func TestCancelInABatch(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		a := c.Post(batch(callWith("1", "count", `{"to":1000,"delay_ms":100}`, `"a"`), call("2", "sleep", `{"ms":3000}`)))
		for range 5 {
			a.Next()
		}
		c.Post(cancel("1"))
		if got := payloads(a.All()); !slices.Equal(got, []string{textResult("2", "slept")}) {
			t.Errorf("after the cancel: %v", got)
		}
		// All of a batch, before and after it became a stream.
		quiet := c.PostLater(batch(call("1", "sleep", `{"ms":200}`), call("2", "sleep", `{"ms":200}`)))
		time.Sleep(100 * time.Millisecond)
		c.Post(cancel("1"))
		c.Post(cancel("2"))
		if got := <-quiet; !got.Stream() || len(got.All()) != 0 {
			t.Errorf("a batch that was cancelled: %s %s", got.Status, got.Body)
		}
		a = c.Post(batch(call("3", "sleep", `{"ms":20000}`), call("4", "sleep", `{"ms":20000}`)))
		c.Post(cancel("3"))
		c.Post(cancel("4"))
		if got := a.All(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		// One of them while nothing has been sent.
		quiet = c.PostLater(batch(call("5", "sleep", `{"ms":200}`), call("6", "sleep", `{"ms":200}`)))
		time.Sleep(100 * time.Millisecond)
		c.Post(cancel("6"))
		if got := elements(t, (<-quiet).Body); !slices.Equal(got, []string{textResult("5", "slept")}) {
			t.Error(got)
		}
	})
}

func cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
}

func TestBatchOverACrash(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := newHost(t, troupe.Options{Dir: dir}, nil)
		c := h.batching()
		a := c.Post(batch(callWith("1", "count", `{"to":5,"delay_ms":1000}`, `"a"`), callWith("2", "count", `{"to":8,"delay_ms":1000}`, `"b"`),
			call("3", "sleep", `{"ms":3600000}`), call("4", "echo", `{"text":"at once"}`), call("5", "sleep", `{"ms":3600000}`)))
		seen := map[string]int{}
		first, _ := a.Next()
		seen[first.Data]++
		for range 5 {
			e, _ := a.Next()
			seen[e.Data]++
		}
		c.Post(cancel("5"))
		a.Close()
		_, m := crashed(t, dir, troupe.Options{}, c)
		for _, e := range m.Get(first.ID).All() {
			if e.Data != first.Data {
				seen[e.Data] = max(seen[e.Data], 0) + 100
			}
		}
		want := []string{textResult("1", "counted to 5"), textResult("2", "counted to 8"), textResult("4", "at once"),
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`}
		for i := 1; i <= 5; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":%d,"total":5}}`, i))
		}
		for i := 1; i <= 8; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"b","progress":%d,"total":8}}`, i))
		}
		for _, w := range want {
			if n := seen[w] % 100; seen[w] == 0 || n > 1 || seen[w] > 101 {
				t.Errorf("%d times: %s", seen[w], w)
			}
			delete(seen, w)
		}
		for extra := range seen {
			t.Errorf("not expected: %s", extra)
		}

	})
}

func TestBatchOfOneOverACrash(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := newHost(t, troupe.Options{Dir: dir}, nil)
		c := h.batching()
		a := c.Post(batch(`{"jsonrpc":"2.0","method":"notifications/unheard"}`, callWith("1", "count", `{"to":3,"delay_ms":1000}`, "1")))
		first, _ := a.Next()
		a.Close()
		_, m := crashed(t, dir, troupe.Options{}, c)
		rest := payloads(m.Get(first.ID).All())
		if len(rest) != 3 || rest[2] != textResult("1", "counted to 3") {
			t.Errorf("%q", rest)
		}
	})
}

func TestBatchOfASessionThatEnds(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.batching()
		quiet := c.PostLater(batch(call("1", "sleep", `{"ms":200}`), call("2", "sleep", `{"ms":200}`)))
		time.Sleep(100 * time.Millisecond)
		if a := c.Do("DELETE", ""); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
		if a := <-quiet; !a.Stream() || len(a.All()) != 0 {
			t.Errorf("%s %s, want a stream that ends without an answer, as for a call of its own", a.Status, a.Body)
		}
	})
}
