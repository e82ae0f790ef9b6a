package troupe_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

func (h *host) sse() *testkit.SSE {
	h.t.Helper()
	s := h.unchecked().OpenSSE("/sse")
	h.t.Cleanup(s.Stream.Close)
	return s
}

func TestSessionOverSSE(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		s := h.sse()
		equal(t, "before initialize", s.Ask(call("1", "echo", `{"text":"x"}`)), `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"initialize first"}}`)
		equal(t, "ping before initialize", s.Ask(`{"jsonrpc":"2.0","id":"1","method":"ping"}`), `{"jsonrpc":"2.0","id":"1","result":{}}`)
		s.Handshake("2024-11-05", `{"sampling":{},"roots":{"listChanged":true}}`)
		equal(t, "again", s.Ask(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`), `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"the session is initialized already"}}`)
		equal(t, "echo", s.Ask(call("3", "echo", `{"text":"héllo\n你好"}`)), textResult("3", `héllo\n你好`))
		got := []string{s.Ask(callWith("4", "count", `{"to":3,"delay_ms":400}`, `"p"`))}
		for range 3 {
			m, _ := s.Next()
			got = append(got, m)
		}
		var want []string
		for i := 1; i <= 3; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,"total":3}}`, i))
		}
		if want = append(want, textResult("4", "counted to 3")); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		// A question, and its answer by another POST while the call waits.
		question := s.Ask(call("5", "pingback", `{}`))
		equal(t, "the answer", s.Ask(answerTo(question, `{}`)), textResult("5", "pong"))
		for _, late := range []string{answerTo(question, `{}`), `{"jsonrpc":"2.0","id":"nobody.asked","result":{}}`} {
			if a := s.Post(late); a.StatusCode != 202 {
				t.Errorf("late answer: %s %s", a.Status, a.Body)
			}
		}
		// A cancelled call is not answered, and its id is free.
		s.Post(call("6", "sleep", `{"ms":3600000}`))
		s.Post(cancel("6"))
		synctest.Wait()
		equal(t, "after a cancel", s.Ask(call("6", "echo", `{"text":"six"}`)), textResult("6", "six"))
		// An id in use is refused where it was sent.
		s.Post(call("7", "sleep", `{"ms":1000}`))
		if a := s.Post(call("7", "echo", `{"text":"x"}`)); a.StatusCode != 400 {
			t.Errorf("an id in use: %s %s", a.Status, a.Body)
		}
		m, _ := s.Next()
		equal(t, "slow", m, textResult("7", "slept"))
		if h.actors("stream") != 0 || h.stored("events") > 0 {
			t.Errorf("streams were stored: %d, %d", h.actors("stream"), h.stored("events"))
		}
	})
}

func TestWhatASessionOverSSEIsToldUnasked(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		early := h.sse() // never initialized: told nothing
		s := h.sse()
		s.Handshake("2024-11-05", `{}`)
		equal(t, "subscribe", s.Ask(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://one"}}`), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		h.srv.ResourceUpdated("test://one")
		m, _ := s.Next()
		equal(t, "updated", m, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`)
		h.srv.RemoveTools("echo")
		m, _ = s.Next()
		equal(t, "list_changed", m, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		// Between initialize and initialized nothing but answers is sent; what changed is told then.
		s2 := h.sse()
		s2.Ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		h.srv.RemovePrompts("greet")
		time.Sleep(time.Second)
		equal(t, "an answer comes first", s2.Ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		s2.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		m, _ = s2.Next()
		equal(t, "list_changed", m, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		equal(t, "level", s2.Ask(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		m = s2.Ask(call("3", "log", `{}`))
		equal(t, "log", m, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"test","data":"error"}}`)
		_ = early
	})
}

func TestSSESessionEndsWithItsConnection(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		ended := make(chan error, 1)
		troupe.AddTool(h.srv, troupe.Tool{Name: "wait"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", nil
		})
		s := h.sse()
		s.Handshake("2024-11-05", `{}`)
		s.Post(call("1", "wait", `{}`))
		s.Stream.Close()
		begin := time.Now()
		if err := <-ended; err != troupe.ErrSessionEnded || time.Since(begin) > 31*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		synctest.Wait()
		if a := s.Post(call("2", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
			t.Errorf("%s %s", a.Status, a.Body)
		}
		for _, kind := range []string{"session", "request", "stream"} {
			if n := h.actors(kind); n != 0 {
				t.Errorf("%d actors of kind %s", n, kind)
			}
		}
	})
}

func TestSSESessionsAreApart(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		s := h.sse()
		s.Handshake("2024-11-05", `{}`)
		_, id, _ := strings.Cut(s.Messages, "sessionId=")
		_, bare, _ := strings.Cut(id, ".")
		// The id of a session that lives on a connection is none of Streamable HTTP, and the other way round.
		c := h.client()
		for _, as := range []string{id, bare} {
			c.Session = as
			if a := c.Post(call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
				t.Errorf("over Streamable HTTP: %s %s", a.Status, a.Body)
			}
			if a := c.Get(""); a.StatusCode != 404 {
				t.Errorf("GET over Streamable HTTP: %s %s", a.Status, a.Body)
			}
			if a := c.Do("DELETE", ""); a.StatusCode != 404 {
				t.Errorf("DELETE over Streamable HTTP: %s %s", a.Status, a.Body)
			}
		}
		stored := h.session().Session
		for _, bad := range []string{stored, strings.Replace(id, bare, stored, 1), id + "x", bare, strings.Repeat("a", 26)} {
			s.URL = strings.Replace(s.Messages, id, bad, 1)
			if a := s.Post(call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 || a.Body != `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"unknown session: connect anew"}}` {
				t.Errorf("%s: %s %s", bad, a.Status, a.Body)
			}
		}
	})
}

// The answers to a batch over HTTP+SSE are one message, an array, which comes when the last of them is there.
func TestSSEBatch(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		s := h.sse()
		s.Handshake("2025-03-26", `{}`)
		equal(t, "three calls, a ping and a notification", s.Ask(batch(call("1", "sleep", `{"ms":100}`), call("2", "no such tool", `{}`),
			`{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, call("3", "sleep", `{"ms":50}`))),
			batch(`{"jsonrpc":"2.0","id":"p","result":{}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Unknown tool: no such tool"}}`,
				textResult("3", "slept"), textResult("1", "slept")))
		equal(t, "one call", s.Ask(batch(call("1", "echo", `{"text":"one"}`))), batch(textResult("1", "one")))
		if a := s.Post(batch(call("1", "echo", `{}`), `{"jsonrpc":"2.0","id":"x","result":{}}`)); a.StatusCode != 400 {
			t.Errorf("mixed: %s %s", a.Status, a.Body)
		}
		if a := s.Post(batch(`{"jsonrpc":"2.0","method":"notifications/x"}`)); a.StatusCode != 202 {
			t.Errorf("without requests: %s %s", a.Status, a.Body)
		}
		equal(t, "nothing came of those", s.Ask(call("4", "echo", `{"text":"four"}`)), textResult("4", "four"))
	})
}

// What a request of a batch has to say before its answer comes at once; a cancelled one has no answer, and a batch
// of which all were cancelled has none either.
func TestSSEBatchOfCallsThatEndOtherwise(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{CallsPerSession: 2, DrainDelay: -1, DrainWait: time.Second}, nil)
		s := h.sse()
		s.Handshake("2025-03-26", `{"sampling":{},"roots":{}}`)
		question := s.Ask(batch(call("1", "pingback", `{}`), call("2", "sleep", `{"ms":3600000}`)))
		contains(t, "a question", question, `"method":"ping"`)
		s.Post(answerTo(question, `{}`))
		synctest.Wait()
		equal(t, "answered in the meantime", s.Ask(`{"jsonrpc":"2.0","id":"p","method":"ping"}`), `{"jsonrpc":"2.0","id":"p","result":{}}`)
		s.Post(cancel("2"))
		m, _ := s.Next()
		equal(t, "the batch without the cancelled call", m, batch(textResult("1", "pong")))
		synctest.Wait() // the cancelled call leaves its place
		synctest.Wait() // until its handler has returned, too
		s.Post(batch(call("3", "sleep", `{"ms":3600000}`), call("4", "sleep", `{"ms":3600000}`)))
		synctest.Wait()
		equal(t, "a batch that is refused", s.Ask(batch(call("5", "echo", `{"text":"x"}`), `{"jsonrpc":"2.0","id":6,"method":"ping"}`)),
			batch(`{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"too many requests in flight in this session","data":{"retryAfterMs":1000}}}`, `{"jsonrpc":"2.0","id":6,"result":{}}`))
		s.Post(batch(cancel("3"), cancel("4")))
		synctest.Wait()
		equal(t, "nothing for those that were cancelled", s.Ask(call("7", "echo", `{"text":"seven"}`)), textResult("7", "seven"))
		s.Post(batch(call("8", "sleep", `{"ms":10}`), call("9", "sleep", `{"ms":3600000}`)))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.rt.ServeOn(ctx, testkit.NewListener()) }()
		stop()
		m, _ = s.Next()
		equal(t, "given up", m, batch(textResult("8", "slept"), `{"jsonrpc":"2.0","id":9,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`))
		if m, ok := s.Next(); ok {
			t.Errorf("and then %s", m)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestSSESlowReaderKeepsItsAnswers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		troupe.AddTool(h.srv, troupe.Tool{Name: "big"}, func(_ context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			return strings.Repeat("x", 300<<10), nil
		})
		s := h.sse()
		s.Handshake("2024-11-05", `{}`)
		for i := range 40 {
			if a := s.Post(call(fmt.Sprint(i), "big", `{}`)); a.StatusCode != 202 {
				t.Fatalf("call %d: %s %s", i, a.Status, a.Body)
			}
		}
		time.Sleep(10 * time.Second) // within the time a write may take
		for i := range 40 {
			if m, ok := s.Next(); !ok || len(m) < 300<<10 {
				t.Fatalf("answer %d: %d bytes, %v", i, len(m), ok)
			}
		}
		// A client that never reads loses the connection, and delays nobody.
		idle := h.sse()
		idle.Handshake("2024-11-05", `{}`)
		for i := range 10 {
			idle.Post(call(fmt.Sprint(i), "big", `{}`))
		}
		begin := time.Now()
		equal(t, "another", s.Ask(call("99", "echo", `{"text":"here"}`)), textResult("99", "here"))
		if time.Since(begin) != 0 {
			t.Errorf("delayed by %v", time.Since(begin))
		}
		time.Sleep(time.Minute)
		if a := idle.Post(call("11", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
			t.Errorf("%s %s", a.Status, a.Body)
		}
	})
}

func TestSSEDrain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{DrainDelay: -1, DrainWait: 5 * time.Second}, nil)
		s, idle := h.sse(), h.sse()
		s.Handshake("2024-11-05", `{}`)
		idle.Handshake("2024-11-05", `{}`)
		s.Post(call("1", "sleep", `{"ms":2000}`))
		s.Post(call("2", "sleep", `{"ms":3600000}`))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.rt.ServeOn(ctx, testkit.NewListener()) }()
		stop()
		synctest.Wait()
		if _, ok := idle.Next(); ok {
			t.Error("an idle connection is told something")
		}
		m, _ := s.Next()
		equal(t, "a call that ends in time", m, textResult("1", "slept"))
		m, _ = s.Next()
		equal(t, "one that does not", m, `{"jsonrpc":"2.0","id":2,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`)
		if _, ok := s.Next(); ok {
			t.Error("the connection goes on")
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
