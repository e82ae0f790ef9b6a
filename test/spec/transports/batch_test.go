package transports_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestBatchAnsweredInTimeIsAnArray(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		a := c.Post(host.Batch(host.Call("1", "echo", `{"text":"one"}`), `{"jsonrpc":"2.0","method":"notifications/unheard"}`,
			host.Call(`"1"`, "sleep", `{"ms":200}`), `{"jsonrpc":"2.0","id":2,"method":"none/such"}`, `{"jsonrpc":"2.0","id":3,"method":"ping"}`))
		if a.Stream() || a.StatusCode != 200 {
			t.Fatalf("%s, stream %v", a.Status, a.Stream())
		}
		want := []string{host.TextResult(`"1"`, "slept"), host.TextResult("1", "one"),
			`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"method not found: none/such"}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`}
		slices.Sort(want)
		if diff := cmp.Diff(want, host.Elements(t, a.Body)); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		if n := h.Actors("stream"); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		// The ids are free again.
		if got := host.Elements(t, c.Post(host.Batch(host.Call("1", "echo", `{"text":"again"}`))).Body); !slices.Equal(got, []string{host.TextResult("1", "again")}) {
			t.Error(got)
		}
	})
}

func TestBatchThatTakesLongIsAStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		begin := time.Now()
		a := c.Post(host.Batch(host.Call("1", "echo", `{"text":"one"}`), host.Call("2", "sleep", `{"ms":1000}`), host.Call("3", "sleep", `{"ms":2000}`)))
		if !a.Stream() || time.Since(begin) != 250*time.Millisecond {
			t.Fatalf("after %v: stream %v", time.Since(begin), a.Stream())
		}
		first, _ := a.Next()
		host.Equal(t, "first", first.Data, host.TextResult("1", "one"))
		if first.Retry != "" {
			t.Errorf("a stream of 2025-03-26 is primed: %+v", first)
		}
		second, _ := a.Next()
		host.Equal(t, "second", second.Data, host.TextResult("2", "slept"))
		if d := time.Since(begin); d != time.Second {
			t.Errorf("after %v", d)
		}
		a.Close()
		rest := c.Get(first.ID).All()
		if diff := cmp.Diff([]string{second.Data, host.TextResult("3", "slept")}, host.Payloads(rest)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestBatchWithProgressIsAStreamAtOnce(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		begin := time.Now()
		a := c.Post(host.Batch(host.CallWith("1", "count", `{"to":2,"delay_ms":10}`, `"a"`), host.CallWith("2", "count", `{"to":3,"delay_ms":10}`, `"b"`)))
		if !a.Stream() || time.Since(begin) != 0 {
			t.Fatalf("after %v: stream %v", time.Since(begin), a.Stream())
		}
		got := host.Payloads(a.All())
		progress := func(token string, n, of int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":%d,"total":%d}}`, token, n, of)
		}
		for _, want := range [][]string{
			{progress("a", 1, 2), progress("a", 2, 2), host.TextResult("1", "counted to 2")},
			{progress("b", 1, 3), progress("b", 2, 3), progress("b", 3, 3), host.TextResult("2", "counted to 3")},
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
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallsPerSession: 3}}, nil)
		c := h.BatchingSession()
		refused := func(name, body, message string, status int) {
			t.Helper()
			a := c.Post(body)
			if want := fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32600,"message":%q}}`, message); a.StatusCode != status || a.Body != want {
				t.Errorf("%s: %s %s, want %d %s", name, a.Status, a.Body, status, want)
			}
		}
		ran := host.Call("9", "echo", `{"text":"x"}`)
		refused("empty", `[]`, "the batch is empty", 400)
		refused("over 100", host.Batch(slices.Repeat([]string{ran}, 101)...), "the batch has too many messages", 400)
		refused("initialize", host.Batch(ran, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`), "initialize must not be part of a batch", 400)
		refused("mixed", host.Batch(ran, `{"jsonrpc":"2.0","id":"x","result":{}}`), "a batch holds either responses or requests and notifications", 400)
		refused("nested", host.Batch(ran, host.Batch(ran)), "a batch cannot hold a batch", 400)
		refused("no message", host.Batch(ran, `1`), "batch, message 2: the message must be an object or a batch", 400)
		refused("same id", host.Batch(ran, ran), "batch, message 2: the id of another request of the batch", 400)
		no := func(id string) string {
			return host.Fault(id, host.Invalid, "too many requests in flight in this session", `{"retryAfterMs":1000}`)
		}
		host.Equal(t, "too many", c.Post(host.Batch(host.Call("1", "echo", `{}`), host.Call("2", "echo", `{}`), host.Call("3", "echo", `{}`), host.Call("4", "echo", `{}`))).Body,
			host.Batch(no("1"), no("2"), no("3"), no("4")))
		long := c.Post(host.Call("9", "sleep", `{"ms":5000}`))
		refused("id in flight", host.Batch(host.Call("1", "echo", `{}`), ran), "the id is in use by a request in flight", 400)
		long.All()
		// Nothing of these remains, and none of them has run.
		synctest.Wait()
		if n := h.Actors("stream"); n != 0 {
			t.Errorf("%d streams are left", n)
		}
		if got := host.Elements(t, c.Post(host.Batch(host.Call("1", "echo", `{"text":"a"}`), host.Call("2", "echo", `{"text":"b"}`), host.Call("3", "echo", `{"text":"c"}`))).Body); len(got) != 3 {
			t.Error(got)
		}
		newer := h.Session()
		a := newer.Post(host.Batch(ran))
		host.Equal(t, "2025-11-25", a.Body, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"revision 2025-11-25 has no batches: send one message at a time"}}`)
	})
}

func TestBatchesWithoutRequestsAreAccepted(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		a := c.Post(host.Call("1", "pingback", `{}`))
		question, _ := a.Next()
		for _, body := range []string{
			host.Batch(`{"jsonrpc":"2.0","method":"notifications/unheard"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`),
			host.Batch(host.AnswerTo(question.Data, `{}`), `{"jsonrpc":"2.0","id":"unknown","result":{}}`),
		} {
			if got := c.Post(body); got.StatusCode != 202 || got.Body != "" {
				t.Errorf("%s: %s %s", body, got.Status, got.Body)
			}
		}
		if got := host.Payloads(a.All()); !slices.Equal(got, []string{host.TextResult("1", "pong")}) {
			t.Error(got)
		}
	})
}

func TestCancelInABatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		a := c.Post(host.Batch(host.CallWith("1", "count", `{"to":1000,"delay_ms":100}`, `"a"`), host.Call("2", "sleep", `{"ms":3000}`)))
		for range 5 {
			a.Next()
		}
		c.Post(host.Cancel("1"))
		if got := host.Payloads(a.All()); !slices.Equal(got, []string{host.TextResult("2", "slept")}) {
			t.Errorf("after the cancel: %v", got)
		}
		// All requests of a batch are cancelled, before and after it became a stream.
		quiet := c.PostLater(host.Batch(host.Call("1", "sleep", `{"ms":200}`), host.Call("2", "sleep", `{"ms":200}`)))
		time.Sleep(100 * time.Millisecond)
		c.Post(host.Cancel("1"))
		c.Post(host.Cancel("2"))
		if got := <-quiet; !got.Stream() || len(got.All()) != 0 {
			t.Errorf("a batch that was cancelled: %s %s", got.Status, got.Body)
		}
		a = c.Post(host.Batch(host.Call("3", "sleep", `{"ms":20000}`), host.Call("4", "sleep", `{"ms":20000}`)))
		c.Post(host.Cancel("3"))
		c.Post(host.Cancel("4"))
		if got := a.All(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		// One of them is cancelled while nothing has been sent.
		quiet = c.PostLater(host.Batch(host.Call("5", "sleep", `{"ms":200}`), host.Call("6", "sleep", `{"ms":200}`)))
		time.Sleep(100 * time.Millisecond)
		c.Post(host.Cancel("6"))
		if got := host.Elements(t, (<-quiet).Body); !slices.Equal(got, []string{host.TextResult("5", "slept")}) {
			t.Error(got)
		}
	})
}

func TestBatchOverACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		c := h.BatchingSession()
		a := c.Post(host.Batch(host.CallWith("1", "count", `{"to":5,"delay_ms":1000}`, `"a"`), host.CallWith("2", "count", `{"to":8,"delay_ms":1000}`, `"b"`),
			host.Call("3", "sleep", `{"ms":3600000}`), host.Call("4", "echo", `{"text":"at once"}`), host.Call("5", "sleep", `{"ms":3600000}`)))
		seen := map[string]int{}
		first, _ := a.Next()
		seen[first.Data]++
		for range 5 {
			e, _ := a.Next()
			seen[e.Data]++
		}
		c.Post(host.Cancel("5"))
		a.Close()
		_, m := host.Crashed(t, dir, troupe.Options{}, c)
		for _, e := range m.Get(first.ID).All() {
			if e.Data != first.Data {
				seen[e.Data] = max(seen[e.Data], 0) + 100
			}
		}
		want := []string{host.TextResult("1", "counted to 5"), host.TextResult("2", "counted to 8"), host.TextResult("4", "at once"),
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
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		c := h.BatchingSession()
		a := c.Post(host.Batch(`{"jsonrpc":"2.0","method":"notifications/unheard"}`, host.CallWith("1", "count", `{"to":3,"delay_ms":1000}`, "1")))
		first, _ := a.Next()
		a.Close()
		_, m := host.Crashed(t, dir, troupe.Options{}, c)
		rest := host.Payloads(m.Get(first.ID).All())
		if len(rest) != 3 || rest[2] != host.TextResult("1", "counted to 3") {
			t.Errorf("%q", rest)
		}
	})
}

func TestBatchOfASessionThatEnds(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.BatchingSession()
		quiet := c.PostLater(host.Batch(host.Call("1", "sleep", `{"ms":200}`), host.Call("2", "sleep", `{"ms":200}`)))
		time.Sleep(100 * time.Millisecond)
		if a := c.Do("DELETE", ""); a.StatusCode != 200 {
			t.Fatal(a.Status)
		}
		if a := <-quiet; a.StatusCode != 404 {
			t.Errorf("%s %s, want 404, as for a call of its own", a.Status, a.Body)
		}
	})
}
