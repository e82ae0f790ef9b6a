package codec

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzDecodeHeader compares the decoder with the encoder of the specification.
func FuzzDecodeHeader(f *testing.F) {
	for _, s := range []string{"", "us-west1", " padded ", "Hello, 世界", "line1\nline2", "=?base64?literal?=", "=?base64?SGVsbG8=?=", "=?base64?SGVsbG8?=",
		"=?base64?SGVs!!!bG8=?=", "=?base64?SGVsbG9=?=", "=?base64??=", "=?base64?=", "=?BASE64?SGVsbG8=?=", "=?base64?SGVs\nbG8=?=", "=?base64?/w==?=", "\xff", "\x7f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sentinel := func(text string) string { return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?=" }
		if got, ok := DecodeHeader(sentinel(s)); ok != utf8.ValidString(s) || ok && got != s {
			t.Errorf("%q: decoded as %q, %v", s, got, ok)
		}
		got, ok := DecodeHeader(s)
		if !ok {
			return
		}
		switch trimmed := strings.Trim(s, " \t"); {
		case got == trimmed:
			if strings.HasPrefix(s, "=?base64?") && strings.HasSuffix(s, "?=") && len(s) > 10 && got != "" {
				t.Errorf("%q is taken as it is", s)
			}
			for _, c := range []byte(got) {
				if c != '\t' && (c < ' ' || c > '~') {
					t.Errorf("%q is let through", s)
				}
			}
		case sentinel(got) != trimmed:
			t.Errorf("%q is taken for %q, which is %q", s, got, sentinel(got))
		}
	})
}
