package auth_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/spec/host"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/internal/testkit/issuer"
)

// status is that of a request with a token that has no session.
func (d *door) status(token string) int {
	d.T.Helper()
	return d.as(token).Post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"testkit","version":"1"}}}`).StatusCode
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

// TestWhatTheRevokedHoldEnds: the sessions of somebody who is revoked, with their event streams and calls, and their tasks; also what is of a session that nobody uses. What others hold goes on. A
// new token of the same user finds none of it.
func TestWhatTheRevokedHoldEnds(t *testing.T) {
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
	const call, asTask = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"work","arguments":{},"task":{"ttl":600000}}}`
	body := func(a *testkit.Answer) string { // of any form
		if a.Stream() {
			return host.Last(t, a)
		}
		return a.Body
	}
	type held struct {
		*testkit.Client
		stream, call *testkit.Answer
		task         string
	}
	hold := func(name string) (h held) {
		h.Client = d.user(name)
		h.stream = h.Get("")
		h.call = h.Post(call)
		var made struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if got := body(h.Post(asTask)); json.Unmarshal([]byte(got), &made) != nil || made.Result.Task.TaskID == "" {
			t.Fatalf("no task: %s", got)
		}
		h.task = made.Result.Task.TaskID
		for range 2 {
			<-began
		}
		return h
	}
	alice, bob := hold("alice"), hold("bob")
	idle := d.user("alice")
	if _, err := d.Runtime.Revocations().Revoke(t.Context(), troupe.Revocation{Subject: "alice"}); err != nil {
		t.Fatal(err)
	}
	alice.stream.All() // it ends
	alice.call.All()
	for range 2 {
		if who := <-ended; who != "alice" {
			t.Errorf("a call of %s has ended", who)
		}
	}
	if a := alice.Post(listTools); a.StatusCode != 401 {
		t.Errorf("the next request: %s", a.Status)
	}
	fresh := d.as(d.id.Token("alice", resource, later()))
	for _, session := range []string{alice.Session, idle.Session} {
		if fresh.Session = session; fresh.Post(listTools).StatusCode != 404 {
			t.Error("a session is there")
		}
	}
	fresh.Session = ""
	if got := body(fresh.Initialize(`{}`).Post(host.Method("2", "tasks/get", `{"taskId":"`+alice.task+`"}`))); !strings.Contains(got, `"cancelled"`) {
		t.Errorf("the task: %s", got)
	}
	if got := body(bob.Post(host.Method("2", "tasks/get", `{"taskId":"`+bob.task+`"}`))); !strings.Contains(got, `"working"`) {
		t.Errorf("another one's task: %s", got)
	}
	select {
	case who := <-ended:
		t.Errorf("a call of %s has ended", who)
	default:
	}
	bob.stream.Close()
	bob.call.Close()
}
