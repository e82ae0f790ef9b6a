package hosting_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	theirs "github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// tallying is a stranger whose instances count their calls.
type tallying struct {
	*stranger

	mu     sync.Mutex // guards the rest
	of     map[*talk]int
	called *talk // the instance that was called last
}

func newTally() *tallying {
	s := &tallying{of: make(map[*talk]int)}
	s.stranger = &stranger{lists: map[string]string{"tools": `{"name":"count","inputSchema":{"type":"object"}}`, "resources": `{"uri":"x://1","name":"one"}`}, call: func(t *talk, m message) {
		s.mu.Lock()
		s.of[t]++
		n := s.of[t]
		s.called = t
		s.mu.Unlock()
		if m.Params.Meta.Token != nil {
			t.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`, m.Params.Meta.Token)
		}
		t.text(m, fmt.Sprint("call ", n))
	}}
	return s
}

// last is the instance that was called last.
func (s *tallying) last() *talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.called
}

// closeNode ends a node in order.
func closeNode(t *testing.T, h *host.Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.Runtime.Close(ctx); err != nil {
		t.Error(err)
	}
}

// inFleet runs f on nodes that share a NATS server, and have a backend each, whose instances are of one stranger.
func inFleet(t *testing.T, n int, s *tallying, f func(t *testing.T, hosts []*host.Host)) {
	t.Helper()
	host.Fleet(t, n, troupe.Options{}, func(h *host.Host) {
		h.Server = troupe.NewServer(mcp.Implementation{Name: "endpoint", Version: "9"}, nil)
		troupe.AddBackend(h.Server, "one", theirs.Serve("counter", s.serve), theirs.Options{Prefix: theirs.NoPrefix})
		// What nobody calls has nothing to lose.
		unused := &stranger{lists: map[string]string{"tools": `{"name":"rest","inputSchema":{"type":"object"}}`}}
		troupe.AddBackend(h.Server, "unused", theirs.Serve("unused", unused.serve), theirs.Options{OnLoss: theirs.End})
		h.Runtime.Mount("/hosted", h.Server)
		h.URL = strings.TrimSuffix(h.URL, "/mcp") + "/hosted"
	}, f)
}

// at is a client of another node with the same session.
func at(h *host.Host, c *kit.Client) *kit.Client {
	moved := h.Moved(c)
	moved.URL = h.URL
	return moved
}

// TestSessionHasOneInstanceInAFleet has the requests of a session come to three nodes in turn: one instance serves them all, whatever it says
// reaches the client at the node where that listens, and it ends with the session.
func TestSessionHasOneInstanceInAFleet(t *testing.T) {
	s := newTally()
	inFleet(t, 3, s, func(t *testing.T, hosts []*host.Host) {
		c := hosts[0].Session()
		stream := host.Listen(at(hosts[2], c).Get(""))
		for i := range 6 {
			a := at(hosts[(i+1)%3], c).Post(host.Call(fmt.Sprint(i+2), "count", `{}`))
			host.Contains(t, fmt.Sprintf("call %d", i+1), a.Body, fmt.Sprintf(`"text":"call %d"`, i+1))
		}
		a := at(hosts[0], c).Post(host.CallWith("20", "count", `{}`, `"p"`))
		said := host.Payloads(a.All())
		if len(said) != 2 || !strings.Contains(said[0], `"progress":1`) || !strings.Contains(said[1], `"text":"call 7"`) {
			t.Errorf("a call with progress: %q", said)
		}
		host.Contains(t, "subscribe", at(hosts[2], c).Post(host.Method("30", "resources/subscribe", `{"uri":"x://1"}`)).Body, `"result":{}`)
		serving := s.last()
		serving.changes("x://1")
		serving.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"beside"}}`)
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Join(stream.Since(0), "\n")
		host.Contains(t, "the client's stream", got, `"uri":"x://1"`)
		host.Contains(t, "the client's stream", got, `"data":"beside"`)
		if d := at(hosts[0], c).Do("DELETE", ""); d.StatusCode != 200 {
			t.Errorf("DELETE: %s", d.Status)
		}
		time.Sleep(10 * time.Second)
		if serving.ctx.Err() == nil {
			t.Error("the instance lives on after its session")
		}
	})
}

// TestSessionGoesOnWithoutItsNode has the node end that has a session's instance: the next call has another one, which is told what the session
// follows, and the client learns once that something is lost.
func TestSessionGoesOnWithoutItsNode(t *testing.T) {
	s := newTally()
	inFleet(t, 3, s, func(t *testing.T, hosts []*host.Host) {
		c := hosts[0].Session()
		stream := host.Listen(at(hosts[2], c).Get(""))
		host.Contains(t, "the first call", at(hosts[1], c).Post(host.Call("2", "count", `{}`)).Body, `"text":"call 1"`)
		host.Contains(t, "subscribe", at(hosts[0], c).Post(host.Method("3", "resources/subscribe", `{"uri":"x://1"}`)).Body, `"result":{}`)
		s.notes()
		closeNode(t, hosts[1])
		host.Contains(t, "the next call", at(hosts[0], c).Post(host.Call("4", "count", `{}`)).Body, `"text":"call 1"`)
		host.Contains(t, "the one after it", at(hosts[2], c).Post(host.Call("5", "count", `{}`)).Body, `"text":"call 2"`)
		time.Sleep(time.Second)
		host.Equal(t, "asked of the next instance", s.notes(), "subscribe x://1")
		if got := strings.Join(stream.Since(0), "\n"); strings.Count(got, "what it kept for this session is lost") != 1 {
			t.Errorf("the client was told: %s", got)
		}
	})
}
