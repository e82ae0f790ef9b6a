package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/listing"
)

// stored is Catalogues in memory.
type stored struct {
	mu sync.Mutex // guards of
	of map[string][]byte
}

func (s *stored) Load(_ context.Context, digest string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[digest], nil
}

func (s *stored) Store(_ context.Context, digest string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[digest] = data
	return nil
}

// TestListsWithoutAProcess: what a backend has listed once is known after the next start, and no instance begins for it, unless a client
// comes to whom it may list otherwise.
func TestListsWithoutAProcess(t *testing.T) {
	store := &stored{of: make(map[string][]byte)}
	mk := &maker{handle: numbered}
	all := []Backend{made("made", mk, host.Options{})}
	var first string
	inBubble(t, Config{Catalogues: store}, all, func(t *testing.T, b *Backends) {
		c, err := b.Learn(t.Context(), "made", Caller{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(c.Items[listing.Tools]); n != 1 {
			t.Errorf("%d tools, want 1", n)
		}
		first = c.Digest()
		synctest.Wait()
	})
	inBubble(t, Config{Catalogues: store}, all, func(t *testing.T, b *Backends) {
		for i, caller := range []Caller{{Session: "t"}, {Capabilities: []byte(`{"sampling":{}}`)}} {
			if known := b.Knows("made", caller); known != (i == 0) {
				t.Errorf("what it lists for %+v is known: %v", caller, known)
			}
			c, err := b.Learn(t.Context(), "made", caller)
			if err != nil {
				t.Fatal(err)
			}
			if c.Digest() != first || string(c.Settled.ServerInfo) != `{"name":"made","version":"1"}` {
				t.Errorf("the stored catalogue is another one, of %s", c.Settled.ServerInfo)
			}
		}
	})
	if n := len(mk.servers()); n != 2 {
		t.Errorf("%d instances began, want 2", n)
	}
}

// TestOneInstanceAtFirst: whoever has waited for the lists of a backend is served by the instance that has shown them.
func TestOneInstanceAtFirst(t *testing.T) {
	for _, caller := range []Caller{{Session: "s"}, {Principal: "ann"}, {Alone: true}} {
		mk := &maker{handle: numbered}
		inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
			if _, err := b.Learn(t.Context(), "made", caller); err != nil {
				t.Fatal(err)
			}
			call(t, b, "made", caller, Request{})
		})
		if n := len(mk.servers()); n != 1 {
			t.Errorf("%+v: %d instances began, want 1", caller, n)
		}
	}
}

// TestChangesOfLists: a thousand changes of a list in a second are asked about a few times, and told when the list is another one; a session sees what its own instance lists.
func TestChangesOfLists(t *testing.T) {
	var tools atomic.Value
	tools.Store(`{"name":"echo"}`)
	mk := &maker{tools: func(*server) string { return tools.Load().(string) }}
	mk.handle = func(s *server, m message) {
		if m.Method == "tools/call" {
			tools.Store(`{"name":"echo"},{"name":"more"}`)
			for range 1000 {
				s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				time.Sleep(time.Millisecond)
			}
			numbered(s, m)
		}
	}
	told := &changes{}
	inBubble(t, Config{Changed: told.changed}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		c := Caller{Session: "s"}
		if _, err := b.Learn(t.Context(), "made", c); err != nil {
			t.Fatal(err)
		}
		call(t, b, "made", c, Request{})
		time.Sleep(10 * time.Second)
		if n := mk.servers()[0].count("tools/list"); n < 2 || n > 11 { // the first one, eight at once, and one a second
			t.Errorf("the list was asked for %d times", n)
		}
		if want := []string{`made "" tools`, `made "s" tools`}; !slices.Equal(told.all(), want) {
			t.Errorf("told %q, want %q", told.all(), want)
		}
		known, _ := b.Catalogue("made", c)
		if n := len(known.Items[listing.Tools]); n != 2 {
			t.Errorf("the session sees %d tools, want 2", n)
		}
		others, _ := b.Catalogue("made", Caller{Session: "other"})
		if n := len(others.Items[listing.Tools]); n != 1 {
			t.Errorf("another session, without an instance, sees %d tools, want the one that instances begin with", n)
		}
	})
}

// TestListsOfAPrincipalsClients has two clients of a principal, of which each is shown what the instance lists that serves it.
func TestListsOfAPrincipalsClients(t *testing.T) {
	mk := &maker{handle: numbered, tools: func(s *server) string { return fmt.Sprintf(`{"name":"tool-%d"}`, s.number) }}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{Isolation: host.ByPrincipal})}, func(t *testing.T, b *Backends) {
		one, two := Caller{Principal: "ann"}, Caller{Principal: "ann", Capabilities: []byte(`{"sampling":{}}`)}
		for i, c := range []Caller{one, two, one} {
			if got, want := call(t, b, "made", c, Request{}), fmt.Sprintf(`{"server":%d}`, i%2+1); got != want {
				t.Errorf("call %d is served by %s, want %s", i, got, want)
			}
			synctest.Wait()
		}
		for i, c := range []Caller{one, two} {
			known, _ := b.Catalogue("made", c)
			if got, want := string(known.Items[listing.Tools][0]), fmt.Sprintf(`{"name":"tool-%d"}`, i+1); got != want {
				t.Errorf("client %d sees %s, want %s", i, got, want)
			}
		}
	})
}

// TestListWithoutEnd serves what was read of a list that does not end.
func TestListWithoutEnd(t *testing.T) {
	mk := &maker{tools: func(*server) string { return `{"name":"echo"}],"nextCursor":"again","more":[` }}
	inBubble(t, Config{}, []Backend{made("made", mk, host.Options{})}, func(t *testing.T, b *Backends) {
		known, err := b.Learn(t.Context(), "made", Caller{Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(known.Items[listing.Tools]); n == 0 {
			t.Error("nothing of the list is served")
		}
	})
}

// TestReconfigured: a backend that is gone, or is another one, serves nobody any more, and one that is as it was goes on.
func TestReconfigured(t *testing.T) {
	mk := &maker{handle: numbered}
	a, other := made("a", mk, host.Options{}), made("b", mk, host.Options{})
	inBubble(t, Config{}, []Backend{a, other}, func(t *testing.T, b *Backends) {
		c := Caller{Session: "s"}
		call(t, b, "a", c, Request{})
		call(t, b, "b", c, Request{})
		changed := other
		changed.Digest = "b-2"
		b.Configure(t.Context(), []Backend{a, changed})
		if got := call(t, b, "a", c, Request{}); got != `{"server":1}` {
			t.Errorf("a, which is as it was: %s", got)
		}
		if got := call(t, b, "b", c, Request{}); got != `{"server":3}` {
			t.Errorf("b, which is another one: %s", got)
		}
		b.Configure(t.Context(), []Backend{changed})
		if got := call(t, b, "a", c, Request{}); !strings.HasPrefix(got, "error: ") {
			t.Errorf("a, which is gone: %s", got)
		}
	})
}
