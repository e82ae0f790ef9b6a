package auth

import (
	"net/http"
	"strings"
	"testing"
)

// TestCredentials has a row for each form of the header (RFC 6750, 2.1; RFC 9110, 11.4).
func TestCredentials(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", MaxToken)
	for _, tt := range []struct {
		name        string
		header      []string
		token, want string
	}{
		{"none", nil, "", "200"},
		{"empty", []string{""}, "", "200"},
		{"good", []string{"Bearer abc"}, "abc", "200"},
		{"lower case", []string{"bearer abc"}, "abc", "200"},
		{"upper case", []string{"BEARER abc"}, "abc", "200"},
		{"all characters", []string{"Bearer aZ09-._~+/=="}, "aZ09-._~+/==", "200"},
		{"spaces around", []string{"  Bearer   abc  "}, "abc", "200"},
		{"Basic", []string{"Basic YTpi"}, "", "200"},
		{"DPoP", []string{"DPoP abc"}, "", "200"},
		{"a scheme that begins like it", []string{"Bearerer abc"}, "", "200"},
		{"two", []string{"Bearer abc", "Bearer abc"}, "", "400 request"},
		{"two schemes", []string{"Basic YTpi", "Bearer abc"}, "", "400 request"},
		{"two in one", []string{"Bearer abc, Bearer def"}, "", "400 request"},
		{"two tokens", []string{"Bearer abc def"}, "", "400 request"},
		{"no token", []string{"Bearer"}, "", "400 request"},
		{"no token, a space", []string{"Bearer "}, "", "400 request"},
		{"a tab", []string{"Bearer\tabc"}, "", "400 request"},
		{"a control character", []string{"Bearer ab\x01c"}, "", "400 request"},
		{"a control character in another scheme", []string{"Basic ab\x7fc"}, "", "400 request"},
		{"a line", []string{"Bearer abc\r\n"}, "", "400 request"},
		{"only the end", []string{"Bearer =="}, "", "401 malformed"},
		{"a sign within", []string{"Bearer a=b"}, "", "401 malformed"},
		{"other characters", []string{"Bearer abc!"}, "", "401 malformed"},
		{"other letters", []string{"Bearer äbc"}, "", "401 malformed"},
		{"quoted", []string{`Bearer "abc"`}, "", "401 malformed"},
		{"16 KiB", []string{"Bearer " + long}, long, "200"},
		{"more than 16 KiB", []string{"Bearer a" + long}, "", "401 malformed"},
	} {
		h := http.Header{}
		if tt.header != nil {
			h["Authorization"] = tt.header
		}
		token, r := Credentials(h)
		got := "200"
		if r != nil {
			got = outcome(r)
		}
		if token != tt.token || got != tt.want {
			t.Errorf("%s: %q, %s; want %q, %s", tt.name, token, got, tt.token, tt.want)
		}
	}
}

// TestAuthenticate puts the parts together.
func TestAuthenticate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newStub("a")
		a := newAuthority(t, s)
		open := newAuthority(t, s, func(c *Config) { c.AllowAnonymous = true })
		good := token("a", nil, nil)
		for header, want := range map[string]string{"": "401 missing", "Basic YTpi": "401 missing", "Bearer": "400 request", "Bearer " + good: "200", "Bearer " + good + "x": "401 malformed", "Bearer x": "401 malformed"} {
			h := http.Header{"Authorization": {header}}
			for _, last := range []*Last{nil, {}} {
				v, err := a.Authenticate(t.Context(), h, a.Resource("/mcp", "", nil), last)
				if got := outcome(err); got != want || (v != nil) != (want == "200") {
					t.Errorf("%.20q: %v, %s, want %s", header, v, got, want)
				}
				v, err = open.Authenticate(t.Context(), h, open.Resource("/mcp", "", nil), last)
				anonymous := want == "401 missing"
				if got := outcome(err); anonymous && (v != nil || err != nil) || !anonymous && got != want {
					t.Errorf("%.20q where anonymous clients may call: %v, %s", header, v, got)
				}
			}
		}
	})
}
