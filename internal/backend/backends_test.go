package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
)

// TestEachSessionHasItsOwn: what one session has said to a backend, no other one meets (I5); a principal shares with itself, and who is nobody with nobody.
func TestEachSessionHasItsOwn(t *testing.T) {
	mk := &maker{handle: numbered}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		a, other := Caller{Session: "a", Principal: "p"}, Caller{Session: "b", Principal: "p"}
		stateless, alone := Caller{Principal: "p"}, Caller{Alone: true}
		for i, step := range []struct {
			c    Caller
			want string
		}{
			{a, `{"server":1}`}, {other, `{"server":2}`}, {a, `{"server":1}`}, {other, `{"server":2}`},
			{stateless, `{"server":3}`}, {stateless, `{"server":3}`}, {alone, `{"server":4}`}, {alone, `{"server":5}`},
		} {
			if got := call(t, b, "made", step.c, Request{}); got != step.want {
				t.Errorf("step %d: %s, want %s", i, got, step.want)
			}
		}
		b.SessionGone("a", false)
		synctest.Wait()
		if got := call(t, b, "made", a, Request{}); got != `{"server":6}` {
			t.Errorf("after its session has gone: %s", got)
		}
	})
}

// TestBytesStay: params arrive as they were but for what belongs to the hop, and so do results (I8).
func TestBytesStay(t *testing.T) {
	const result = `{"content":[{"type":"text","text":"\u00e9 \/ 1.0"}],"unknown":{"b":1,"a":1e2},"isError":false}`
	mk := &maker{handle: func(s *server, m message) { s.result(m, result) }}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		const params = `{"name":"echo","arguments":{"n":1.0,"s":"\u00e9"},"_meta":{"own":1}}`
		if got := call(t, b, "made", Caller{}, Request{Params: []byte(params)}); got != result {
			t.Errorf("the result is %s", got)
		}
		first := mk.servers()[0]
		first.mu.Lock()
		defer first.mu.Unlock()
		for _, m := range first.got {
			if m.Method == "tools/call" && string(m.Params) != params {
				t.Errorf("the backend got %s", m.Params)
			}
		}
	})
}

// TestWhatAnInstanceSays: progress, logs and questions go to the call that runs, in order and before its answer, and an answer goes back.
func TestWhatAnInstanceSays(t *testing.T) {
	answers := make(chan string, 1)
	mk := &maker{handle: func(s *server, m message) {
		if m.Method == "" {
			answers <- string(m.Result) + string(m.Error)
			return
		}
		var p struct {
			Meta struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		_ = json.Unmarshal(m.Params, &p)
		s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, p.Meta.Token)
		s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"here"}}`)
		s.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
		s.result(m, `{"answer":`+<-answers+`}`)
	}}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		var mu sync.Mutex
		var said []string
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, text)
		}
		got := call(t, b, "made", Caller{Session: "s", Capabilities: []byte(`{"elicitation":{}}`)}, Request{
			Asks:     true,
			Progress: func(params []byte) { note("progress") },
			Event: func(e Event) {
				note(e.Method)
				if e.IsQuestion() {
					go func() { _ = e.Answer(context.Background(), []byte(`{"action":"decline"}`)) }()
				}
			},
		})
		if got != `{"answer":{"action":"decline"}}` {
			t.Errorf("the result is %s", got)
		}
		if want := []string{"progress", "notifications/message", "elicitation/create"}; !slices.Equal(said, want) {
			t.Errorf("it said %q, want %q", said, want)
		}
	})
}

// TestOneIsAskedAtATime: of calls without a session that may be asked an instance has one at a time, so that a question is never put to another caller.
func TestOneIsAskedAtATime(t *testing.T) {
	mk := &maker{handle: func(s *server, m message) {
		if m.Method == "tools/call" {
			s.say(`{"jsonrpc":"2.0","id":"q%s","method":"elicitation/create","params":{"message":%s}}`, m.ID, m.Params)
			return
		}
		if m.Method == "" { // the answer: its call is that of the id behind the q
			s.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, strings.Trim(string(m.ID), `q"`), m.Result)
		}
	}}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				mine := fmt.Sprintf(`{"of":%d}`, i)
				got := call(t, b, "made", Caller{Principal: "p", Capabilities: []byte(`{"elicitation":{}}`)}, Request{
					Params: []byte(mine), Asks: true,
					Event: func(e Event) {
						if asked := string(e.Params); asked != `{"message":`+mine+`}` {
							t.Errorf("call %d was asked %s", i, asked)
						}
						go func() { _ = e.Answer(context.Background(), []byte(mine)) }()
					},
				})
				if got != mine {
					t.Errorf("call %d got %s", i, got)
				}
			})
		}
		calls.Wait()
	})
}

// TestLostCalls: a call whose instance ends is lost, with the reason; one that is safe runs once more.
func TestLostCalls(t *testing.T) {
	mk := &maker{}
	mk.handle = func(s *server, m message) {
		if s.number == 1 || s.number == 2 {
			s.mu.Lock()
			defer s.mu.Unlock()
			_ = s.out.(interface{ CloseWithError(error) error }).CloseWithError(nil)
			return
		}
		numbered(s, m)
	}
	told := &changes{}
	inBubble(t, Config{Lost: told.lost}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		c := Caller{Session: "s"}
		_, err := b.Call(t.Context(), "made", c, Request{Method: "tools/call"})
		e, ok := errors.AsType[*Error](err)
		if !ok || !e.Ran || e.Wire().Code != mcp.CodeCallLost {
			t.Fatalf("the first call: %v", err)
		}
		time.Sleep(5 * time.Second) // the pause after a failure
		if got := call(t, b, "made", c, Request{Safe: true, Level: "error"}); got != `{"server":3}` {
			t.Errorf("a safe call: %s", got)
		}
		synctest.Wait()
		if want := []string{`made "s" lost: exited`, `made "s" lost: exited`}; !slices.Equal(told.all(), want) {
			t.Errorf("told %q, want %q", told.all(), want)
		}
	})
}

// TestStartsThatFail: who waits learns why, at once when it has failed often, and nothing has run.
func TestStartsThatFail(t *testing.T) {
	mk := &maker{begin: func(*server) error { return errors.New("no such file") }}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		for i := range 7 {
			_, err := b.Call(t.Context(), "made", Caller{}, Request{Method: "tools/call"})
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Ran || !strings.Contains(string(e.Wire().Data), `"ran":false`) || e.Wire().Code != mcp.CodeInternalError {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if n := len(mk.servers()); n != 10 { // each time once more without the probe, which could have been what ended it
			t.Errorf("it was started %d times, want 10", n)
		}
	})
}

// TestCancelledCalls: the backend hears that a call is given up; an instance that goes on after that is replaced, and one that answers a ping is not.
func TestCancelledCalls(t *testing.T) {
	for _, pings := range []bool{true, false} {
		t.Run(fmt.Sprint("pings ", pings), func(t *testing.T) {
			mk := &maker{}
			mk.mute.Store(!pings)
			mk.handle = func(s *server, m message) {
				if m.Method == "tools/call" && len(m.Params) > 40 { // it works on, as the specification lets it
					return
				}
				numbered(s, m)
			}
			inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				c := Caller{Session: "s"}
				_, err := b.Call(ctx, "made", c, Request{Method: "tools/call", Params: []byte(`{"name":"a name that is longer than forty bytes"}`)})
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("the call: %v", err)
				}
				time.Sleep(time.Minute)
				want := `{"server":1}`
				if !pings {
					want = `{"server":2}`
				}
				if got := call(t, b, "made", c, Request{}); got != want {
					t.Errorf("the next call: %s, want %s", got, want)
				}
			})
		})
	}
}

// TestRootsByPolicy: a server that asks for roots hears those of the configuration, whatever the client has, and none without one.
func TestRootsByPolicy(t *testing.T) {
	for name, x := range map[string]struct {
		roots host.Roots
		want  string
	}{
		"none":   {host.Roots{}, `{"roots":[]}`},
		"listed": {host.Roots{List: []mcp.Root{{URI: "file:///srv"}}}, `{"roots":[{"uri":"file:///srv"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 1)
			mk := &maker{handle: func(s *server, m message) {
				if m.Method == "" {
					heard <- string(m.Result)
					return
				}
				s.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
				s.result(m, <-heard)
			}}
			inBubble(t, Config{}, []Backend{made("made", mk, host.Options{Roots: x.roots})}, func(t *testing.T, b *Backends) {
				got := call(t, b, "made", Caller{Session: "s", Capabilities: []byte(`{"roots":{}}`)}, Request{Asks: true, Event: func(e Event) { t.Errorf("the client was asked %s", e.Method) }})
				if got != x.want {
					t.Errorf("the server heard %s, want %s", got, x.want)
				}
			})
		})
	}
}

// TestSettingsAreRestored: the instance that takes the place of a lost one has the level and the subscriptions of its session.
func TestSettingsAreRestored(t *testing.T) {
	mk := &maker{}
	mk.handle = func(s *server, m message) {
		if m.Method == "tools/call" && s.number == 1 {
			_ = s.out.(interface{ CloseWithError(error) error }).CloseWithError(nil)
			return
		}
		numbered(s, m)
	}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		c := Caller{Session: "s"}
		call(t, b, "made", c, Request{Method: "logging/setLevel", Params: []byte(`{"level":"error"}`)}) // for which none begins
		call(t, b, "made", c, Request{Method: "resources/subscribe", Params: []byte(`{"uri":"a:b"}`)})
		call(t, b, "made", c, Request{Method: "resources/subscribe", Params: []byte(`{"uri":"a:c"}`)})
		call(t, b, "made", c, Request{Method: "resources/unsubscribe", Params: []byte(`{"uri":"a:c"}`)})
		if got := call(t, b, "made", c, Request{Safe: true, Level: "error"}); got != `{"server":2}` {
			t.Fatalf("the call: %s", got)
		}
		second := mk.servers()[1]
		if n, m := second.count("logging/setLevel"), second.count("resources/subscribe"); n != 1 || m != 1 {
			t.Errorf("the second instance got %d levels and %d subscriptions, want one of each", n, m)
		}
	})
}
