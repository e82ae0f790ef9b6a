package transports_test

import (
	"context"
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

func TestSessionOverSSE(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		s := h.SSE()
		host.Equal(t, "before initialize", s.Ask(host.Call("1", "echo", `{"text":"x"}`)), `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"initialize first"}}`)
		host.Equal(t, "ping before initialize", s.Ask(`{"jsonrpc":"2.0","id":"1","method":"ping"}`), `{"jsonrpc":"2.0","id":"1","result":{}}`)
		s.Handshake("2024-11-05", `{"sampling":{},"roots":{"listChanged":true}}`)
		host.Equal(t, "again", s.Ask(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`), `{"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"the session is initialized already"}}`)
		host.Equal(t, "echo", s.Ask(host.Call("3", "echo", `{"text":"héllo\n你好"}`)), host.TextResult("3", `héllo\n你好`))
		got := []string{s.Ask(host.CallWith("4", "count", `{"to":3,"delay_ms":400}`, `"p"`))}
		for range 3 {
			m, _ := s.Next()
			got = append(got, m)
		}
		var want []string
		for i := 1; i <= 3; i++ {
			want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,"total":3}}`, i))
		}
		if want = append(want, host.TextResult("4", "counted to 3")); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
		// A question, and its answer by another POST while the call waits.
		question := s.Ask(host.Call("5", "pingback", `{}`))
		host.Equal(t, "the answer", s.Ask(host.AnswerTo(question, `{}`)), host.TextResult("5", "pong"))
		for _, late := range []string{host.AnswerTo(question, `{}`), `{"jsonrpc":"2.0","id":"nobody.asked","result":{}}`} {
			if a := s.Post(late); a.StatusCode != 202 {
				t.Errorf("late answer: %s %s", a.Status, a.Body)
			}
		}
		// A cancelled call gets no response, and its id is free.
		s.Post(host.Call("6", "sleep", `{"ms":3600000}`))
		s.Post(host.Cancel("6"))
		synctest.Wait()
		host.Equal(t, "after a cancel", s.Ask(host.Call("6", "echo", `{"text":"six"}`)), host.TextResult("6", "six"))
		// An id in use is refused in the response to the POST.
		s.Post(host.Call("7", "sleep", `{"ms":1000}`))
		if a := s.Post(host.Call("7", "echo", `{"text":"x"}`)); a.StatusCode != 400 {
			t.Errorf("an id in use: %s %s", a.Status, a.Body)
		}
		m, _ := s.Next()
		host.Equal(t, "slow", m, host.TextResult("7", "slept"))
		if h.Actors("stream") != 0 || h.Stored("events") > 0 {
			t.Errorf("streams were stored: %d, %d", h.Actors("stream"), h.Stored("events"))
		}
	})
}

func TestWhatASessionOverSSEIsToldUnasked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		early := h.SSE() // never initialized: gets nothing
		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		host.Equal(t, "subscribe", s.Ask(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://one"}}`), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		h.Server.ResourceUpdated("test://one")
		m, _ := s.Next()
		host.Equal(t, "updated", m, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://one"}}`)
		h.Server.RemoveTools("echo")
		m, _ = s.Next()
		host.Equal(t, "list_changed", m, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		// Between initialize and initialized the server sends only responses; the changes come then.
		s2 := h.SSE()
		s2.Ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		h.Server.RemovePrompts("greet")
		time.Sleep(time.Second)
		host.Equal(t, "an answer comes first", s2.Ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		s2.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		m, _ = s2.Next()
		host.Equal(t, "list_changed", m, `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
		host.Equal(t, "level", s2.Ask(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		m = s2.Ask(host.Call("3", "log", `{}`))
		host.Equal(t, "log", m, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"test","data":"error"}}`)
		_ = early
	})
}

func TestSSESessionEndsWithItsConnection(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		ended := make(chan error, 1)
		troupe.AddTool(h.Server, troupe.Tool{Name: "wait"}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", nil
		})
		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		s.Post(host.Call("1", "wait", `{}`))
		s.Stream.Close()
		begin := time.Now()
		if err := <-ended; err != troupe.ErrSessionEnded || time.Since(begin) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		synctest.Wait()
		if a := s.Post(host.Call("2", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
			t.Errorf("%s %s", a.Status, a.Body)
		}
		for _, kind := range []string{"session", "request", "stream"} {
			if n := h.Actors(kind); n != 0 {
				t.Errorf("%d actors of kind %s", n, kind)
			}
		}
	})
}

func TestSSESessionsAreApart(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		_, id, _ := strings.Cut(s.Messages, "sessionId=")
		_, bare, _ := strings.Cut(id, ".")
		// The id of a bound session is not valid for Streamable HTTP, and the other way round.
		c := h.Client()
		for _, as := range []string{id, bare} {
			c.Session = as
			if a := c.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
				t.Errorf("over Streamable HTTP: %s %s", a.Status, a.Body)
			}
			if a := c.Get(""); a.StatusCode != 404 {
				t.Errorf("GET over Streamable HTTP: %s %s", a.Status, a.Body)
			}
			if a := c.Do("DELETE", ""); a.StatusCode != 404 {
				t.Errorf("DELETE over Streamable HTTP: %s %s", a.Status, a.Body)
			}
		}
		stored := h.Session().Session
		for _, bad := range []string{stored, strings.Replace(id, bare, stored, 1), id + "x", bare, strings.Repeat("a", 26)} {
			s.URL = strings.Replace(s.Messages, id, bad, 1)
			if a := s.Post(host.Call("1", "echo", `{"text":"x"}`)); a.StatusCode != 404 || a.Body != `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"unknown session: connect anew"}}` {
				t.Errorf("%s: %s %s", bad, a.Status, a.Body)
			}
		}
	})
}

// TestSSEBatch checks that the responses to a batch over HTTP+SSE are one message, an array, which comes after the
// last of them. Those that are answered at the same instant may be in either order.
func TestSSEBatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		s := h.SSE()
		s.Handshake("2025-03-26", `{}`)
		got := s.Ask(host.Batch(host.Call("1", "sleep", `{"ms":100}`), host.Call("2", "no such tool", `{}`),
			`{"jsonrpc":"2.0","method":"notifications/x"}`, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, host.Call("3", "sleep", `{"ms":50}`)))
		ping, refusal := `{"jsonrpc":"2.0","id":"p","result":{}}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Unknown tool: no such tool"}}`
		first, second := ping, refusal
		if strings.HasPrefix(got, "["+refusal) {
			first, second = refusal, ping
		}
		host.Equal(t, "three calls, a ping and a notification", got, host.Batch(first, second, host.TextResult("3", "slept"), host.TextResult("1", "slept")))
		host.Equal(t, "one call", s.Ask(host.Batch(host.Call("1", "echo", `{"text":"one"}`))), host.Batch(host.TextResult("1", "one")))
		if a := s.Post(host.Batch(host.Call("1", "echo", `{}`), `{"jsonrpc":"2.0","id":"x","result":{}}`)); a.StatusCode != 400 {
			t.Errorf("mixed: %s %s", a.Status, a.Body)
		}
		if a := s.Post(host.Batch(`{"jsonrpc":"2.0","method":"notifications/x"}`)); a.StatusCode != 202 {
			t.Errorf("without requests: %s %s", a.Status, a.Body)
		}
		host.Equal(t, "nothing came of those", s.Ask(host.Call("4", "echo", `{"text":"four"}`)), host.TextResult("4", "four"))
	})
}

// TestSSEBatchOfCallsThatEndOtherwise checks that the messages of a request of a batch come at once, before its
// response. A cancelled request has no response, and neither has a batch whose requests were all cancelled.
func TestSSEBatchOfCallsThatEndOtherwise(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallsPerSession: 2}, DrainDelay: -1, DrainWait: time.Second}, nil)
		s := h.SSE()
		s.Handshake("2025-03-26", `{"sampling":{},"roots":{}}`)
		question := s.Ask(host.Batch(host.Call("1", "pingback", `{}`), host.Call("2", "sleep", `{"ms":3600000}`)))
		host.Contains(t, "a question", question, `"method":"ping"`)
		s.Post(host.AnswerTo(question, `{}`))
		synctest.Wait()
		host.Equal(t, "answered in the meantime", s.Ask(`{"jsonrpc":"2.0","id":"p","method":"ping"}`), `{"jsonrpc":"2.0","id":"p","result":{}}`)
		s.Post(host.Cancel("2"))
		m, _ := s.Next()
		host.Equal(t, "the batch without the cancelled call", m, host.Batch(host.TextResult("1", "pong")))
		synctest.Wait() // the cancelled call frees its place
		synctest.Wait() // until its handler has returned
		s.Post(host.Batch(host.Call("3", "sleep", `{"ms":3600000}`), host.Call("4", "sleep", `{"ms":3600000}`)))
		synctest.Wait()
		host.Equal(t, "a batch that is refused", s.Ask(host.Batch(host.Call("5", "echo", `{"text":"x"}`), `{"jsonrpc":"2.0","id":6,"method":"ping"}`)),
			host.Batch(`{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"too many requests in flight in this session","data":{"retryAfterMs":1000}}}`, `{"jsonrpc":"2.0","id":6,"result":{}}`))
		s.Post(host.Batch(host.Cancel("3"), host.Cancel("4")))
		synctest.Wait()
		host.Equal(t, "nothing for those that were cancelled", s.Ask(host.Call("7", "echo", `{"text":"seven"}`)), host.TextResult("7", "seven"))
		s.Post(host.Batch(host.Call("8", "sleep", `{"ms":10}`), host.Call("9", "sleep", `{"ms":3600000}`)))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Runtime.ServeOn(ctx, kit.NewListener()) }()
		stop()
		m, _ = s.Next()
		host.Equal(t, "given up", m, host.Batch(host.TextResult("8", "slept"), `{"jsonrpc":"2.0","id":9,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`))
		if m, ok := s.Next(); ok {
			t.Errorf("and then %s", m)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestSSESlowReaderKeepsItsAnswers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "big"}, func(_ context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			return strings.Repeat("x", 300<<10), nil
		})
		s := h.SSE()
		s.Handshake("2024-11-05", `{}`)
		for i := range 40 {
			if a := s.Post(host.Call(fmt.Sprint(i), "big", `{}`)); a.StatusCode != 202 {
				t.Fatalf("call %d: %s %s", i, a.Status, a.Body)
			}
		}
		time.Sleep(10 * time.Second) // within the time that a write may take
		for i := range 40 {
			if m, ok := s.Next(); !ok || len(m) < 300<<10 {
				t.Fatalf("answer %d: %d bytes, %v", i, len(m), ok)
			}
		}
		// A client that never reads loses the connection, and delays no other client.
		idle := h.SSE()
		idle.Handshake("2024-11-05", `{}`)
		for i := range 10 {
			idle.Post(host.Call(fmt.Sprint(i), "big", `{}`))
		}
		begin := time.Now()
		host.Equal(t, "another", s.Ask(host.Call("99", "echo", `{"text":"here"}`)), host.TextResult("99", "here"))
		if time.Since(begin) != 0 {
			t.Errorf("delayed by %v", time.Since(begin))
		}
		time.Sleep(time.Minute)
		if a := idle.Post(host.Call("11", "echo", `{"text":"x"}`)); a.StatusCode != 404 {
			t.Errorf("%s %s", a.Status, a.Body)
		}
	})
}

func TestSSEDrain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1, DrainWait: 5 * time.Second}, nil)
		s, idle := h.SSE(), h.SSE()
		s.Handshake("2024-11-05", `{}`)
		idle.Handshake("2024-11-05", `{}`)
		s.Post(host.Call("1", "sleep", `{"ms":2000}`))
		s.Post(host.Call("2", "sleep", `{"ms":3600000}`))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Runtime.ServeOn(ctx, kit.NewListener()) }()
		stop()
		synctest.Wait()
		if _, ok := idle.Next(); ok {
			t.Error("an idle connection is told something")
		}
		m, _ := s.Next()
		host.Equal(t, "a call that ends in time", m, host.TextResult("1", "slept"))
		m, _ = s.Next()
		host.Equal(t, "one that does not", m, `{"jsonrpc":"2.0","id":2,"error":{"code":-32010,"message":"the node running this call was lost; whether it took effect is unknown"}}`)
		if _, ok := s.Next(); ok {
			t.Error("the connection goes on")
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
