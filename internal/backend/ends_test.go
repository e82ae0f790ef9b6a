package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// TestCloseBeginsNothing: when the node ends, whoever waits is refused, and neither they nor spares get instances of their own.
func TestCloseBeginsNothing(t *testing.T) {
	mk := &maker{handle: func(*server, message) {}} // which answers no call
	told := &changes{}
	o := host.Options{Pool: host.Pool{Warm: 1, Max: 2}}
	inBubble(t, Config{Lost: told.lost}, []Backend{made("made", mk, o)}, func(t *testing.T, b *Backends) {
		var calls sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			calls.Go(func() {
				_, errs[i] = b.Call(t.Context(), "made", Caller{Session: fmt.Sprint(i)}, Request{Method: "tools/call"})
			})
		}
		synctest.Wait()
		before := len(mk.servers())
		b.Close(t.Context(), 0)
		calls.Wait()
		if now := len(mk.servers()); now != before {
			t.Errorf("%d instances have begun while the node ended", now-before)
		}
		ran := 0
		for _, err := range errs {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Reason != "closed" {
				t.Errorf("a call ended with %v", err)
				continue
			}
			if e.Ran {
				ran++
			}
		}
		if ran != 2 {
			t.Errorf("%d calls may have run, want the 2 that had an instance", ran)
		}
		if _, err := b.Call(t.Context(), "made", Caller{}, Request{Method: "tools/call"}); err == nil || !strings.Contains(err.Error(), "the node ends") {
			t.Errorf("a call after Close: %v", err)
		}
	})
}

// TestNothingIsLeftOfHolders: what was known of a session is forgotten with it, and so is what was known of a call without one.
func TestNothingIsLeftOfHolders(t *testing.T) {
	mk := &maker{handle: numbered}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		call(t, b, "made", Caller{Session: "s"}, Request{})
		call(t, b, "made", Caller{Session: "s"}, Request{Method: "resources/subscribe", Params: []byte(`{"uri":"a://b"}`)})
		call(t, b, "made", Caller{Alone: true}, Request{})
		call(t, b, "made", Caller{Alone: true}, Request{Method: "resources/subscribe", Params: []byte(`{"uri":"a://b"}`)})
		b.SessionGone("s", false)
		synctest.Wait()
		if n, m := len(b.catalogues.own), len(b.subscriptions.of); n != 0 || m != 0 {
			t.Errorf("%d lists and %d subscriptions of nobody are known", n, m)
		}
		if c := b.Counts()["made"]; c != (Counts{}) {
			t.Errorf("there are %+v", c)
		}
	})
}

// TestNobodyIsLeftWithAnInstance: of a call that was refused before its instance was ready nothing stays.
func TestNobodyIsLeftWithAnInstance(t *testing.T) {
	mk := &maker{handle: numbered, begin: func(s *server) error {
		time.Sleep(8 * time.Second)
		if s.number == 1 {
			time.Sleep(4 * time.Second) // the others wait for its room meanwhile
		}
		return nil
	}}
	o := host.Options{Pool: host.Pool{Max: 1, StartTimeout: 10 * time.Second}}
	inBubble(t, Config{}, []Backend{made("made", mk, o)}, func(t *testing.T, b *Backends) {
		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() { call(t, b, "made", Caller{Alone: true}, Request{}) })
			time.Sleep(time.Second)
		}
		calls.Wait()
		time.Sleep(2 * time.Minute)
		if c := b.Counts()["made"]; c != (Counts{}) {
			t.Errorf("there are %+v", c)
		}
	})
}

// TestReloadDropsNothing: a call that waits when its backend is configured otherwise gets an instance of what that is now.
func TestReloadDropsNothing(t *testing.T) {
	mk := &maker{}
	mk.handle = func(s *server, m message) {
		if s.number > 1 {
			numbered(s, m)
		}
	}
	one := made("made", mk, host.Options{Pool: host.Pool{Max: 1}})
	inBubble(t, Config{}, []Backend{one}, func(t *testing.T, b *Backends) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = b.Call(ctx, "made", Caller{Session: "a"}, Request{Method: "tools/call"}) })
		synctest.Wait()
		calls.Go(func() {
			if got := call(t, b, "made", Caller{Session: "b"}, Request{}); got != `{"server":2}` {
				t.Errorf("the call that waited: %s", got)
			}
		})
		synctest.Wait()
		changed := one
		changed.Digest = "made-2"
		b.Configure(t.Context(), []Backend{changed})
		cancel()
		calls.Wait()
	})
}

// TestLostStaysLost: a call that is safe and was lost is not said not to have run because it could not be run again.
func TestLostStaysLost(t *testing.T) {
	mk := &maker{}
	mk.begin = func(s *server) error {
		if s.number > 1 {
			return errors.New("no such file")
		}
		return nil
	}
	mk.handle = func(s *server, m message) {
		if m.Method == "tools/call" {
			s.mu.Lock()
			defer s.mu.Unlock()
			_ = s.out.(interface{ CloseWithError(error) error }).CloseWithError(nil)
		}
	}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		_, err := b.Call(t.Context(), "made", Caller{Session: "s"}, Request{Method: "tools/call", Safe: true})
		if e, ok := errors.AsType[*Error](err); !ok || !e.Ran {
			t.Errorf("the call: %v", err)
		}
	})
}

// TestRestartInMidCall: whoever has a call at an instance that an operator restarts at once is told that, and that nobody knows what became of it.
func TestRestartInMidCall(t *testing.T) {
	mk := &maker{handle: func(*server, message) {}} // which answers no call
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		var failed error
		var calls sync.WaitGroup
		calls.Go(func() {
			_, failed = b.Call(t.Context(), "made", Caller{Session: "s"}, Request{Method: "tools/call"})
		})
		synctest.Wait()
		if _, err := (Operations{b}).Restart("made", true); err != nil {
			t.Fatal(err)
		}
		calls.Wait()
		e, ok := errors.AsType[*Error](failed)
		if !ok {
			t.Fatalf("the call ended with %v", failed)
		}
		const want = "backend made: an operator has restarted it; whether the call took effect is unknown"
		if got := e.Wire(); got.Code != mcp.CodeCallLost || got.Message != want || !strings.Contains(string(got.Data), `"reason":"ended"`) {
			t.Errorf("its client gets %d, %q, %s", got.Code, got.Message, got.Data)
		}
	})
}

// TestEvictionIsLogged: where one set of clients takes the room of another, the operator is warned; that an instance ends which has served nobody is no warning.
func TestEvictionIsLogged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		mk := &maker{handle: numbered}
		b := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		b.Configure(t.Context(), []Backend{made("made", mk, host.Options{Isolation: host.Shared, Pool: host.Pool{Max: 1}})})
		plain, asking := Caller{}, Caller{Capabilities: []byte(`{"sampling":{}}`)}
		if _, err := b.Learn(t.Context(), "made", plain); err != nil {
			t.Fatal(err)
		}
		for i, c := range []Caller{asking, plain} {
			if got, want := call(t, b, "made", c, Request{}), fmt.Sprintf(`{"server":%d}`, i+2); got != want {
				t.Errorf("a call got %s, want %s", got, want)
			}
			synctest.Wait()
			if got := strings.Count(log.String(), "reason=evicted"); got != i+1 {
				t.Errorf("%d instances were evicted, want %d", got, i+1)
			}
			if got := strings.Count(log.String(), "level=WARN"); got != i {
				t.Errorf("%d warnings, want %d:\n%s", got, i, log.String())
			}
		}
		b.Close(t.Context(), 0)
	})
}

// TestActorEnds: an instance whose actor has failed too often is replaced, and nothing of it is left.
func TestActorEnds(t *testing.T) {
	mk := &maker{}
	mk.handle = func(s *server, m message) {
		if m.Method == "tools/call" && s.number == 1 {
			for range 5 {
				s.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"here"}}`)
			}
		}
		numbered(s, m)
	}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		c := Caller{Session: "s"}
		call(t, b, "made", c, Request{Event: func(Event) { panic("a test") }})
		time.Sleep(10 * time.Second)
		if got := call(t, b, "made", c, Request{}); got != `{"server":2}` {
			t.Errorf("the next call: %s", got)
		}
		if c := b.Counts()["made"]; c != (Counts{Counts: pool.Counts{Idle: 1}}) {
			t.Errorf("there are %+v", c)
		}
	})
}

// TestUpdatesHavePrincipals: what an instance says of a resource outside of any call is its principal's.
func TestUpdatesHavePrincipals(t *testing.T) {
	var mu sync.Mutex
	var said []string
	mk := &maker{handle: func(s *server, m message) {
		numbered(s, m)
		s.say(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}`)
	}}
	hear := func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, e.Principal())
	}
	inBubble(t, Config{Heard: hear}, []Backend{made("made", mk, host.Options{Isolation: host.ByPrincipal})}, func(t *testing.T, b *Backends) {
		call(t, b, "made", Caller{Session: "s", Principal: "ann"}, Request{})
		call(t, b, "made", Caller{Alone: true}, Request{})
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(said, []string{"ann"}) {
			t.Errorf("updates of %q, want those of ann alone", said)
		}
	})
}

// seen is an Observer that notes what it is told.
type seen struct {
	mu   sync.Mutex // guards said
	said []string
}

func (s *seen) note(values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, strings.TrimSpace(fmt.Sprintln(values...)))
}

func (s *seen) Started(b string, failed pool.Reason, took time.Duration) {
	s.note("started", b, string(failed), took)
}
func (s *seen) Adopted(b string)                   { s.note("adopted", b) }
func (s *seen) Ended(b string, reason pool.Reason) { s.note("ended", b, string(reason)) }
func (s *seen) Waited(b string, took time.Duration, refused pool.Reason) {
	s.note("waited", b, took, string(refused))
}

// TestObserved: an observer is told of each start, wait and end, and why.
func TestObserved(t *testing.T) {
	mk := &maker{handle: numbered, begin: func(s *server) error {
		time.Sleep(time.Second)
		return nil
	}}
	told := &seen{}
	o := host.Options{Pool: host.Pool{StartTimeout: 10 * time.Second}}
	inBubble(t, Config{Observer: told, Bounds: pool.Bounds{Instances: 1}}, []Backend{made("made", mk, o)}, func(t *testing.T, b *Backends) {
		call(t, b, "made", Caller{Session: "s"}, Request{})
		call(t, b, "made", Caller{Session: "other"}, Request{})
		b.SessionGone("s", false)
		synctest.Wait()
		told.mu.Lock()
		defer told.mu.Unlock()
		want := []string{"started made  1s", "waited made 1s", "waited made 10s instances", "ended made left"}
		if !slices.Equal(told.said, want) {
			t.Errorf("told %q, want %q", told.said, want)
		}
	})
}
