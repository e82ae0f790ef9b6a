package session_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestKeptPeerFollowsItsSession checks that a Peer that a handler kept follows its
// session when that leaves memory and comes back.
func TestKeptPeerFollowsItsSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		kept := make(chan *troupe.Peer, 1)
		h.AddTool("keep", 0, func(_ context.Context, call *troupe.Call) (string, error) {
			kept <- call.Peer()
			return "", nil
		})
		c := h.Session()
		c.Post(host.Call("1", "keep", `{}`))
		peer := <-kept
		log := func(level mcp.LoggingLevel, text string) {
			t.Helper()
			if err := peer.Log(context.Background(), level, "", text); err != nil {
				t.Errorf("log %q: %v", text, err)
			}
		}
		time.Sleep(3 * time.Minute) // the session leaves memory
		l := host.Listen(c.Get(""))
		synctest.Wait()
		log(mcp.LevelError, "first")
		c.Post(host.Method("2", "logging/setLevel", `{"level":"critical"}`))
		log(mcp.LevelError, "below the level")
		log(mcp.LevelCritical, "second")
		got, _ := l.Now()
		want := []string{host.Note("notifications/message", `{"level":"error","data":"first"}`), host.Note("notifications/message", `{"level":"critical","data":"second"}`)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		l.Close()
		if d := c.Do("DELETE", ""); d.StatusCode != 200 {
			t.Errorf("delete: %s", d.Status)
		}
		if err := peer.Log(context.Background(), mcp.LevelCritical, "", "too late"); err == nil {
			t.Error("a message to a session that has ended was taken")
		}
	})
}

// ended reports what is wrong with a client whose session should have ended.
func ended(t *testing.T, c *kit.Client) {
	t.Helper()
	for _, a := range []*kit.Answer{c.Post(host.Call("99", "echo", `{"text":"x"}`)), c.Get("")} {
		if a.StatusCode != 404 {
			t.Errorf("the session should have ended: %s %s", a.Status, a.Body)
		}
	}
}

// TestOpenStreamKeepsTheSession checks that a client that listens uses its session,
// which ends, together with the stream, only at its absolute lifetime.
func TestOpenStreamKeepsTheSession(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Store: troupe.StoreOptions{SessionIdle: 10 * time.Minute, SessionMax: 40 * time.Minute}}, nil)
		c, idle := h.Session(), h.Session()
		c.Post(host.SubscribeOne)
		l := host.Listen(c.Get(""))
		time.Sleep(39 * time.Minute)
		ended(t, idle)
		before, over := l.Now()
		h.Server.ResourceUpdated("test://one")
		got, _ := l.Now()
		if diff := cmp.Diff([]string{host.OneUpdated}, got[len(before):]); diff != "" || over {
			t.Errorf("after 39 minutes: ended %v (-want +got):\n%s", over, diff)
		}
		host.Equal(t, "a call after 39 minutes", c.Post(host.Call("2", "echo", `{"text":"x"}`)).Body, host.TextResult("2", "x"))
		time.Sleep(2 * time.Minute)
		if got, over := l.Now(); !over {
			t.Errorf("after 41 minutes the stream is still open: %q", got)
		}
		ended(t, c)
		l.Close()
	})
}

// TestRunningCallKeepsTheSession checks the same of a running call, whether its client
// is connected or not.
func TestRunningCallKeepsTheSession(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Store: troupe.StoreOptions{SessionIdle: 10 * time.Minute, SessionMax: 40 * time.Minute}}, nil)
		causes := make(chan error, 1)
		h.AddTool("wait", 0, func(ctx context.Context, _ *troupe.Call) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", ctx.Err()
		})
		c := h.Session()
		time.Sleep(9 * time.Minute)
		a := c.Post(host.Call("1", "sleep", `{"ms":1500000}`)) // until the 34th minute
		prime, _ := a.Next()
		a.Close()
		time.Sleep(24 * time.Minute)
		r := c.Get(prime.ID)
		if !r.Stream() {
			t.Fatalf("resume of a running call: %s %s", r.Status, r.Body)
		}
		host.Equal(t, "resumed", host.Last(t, r), host.TextResult("1", "slept"))
		l := host.Listen(c.Post(host.Call("2", "wait", `{}`)))
		time.Sleep(5 * time.Minute)
		if got, over := l.Now(); over {
			t.Errorf("after 39 minutes the call has ended: %q", got)
		}
		time.Sleep(2 * time.Minute)
		if got, over := l.Now(); !over || len(got) != 0 {
			t.Errorf("after 41 minutes: ended %v, got %q", over, got)
		}
		select {
		case err := <-causes:
			if !errors.Is(err, troupe.ErrSessionEnded) {
				t.Errorf("the call ended for %v", err)
			}
		default:
			t.Error("the handler runs on")
		}
		ended(t, c)
		l.Close()
	})
}

// TestDeleteEndsCalls checks that a DELETE ends the calls of the session at any point:
// before they become streams, while they do, and after.
func TestDeleteEndsCalls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const grace = 250 * time.Millisecond
		h := host.New(t, troupe.Options{}, nil)
		causes := make(chan error, 1)
		h.AddTool("wait", 0, func(ctx context.Context, _ *troupe.Call) (string, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return "", ctx.Err()
		})
		for i := range 60 {
			after := []time.Duration{grace / 2, grace, 2 * grace}[i%3]
			c := h.Session()
			deleted := make(chan *kit.Answer, 1)
			time.AfterFunc(after, func() { deleted <- c.Do("DELETE", "") })
			begin := time.Now()
			a := c.Post(host.Call("1", "wait", `{}`))
			if a.Stream() {
				if got := host.Payloads(a.All()); len(got) != 0 {
					t.Errorf("deleted after %v: %q", after, got)
				}
			} else if a.StatusCode != 404 {
				t.Errorf("deleted after %v: %s %s", after, a.Status, a.Body)
			}
			if d := time.Since(begin); d != after {
				t.Errorf("deleted after %v: the response took %v", after, d)
			}
			if d := <-deleted; d.StatusCode != 200 {
				t.Errorf("delete: %s %s", d.Status, d.Body)
			}
			if err := <-causes; !errors.Is(err, troupe.ErrSessionEnded) {
				t.Errorf("deleted after %v: the call ended for %v", after, err)
			}
			ended(t, c)
		}
		synctest.Wait()
		for _, kind := range []string{"session", "stream", "request"} {
			if n := h.Actors(kind); n != 0 {
				t.Errorf("%d actors of kind %s are left", n, kind)
			}
		}
	})
}

// TestRacesWithDelete sends what changes a session's record, and other messages, while the session is deleted. Each is
// served or gets 404, and nothing is logged as an error.
func TestRacesWithDelete(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		var log host.Lines
		h := host.New(t, troupe.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}, nil)
		gone := 0
		for range 40 {
			c := h.Unchecked().Initialize(`{}`)
			c.Post(host.SubscribeOne)
			var all sync.WaitGroup
			var status [6]int
			for i, body := range []string{
				host.Method("2", "logging/setLevel", `{"level":"error"}`), host.Method("3", "resources/subscribe", `{"uri":"test://items/1"}`),
				host.Method("4", "resources/unsubscribe", `{"uri":"test://one"}`), host.Call("5", "echo", `{"text":"x"}`), host.Note("notifications/x", `{}`),
			} {
				all.Go(func() { status[i] = c.Post(body).StatusCode })
			}
			all.Go(func() {
				a := c.Get("")
				status[5] = a.StatusCode
				a.Close()
			})
			all.Go(func() {
				if d := c.Do("DELETE", ""); d.StatusCode != 200 {
					t.Errorf("DELETE: %s", d.Status)
				}
			})
			all.Wait()
			for i, s := range status {
				if s == 404 {
					gone++
				} else if s != 200 && s != 202 {
					t.Errorf("request %d is answered %d", i, s)
				}
			}
		}
		if gone == 0 {
			t.Error("no request came too late")
		}
		if log.String() != "" {
			t.Errorf("logged: %s", log.String())
		}
	})
}

// TestHealth checks that probes may send HEAD.
func TestHealth(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: 3 * time.Second, DrainWait: time.Second}, nil)
		ln := kit.NewListener()
		web := &http.Client{Transport: &http.Transport{DialContext: ln.Dial}}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- h.Runtime.ServeOn(ctx, ln) }()
		probe := func(method, path string, status int, body string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := web.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != status || string(got) != body {
				t.Errorf("%s %s: %s %q, %v; want %d %q", method, path, resp.Status, got, err, status, body)
			}
		}
		probe("GET", "/healthz", 200, "ok\n")
		probe("HEAD", "/healthz", 200, "")
		probe("GET", "/readyz", 200, "ready\n")
		probe("HEAD", "/readyz", 200, "")
		probe("HEAD", "/metrics", 404, "")
		stop()
		synctest.Wait()
		probe("GET", "/healthz", 200, "ok\n")
		probe("HEAD", "/readyz", 503, "")
		web.CloseIdleConnections()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
