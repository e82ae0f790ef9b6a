package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestRevokeOfARunningServer revokes an API key while a server runs, and users of whom the server knows nothing; it lists these and takes one back, and does the same when the server has ended.
func TestRevokeOfARunningServer(t *testing.T) {
	when.Long(t, "a process, and others that ask it")
	t.Parallel()
	binary(t)
	dir := t.TempDir()
	p := start(t, "--data", dir, "--api-keys", "--auth-issuer", "https://id.example.com", "--public-url", "http://127.0.0.1:8080")
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	status := func(key string) int {
		t.Helper()
		x, err := p.post(t.Context(), initialize, "Authorization", "Bearer "+key)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		return x.StatusCode
	}
	key := func(name string) (k admin.NewKey) {
		t.Helper()
		if err := json.Unmarshal([]byte(asOperator(t, dir, 0, "keys", "create", "--name", name, "--json")), &k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	list := func() (all []admin.Revocation) {
		t.Helper()
		if err := json.Unmarshal([]byte(asOperator(t, dir, 0, "revoke", "ls", "--json")), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	ci, other := key("CI"), key("other")
	if got := [2]int{status(ci.Secret), status(other.Secret)}; got != [2]int{200, 200} {
		t.Fatalf("two keys: %d", got)
	}
	if out := asOperator(t, dir, 0, "revoke", "ls"); out != "nobody is revoked\n" {
		t.Errorf("ls: %q", out)
	}
	if out := asOperator(t, dir, 0, "revoke", "--key", "CI"); out != "the API key "+ci.ID+" is revoked\n" {
		t.Errorf("revoke of a key: %q", out)
	}
	if got := [2]int{status(ci.Secret), status(other.Secret)}; got != [2]int{http.StatusUnauthorized, 200} {
		t.Errorf("once one is revoked: %d", got)
	}
	if out := asOperator(t, dir, 0, "keys", "ls"); !strings.Contains(out, "revoked") {
		t.Errorf("keys ls:\n%s", out)
	}
	if out := asOperator(t, dir, 0, "revoke", "--subject", "alice", "--issuer", "https://id.example.com", "--for", "7d"); !strings.HasPrefix(out, "subject alice is revoked: tokens issued before ") || !strings.HasSuffix(out, "\n0 sessions, 0 calls on this node and 0 tasks of theirs were found\n") {
		t.Errorf("revoke of a subject: %q", out)
	}
	if out := asOperator(t, dir, 1, "revoke", "--subject", "carol", "--issuer", "https://id.exampl.com", "--ban"); !strings.Contains(out, "nobody is revoked: ") || !strings.Contains(out, "no issuer https://id.exampl.com, but troupe:keys, https://id.example.com;") {
		t.Errorf("a ban at an issuer that is none: %q", out)
	}
	if out := asOperator(t, dir, 0, "revoke", "--client", other.ID); !strings.HasSuffix(out, "\n2 sessions, 0 calls on this node and 0 tasks of theirs were found\n") {
		t.Errorf("revoke of who has a session: %q", out)
	}
	for _, r := range list() {
		if r.Client == other.ID {
			asOperator(t, dir, 0, "revoke", "rm", r.ID)
		}
	}
	if out := asOperator(t, dir, 0, "revoke", "--client", "app", "--ban"); !strings.HasPrefix(out, "client app is revoked: all tokens are refused until it is removed (") {
		t.Errorf("a ban of a client: %q", out)
	}
	all := list()
	if len(all) != 3 || all[0].Subject != ci.ID || all[1].Issuer != "https://id.example.com" || all[1].Expires.Sub(all[1].Created).Round(time.Hour) != 7*24*time.Hour || all[2].Client != "app" || all[2].Expires != nil {
		t.Fatalf("ls: %+v", all)
	}
	if out := asOperator(t, dir, 0, "revoke", "ls"); !strings.Contains(out, "banned") || !strings.Contains(out, "alice") || strings.Count(out, "\n") != 4 {
		t.Errorf("ls:\n%s", out)
	}
	if out := asOperator(t, dir, 0, "revoke", "rm", all[2].ID); out != "the revocation of client app is removed\n" || len(list()) != 2 {
		t.Errorf("rm: %q", out)
	}
	for _, wrong := range [][]string{{"rm", all[2].ID}, {"rm", "a/b"}, {"--key", "nobody"}, {"--subject", "a\x01"}} {
		if out := asOperator(t, dir, 1, append([]string{"revoke"}, wrong...)...); !strings.Contains(out, "there is no such") && !strings.Contains(out, "nobody is revoked") {
			t.Errorf("%q: %s", wrong, out)
		}
	}
	for _, wrong := range [][]string{{}, {"--ban"}, {"--subject", "a", "--client", "b"}, {"--key", "other", "--ban"}, {"--key", "other", "--issuer", "x"}, {"--subject", "a", "--ban", "--for", "1h"}, {"--subject", "a", "--for", "1y"}, {"rm"}} {
		asOperator(t, dir, 2, append([]string{"revoke"}, wrong...)...)
	}
	asOperator(t, dir, 0, "drain", "--wait")
	asOperator(t, dir, 0, "revoke", "--key", "other")
	asOperator(t, dir, 0, "revoke", "--subject", "bob")
	asOperator(t, dir, 1, "revoke", "--key", "nobody")
	if all = list(); len(all) != 4 {
		t.Errorf("without a server: %+v", all)
	}
	asOperator(t, dir, 0, "revoke", "rm", all[3].ID)
	p = start(t, "--data", dir, "--api-keys")
	if got := status(other.Secret); got != http.StatusUnauthorized || len(list()) != 3 {
		t.Errorf("the next server, with a key that was revoked meanwhile: %d", got)
	}
	asOperator(t, t.TempDir(), 1, "revoke", "--subject", "a")
}
