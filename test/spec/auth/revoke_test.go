package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

// status is that of a request with a token that has no session.
func (d *door) status(token string) int {
	d.T.Helper()
	return d.as(token).Post(initialize).StatusCode
}

// later is a claim of a token that is issued a while from now, within the leeway.
func later() issuer.Claims { return issuer.Claims{"iat": time.Now().Add(5 * time.Second).Unix()} }

// TestRevoked tokens are refused, also those that were verified before, on connections that remember them: by their subject, their client, or as API keys. Those of others count on, and
// those that are issued afterwards, but for a banned one.
func TestRevoked(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Auth.APIKeys = auth.StoredKeys })
	alice, bob := d.id.Token("alice", resource, nil), d.id.Token("bob", resource, nil)
	other := d.id.Token("carol", resource, issuer.Claims{"client_id": "other"})
	silent := d.id.Token("alice", resource, issuer.Claims{"iat": nil, "jti": "silent"})
	key, secret, err := d.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: "CI"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"alice": alice, "alice, of whose token nobody knows when it was issued": silent, "bob": bob, "carol by another client": other, "a key": secret}
	want := func(what string, refused ...string) {
		t.Helper()
		for name, token := range all {
			want := 200
			for _, r := range refused {
				if strings.HasPrefix(name, r) {
					want = 401
				}
			}
			for range 2 { // the second on a connection that knows the token
				if got := d.status(token); got != want {
					t.Errorf("%s, %s: %d, want %d", what, name, got, want)
				}
			}
		}
	}
	want("before")
	revoke := func(r troupe.Revocation) troupe.Revocation {
		t.Helper()
		r, err := d.Runtime.Revocations().Revoke(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	remove := func(r troupe.Revocation) {
		t.Helper()
		if _, err := d.Runtime.Revocations().Remove(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}
	before := d.Refused("auth-revoked")
	first := revoke(troupe.Revocation{Subject: "alice", Issuer: d.id.URL})
	want("alice is revoked", "alice")
	if got := d.Refused("auth-revoked") - before; got != 4 {
		t.Errorf("%d refusals are counted, want 4", got)
	}
	if got := d.Gauge("troupe.revocations", ""); got != 1 {
		t.Errorf("%d revocations are counted", got)
	}
	a := d.as(alice).Post(listTools)
	if got := challenge(t, a.Header); a.StatusCode != 401 || got["error"] != "invalid_token" || got["resource_metadata"] != where || strings.Contains(a.Body, "revoked") {
		t.Errorf("%s %v %s", a.Status, a.Header, a.Body)
	}
	if a := d.as(d.id.Token("alice", resource, issuer.Claims{"iat": time.Now().Add(-time.Minute).Unix()})).Post("{"); a.StatusCode != 401 {
		t.Errorf("a token that nobody has seen, before the body is read: %s", a.Status)
	}
	if log := d.log.String(); !strings.Contains(log, `"revocation":"`+first.ID+`"`) || strings.Contains(log, alice) {
		t.Errorf("the log has\n%s", log)
	}
	fresh := d.id.Token("alice", resource, later())
	if got := d.status(fresh); got != 200 {
		t.Errorf("a token that is issued afterwards: %d", got)
	}
	banned := revoke(troupe.Revocation{Subject: "alice", Issuer: d.id.URL, Ban: true})
	if got := d.status(fresh); got != 401 || banned.ID != first.ID {
		t.Errorf("a token that is issued afterwards, once she is banned: %d", got)
	}
	remove(banned)
	want("the ban is removed")
	remove(revoke(troupe.Revocation{Subject: "alice", Issuer: "https://elsewhere.example.com"}))
	client := revoke(troupe.Revocation{Client: "editor"})
	want("a client is revoked", "alice", "bob")
	remove(client)
	if r, err := d.Runtime.Revocations().RevokeKey(t.Context(), "CI"); err != nil || r.Subject != key.ID {
		t.Errorf("%+v, %v", r, err)
	}
	want("an API key is revoked", "a key")
	if keys, err := d.Runtime.APIKeys().List(t.Context()); err != nil || len(keys) != 1 || keys[0].Revoked.IsZero() {
		t.Errorf("the API keys: %+v, %v", keys, err)
	}
	if all, err := d.Runtime.Revocations().List(t.Context()); err != nil || len(all) != 1 || all[0].Issuer != auth.KeyIssuer {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestRevokedTokensFail: they count as such for their address, and no others of it are looked at for a while; what is known there counts on.
func TestRevokedTokensFail(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *troupe.Options) { o.Shared.AuthFailures = 0.001 })
	alice, bob := d.id.Token("alice", resource, nil), d.id.Token("bob", resource, nil)
	if got := [2]int{d.status(alice), d.status(bob)}; got != [2]int{200, 200} {
		t.Fatal(got)
	}
	if _, err := d.Runtime.Revocations().Revoke(t.Context(), troupe.Revocation{Subject: "alice"}); err != nil {
		t.Fatal(err)
	}
	if got := [4]int{d.status(alice), d.status(alice), d.status(d.id.Token("carol", resource, nil)), d.status(bob)}; got != [4]int{401, 429, 429, 200} {
		t.Errorf("of a revoked token, that again, an unknown one and a known one: %d", got)
	}
}

// TestWhatTheRevokedHoldEnds: the sessions of somebody who is revoked, with their event streams and calls, their other calls, their listeners, and their tasks. What others hold goes on. A new token of the same
// user finds none of it.
func TestWhatTheRevokedHoldEnds(t *testing.T) {
	t.Parallel()
	for what, revoked := range map[string]troupe.Revocation{"subject": {Subject: "alice"}, "client": {Client: "phone"}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, func(o *troupe.Options) { o.Limits.Grace = time.Millisecond })
			ended, began := make(chan string, 10), make(chan string, 10)
			wait := func(ctx context.Context, c *troupe.Call, _ struct{}) (string, error) {
				began <- c.Principal().Subject
				<-ctx.Done()
				ended <- c.Principal().Subject
				return "", ctx.Err()
			}
			troupe.AddTool(d.Server, troupe.Tool{Name: "wait"}, wait)
			troupe.AddTool(d.Server, troupe.Tool{Name: "work", Task: troupe.TaskOptional}, wait)
			taskOf := func(c *kit.Client, id string) string {
				return payload(c.Post(host.Method("2", "tasks/get", `{"taskId":"`+id+`"}`)))
			}
			type held struct {
				*kit.Client
				stream, call, listener *kit.Answer
				older                  *kit.SSE
				stateless              <-chan *kit.Answer
				task                   string
			}
			const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
			hold := func(name, client string) (h held) {
				token := func(audience string) string {
					return d.id.Token(name, audience, issuer.Claims{"client_id": client})
				}
				h.Client = d.as(token(resource)).Initialize(`{}`)
				h.stream = h.Get("")
				h.call = h.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`)
				var made struct {
					Result struct{ Task struct{ TaskID string } }
				}
				if got := payload(h.Post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"work","arguments":{},"task":{"ttl":600000}}}`)); json.Unmarshal([]byte(got), &made) != nil || made.Result.Task.TaskID == "" {
					t.Fatalf("no task: %s", got)
				}
				h.task = made.Result.Task.TaskID
				alone := d.as(token(resource))
				h.stateless = alone.PostLater(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"wait","arguments":{},`+meta+`}}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "wait")
				h.listener = alone.Post(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+meta+`}}`, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
				if _, ok := h.listener.Next(); !ok {
					t.Fatalf("no listener: %s %s", h.listener.Status, h.listener.Body)
				}
				h.older = d.as(token(older)).OpenSSE("/sse")
				h.older.Handshake("2025-03-26", `{}`)
				for range 3 {
					<-began
				}
				return h
			}
			alice, bob := hold("alice", "phone"), hold("bob", "editor")
			if _, err := d.Runtime.Revocations().Revoke(t.Context(), revoked); err != nil {
				t.Fatal(err)
			}
			fresh := d.as(d.id.Token("alice", resource, later()))
			for got := ""; !strings.Contains(got, `"cancelled"`); {
				fresh.Session = ""
				fresh.Session = fresh.Post(initialize).Header.Get("Mcp-Session-Id")
				a := fresh.Post(host.Method("2", "tasks/get", `{"taskId":"`+alice.task+`"}`))
				if got = payload(a); got != "" && a.StatusCode == 200 && !strings.Contains(got, `"cancelled"`) { // else the session has ended with those of before
					t.Fatalf("the task: %s", got)
				}
			}
			alice.stream.All() // it ends
			alice.call.All()
			if all := alice.listener.All(); !strings.Contains(fmt.Sprint(all), "revoked") {
				t.Errorf("the listener is told %v", all)
			}
			for _, ok := alice.older.Next(); ok; _, ok = alice.older.Next() {
			}
			(<-alice.stateless).Close()
			for range 3 {
				if who := <-ended; who != "alice" {
					t.Errorf("a call of %s has ended", who)
				}
			}
			if a := alice.Post(listTools); a.StatusCode != 401 {
				t.Errorf("the next request: %s", a.Status)
			}
			if fresh.Session = alice.Session; fresh.Post(listTools).StatusCode != 404 {
				t.Error("the session is there")
			}
			if got := taskOf(bob.Client, bob.task); !strings.Contains(got, `"working"`) {
				t.Errorf("another one's task: %s", got)
			}
			if bob.older.Ask(`{"jsonrpc":"2.0","id":9,"method":"ping"}`) == "" {
				t.Error("another one's session of HTTP+SSE has ended")
			}
			select {
			case who := <-ended:
				t.Errorf("a call of %s has ended", who)
			case a := <-bob.stateless:
				t.Errorf("another one's call has ended: %s %s", a.Status, a.Body)
			default:
			}
			troupe.AddTool(d.Server, troupe.Tool{Name: "news"}, wait)
			if _, ok := bob.listener.Next(); !ok {
				t.Error("another one's listener has ended")
			}
			for _, a := range []*kit.Answer{bob.stream, bob.call, bob.listener} {
				a.Close()
			}
		})
	}
}

// TestIdleSessionsOfTheRevoked end, too: what is of them in the store, though no request has come for them here.
func TestIdleSessionsOfTheRevoked(t *testing.T) {
	t.Parallel()
	id, dir := issuer.New(t), t.TempDir()
	run := func(f func(rt *troupe.Runtime, as func(string) *kit.Client)) {
		t.Helper()
		rt, err := troupe.New(troupe.Options{Dir: dir, Auth: &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public}})
		if err != nil {
			t.Fatal(err)
		}
		rt.Mount("/mcp", troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil))
		hs := httptest.NewServer(rt)
		defer hs.Close()
		f(rt, func(token string) *kit.Client {
			return &kit.Client{T: t, HTTP: hs.Client(), URL: hs.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + token}}}
		})
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	sessions := map[string]string{}
	run(func(_ *troupe.Runtime, as func(string) *kit.Client) {
		for _, name := range []string{"alice", "bob"} {
			c := as(id.Token(name, resource, nil)).Initialize(`{}`)
			c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			sessions[name] = c.Session
		}
	})
	run(func(rt *troupe.Runtime, as func(string) *kit.Client) {
		if _, err := rt.Revocations().Revoke(t.Context(), troupe.Revocation{Subject: "alice"}); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{"alice": 404, "bob": 200} {
			c := as(id.Token(name, resource, later()))
			c.Session = sessions[name]
			if a := c.Post(listTools); a.StatusCode != want {
				t.Errorf("the session of %s: %s %s", name, a.Status, a.Body)
			}
		}
	})
}

// signalled tells when its body is read for the first time, and waits before it is.
type signalled struct {
	io.ReadCloser
	once        sync.Once
	read, begin chan struct{}
}

func (s *signalled) Read(p []byte) (int, error) {
	s.once.Do(func() {
		close(s.read)
		<-s.begin
	})
	return s.ReadCloser.Read(p)
}

// TestRevokedMeanwhile refuses a request whose body comes once its owner is revoked.
func TestRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	slow := &signalled{read: make(chan struct{}), begin: make(chan struct{})}
	d := newDoor(t, func(o *troupe.Options) {
		o.Middleware = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Slow") != "" {
					slow.ReadCloser = r.Body
					r.Body = slow
				}
				next.ServeHTTP(w, r)
			})
		}
	})
	answer := d.user("alice").PostLater(listTools, "X-Slow", "1")
	<-slow.read
	if _, err := d.Runtime.Revocations().Revoke(t.Context(), troupe.Revocation{Subject: "alice"}); err != nil {
		t.Fatal(err)
	}
	before := d.Refused("auth-revoked")
	close(slow.begin)
	a := <-answer
	if got := challenge(t, a.Header); a.StatusCode != 401 || got["error"] != "invalid_token" || d.Refused("auth-revoked") != before+1 {
		t.Errorf("%s %v %s, counted %d", a.Status, a.Header, a.Body, d.Refused("auth-revoked")-before)
	}
}
