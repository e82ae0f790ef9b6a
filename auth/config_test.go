package auth

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfig has a row for each fault. New does no I/O.
func TestConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"good":                     {func(*Config) {}, ""},
		"loopback":                 {func(c *Config) { c.PublicURL, c.Issuers[0].URL = "http://localhost:8080", "http://127.0.0.1:9000" }, ""},
		"a file":                   {func(c *Config) { c.Issuers[0].Keys = "no such/file.json" }, ""},
		"a circle":                 {func(c *Config) { c.Implies = map[string][]string{"a": {"b"}, "b": {"a"}} }, ""},
		"no public URL":            {func(c *Config) { c.PublicURL = "" }, "Auth.PublicURL is empty: metadata and audiences come from it"},
		"a path alone":             {func(c *Config) { c.PublicURL = "/mcp" }, `Auth.PublicURL: "/mcp" is no URL with a host`},
		"a quote":                  {func(c *Config) { c.PublicURL = `https://a/"` }, `Auth.PublicURL: "https://a/\"" is no URL with a host`},
		"without TLS":              {func(c *Config) { c.PublicURL = "http://mcp.example.com" }, `Auth.PublicURL: "http://mcp.example.com" must begin with https://, as its host is not on the loopback interface`},
		"localhost of another":     {func(c *Config) { c.PublicURL = "http://localhost.example.com" }, `Auth.PublicURL: "http://localhost.example.com" must begin with https://, as its host is not on the loopback interface`},
		"a query":                  {func(c *Config) { c.PublicURL = "https://a/?b" }, `Auth.PublicURL: "https://a/?b" must have neither a query nor a fragment`},
		"a fragment":               {func(c *Config) { c.PublicURL = "https://a/#" }, `Auth.PublicURL: "https://a/#" must have neither a query nor a fragment`},
		"a user":                   {func(c *Config) { c.PublicURL = "https://a:b@c" }, "Auth.PublicURL: the URL of c must not have a user"},
		"no issuer":                {func(c *Config) { c.Issuers = nil }, "Auth.Issuers is empty, and APIKeys is nil"},
		"API keys alone":           {func(c *Config) { *c = Config{APIKeys: StoredKeys} }, ""},
		"API keys and a URL":       {func(c *Config) { c.Issuers, c.APIKeys = nil, StoredKeys }, ""},
		"API keys beside issuers":  {func(c *Config) { c.PublicURL, c.APIKeys = "", StoredKeys }, "Auth.PublicURL is empty: metadata and audiences come from it"},
		"an issuer without a URL":  {func(c *Config) { c.Issuers[0].URL = "" }, `Auth.Issuers[0].URL: "" is no URL with a host`},
		"an issuer twice":          {func(c *Config) { c.Issuers = append(c.Issuers, c.Issuers[0]) }, "Auth.Issuers[1].URL: https://id.example.com comes twice"},
		"an empty audience":        {func(c *Config) { c.Issuers[0].Audiences = []string{""} }, "Auth.Issuers[0].Audiences and ClientIDs must have no empty values"},
		"audiences and client ids": {func(c *Config) { c.Issuers[0].Audiences, c.Issuers[0].ClientIDs = []string{"a"}, []string{"b"} }, "Auth.Issuers[0].ClientIDs stand for the audience: Audiences and AudienceClaim must not be set"},
		"keys without TLS":         {func(c *Config) { c.Issuers[0].Keys = "http://a/keys" }, `Auth.Issuers[0].Keys: "http://a/keys" must begin with https://, as its host is not on the loopback interface`},
		"keys by another scheme":   {func(c *Config) { c.Issuers[0].Keys = "ftp://a/keys" }, `Auth.Issuers[0].Keys: "ftp://a/keys" must begin with https://, as its host is not on the loopback interface`},
		"introspection":            {func(c *Config) { c.Issuers[0].Introspection = &Introspection{URL: "http://a"} }, "Auth.Issuers[0].Introspection.URL: \"http://a\" must begin with https://, as its host is not on the loopback interface\nAuth.Issuers[0].Introspection.ClientID is empty"},
		"two with introspection": {func(c *Config) {
			in := &Introspection{URL: "https://a", ClientID: "b"}
			c.Issuers = []Issuer{{URL: "https://a", Introspection: in}, {URL: "https://b", Introspection: in}}
		}, "Auth.Issuers: 2 have Introspection, and nothing says whose an opaque token is"},
		"a scope":        {func(c *Config) { c.Scopes = []string{"a b"} }, `Auth.Scopes: "a b" is no scope to ask clients for`},
		"offline_access": {func(c *Config) { c.Scopes = []string{"offline_access"} }, `Auth.Scopes: "offline_access" is no scope to ask clients for`},
		"implies":        {func(c *Config) { c.Implies = map[string][]string{"a": {""}} }, `Auth.Implies: "" is no scope`},
		"claims":         {func(c *Config) { c.Claims = []string{"a", "a"} }, `Auth.Claims: "a" is empty, or comes twice`},
		"all at once": {func(c *Config) { *c = Config{Scopes: []string{""}} }, "Auth.PublicURL is empty: metadata and audiences come from it\nAuth.Issuers is empty, and APIKeys is nil\n" +
			`Auth.Scopes: "" is no scope to ask clients for`},
	} {
		c := Config{Issuers: []Issuer{{URL: issuerURL}}, PublicURL: public}
		tt.change(&c)
		a, err := New(c)
		if err == nil {
			a.Close()
		}
		if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestCheckKeyFiles names the files of keys that cannot be used, and asks nobody else.
func TestCheckKeyFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for keys, want := range map[string]string{
		"": "", "https://id.example.com/keys": "", path("good", keySetOf("a")): "",
		filepath.Join(dir, "absent"): "Auth.Issuers[1].Keys: open ", path("broken", "{bad"): "broken: key set: ",
		path("empty", `{"keys":[]}`): "empty: it has no key that can be used",
	} {
		c := Config{Issuers: []Issuer{{URL: "https://a.example.com"}, {URL: "https://b.example.com", Keys: keys}}}
		err := c.CheckKeyFiles()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", keys, err, want)
		}
	}
}

// TestConfigIsCopied changes a configuration after it was used.
func TestConfigIsCopied(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := Config{Issuers: []Issuer{{URL: issuerURL, Audiences: []string{"one"}}}, PublicURL: public, Scopes: []string{"a"}, Implies: map[string][]string{"a": {"b"}}, Transport: newStub("a")}
		a, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		c.Issuers[0].Audiences[0], c.Scopes[0] = "two", "z"
		delete(c.Implies, "a")
		expect(t, a, token("a", nil, members{"aud": "one"}), "200")
		expect(t, a, token("a", nil, members{"aud": "two"}), "401 audience")
		c = Config{Issuers: []Issuer{{URL: issuerURL, ClientIDs: []string{"editor"}}}, PublicURL: public, Transport: newStub("a")}
		b, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c.Issuers[0].ClientIDs[0] = "other"
		expect(t, b, token("a", nil, nil), "200")
		if s := a.Resource("/", "", nil).Challenge(a.Missing(nil)); !strings.HasSuffix(s, `scope="a"`) || a.missingScopes([]string{"a"}, []string{"b"}) != nil {
			t.Error(s)
		}
	})
}

// TestSecretsAreNotPrinted prints a configuration.
func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	in := Introspection{URL: "https://a", ClientID: "b", ClientSecret: "hidden"}
	if text := fmt.Sprintf("%v %+v %#v %s", in, &in, in, in); strings.Contains(text, "hidden") || !strings.Contains(text, "https://a as b") {
		t.Error(text)
	}
}

// TestOwnTransport is a copy of the default one, or what can stand for it.
func TestOwnTransport(t *testing.T) {
	t.Parallel()
	if newTransport() == http.DefaultTransport {
		t.Error("closing the connections of an authority closes those of others")
	}
}
