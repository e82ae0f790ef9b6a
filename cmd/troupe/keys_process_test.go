package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/test/kit/when"
)

// TestKeysOfARunningServer makes a key while a server runs, calls with it, rotates and revokes it, and reads the list when the server has ended.
func TestKeysOfARunningServer(t *testing.T) {
	when.Long(t, "a process, and others that ask it")
	t.Parallel()
	binary(t)
	dir := t.TempDir()
	p := start(t, "--data", dir, "--api-keys")
	status := func(key string) int {
		t.Helper()
		header := []string{}
		if key != "" {
			header = append(header, "Authorization", "Bearer "+key)
		}
		x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, header...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		if got := x.Header.Get("WWW-Authenticate"); x.StatusCode == http.StatusUnauthorized && !strings.HasPrefix(got, "Bearer ") {
			t.Errorf("the challenge is %q", got)
		}
		return x.StatusCode
	}
	becomes := func(key string, want int) {
		t.Helper()
		for end := time.Now().Add(hung); status(key) != want; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the status does not become %d", want)
			}
		}
	}
	made := func(out string) (k admin.NewKey) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), &k); err != nil || !strings.HasPrefix(k.Secret, "trp_") {
			t.Fatalf("%s: %v", out, err)
		}
		return k
	}
	if got := status(""); got != http.StatusUnauthorized {
		t.Errorf("without a key: %d", got)
	}
	ci := made(asOperator(t, dir, 0, "keys", "create", "--name", "CI", "--server", "/mcp", "--scope", "files:read", "--expires", "90d", "--json"))
	if ci.Expires == nil || time.Until(*ci.Expires).Round(24*time.Hour) != 90*24*time.Hour {
		t.Errorf("it ends at %v", ci.Expires)
	}
	other := made(asOperator(t, dir, 0, "keys", "create", "--name", "other", "--server", "elsewhere", "--json"))
	if got := [2]int{status(ci.Secret), status(other.Secret)}; got != [2]int{200, 401} {
		t.Errorf("with a key for this server, and another one: %d", got)
	}
	rotated := made(asOperator(t, dir, 0, "keys", "rotate", "CI", "--json"))
	if rotated.ID != ci.ID || rotated.Secret == ci.Secret || status(rotated.Secret) != 200 {
		t.Errorf("rotated: %+v", rotated.Key)
	}
	becomes(ci.Secret, http.StatusUnauthorized)
	if out := asOperator(t, dir, 0, "keys", "ls"); !strings.Contains(out, ci.ID) || !strings.Contains(out, "89d") || strings.Contains(out, ci.Secret) {
		t.Errorf("ls:\n%s", out)
	}
	key := regexp.MustCompile(`^trp_[0-9A-Za-z]{49}\n$`)
	if code, out, errs := outputOf("keys", "create", "--name", "script", "--data", dir); code != 0 || !key.MatchString(out) || !strings.Contains(errs, "It is shown this once") {
		t.Errorf("create for a script ends with %d, %q and %q", code, out, errs)
	}
	for args, want := range map[string]string{"": "The secret before it has ended.\n", "--overlap 24h": `The secret before it counts until \d{4}-\S+Z at the latest\.\n`} {
		code, out, errs := outputOf(append([]string{"keys", "rotate", "script", "--data", dir}, strings.Fields(args)...)...)
		if code != 0 || !key.MatchString(out) || !regexp.MustCompile(want).MatchString(errs) {
			t.Errorf("rotate %s ends with %d, %q and %q", args, code, out, errs)
		}
	}
	asOperator(t, dir, 0, "keys", "revoke", "script")
	if _, out, _ := outputOf("keys", "rotate", "--help"); strings.Contains(out, "never") || !strings.Contains(out, "(it ends at once)\n") || !strings.Contains(out, "(as before)\n") {
		t.Errorf("the help contradicts itself:\n%s", out)
	}
	if out := asOperator(t, dir, 0, "keys", "revoke", ci.ID); out != "CI ("+ci.ID+") is revoked\n" {
		t.Errorf("revoke: %q", out)
	}
	becomes(rotated.Secret, http.StatusUnauthorized)
	if out := asOperator(t, dir, 1, "keys", "revoke", "nobody"); !strings.Contains(out, "there is no such API key") {
		t.Errorf("revoke of nobody's key: %s", out)
	}
	if out := asOperator(t, dir, 1, "keys", "create", "--name", "other"); !strings.Contains(out, "there is an API key of this name") {
		t.Errorf("a second key of a name: %s", out)
	}
	asOperator(t, dir, 2, "keys", "create")
	asOperator(t, dir, 2, "keys", "create", "--name", "x", "--expires", "90y")
	asOperator(t, dir, 0, "drain", "--wait")
	var all []admin.Key
	if err := json.Unmarshal([]byte(asOperator(t, dir, 0, "keys", "ls", "--json")), &all); err != nil || len(all) != 3 || all[0].Revoked == nil || all[0].Used == "" {
		t.Errorf("without a server: %+v, %v", all, err)
	}
	if out := asOperator(t, dir, 0, "keys", "create", "--name", "later"); !strings.Contains(out, "It is shown this once") {
		t.Errorf("create without a server: %s", out)
	}
	asOperator(t, dir, 1, "keys", "revoke", "nobody")
	asOperator(t, t.TempDir(), 1, "keys", "ls")
}
