package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/auth"
)

const authFile = `
memory: true
public-url: https://mcp.example.com
auth:
  issuers:
    - url: https://id.example.com
      audiences: [https://mcp.example.com/mcp]
      audience-claim: resource
      keys: https://id.example.com/jwks
    - url: https://login.example.com/tenant
      client-ids: [one, two]
      introspection: {url: https://login.example.com/introspect, client-id: troupe, client-secret-file: SECRET}
  scopes: [demo:read]
  implies:
    demo:write: [demo:read]
  claims: [email]
`

// authFileIn returns the file with a secret beside it.
func authFileIn(t *testing.T) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(authFile, "SECRET", secret)
}

// TestAuthSettings has the section auth, and flags that win over it.
func TestAuthSettings(t *testing.T) {
	t.Parallel()
	file := authFileIn(t)
	s, err := parsed(t, file)
	if err != nil {
		t.Fatal(err)
	}
	want := &auth.Config{
		PublicURL: "https://mcp.example.com", Scopes: []string{"demo:read"}, RequireScopes: true, Implies: map[string][]string{"demo:write": {"demo:read"}}, Claims: []string{"email"},
		Issuers: []auth.Issuer{
			{URL: "https://id.example.com", Audiences: []string{"https://mcp.example.com/mcp"}, AudienceClaim: "resource", Keys: "https://id.example.com/jwks"},
			{URL: "https://login.example.com/tenant", ClientIDs: []string{"one", "two"}, Introspection: &auth.Introspection{URL: "https://login.example.com/introspect", ClientID: "troupe", ClientSecret: "s3cret"}},
		},
	}
	if diff := cmp.Diff(want, s.options().Auth); diff != "" {
		t.Errorf("the section (-want +got):\n%s", diff)
	}
	s, err = parsed(t, file, "--auth-issuer", "https://other.example.com", "--auth-audience", "api", "--auth-scope", "a", "--auth-scope", "b", "--allow-anonymous")
	if err != nil {
		t.Fatal(err)
	}
	want.Issuers, want.Scopes, want.AllowAnonymous = []auth.Issuer{{URL: "https://other.example.com", Audiences: []string{"api"}}}, []string{"a", "b"}, true
	if diff := cmp.Diff(want, s.options().Auth); diff != "" {
		t.Errorf("flags that win (-want +got):\n%s", diff)
	}
	for args, url := range map[string]string{
		"--listen 127.0.0.1:8443": "http://127.0.0.1:8443", "--listen [::1]:80": "http://[::1]:80", "--listen localhost:80": "http://localhost:80",
		"--listen 0.0.0.0:80 --public-url https://mcp.example.com/api": "https://mcp.example.com/api",
	} {
		s, err := parsed(t, "", append(strings.Fields(args), "--memory", "--auth-issuer", "http://127.0.0.1:9000")...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		} else if got := s.options().Auth.PublicURL; got != url {
			t.Errorf("%s: the URL is %q, want %q", args, got, url)
		}
	}
	if s, err := parsed(t, "memory: true\nauth:\n"); err != nil || s.options().Auth != nil {
		t.Errorf("an empty section: %v", err)
	}
}

// TestPathsInAuth has relative paths of files begin in the directory of the config file.
func TestPathsInAuth(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "memory: true\npublic-url: https://mcp.example.com\nauth:\n  issuers:\n  - url: https://id.example.com\n    keys: id/jwks.json\n    introspection: {url: https://id.example.com/i, client-id: c, client-secret-file: secret}\n")
	dir := filepath.Dir(file)
	if err := os.Mkdir(filepath.Join(dir, "id"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secret": "s3cret", "id/jwks.json": `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := parsed(t, "", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if i := s.options().Auth.Issuers[0]; i.Keys != filepath.Join(dir, "id", "jwks.json") || i.Introspection.ClientSecret != "s3cret" {
		t.Errorf("the keys are in %s, the secret is %q", i.Keys, i.Introspection.ClientSecret)
	}
}

// TestRefusedAuthSettings has mistakes, and what of each the error names.
func TestRefusedAuthSettings(t *testing.T) {
	t.Parallel()
	const begin = "memory: true\npublic-url: https://mcp.example.com\n"
	for file, want := range map[string]string{
		begin + "auth:\n  issuer: []\n":               ":4: auth.issuer: there is no such setting",
		begin + "auth:\n  scopes: []\n  scopes: []\n": ":5: mapping key",
		begin + "auth: 5\n":                           ":3: auth: want a mapping",
		begin + "auth:\n  issuers:\n    - url: https://id.example.com\n      introspect: {}\n": ":6: auth.issuers[0].introspect: there is no such setting",
		begin + "auth: {}\nauth: {}\n":                                                             "auth",
		begin + "auth:\n  claims: [email]\n":                                                       "have no effect",
		begin + "auth:\n  implies: {a: [b]}\n":                                                     "have no effect",
		begin + "auth:\n  scopes: [demo:read]\n":                                                   "auth-issuer",
		begin + "auth:\n  issuers: [{url: http://id.example.com}]\n":                               "Auth.Issuers[0].URL",
		begin + "auth:\n  issuers: [{url: http://id.example.com}]\n  scopes: [offline_access]\n":   "; Auth.Issuers[0].URL",
		begin + "auth:\n  issuers: [{url: https://a.example}]\nauth-issuer: [https://b.example]\n": "exclude each other",
		begin + "auth:\n  issuers: [{url: https://a.example, client-ids: [a], audiences: [b]}]\n":  "ClientIDs",
		begin + "auth:\n  issuers: [{url: https://a.example, introspection: {url: https://a.example/i, client-id: c, client-secret-file: /absent}}]\n":                   ":4: auth.issuers[0].introspection.client-secret-file: open /absent",
		begin + "auth:\n  issuers: [{url: https://a.example, introspection: {url: https://a.example/i, client-id: c, client-secret: s, client-secret-file: /absent}}]\n": "exclude each other",
	} {
		if _, err := parsed(t, file); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error is %v, want one with %q for\n%s", err, want, file)
		}
	}
	for args, want := range map[string]string{
		"--auth-issuer https://id.example.com":                                     "public-url",
		"--auth-issuer http://127.0.0.1:9 --listen 127.0.0.1:0":                    "public-url",
		"--auth-issuer http://127.0.0.1:9 --listen 0.0.0.0:80":                     "public-url",
		"--auth-issuer id.example.com --public-url https://mcp.example.com":        "Auth.Issuers[0].URL",
		"--auth-issuer https://id.example.com --public-url http://mcp.example.com": "https://",
		"--auth-audience a": "auth-issuer",
		"--auth-scope a":    "auth-issuer",
		"--auth-issuer http://127.0.0.1:9 --auth-scope offline_access": "offline_access",
	} {
		if _, err := parsed(t, "", append(strings.Fields(args), "--memory")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want one with %q", args, err, want)
		}
	}
}

// TestAuthIsNoSettingOfStdio has a file with the section for a process of one client, which it says nothing of.
func TestAuthIsNoSettingOfStdio(t *testing.T) {
	t.Parallel()
	var s settings
	s.register(&cobra.Command{}, stdioGroups)
	s.config = writeConfig(t, "auth: {}\n")
	if err := s.readFile(false); err == nil || !strings.Contains(err.Error(), "auth: there is no such setting") {
		t.Errorf("error is %v", err)
	}
}

// TestDocumentedFiles has the files of the documents, which must be taken.
func TestDocumentedFiles(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "introspection")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"auth", "serve"} {
		text, err := os.ReadFile("../../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```yaml\n")[1:]
		for _, block := range blocks {
			file, _, _ := strings.Cut(block, "```")
			if _, err := parsed(t, "memory: true\n"+strings.ReplaceAll(file, "/etc/troupe/introspection", secret)); err != nil {
				t.Errorf("%v, in\n%s", err, file)
			}
		}
		if len(blocks) == 0 {
			t.Errorf("docs/%s.md has no file", name)
		}
	}
}
