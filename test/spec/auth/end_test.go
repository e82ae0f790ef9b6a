package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

// timed lets in users whose tokens end when X-Expires says, in Unix seconds.
func timed(r *http.Request) (troupe.Principal, error) {
	p, err := host.User(r)
	if s := r.Header.Get("X-Expires"); s != "" && err == nil {
		n, _ := strconv.ParseInt(s, 10, 64)
		p.Expires = time.Unix(n, 0)
	}
	return p, err
}

// until returns c with a token of ann that ends after a time.
func until(c *kit.Client, after time.Duration) *kit.Client {
	own := *c
	own.Header = http.Header{"X-User": {"ann"}, "X-Expires": {fmt.Sprint(time.Now().Add(after).Unix())}}
	return &own
}

// offBeat starts a host half a second before a full one, at which it returns: tokens end on full seconds, and what is open is looked at on half ones.
func offBeat(t *testing.T) (h *host.Host, began time.Time) {
	t.Helper()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1500 * time.Millisecond)))
	h = host.New(t, troupe.Options{Authenticate: timed, Limits: troupe.Limits{PingEvery: -1}}, nil)
	synctest.Wait()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	synctest.Wait()
	return h, time.Now()
}

const (
	life  = time.Minute           // of the token with which a test begins
	ended = life + 30*time.Second // when what was opened with it ends
)

// read reads a stream to its end in the background. What it returns waits for that, and returns the events, and when it ended.
func read(a *kit.Answer) func() (all []kit.Event, at time.Time) {
	var all []kit.Event
	var at time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		all, at = a.All(), time.Now()
	}()
	return func() ([]kit.Event, time.Time) { <-done; return all, at }
}

// endsAt fails the test unless a stream ended when its token did, or with the next beat of the node.
func endsAt(t *testing.T, what string, began, at time.Time) {
	t.Helper()
	if took := at.Sub(began); took < ended || took > ended+time.Second {
		t.Errorf("%s ended after %s, want %s", what, took, ended)
	}
}

func lastID(events []kit.Event) (id string) {
	for _, e := range events {
		if e.ID != "" {
			id = e.ID
		}
	}
	return id
}

// TestStreamsEndWithTheirToken has a call of 200 s and the standalone stream of a session, whose token ends meanwhile: both end then, and go on with a fresh token, with
// every event once.
func TestStreamsEndWithTheirToken(t *testing.T) {
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h, began := offBeat(t)
				c := until(h.Unchecked(), life).InitializeAs(revision, `{}`)
				standalone := c.Get("")
				call := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{"to":40,"delay_ms":5000},"_meta":{"progressToken":"p"}}}`)
				if !standalone.Stream() || !call.Stream() {
					t.Fatalf("no streams: %s, %s", standalone.Status, call.Status)
				}
				time.AfterFunc(10*time.Second, func() { troupe.AddTool(h.Server, troupe.Tool{Name: "before"}, nothing) })
				time.AfterFunc(ended-50*time.Millisecond, func() { troupe.AddTool(h.Server, troupe.Tool{Name: "after"}, nothing) }) // the change is told 100 ms later
				ofCall, ofSession := read(call), read(standalone)
				first, at := ofCall()
				endsAt(t, "the call's stream", began, at)
				news, at := ofSession()
				endsAt(t, "the standalone stream", began, at)
				if broke := revision != "2025-11-25"; call.Broke != broke || standalone.Broke != broke {
					t.Errorf("broken are %v and %v, want %v: clients of this revision come back by that", call.Broke, standalone.Broke, broke)
				}
				time.Sleep(2 * time.Second)
				fresh := *until(c, time.Hour)
				fresh.Session = c.Session
				again := fresh.Get(lastID(news))
				if e, ok := again.Next(); !ok {
					t.Error("the standalone stream does not go on")
				} else if e.Data == "" { // the priming event
					e, _ = again.Next()
					news = append(news, e)
				} else {
					news = append(news, e)
				}
				again.Close()
				if n := strings.Count(fmt.Sprint(news), "tools/list_changed"); n != 2 {
					t.Errorf("%d changes of the list came, want 2: %v", n, news)
				}
				rest := fresh.Get(lastID(first)).All()
				got := fmt.Sprint(append(first, rest...))
				for n := 1; n <= 40; n++ {
					if k := strings.Count(got, fmt.Sprintf(`"progress":%d,`, n)); k != 1 {
						t.Errorf("progress %d came %d times", n, k)
					}
				}
				if strings.Count(got, "counted to 40") != 1 {
					t.Errorf("the response did not come once: %s", got)
				}
			})
		})
	}
}

// TestCallsOutliveTheirToken has calls whose clients could not come back for them: they are answered on their own responses.
func TestCallsOutliveTheirToken(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: timed, Limits: troupe.Limits{PingEvery: -1}}, nil)
		const long = `{"name":"sleep","arguments":{"ms":200000}}`
		old := until(h.Unchecked(), life).InitializeAs("2025-06-18", `{}`).Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + long + `}`)
		response := read(old)
		m := h.Stateless(`{}`)
		m.Client = until(m.Client, life)
		a, id := m.Do("tools/call", long)
		body := a.Body
		if a.Stream() {
			body = fmt.Sprint(host.Payloads(a.All()))
		}
		if !strings.Contains(body, `"id":`+id) || !strings.Contains(body, "slept") {
			t.Errorf("the stateless call: %s %s", a.Status, body)
		}
		if all, _ := response(); len(all) != 1 || !strings.Contains(all[0].Data, "slept") {
			t.Errorf("the call without an event id: %s %v, broken: %v", old.Status, all, old.Broke)
		}
	})
}

// TestStreamsOfAccessTokens has the end of an access token be that of a stream, which goes on with a fresh token of the same user and no other. That of a key without an end goes on.
func TestStreamsOfAccessTokens(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		d, _ := virtualDoor(t, func(o *troupe.Options) { o.Limits.PingEvery = -1 })
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
		began := time.Now()
		_, secret, err := d.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: "CI"})
		if err != nil {
			t.Fatal(err)
		}
		key := host.Listen(d.as(secret).Initialize(`{}`).Get(""))
		defer key.Close()
		c := d.as(d.id.Token("alice", resource, issuer.Claims{"exp": began.Add(life).Unix()})).Initialize(`{}`)
		stream := c.Get("")
		time.AfterFunc(time.Hour, stream.Close) // if its token does not end it
		events, at := read(stream)()
		endsAt(t, "the stream of a token", began, at)
		for name, want := range map[string]bool{"bob": false, "alice": true} {
			again := d.as(d.id.Token(name, resource, nil))
			again.Session = c.Session
			a := again.Get(lastID(events))
			if a.Stream() != want {
				t.Errorf("with a fresh token of %s: %s", name, a.Status)
			}
			a.Close()
		}
		troupe.AddTool(d.Server, troupe.Tool{Name: "after"}, nothing)
		time.Sleep(time.Second)
		if got, ended := key.Now(); ended || !strings.Contains(fmt.Sprint(got), "list_changed") {
			t.Errorf("the stream of a key without an end has got %q, and has ended: %v", got, ended)
		}
	})
}

// TestListenersEndWithTheirToken has a listener hear why it ends, and nothing after that.
func TestListenersEndWithTheirToken(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, began := offBeat(t)
		m := h.Stateless(`{}`)
		m.Client = until(m.Client, life)
		a, _ := m.Listen("7", `{"toolsListChanged":true}`)
		time.AfterFunc(10*time.Second, func() { troupe.AddTool(h.Server, troupe.Tool{Name: "before"}, nothing) })
		time.AfterFunc(ended-50*time.Millisecond, func() { troupe.AddTool(h.Server, troupe.Tool{Name: "after"}, nothing) }) // the change is told 100 ms later
		all, at := read(a)()
		endsAt(t, "the listener", began, at)
		got := host.Payloads(all)
		want := []string{
			host.ListenNote("7", "tools/list_changed", ""),
			host.ListenNote("7", "cancelled", `,"requestId":7,"reason":"token_expiry"`),
			`{"jsonrpc":"2.0","id":7,"result":`,
		}
		if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || !strings.HasPrefix(got[2], want[2]) {
			t.Errorf("the listener got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestSSEEndsWithItsToken has a session of HTTP+SSE end with the token that opened it, whatever tokens its messages have.
func TestSSEEndsWithItsToken(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, began := offBeat(t)
		s := until(h.Unchecked(), life).OpenSSE("/sse")
		s.Handshake("2024-11-05", `{}`)
		s.Client = until(s.Client, time.Hour) // a refreshed token
		messages := read(s.Stream)
		time.AfterFunc(ended-50*time.Millisecond, func() { troupe.AddTool(h.Server, troupe.Tool{Name: "after"}, nothing) }) // the change is told 100 ms later
		time.Sleep(80 * time.Second)
		if a := s.Post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Accept", ""); a.StatusCode != http.StatusAccepted {
			t.Errorf("a message with a fresh token: %s", a.Status)
		}
		all, at := messages()
		if len(all) != 1 || !strings.Contains(all[0].Data, `"id":2`) {
			t.Errorf("the messages: %v", all)
		}
		endsAt(t, "the session", began, at)
		if a := s.Post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, "Accept", ""); a.StatusCode != http.StatusNotFound {
			t.Errorf("a message after the end: %s", a.Status)
		}
	})
}

// TestSilentStreamsEndWithTheirToken has the standalone stream and a listener end where no event comes that would find their token ended.
func TestSilentStreamsEndWithTheirToken(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, began := offBeat(t)
		streams := map[string]func() ([]kit.Event, time.Time){}
		open := func(name string, a *kit.Answer) {
			streams[name] = read(a)
			time.AfterFunc(ended+time.Minute, a.Close)
		}
		for _, revision := range []string{host.R20250326, host.R20251125} {
			open("the stream of "+revision, until(h.Unchecked(), life).InitializeAs(revision, `{}`).Get(""))
		}
		m := h.Stateless(`{}`)
		m.Client = until(m.Client, life)
		a, _ := m.Listen("7", `{"toolsListChanged":true}`)
		open("the listener", a)
		for name, wait := range streams {
			_, at := wait()
			endsAt(t, name, began, at)
		}
	})
}

func nothing(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil }
