package transports_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestQuickAnswerIsPlainAndSlowOneAStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		a := c.Post(host.Call("1", "sleep", `{"ms":200}`))
		if a.Stream() {
			t.Error("an answer within the grace is a stream")
		}
		host.Equal(t, "plain", a.Body, host.TextResult("1", "slept"))
		begin := time.Now()
		a = c.Post(host.Call(`"b"`, "sleep", `{"ms":1000}`))
		if !a.Stream() || time.Since(begin) != 250*time.Millisecond {
			t.Fatalf("after %v: stream %v; want one after 250ms", time.Since(begin), a.Stream())
		}
		prime, _ := a.Next()
		if prime.Data != "" || prime.Retry != "4000" || !strings.HasSuffix(prime.ID, ".0.0") {
			t.Errorf("priming event: %+v", prime)
		}
		events := a.All()
		if diff := cmp.Diff([]string{host.TextResult(`"b"`, "slept")}, host.Payloads(events)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResumeFromEveryEvent(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		all := c.Post(host.CallWith("1", "count", `{"to":5,"delay_ms":10}`, "0")).All()
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
			got := host.Untimed(t, rest.All())
			if diff := cmp.Diff(append([]kit.Event(nil), all[i+1:]...), append([]kit.Event(nil), got...)); diff != "" {
				t.Errorf("after event %d (-first +resumed):\n%s", i, diff)
			}
		}
		// Events beyond the log, and events that never existed, are refused alike.
		id := strings.TrimSuffix(all[0].ID, ".0.0")
		for _, bad := range []string{id + ".99.0", id + ".1.7", id + ".1", "x", id, "aaaaaaaaaaaaaaaaaaaaaaaaaa.1.0", strings.Repeat("9", 200)} {
			host.BadEvent(t, c.Get(bad))
		}
		other := h.Session()
		host.BadEvent(t, other.Get(all[1].ID))
		time.Sleep(14 * time.Minute)
		host.BadEvent(t, c.Get(all[1].ID))
	})
}

// over checks the response to the resume of a stream with no events left.
func over(t *testing.T, a *kit.Answer) {
	t.Helper()
	if a.StatusCode != 204 || len(a.Body) != 0 {
		t.Errorf("resume after the end: %s %s, want 204", a.Status, a.Body)
	}
}

func TestConnectionBreaksAndTheCallRunsOn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		a := c.Post(host.CallWith("7", "count", `{"to":10,"delay_ms":1000}`, `"t"`))
		var got []kit.Event
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
		want = append(want, host.TextResult("7", "counted to 10"))
		if diff := cmp.Diff(want, host.Payloads(got)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestResumeFencesTheOldConnection(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		a := c.Post(host.CallWith("7", "count", `{"to":4,"delay_ms":1000}`, `1`))
		prime, _ := a.Next()
		first, _ := a.Next()
		b := c.Get(prime.ID)
		again, _ := b.Next()
		host.Equal(t, "replayed", again.Data, first.Data)
		if rest := a.All(); len(rest) != 0 {
			t.Errorf("the old connection went on: %v", rest)
		}
		if rest := b.All(); len(rest) != 4 {
			t.Errorf("the new connection got %v", rest)
		}
	})
}

func TestDisconnectAndPoll(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		events := c.Post(host.Call("1", "away", `{"ms":5000}`)).All()
		if len(events) != 2 || events[0].Data != "" || events[1].Data != "" || events[1].Retry != "1000" {
			t.Fatalf("before the connection was closed: %v; want the priming event, and when to come back", events)
		}
		begin := time.Now()
		rest := c.Get(events[0].ID).All()
		if diff := cmp.Diff([]string{host.TextResult("1", "back")}, host.Payloads(rest)); diff != "" {
			t.Error(diff)
		}
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("the answer took %v", d)
		}
	})
}

func TestCancel(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		cancel := func(id string) {
			if a := c.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"enough"}}`); a.StatusCode != 202 {
				t.Errorf("cancel: %s", a.Status)
			}
		}
		time.AfterFunc(100*time.Millisecond, func() { cancel("1") })
		begin := time.Now()
		a := c.Post(host.Call("1", "sleep", `{"ms":60000}`))
		if events := a.All(); !a.Stream() || len(events) != 0 || time.Since(begin) > 200*time.Millisecond {
			t.Errorf("cancelled before an answer: %s, %v after %v; want an empty stream at once", a.Status, events, time.Since(begin))
		}
		a = c.Post(host.Call("2", "sleep", `{"ms":60000}`))
		prime, _ := a.Next()
		cancel("2")
		if events := a.All(); len(events) != 0 {
			t.Errorf("after the cancel: %v", events)
		}
		over(t, c.Get(prime.ID))
		// An id of the other type, of another session or of no call is ignored.
		a = c.Post(host.Call("3", "sleep", `{"ms":1000}`))
		cancel(`"3"`)
		cancel("99")
		h.Session().Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		if diff := cmp.Diff([]string{host.TextResult("3", "slept")}, host.Payloads(a.All())); diff != "" {
			t.Error(diff)
		}
	})
}

func TestKeepAliveComments(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		a := c.Post(host.Call("1", "sleep", `{"ms":100000}`))
		if events := a.All(); len(host.Payloads(events)) != 1 {
			t.Errorf("got %v", events)
		}
		if a.Comments < 6 || a.Comments > 7 {
			t.Errorf("%d comments in 100 s, want one every 15 s", a.Comments)
		}
	})
}

func TestStandaloneStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		a := c.Post(host.Call("1", "tick", `{"to":1}`))
		host.Contains(t, "no stream yet", a.Body, `"isError":true`)
		s := c.Get("")
		prime, _ := s.Next()
		host.Equal(t, "retry", prime.Retry, "8000")
		c.Post(host.Call("2", "tick", `{"to":3}`))
		var got []kit.Event
		for range 3 {
			e, _ := s.Next()
			got = append(got, e)
		}
		host.Equal(t, "first", got[0].Data, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"tick","data":1}}`)
		s.Close()
		c.Post(host.Call("3", "tick", `{"to":2}`))
		back := c.Get(got[1].ID)
		for i, want := range []string{`"data":3}`, `"data":1}`, `"data":2}`} {
			e, _ := back.Next()
			host.Contains(t, fmt.Sprintf("resumed %d", i), e.Data, want)
		}
		// A new stream replaces the old one.
		fresh := c.Get("")
		if rest := back.All(); len(rest) != 0 {
			t.Errorf("the replaced stream went on: %v", rest)
		}
		host.BadEvent(t, c.Get(got[1].ID))
		fresh.Close()
	})
}

func TestListChangedAndUpdates(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Session()
		if a := c.Post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://one"}}`); a.Body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
			t.Fatalf("subscribe: %s", a.Body)
		}
		s := c.Get("")
		s.Next()
		// Changes between the subscription and the first stream are announced at once.
		e, _ := s.Next()
		host.Equal(t, "first update", e.Data, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`)
		h.Server.ResourceUpdated("test://two")
		h.Server.ResourceUpdated("test://one")
		e, _ = s.Next()
		host.Equal(t, "update", e.Data, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`)
		troupe.AddTool(h.Server, troupe.Tool{Name: "more"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
		h.Server.RemoveTools("panic")
		e, _ = s.Next()
		host.Equal(t, "changed", e.Data, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.Close()
		synctest.Wait()
		// The next stream announces the changes made without a listener, and those
		// announced just before the connection broke.
		h.Server.RemovePrompts("greet")
		h.Server.ResourceUpdated("test://one")
		time.Sleep(time.Second)
		s = c.Get("")
		var got []string
		for range 4 {
			e, _ := s.Next()
			got = append(got, e.Data)
		}
		want := []string{"", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, host.PromptsChanged,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		s.Close()
	})
}
