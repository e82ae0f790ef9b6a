package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// hooked returns options of a server that notes when sessions begin and end.
func hooked(n *noted) *troupe.ServerOptions {
	return &troupe.ServerOptions{
		SessionBegan: func(_ context.Context, p *troupe.Peer) {
			if p.Client().Name == "panic" {
				panic("on purpose")
			}
			n.note("began %s", p.Revision())
		},
		SessionEnded: func(p *troupe.Peer, how troupe.SessionEnd) { n.note("%s %s of %s", how, p.Revision(), p.Client().Name) },
	}
}

// TestSessionHooks begins and ends sessions in every way.
func TestSessionHooks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n := new(noted)
		h := host.New(t, troupe.Options{Store: troupe.StoreOptions{SessionIdle: 30 * time.Second}}, hooked(n))
		c := h.Session()
		host.Equal(t, "initialize", n.take(), "began 2025-11-25")
		for range 2 {
			c.Do("DELETE", "")
			synctest.Wait()
		}
		host.Equal(t, "DELETE, twice", n.take(), "deleted 2025-11-25 of kit")

		h.Session()
		n.take()
		time.Sleep(70 * time.Second) // the node looks at a session a minute after its last use
		host.Equal(t, "after SessionIdle", n.take(), "expired 2025-11-25 of kit")

		s := h.SSE()
		host.Equal(t, "a connection without initialize", n.take(), "")
		s.Handshake("2024-11-05", `{}`)
		host.Equal(t, "over HTTP+SSE", n.take(), "began 2024-11-05")
		s.Stream.Close()
		time.Sleep(time.Minute)
		host.Equal(t, "the end of the connection", n.take(), "disconnected 2024-11-05 of kit")

		m := h.Stateless(`{}`)
		m.Tool("echo", `{"text":"x"}`)
		host.Equal(t, "stateless", n.take(), "")

		a := h.Unchecked().Post(host.Initialize("0", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"panic","version":"1"}}`))
		if a.StatusCode != 200 {
			t.Errorf("a hook that panics: %s", a.Status)
		}
	})
}

// TestSessionHooksOverACrash checks that no hook runs for a session that goes on in the next process.
func TestSessionHooksOverACrash(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir, n := t.TempDir(), new(noted)
		c := host.New(t, troupe.Options{Dir: dir}, hooked(new(noted))).Session()
		h := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir)}, hooked(n))
		moved := h.Moved(c)
		host.Equal(t, "a call", moved.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
		host.Equal(t, "in the next process", n.take(), "")
		moved.Do("DELETE", "")
		synctest.Wait()
		host.Equal(t, "DELETE there", n.take(), "deleted 2025-11-25 of kit")
	})
}

// TestSessionEndsWhileItBegins has the client of HTTP+SSE leave while SessionBegan runs: SessionEnded runs once
// SessionBegan has returned.
func TestSessionEndsWhileItBegins(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n, begins, goOn := new(noted), make(chan struct{}), make(chan struct{})
		o := hooked(n)
		o.SessionBegan = func(_ context.Context, p *troupe.Peer) {
			close(begins)
			<-goOn
			n.note("began %s", p.Revision())
		}
		s := host.New(t, troupe.Options{}, o).SSE()
		posted := make(chan struct{})
		go func() {
			defer close(posted)
			s.Post(host.Initialize("0", `{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"kit","version":"1"}}`), "Accept", "")
		}()
		<-begins
		s.Stream.Close()
		time.Sleep(time.Minute) // until a keep-alive finds that the client has left
		host.Equal(t, "while SessionBegan runs", n.take(), "")
		close(goOn)
		<-posted
		synctest.Wait()
		host.Equal(t, "afterwards", n.take(), "began 2024-11-05\ndisconnected 2024-11-05 of kit")
	})
}
