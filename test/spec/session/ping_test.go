package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// pings returns the pings among messages, and fails on any other.
func pings(t *testing.T, messages []string) (all []host.Asked) {
	t.Helper()
	for _, m := range messages {
		q := host.ParseAsked(t, m)
		if q.Method != "ping" || q.Params != nil || q.ID == nil {
			t.Errorf("no ping: %s", m)
		}
		all = append(all, q)
	}
	return all
}

func TestPingBeforeInitialize(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		c := h.Client()
		a := c.Post(host.Method(`"p"`, "ping", ""))
		if a.StatusCode != 200 || a.Body != `{"jsonrpc":"2.0","id":"p","result":{}}` {
			t.Errorf("%s %s", a.Status, a.Body)
		}
		a = c.Post(host.Method("1", "tools/list", ""))
		if a.StatusCode != 400 {
			t.Errorf("another request: %s", a.Status)
		}
		a = c.Post(host.Method("1", "ping", ""), "Mcp-Session-Id", strings.Repeat("a", 26))
		if a.StatusCode != 404 {
			t.Errorf("with an unknown session: %s", a.Status)
		}
	})
}

// TestPingTimesOut checks that a ping waits 30 s for its answer, and not as long as a
// question to the user.
func TestPingTimesOut(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		ended := make(chan error, 2)
		troupe.AddTool(h.Server, troupe.Tool{Name: "pings"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			peer := call.Peer()
			ended <- call.Ping(ctx)
			ended <- peer.Ping(ctx)
			return "pinged", nil
		})
		c := h.Session()
		standalone := c.Get("")
		defer standalone.Close()
		host.Listen(standalone)
		answer := host.Reading(c.Post(host.Call("1", "pings", `{}`)))
		for _, what := range []string{"Call.Ping", "Peer.Ping"} {
			begin := time.Now()
			if err := <-ended; !errors.Is(err, troupe.ErrNoAnswer) {
				t.Errorf("%s ended with %v, want ErrNoAnswer", what, err)
			}
			if took := time.Since(begin); took < 29*time.Second || took > 31*time.Second {
				t.Errorf("%s ended after %v", what, took)
			}
		}
		got := answer()
		host.Equal(t, "the call", got[len(got)-1], host.TextResult("1", "pinged"))
	})
}

// TestPingEvery checks that a client that answers its pings, with a result or with an
// error, keeps its stream. A client that leaves two unanswered loses the stream, but
// not the session.
func TestPingEvery(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{PingEvery: 30 * time.Second}}, nil)
		c, silent := h.Session(), h.Session()
		l, s := host.Listen(c.Get("")), host.Listen(silent.Get(""))
		deaf := host.Listen(c.Post(host.Call("1", "sleep", `{"ms":600000}`))) // a call's stream is not pinged
		time.Sleep(29 * time.Second)
		if n := len(l.Since(0)); n != 0 {
			t.Errorf("%d pings after 29 s", n)
		}
		begin := time.Now()
		for i := range 10 {
			last := time.Now()
			for len(l.Since(i)) == 0 {
				time.Sleep(time.Second)
			}
			if took := time.Since(last); i > 0 && (took < 30*time.Second || took > 31*time.Second) {
				t.Errorf("a ping after %v", took)
			}
			all := pings(t, l.Since(i))
			switch {
			case i == 3: // one ping may be lost
			case i%2 == 0:
				host.Reply(c, all[0].ID, "result", `{}`)
			default:
				host.Reply(c, all[0].ID, "error", `{"code":-32601,"message":"what is a ping?"}`)
			}
		}
		if _, over := l.Now(); over {
			t.Error("the stream of a client that answers has ended")
		}
		if n := len(deaf.Since(0)); n > 1 {
			t.Errorf("%d messages on a call's stream", n)
		}
		got, over := s.Now()
		if n := len(pings(t, got)); !over || n != 2 {
			t.Errorf("a client that does not answer: %d pings, ended %v", n, over)
		}
		if n := h.Gauge("troupe.pings.lost", ""); n != 1 {
			t.Errorf("%d connections counted as lost", n)
		}
		host.Equal(t, "its session goes on", silent.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))

		// A late answer is accepted and dropped.
		host.Reply(silent, pings(t, got)[0].ID, "result", `{}`)

		// The client may resume, and gets new pings; the old ones are not replayed.
		again := host.Listen(silent.Get(""))
		time.Sleep(32 * time.Second)
		if all := pings(t, again.Since(0)); len(all) != 1 {
			t.Errorf("%d pings on the next connection", len(all))
		}
		again.Close()
		l.Close()
		deaf.Close()
		time.Sleep(time.Minute)
		if n := h.Gauge("troupe.requests.pending", ""); n != 0 {
			t.Errorf("%d questions are left %v after the beginning", n, time.Since(begin))
		}
	})
}

// TestPingsOverSSE checks that a bound session ends with its connection.
func TestPingsOverSSE(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Limits: troupe.Limits{PingEvery: 30 * time.Second}}, nil)
		early, s, silent := h.SSE(), h.SSE(), h.SSE()
		s.Handshake("2024-11-05", `{}`)
		silent.Handshake("2024-11-05", `{}`)
		idle, unheard := host.Listen(early.Stream), host.Listen(silent.Stream)
		for range 5 {
			m, ok := s.Next()
			if !ok {
				t.Fatal("the session has ended")
			}
			s.Post(host.AnswerTo(m, `{}`), "Accept", "")
		}
		got, over := unheard.Now()
		if n := len(pings(t, got)); n != 2 || !over {
			t.Errorf("a client that does not answer: %d pings, ended %v", n, over)
		}
		if live := h.Actors("session"); live != 2 {
			t.Errorf("%d sessions are left, want 2", live)
		}
		if got, over := idle.Now(); len(got) != 0 || over {
			t.Errorf("a session that was never initialized: %v, ended %v", got, over)
		}
	})
}

func TestNoPingsUnlessAsked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		l := host.Listen(h.Session().Get(""))
		defer l.Close()
		time.Sleep(10 * time.Minute)
		if got := l.Since(0); len(got) != 0 {
			t.Errorf("got %v", got)
		}
	})
}
