package troupe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

func TestQuickAnswerIsPlainAndSlowOneAStream(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		a := c.Post(call("1", "sleep", `{"ms":200}`))
		if a.Stream() {
			t.Error("an answer within the grace is a stream")
		}
		equal(t, "plain", a.Body, textResult("1", "slept"))
		begin := time.Now()
		a = c.Post(call(`"b"`, "sleep", `{"ms":1000}`))
		if !a.Stream() || time.Since(begin) != 250*time.Millisecond {
			t.Fatalf("after %v: stream %v; want one after 250ms", time.Since(begin), a.Stream())
		}
		prime, _ := a.Next()
		if prime.Data != "" || prime.Retry != "4000" || !strings.HasSuffix(prime.ID, ".0.0") {
			t.Errorf("priming event: %+v", prime)
		}
		events := a.All()
		if diff := cmp.Diff([]string{textResult(`"b"`, "slept")}, payloads(events)); diff != "" {
			t.Error(diff)
		}
	})
}

// untimed returns the events of a resumed stream without the time to come back, which the first of them says.
func untimed(t *testing.T, events []testkit.Event) []testkit.Event {
	t.Helper()
	if len(events) > 0 {
		if events[0].Retry == "" {
			t.Errorf("the first event of a connection does not say when to come back: %+v", events[0])
		}
		events[0].Retry = ""
	}
	return events
}

func TestResumeFromEveryEvent(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		all := c.Post(callWith("1", "count", `{"to":5,"delay_ms":10}`, "0")).All()
		if len(all) != 7 {
			t.Fatalf("%d events, want priming, 5 of progress and the answer: %v", len(all), all)
		}
		for i, e := range all {
			rest := c.Get(e.ID)
			if i == len(all)-1 {
				over(t, rest)
				continue
			}
			if !rest.Stream() {
				t.Fatalf("resume after event %d (%s): %s %s", i, e.ID, rest.Status, rest.Body)
			}
			got := untimed(t, rest.All())
			if diff := cmp.Diff(append([]testkit.Event(nil), all[i+1:]...), append([]testkit.Event(nil), got...)); diff != "" {
				t.Errorf("after event %d (-first +resumed):\n%s", i, diff)
			}
		}
		// What lies beyond the log, and what was never sent, is refused alike.
		id := strings.TrimSuffix(all[0].ID, ".0.0")
		for _, bad := range []string{id + ".99.0", id + ".1.7", id + ".1", "x", id, "aaaaaaaaaaaaaaaaaaaaaaaaaa.1.0", strings.Repeat("9", 200)} {
			badEvent(t, c.Get(bad))
		}
		other := h.session()
		badEvent(t, other.Get(all[1].ID))
		time.Sleep(14 * time.Minute)
		badEvent(t, c.Get(all[1].ID))
	})
}

// over checks the answer to the resume of a stream of which nothing is left.
func over(t *testing.T, a *testkit.Answer) {
	t.Helper()
	if a.StatusCode != 204 || len(a.Body) != 0 {
		t.Errorf("resume after the end: %s %s, want 204", a.Status, a.Body)
	}
}

func badEvent(t *testing.T, a *testkit.Answer) {
	t.Helper()
	if a.StatusCode != 400 {
		t.Errorf("status %s, want 400", a.Status)
	}
	equal(t, "bad event id", a.Body, `{"jsonrpc":"2.0","error":{"code":-32011,"message":"the event id cannot be resumed from"}}`)
}

func TestConnectionBreaksAndTheCallRunsOn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		a := c.Post(callWith("7", "count", `{"to":10,"delay_ms":1000}`, `"t"`))
		var got []testkit.Event
		for range 4 {
			e, _ := a.Next()
			got = append(got, e)
		}
		a.Close()
		time.Sleep(3 * time.Second)
		b := c.Get(got[len(got)-1].ID)
		got = append(got, b.All()...)
		var want []string
		for i := 1; i <= 10; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":%d,"total":10}}`, i))
		}
		want = append(want, textResult("7", "counted to 10"))
		if diff := cmp.Diff(want, payloads(got)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResumeFencesTheOldConnection(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		a := c.Post(callWith("7", "count", `{"to":4,"delay_ms":1000}`, `1`))
		prime, _ := a.Next()
		first, _ := a.Next()
		b := c.Get(prime.ID)
		again, _ := b.Next()
		equal(t, "replayed", again.Data, first.Data)
		if rest := a.All(); len(rest) != 0 {
			t.Errorf("the old connection went on: %v", rest)
		}
		if rest := b.All(); len(rest) != 4 {
			t.Errorf("the new connection got %v", rest)
		}
	})
}

func TestDisconnectAndPoll(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		events := c.Post(call("1", "away", `{"ms":5000}`)).All()
		if len(events) != 2 || events[0].Data != "" || events[1].Data != "" || events[1].Retry != "1000" {
			t.Fatalf("before the connection was closed: %v; want the priming event, and when to come back", events)
		}
		begin := time.Now()
		rest := c.Get(events[0].ID).All()
		if diff := cmp.Diff([]string{textResult("1", "back")}, payloads(rest)); diff != "" {
			t.Error(diff)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("the answer took %v", d)
		}
	})
}

func TestCancel(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		cancel := func(id string) {
			if a := c.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"enough"}}`); a.StatusCode != 202 {
				t.Errorf("cancel: %s", a.Status)
			}
		}
		time.AfterFunc(100*time.Millisecond, func() { cancel("1") })
		begin := time.Now()
		a := c.Post(call("1", "sleep", `{"ms":60000}`))
		if events := a.All(); !a.Stream() || len(events) != 0 || time.Since(begin) > 200*time.Millisecond {
			t.Errorf("cancelled before an answer: %s, %v after %v; want an empty stream at once", a.Status, events, time.Since(begin))
		}
		a = c.Post(call("2", "sleep", `{"ms":60000}`))
		prime, _ := a.Next()
		cancel("2")
		if events := a.All(); len(events) != 0 {
			t.Errorf("after the cancel: %v", events)
		}
		over(t, c.Get(prime.ID))
		// An id of the other type, of another session or of no call is ignored.
		a = c.Post(call("3", "sleep", `{"ms":1000}`))
		cancel(`"3"`)
		cancel("99")
		h.session().Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		if diff := cmp.Diff([]string{textResult("3", "slept")}, payloads(a.All())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeepAliveComments(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		a := c.Post(call("1", "sleep", `{"ms":100000}`))
		if events := a.All(); len(payloads(events)) != 1 {
			t.Errorf("got %v", events)
		}
		if a.Comments < 6 || a.Comments > 7 {
			t.Errorf("%d comments in 100 s, want one every 15 s", a.Comments)
		}
	})
}

func TestStandaloneStream(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		a := c.Post(call("1", "tick", `{"to":1}`))
		contains(t, "no stream yet", a.Body, `"isError":true`)
		s := c.Get("")
		prime, _ := s.Next()
		equal(t, "retry", prime.Retry, "8000")
		c.Post(call("2", "tick", `{"to":3}`))
		var got []testkit.Event
		for range 3 {
			e, _ := s.Next()
			got = append(got, e)
		}
		equal(t, "first", got[0].Data, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"tick","data":1}}`)
		s.Close()
		c.Post(call("3", "tick", `{"to":2}`))
		back := c.Get(got[1].ID)
		for i, want := range []string{`"data":3}`, `"data":1}`, `"data":2}`} {
			e, _ := back.Next()
			contains(t, fmt.Sprintf("resumed %d", i), e.Data, want)
		}
		// A new stream replaces the old one.
		fresh := c.Get("")
		if rest := back.All(); len(rest) != 0 {
			t.Errorf("the replaced stream went on: %v", rest)
		}
		badEvent(t, c.Get(got[1].ID))
		fresh.Close()
	})
}

func TestListChangedAndUpdates(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		c := h.session()
		if a := c.Post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://one"}}`); a.Body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Fatalf("subscribe: %s", a.Body)
		}
		s := c.Get("")
		s.Next()
		// What may have changed between subscribing and listening is told at once.
		e, _ := s.Next()
		equal(t, "first update", e.Data, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`)
		h.srv.ResourceUpdated("test://two")
		h.srv.ResourceUpdated("test://one")
		e, _ = s.Next()
		equal(t, "update", e.Data, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`)
		troupe.AddTool(h.srv, troupe.Tool{Name: "more"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		h.srv.RemoveTools("panic")
		e, _ = s.Next()
		equal(t, "changed", e.Data, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.Close()
		synctest.Wait()
		// What changes while nobody listens is told to the next stream, and so is what was
		// told just before the connection broke.
		h.srv.RemovePrompts("greet")
		h.srv.ResourceUpdated("test://one")
		time.Sleep(time.Second)
		s = c.Get("")
		var got []string
		for range 4 {
			e, _ := s.Next()
			got = append(got, e.Data)
		}
		want := []string{"", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, promptsChanged,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		s.Close()
	})
}
