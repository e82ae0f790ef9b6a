package transport

import (
	"bytes"
	"encoding/json"
	"mime"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzHeaders runs the parsers of headers. Where the standard library has a parser, ours may be stricter or, where it
// does not matter, laxer, but the two must not contradict each other.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"", "application/json", "application/json; charset=utf-8", `application/json;charset="UTF-8";x="a;b"`,
		"application/json, text/event-stream;q=0", "*/*;q=0.0", `text/*;a="\",`, "https://a.test:80", "http://[::1]:1", "null", "[", "[]", ":", "://", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if isJSON(s) {
			if media, params, err := mime.ParseMediaType(s); err == nil {
				if charset, ok := params["charset"]; media != typeJSON || ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
					t.Errorf("%q is taken for JSON in UTF-8, which is %q %v", s, media, params)
				}
			}
		}
		json, sse := acceptedMedia([]string{s})
		if (json || sse) && !strings.Contains(s, "/") {
			t.Errorf("%q is taken for a list of types", s)
		}
		if again, _ := acceptedMedia([]string{s, s}); again != json {
			t.Errorf("%q said twice means something else", s)
		}
		if _, _, ok := splitOrigin(s); ok {
			if u, err := url.Parse(s); err == nil && (u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "") {
				t.Errorf("%q is taken for an origin", s)
			}
		}
		name, port, ok := splitHost(s)
		if ok && name+":"+port != s && name != s {
			t.Errorf("%q is split into %q and %q", s, name, port)
		}
		o := Options{AllowHosts: []string{"a.test"}}.withDefaults()
		for _, from := range []side{onLoopback, beyond, withoutPort} {
			named := strings.EqualFold(name, "a.test") || from != withoutPort && isLoopback(name) || from == beyond && net.ParseIP(strings.Trim(name, "[]")) != nil
			if o.hostAllowed(s, from) && !named {
				t.Errorf("host %q is allowed from %d", s, from)
			}
		}
		if o.originAllowed(s, "a.test", true) {
			u, err := url.Parse(s)
			if err != nil || !isLoopback(u.Host[:len(u.Host)-len(u.Port())-min(len(u.Port()), 1)]) && !strings.EqualFold(u.Hostname(), "a.test") {
				t.Errorf("origin %q is allowed", s)
			}
		}
	})
}

// FuzzEvent parses what appendEvent writes.
func FuzzEvent(f *testing.F) {
	f.Add("e.1", 5, []byte("{}"))
	f.Add("", 0, []byte(""))
	f.Add("", 0, []byte("{\r\n  \"a\\n\": [ 1, 2 ]\n}\n"))
	f.Add("", 0, []byte("\"broken\nstring"))
	f.Add("a\nb", -1, []byte("a\r\nb\rc\n\nd\n"))
	f.Fuzz(func(t *testing.T, id string, retry int, data []byte) {
		got, err := all(strings.NewReader(string(appendEvent(nil, id, retry, data))))
		want := event{Data: strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))}
		if !strings.ContainsAny(id, "\r\n\x00") {
			want.ID = id
		}
		if len(got) == 1 {
			want.Retry = got[0].Retry
		}
		if diff := cmp.Diff(got, []event{want}); diff != "" || err != nil {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
		if isBlank(data) {
			return
		}
		got, err = all(strings.NewReader(string(appendMessage(nil, data))))
		if err != nil || len(got) != 1 || got[0].Name != "message" || strings.ContainsAny(got[0].Data, "\r\n") {
			t.Errorf("as a message: got %q, %v", got, err)
		}
		if json.Valid(data) {
			var want bytes.Buffer
			_ = json.Compact(&want, data)
			var have bytes.Buffer
			if json.Compact(&have, []byte(got[0].Data)) != nil || have.String() != want.String() {
				t.Errorf("as a message: got %q, want %q", got[0].Data, want.String())
			}
		}
	})
}
