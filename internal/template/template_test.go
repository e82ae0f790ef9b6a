package template_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/template"
)

// vars makes a map of names and values.
func vars(all ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(all); i += 2 {
		m[all[i]] = all[i+1]
	}
	return m
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		template, uri string
		want          map[string]string // nil: no match
	}{
		{"a://x", "a://x", vars()},
		{"a://x", "a://y", nil},
		{"a://{id}", "a://7", vars("id", "7")},
		{"a://{id}", "a://", vars("id", "")},
		{"a://{id}", "a://7/8", nil},
		{"a://{id}", "a://a%2Fb", vars("id", "a/b")},
		{"a://{id}", "a://%2520", vars("id", "%20")},
		{"a://{id}", "a://%41%7e", vars("id", "A~")},
		{"a://{id}", "a://caf%c3%a9", vars("id", "café")},
		{"a://{id}", "a://café", vars("id", "café")},
		{"a://{id}", "a://a b", vars("id", "a b")},
		{"a://{id}", "a://100%", vars("id", "100%")},
		{"a://{id}", "a://52.1,4.3", vars("id", "52.1,4.3")},
		{"a://{id}", "a://a%2Cb", vars("id", "a,b")},
		{"a://{v}", "a://2026-01-02T03:04", nil},
		{"a://{+v}", "a://2026-01-02T03:04", vars("v", "2026-01-02T03:04")},
		{"a://{v}", "a://2026-01-02T03%3A04", vars("v", "2026-01-02T03:04")},
		{"A://x/{v}", "a://x/1", vars("v", "1")},
		{"a://x/{v}", "A://x/1", vars("v", "1")},
		{"a://{v}", "A://B", vars("v", "B")},
		{"https://Example.COM/{v}", "HTTPS://example.com/A", vars("v", "A")},
		{"https://{t}.Example.COM/A/{v}", "https://X.example.com/A/B", vars("t", "x", "v", "B")},
		{"https://{t}.Example.COM/A/{v}", "https://x.EXAMPLE.com/a/B", nil},
		{"https://{t}.Example.COM{/v}", "https://x.Example.com/B", vars("t", "x", "v", "B")},
		{"https://{t}.Example.COM{?v}", "https://x.Example.com?v=B", vars("t", "x", "v", "B")},
		{"https://{t}.Example.COM?V={v}", "https://x.Example.com?V=B", vars("t", "x", "v", "B")},
		{"https://{t}.Example.COM{#v}", "https://x.Example.com#B", vars("t", "x", "v", "B")},
		{"https://{+t}.Example.COM/{v}", "https://x:80.example.com/B", vars("t", "x:80", "v", "B")},
		{"https://{u}:Word@{t}.Example.COM/{v}", "https://Ann:Word@X.example.com/B", vars("u", "Ann", "t", "x", "v", "B")},
		{"https://{u}:Word@{t}.Example.COM/{v}", "https://ann:word@x.example.com/B", nil},
		{"https://Ann@Example.COM/{v}", "https://Ann@example.com/B", vars("v", "B")},
		{"https://{host}/{v}", "https://caf%C3%A9.Example/B", vars("host", "café.example", "v", "B")},
		{"https://{host}/{v}", "https://café.example/B", vars("host", "café.example", "v", "B")},
		{"https://café.Example/{v}", "https://caf%c3%a9.example/B", vars("v", "B")},
		{"https:{+v}", "https:A", vars("v", "A")},
		{"s3://{t}.Bucket/{v}", "s3://X.Bucket/B", vars("t", "X", "v", "B")},
		{"a://x/café/{v}", "a://x/caf%C3%A9/1", vars("v", "1")},
		{"a://x/caf%c3%a9/{v}", "a://x/café/1", vars("v", "1")},
		{"a://x/%41/{v}", "a://x/A/1", vars("v", "1")},
		{"a://x/a%2Fb/{v}", "a://x/a/b/1", nil},

		{"a://{x,y}", "a://1,2", vars("x", "1", "y", "2")},
		{"a://{x,y}", "a://1", vars("x", "1")},
		{"a://{x,y}", "a://1,2,3", nil},
		{"a://{+x,y}", "a://1/2,3", vars("x", "1/2", "y", "3")},
		{"a://{a}/{b}", "a://1/2", vars("a", "1", "b", "2")},
		{"a://{a}-{b}", "a://1-2-3", vars("a", "1-2", "b", "3")},
		{"a://{+a}/{b}", "a://1/2/3", vars("a", "1/2", "b", "3")},
		{"a://x{/a,b}", "a://x", vars()},
		{"a://x{/a,b}", "a://x/", vars("a", "")},
		{"a://x{/a,b}", "a://x/1/2", vars("a", "1", "b", "2")},
		{"a://x{/a,b}", "a://x/1/2/3", nil},
		{"a://x{/list*}", "a://x/1/2/3", vars("list", "1,2,3")},
		{"a://x{/a,list*}", "a://x/1/2/3", vars("a", "1", "list", "2,3")},
		{"a://x{.a,b}", "a://x.1.2", vars("a", "1", "b", "2")},
		{"a://x{.list*}", "a://x.1.2", vars("list", "1,2")},
		{"a://x{;a,b}", "a://x;b=2;a=1", vars("a", "1", "b", "2")},
		{"a://x{;a,b}/{c}", "a://x;b/3", vars("b", "", "c", "3")},
		{"a://x{#f}", "a://x#a/b?c", vars("f", "a/b?c")},
		{"a://{+p}{#f}", "a://x/y?z#f", vars("p", "x/y?z", "f", "f")},

		{"a://{id}{?format,lang}", "a://7?format=x&lang=de", vars("id", "7", "format", "x", "lang", "de")},
		{"a://{id}{?format,lang}", "a://7?lang=de&format=x", vars("id", "7", "format", "x", "lang", "de")},
		{"a://{id}{?format,lang}", "a://7?lang=de", vars("id", "7", "lang", "de")},
		{"a://{id}{?format}", "a://7?format=", vars("id", "7", "format", "")},
		{"a://{id}{?format}", "a://7?other=1", vars("id", "7")},
		{"a://{id}{?format}", "a://7?", vars("id", "7")},
		{"a://{id}{?format}", "a://7&format=x", nil},
		{"a://{id}{?format}", "a://7?format=x&format=y", nil},
		{"a://{id}{?at}", "a://7?at=2026-01-02T03:04", vars("id", "7", "at", "2026-01-02T03:04")},
		{"a://{id}{?a}{&b}", "a://7?b=2&a=1", vars("id", "7", "a", "1", "b", "2")},
		{"a://{id}{?a}{&b}", "a://7&b=2", vars("id", "7", "b", "2")},
		{"a://{+p}{?q}", "a://x/y?q=1", vars("p", "x/y", "q", "1")},
		{"a://x?kind=a{&page}", "a://x?kind=a&page=2", vars("page", "2")},
		{"a://x?kind=a{&page}", "a://x?kind=b&page=2", nil},
		{"a://x?q={q}", "a://x?q=1", vars("q", "1")},
		{"a://x{?q}{#f}", "a://x?q=1#2", vars("q", "1", "f", "2")},
		{"a://x{?list*}", "a://x?list=a&list=b", vars("list", "a,b")},
		{"a://x{?list*}", "a://x?list=a,b", vars("list", "a,b")},
		{"a://x{?list}", "a://x?list=a,b", vars("list", "a,b")},
		{"a://x{?%6E}", "a://x?n=1", vars("%6E", "1")},

		{"a://x/{v:3}", "a://x/abc", vars("v", "abc")},
		{"a://x/{v:3}", "a://x/ab", vars("v", "ab")},
		{"a://x/{v:3}", "a://x/abcd", nil},
		{"a://x/{v:3}", "a://x/äöü", vars("v", "äöü")},
		{"a://x/{v:3}", "a://x/äöü€", nil},
		{"a://x/{v:3}-{w}", "a://x/a-b-c-d", vars("v", "a-b", "w", "c-d")},
		{"a://x{?v:3}", "a://x?v=abcd", nil},
		{"a://x/{v:1}/{v}", "a://x/a/abc", vars("v", "abc")},
		{"a://x/{v:1}/{v}", "a://x/b/abc", nil},
		{"a://x/{v:1}/{v:2}/{v}", "a://x/a/ab/abc", vars("v", "abc")},
		{"a://x/{v:1}/{v:2}/{v}", "a://x/a/ac/abc", nil},
		{"a://x/{v}/{v}", "a://x/1/2", nil},
		{"a://x/{v}{?v}", "a://x/1?v=1", vars("v", "1")},
		{"a://x/{v}{?v}", "a://x/1?v=2", nil},
	} {
		tmpl, err := template.New(c.template)
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
			continue
		}
		got, ok := tmpl.Match(template.NormalizeURI(c.uri))
		if ok != (c.want != nil) || !maps.Equal(got, c.want) {
			t.Errorf("%s matched with %s: got %v, %v, want %v", c.template, c.uri, got, ok, c.want)
		}
	}
}

func TestRefusedTemplates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a://{":                "incomplete",
		"a://{=v}":             "op-reserved",
		"a://a b":              "unacceptable",
		"a://{a}{b}":           "nothing tells the values of {a} and {b} apart",
		"a://{a}{+b}":          "apart",
		"a://{+a}{/b}":         "apart",
		"a://{a}{.b}":          "apart",
		"a://x{;a}{;b}":        "apart",
		"a://x{?a}/{b}":        "{?a}, whose parameters may come in any order",
		"a://x{?a}&kind=b{&c}": "&kind=b stands behind {?a}",
		"a://x{?a}{?b}":        "any order",
		"a://x{?a,a}":          "twice",
		"a://x{/list*,b}":      "write the list last",
		"a://{v:1001}":         "at most 1000 characters",
	} {
		if _, err := template.New(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", text, err, want)
		}
	}
	if _, err := template.New("a://{v:1000}"); err != nil {
		t.Error(err)
	}
}
