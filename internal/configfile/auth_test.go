package configfile

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe/auth"
)

const whole = `auth:
  issuers:
    - url: https://id.example.com
      audiences: [https://mcp.example.com/mcp]
      audience-claim: resource
      keys: https://id.example.com/jwks
    - url: https://login.example.com/tenant
      client-ids: [one, two]
      introspection: {url: https://login.example.com/introspect, client-id: troupe, client-secret-file: secret}
  scopes: [demo:read]
  implies:
    demo:write: [demo:read]
  claims: [email]
`

// readSection reads a file that has the section alone.
func readSection(file string) (a Auth, err error) {
	return a, Read([]byte(file), map[string]Reader{"auth": ReadAuth(&a, "", secrets)})
}

// secrets stands for the files of secrets.
func secrets(name string) ([]byte, error) {
	switch name {
	case "secret":
		return []byte("s3cret\r\n"), nil
	case "empty":
		return []byte("\n"), nil
	}
	return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
}

func TestReadAuth(t *testing.T) {
	t.Parallel()
	all := Auth{
		Issuers: []auth.Issuer{
			{URL: "https://id.example.com", Audiences: []string{"https://mcp.example.com/mcp"}, AudienceClaim: "resource", Keys: "https://id.example.com/jwks"},
			{URL: "https://login.example.com/tenant", ClientIDs: []string{"one", "two"}, Introspection: &auth.Introspection{URL: "https://login.example.com/introspect", ClientID: "troupe", ClientSecret: "s3cret"}},
		},
		Scopes: []string{"demo:read"}, Implies: map[string][]string{"demo:write": {"demo:read"}}, Claims: []string{"email"},
		SecretFiles: map[int]string{1: "secret"},
	}
	for file, want := range map[string]Auth{
		whole:                        all,
		"auth:\n":                    {},
		"auth: {}\n":                 {},
		"auth:\n  claims: []\n":      {},
		"auth:\n  claims:\n  - a\n":  {Claims: []string{"a"}},
		"auth: {scopes: [\"1\"]}\n":  {Scopes: []string{"1"}},
		"auth: {scopes: ['0123']}\n": {Scopes: []string{"0123"}},
		"auth:\n  issuers:\n  - url: https://a.example\n    introspection:\n      client-secret: 's#c:r\"t'\n": {Issuers: []auth.Issuer{{URL: "https://a.example", Introspection: &auth.Introspection{ClientSecret: `s#c:r"t`}}}},
	} {
		got, err := readSection(file)
		if want.Line = 1; err != nil {
			t.Errorf("%v, for\n%s", err, file)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s\nfor\n%s", diff, file)
		}
	}
}

// TestMistakes has what cannot be read, and the error, which begins with its line.
func TestMistakes(t *testing.T) {
	t.Parallel()
	const issuer = "auth:\n  issuers:\n  - url: https://a.example\n"
	const introspection = issuer + "    introspection:\n      client-id: c\n"
	for file, want := range map[string]string{
		"auth: 5\n":                                                                  "1 auth: want a mapping",
		"auth: [a]\n":                                                                "1 auth: want a mapping",
		"auth:\n  issuer: []\n":                                                      "2 auth.issuer: there is no such setting",
		"auth:\n  Scopes: []\n":                                                      "2 auth.Scopes: there is no such setting",
		"auth:\n  1: []\n":                                                           "2 auth: a key must be a text",
		"auth:\n  scopes: demo:read\n":                                               "2 auth.scopes: want a list of texts",
		"auth:\n  scopes:\n  - a\n  - 5\n":                                           "4 auth.scopes[1]: want a text",
		"auth:\n  scopes:\n  - a\n  - true\n":                                        "4 auth.scopes[1]: want a text",
		"auth:\n  scopes:\n":                                                         "2 auth.scopes: want a list of texts",
		"auth:\n  claims: [[a]]\n":                                                   "2 auth.claims[0]: want a text",
		"auth:\n  issuers: https://a.example\n":                                      "2 auth.issuers: want a list",
		"auth:\n  issuers: {url: https://a.example}\n":                               "2 auth.issuers: want a list",
		"auth:\n  issuers:\n  - https://a.example\n":                                 "3 auth.issuers[0]: want a mapping",
		"auth:\n  issuers:\n  - url: 5\n":                                            "3 auth.issuers[0].url: want a text",
		"auth:\n  issuers:\n  - url: [a]\n":                                          "3 auth.issuers[0].url: want a text",
		"auth:\n  issuers:\n  - url:\n":                                              "3 auth.issuers[0].url: want a text",
		"auth:\n  issuers:\n  - url: &a x\n":                                         "3 auth.issuers[0].url: want a text",
		"auth:\n  issuers:\n  - url: !!str x\n":                                      "3 auth.issuers[0].url: want a text",
		issuer + "  - url: b\n    audience: [a]\n":                                   "5 auth.issuers[1].audience: there is no such setting",
		issuer + "    client-secret: hunter2\n":                                      "4 auth.issuers[0].client-secret: there is no such setting",
		issuer + "    introspection: https://a/i\n":                                  "4 auth.issuers[0].introspection: want a mapping",
		"auth:\n  implies: {a: b}\n":                                                 "2 auth.implies.a: want a list of texts",
		"auth:\n  implies:\n    a:\n    - b\n    - 1\n":                              "5 auth.implies.a[1]: want a text",
		"auth:\n  implies: [a]\n":                                                    "2 auth.implies: want a mapping",
		introspection + "      client-secret: 0123\n":                                "6 auth.issuers[0].introspection.client-secret: want a text",
		introspection + "      client-secret-file: absent\n":                         "6 auth.issuers[0].introspection.client-secret-file: open absent: file does not exist",
		introspection + "      client-secret-file: empty\n":                          "6 auth.issuers[0].introspection.client-secret-file: empty is empty",
		introspection + "      client-secret: a\n      client-secret-file: secret\n": "7 auth.issuers[0].introspection.client-secret-file: client-secret and client-secret-file exclude each other",
		introspection + "      client-secret-file: secret\n      client-secret: hunter2\n": "7 auth.issuers[0].introspection.client-secret: client-secret and client-secret-file exclude each other",
	} {
		_, err := readSection(file)
		at, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("error is %v, for\n%s", err, file)
			continue
		}
		wantLine, text, _ := strings.Cut(want, " ")
		if got := string(rune('0' + at.Line)); got != wantLine || !strings.HasPrefix(at.Error(), text) {
			t.Errorf("error is %q in line %s, want %q in line %s, for\n%s", at, got, text, wantLine, file)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error %q has a secret", err)
		}
	}
}

// FuzzAuth reads the first key of any file as the section. A mistake has a line of the file and a place, and what could be read is read again from what says the same.
func FuzzAuth(f *testing.F) {
	for _, file := range []string{
		whole, "auth:\n", "auth: {}\n", "auth: 5\n", "auth: [a]\n", "auth:\n  issuer: []\n", "auth:\n  issuers: [{url: a, url: b}]\n", "auth:\n  implies: &a {b: [c]}\n  <<: *a\n",
		"auth:\n  issuers:\n  - url: |\n      text\n", "auth:\n  ? [a]\n  : b\n", "auth: {implies: {'': ['']}}\n", "auth:\n  claims: [\"a\\u2028\\tb\", 'c''d']\n", "auth: !!map {}\n",
		"auth:\n  issuers:\n  - introspection: {client-secret: a, client-secret-file: empty}\n", "---\nauth:\n  issuers:\n  -\n",
	} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		a, err := readSection(file)
		if err != nil {
			at, ok := errors.AsType[*Error](err)
			if ok && (at.Line < 1 || at.Line > 1+strings.Count(strings.ReplaceAll(file, "\r", "\n"), "\n")) {
				t.Errorf("error %#v", err)
			}
			return
		}
		text, ok := written(a)
		if !ok {
			return
		}
		again, err := readSection(text)
		if err != nil {
			t.Fatalf("%v, written as\n%s", err, text)
		}
		a.Line, a.SecretFiles, again.Line = 0, nil, 0
		if diff := cmp.Diff(a, again); diff != "" {
			t.Errorf("(-first +second):\n%s\nwritten as\n%s", diff, text)
		}
	})
}

// written is a section as a file. It is false if a text has what single quotes do not hold.
func written(a Auth) (text string, ok bool) {
	ok = true
	quote := func(s string) string {
		ok = ok && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	list := func(all []string) string {
		var quoted []string
		for _, s := range all {
			quoted = append(quoted, quote(s))
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	var b strings.Builder
	b.WriteString("auth:\n  scopes: " + list(a.Scopes) + "\n  claims: " + list(a.Claims) + "\n")
	if len(a.Implies) > 0 {
		b.WriteString("  implies:\n")
	} else if a.Implies != nil {
		b.WriteString("  implies: {}\n")
	}
	for _, broad := range slices.Sorted(maps.Keys(a.Implies)) {
		b.WriteString("    " + quote(broad) + ": " + list(a.Implies[broad]) + "\n")
	}
	if len(a.Issuers) > 0 {
		b.WriteString("  issuers:\n")
	}
	for _, i := range a.Issuers {
		b.WriteString("    - url: " + quote(i.URL) + "\n      audiences: " + list(i.Audiences) + "\n      audience-claim: " + quote(i.AudienceClaim) + "\n      client-ids: " + list(i.ClientIDs) + "\n      keys: " + quote(i.Keys) + "\n")
		if in := i.Introspection; in != nil {
			b.WriteString("      introspection: {url: " + quote(in.URL) + ", client-id: " + quote(in.ClientID) + ", client-secret: " + quote(in.ClientSecret) + "}\n")
		}
	}
	return b.String(), ok
}
