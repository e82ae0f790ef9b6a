//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/certificate"
	"github.com/troupe-run/troupe/test/kit/issuer"
)

// TestHangupProcess has a server read its file again: a further issuer counts at once, a session goes on, a file that cannot be used changes nothing, and what needs another
// start is named.
func TestHangupProcess(t *testing.T) {
	t.Parallel()
	first, second := issuer.New(t), issuer.New(t)
	file := filepath.Join(t.TempDir(), "troupe.yaml")
	write := func(lines ...string) {
		t.Helper()
		text := "public-url: http://127.0.0.1:8080\npage-size: 7\n" + strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("auth:", "  issuers:", "  - url: "+first.URL)
	p := start(t, "--memory", "TROUPE_CONFIG="+file, "TROUPE_MAX_BATCH=9", "--set", "page-size=5")
	session := ""
	status := func(token string) int {
		t.Helper()
		header := []string{"Authorization", "Bearer " + token}
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		if session != "" && token[0] == ' ' {
			header = []string{"Authorization", "Bearer" + token, "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25"}
			body = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
		}
		x, err := p.post(t.Context(), body, header...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.close()
		if session == "" {
			session = x.Header.Get("Mcp-Session-Id")
		}
		return x.StatusCode
	}
	const audience = "http://127.0.0.1:8080/mcp"
	alice, bob := first.Token("alice", audience, nil), second.Token("bob", audience, nil)
	if got := [2]int{status(alice), status(bob)}; got != [2]int{http.StatusOK, http.StatusUnauthorized} {
		t.Fatalf("before: %v\n%s", got, p.stderr)
	}
	write("auth:", "  issuers:", "  - url: "+first.URL, "  - url: "+second.URL)
	p.signal(t, syscall.SIGHUP)
	p.await(t, "the config file was read again\"? ")
	if got := [2]int{status(" " + alice), status(bob)}; got != [2]int{http.StatusOK, http.StatusOK} {
		t.Errorf("with a further issuer: %v\n%s", got, p.stderr)
	}
	write("auth:", "  issuers:", "  - url: http://id.example.com")
	p.signal(t, syscall.SIGHUP)
	p.await(t, `all settings stay as they were.*Issuers\[0\]\.URL`)
	if got := [2]int{status(" " + alice), status(bob)}; got != [2]int{http.StatusOK, http.StatusOK} {
		t.Errorf("after a file that cannot be used: %v\n%s", got, p.stderr)
	}
	write()
	p.signal(t, syscall.SIGHUP)
	p.await(t, `all settings stay as they were.*no token would count any more`)
	if got := [2]int{status(" " + alice), status(bob)}; got != [2]int{http.StatusOK, http.StatusOK} {
		t.Errorf("after a file without an issuer: %v\n%s", got, p.stderr)
	}
	write("max-body: 2048", "max-batch: 8", "auth-issuer:", "- "+second.URL)
	p.signal(t, syscall.SIGHUP)
	named := p.await(t, `apply when it starts anew.* settings="?([a-z -]+)`)[1]
	if strings.TrimSpace(named) != "max-body" { // page-size of the command line and max-batch of the environment have won all the time
		t.Errorf("the settings that need another start are %q, want max-body", named)
	}
	if got := [2]int{status(" " + alice), status(bob)}; got != [2]int{http.StatusUnauthorized, http.StatusOK} {
		t.Errorf("with the other issuer alone: %v\n%s", got, p.stderr)
	}
	for _, outcome := range []string{"applied", "refused"} { // which are counted after the log has them
		p.becomes(t, `troupe_config_reloads_total{outcome="`+outcome+`"}`, "2")
	}
}

// TestHangupReadsSecrets has the secret of an introspection endpoint change in the file that has it. A file that is not there changes nothing, and no log has the secrets.
func TestHangupReadsSecrets(t *testing.T) {
	t.Parallel()
	const audience = "http://127.0.0.1:8080/mcp"
	var asked atomic.Value // the secret of the last question
	var id *httptest.Server
	id = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/introspect" {
			http.NotFound(w, r)
			return
		}
		_, secret, _ := r.BasicAuth()
		asked.Store(secret)
		_, _ = fmt.Fprintf(w, `{"active":true,"iss":%q,"sub":"alice","client_id":"editor","aud":%q,"exp":%d}`, id.URL, audience, time.Now().Add(time.Hour).Unix())
	}))
	t.Cleanup(id.Close)
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "troupe.yaml"), filepath.Join(dir, "secret")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "public-url: http://127.0.0.1:8080\nauth:\n  issuers:\n  - url: "+id.URL+"\n    introspection:\n      url: "+id.URL+"/introspect\n      client-id: troupe\n      client-secret-file: "+secret+"\n")
	write(secret, "first-secret\n")
	p := start(t, "--memory", "--config", file, "--log-level", "debug")
	asks := func(token, want string) {
		t.Helper()
		x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "Authorization", "Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		x.close()
		if got := asked.Load(); x.StatusCode != http.StatusOK || got != want {
			t.Errorf("%d with the secret %v, want 200 with %s\n%s", x.StatusCode, got, want, p.stderr)
		}
	}
	asks("one", "first-secret")
	write(secret, "second-secret\n")
	p.signal(t, syscall.SIGHUP)
	p.await(t, `INFO.*the config file was read again"? `)
	asks("two", "second-secret")
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	p.await(t, `all settings stay as they were.*troupe\.yaml:8: auth\.issuers\[0\]\.introspection\.client-secret-file: open `)
	asks("three", "second-secret")
	if log := p.stderr.String(); strings.Contains(log, "first-secret") || strings.Contains(log, "second-secret") {
		t.Errorf("the log has a secret:\n%s", log)
	}
}

// TestHangupWithABrokenKeyFile has the keys of an issuer lie beside the config file. While they cannot be read, those that the server has serve on, and no server begins; once they are mended, new ones count.
func TestHangupWithABrokenKeyFile(t *testing.T) {
	t.Parallel()
	const audience = "http://127.0.0.1:8080/mcp"
	id := issuer.At("https://id.example.com")
	file := writeConfig(t, "memory: true\npublic-url: http://127.0.0.1:8080\nauth:\n  issuers:\n  - url: "+id.URL+"\n    keys: jwks.json\n")
	keys := filepath.Join(filepath.Dir(file), "jwks.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setOf := func(all ...any) string {
		set, err := json.Marshal(map[string]any{"keys": all})
		if err != nil {
			t.Fatal(err)
		}
		return string(set)
	}
	write(setOf(id.Key("1")))
	p := start(t, "--config", file)
	gets := func(token string, want int) {
		t.Helper()
		x, err := p.post(t.Context(), `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, "Authorization", "Bearer "+token)
		if err != nil {
			t.Fatal(err)
		}
		x.close()
		if x.StatusCode != want {
			t.Errorf("%d, want %d\n%s", x.StatusCode, want, p.stderr)
		}
	}
	checks := func(code int, text string) {
		t.Helper()
		if got, out, errs := outputOf("config", "check", "--config", file); got != code || !strings.Contains(out+errs, text) {
			t.Errorf("config check ends with %d, %q and %q, want %d and %q", got, out, errs, code, text)
		}
	}
	checks(0, "ok\n")
	gets(id.Token("alice", audience, nil), http.StatusOK)
	write("{bad")
	checks(2, "keys of an issuer in the section auth cannot be used: Auth.Issuers[0].Keys: "+keys+": key set: ")
	p.signal(t, syscall.SIGHUP)
	p.await(t, `ERROR.*all settings stay as they were.*jwks\.json: key set: `)
	gets(id.Token("bob", audience, nil), http.StatusOK)
	write(setOf(id.Key("2")))
	p.signal(t, syscall.SIGHUP)
	p.await(t, `INFO.*the config file was read again"? `)
	gets(id.Token("bob", audience, nil), http.StatusUnauthorized)
	gets(id.Signed(issuer.Header(issuer.Claims{"kid": "2"}), id.Claims("carol", audience, nil)), http.StatusOK)
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	checks(2, "open "+keys+": no such file")
	if code, _, errs := outputOf("serve", "--config", file); code != 2 || !strings.Contains(errs, "open "+keys) {
		t.Errorf("serve ends with %d and %q", code, errs)
	}
}

// TestHangupWithOtherTLSFiles has the file be read again while those of the certificate do not fit: the one does not hang on the other.
func TestHangupWithOtherTLSFiles(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate.Files(t)
	file := writeConfig(t, "page-size: 7\n")
	p := startAny(t, "--memory", "--tls-cert", cert, "--tls-key", key, "--config", file)
	p.await(t, `https://127\.0\.0\.1:\d+/metrics`)
	if err := os.WriteFile(key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("page-size: 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	p.await(t, "the certificate stays as it was")
	p.await(t, `apply when it starts anew.* settings="?page-size`)
	if strings.Contains(p.stderr.String(), "all settings stay as they were") {
		t.Errorf("the file is refused:\n%s", p.stderr)
	}
}

// TestSignalsWhileSettingsAreRead has a file of settings that nobody writes: a second signal ends the process at once, and one alone soon.
func TestSignalsWhileSettingsAreRead(t *testing.T) {
	t.Parallel()
	for _, signals := range []int{1, 2} {
		fifo := filepath.Join(t.TempDir(), "troupe.yaml")
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Skipf("no FIFO here: %v", err)
		}
		p := startAny(t, "--memory", "--config", fifo)
		w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // which waits until it reads
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[:signals] {
			p.signal(t, sig)
		}
		if code := p.exit(t); code != 1 {
			t.Errorf("after %d signals it ends with %d:\n%s", signals, code, p.stderr)
		}
	}
}

// TestRefusedByTheLibrary has serve name the source of what the library refuses, and of a word that is no command.
func TestRefusedByTheLibrary(t *testing.T) {
	for args, want := range map[string]string{
		"serve --memory --public-url ftp://a.example": "(set by --public-url)",
		"serve --memory --set weight=nobody=0":        "(set by --set weight)",
		"serve --nats http://a":                       "(set by --nats)",
		"config chek":                                 `unknown command "chek" for "troupe config"`,
		"keys chek":                                   `unknown command "chek" for "troupe keys"`,
	} {
		if code, _, errs := outputOf(strings.Fields(args)...); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: it ends with %d and %q, want %q", args, code, errs, want)
		}
	}
	if code, out, _ := outputOf("config"); code != 0 || !strings.Contains(out, "troupe config") {
		t.Errorf("config alone: it ends with %d and %q", code, out)
	}
}

// TestHangupWithoutFile has a server without a file get the signal, which must not end it.
func TestHangupWithoutFile(t *testing.T) {
	t.Parallel()
	p := start(t, "--memory")
	p.signal(t, syscall.SIGHUP)
	p.await(t, "there is none")
	p.echo(t, p.session(t))
}
