package template_test

import (
	"testing"

	"github.com/troupe-run/troupe/internal/template"
)

func TestNormal(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"":                         "",
		"file:///a":                "file:///a",
		"file:///café.txt":         "file:///caf%C3%A9.txt",
		"file:///caf%c3%a9.txt":    "file:///caf%C3%A9.txt",
		"file:///%41%2d%2f%3A":     "file:///A-%2F%3A",
		"file:///a b|c\"\\":        "file:///a%20b%7Cc%22%5C",
		"file:///100%":             "file:///100%25",
		"file:///%4":               "file:///%254",
		"file:///%zz":              "file:///%25zz",
		"FILE://Host/A":            "file://Host/A",
		"Note://ABC":               "note://ABC",
		"HTTPS://User@Host:80/A?B": "https://User@host:80/A?B",
		"https://A%c3%a9@B%c3%a9C": "https://A%C3%A9@b%C3%A9c",
		"https://A@B@C/D@E":        "https://A@B@c/D@E",
		"https://Host?Q":           "https://host?Q",
		"note:ABC":                 "note:ABC",
		"a/b:C":                    "a/b:C",
		"\xff":                     "%FF",
	} {
		got := template.NormalizeURI(uri)
		if got != want {
			t.Errorf("%q: got %q, want %q", uri, got, want)
		}
		if again := template.NormalizeURI(got); again != got {
			t.Errorf("%q: got %q, and of that %q", uri, got, again)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b        string
		same, plain bool
	}{
		{"file:///café", "FILE:///caf%c3%a9", true, true},
		{"https://Example.com", "https://example.com/", true, true},
		{"https://example.com?q", "https://example.com/?q", true, true},
		{"https://Alice@Example.com/", "https://alice@example.com/", false, true},
		{"https://caf%C3%A9.example", "https://café.EXAMPLE/", true, true},
		{"note://A", "note://a", false, true},
		{"note://a", "note://a/", false, false},
		{"file:///a/b", "file:///a%2Fb", false, true},
		{"file:///a", "file:///A", false, false},
		{"file:///100%", "file:///100%25", true, true},
	} {
		if got := template.SameURI(c.a, c.b); got != c.same {
			t.Errorf("Same(%q, %q): got %v", c.a, c.b, got)
		}
		if got := template.PlainURI(c.a) == template.PlainURI(c.b); got != c.plain {
			t.Errorf("Plain of %q and %q alike: got %v", c.a, c.b, got)
		}
	}
}
