package codec

import (
	"strings"
	"testing"
)

func TestStr(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	for _, tt := range []struct {
		raw, want string
		ok        bool
	}{
		{`""`, "", true},
		{`"abc"`, "abc", true},
		{`"工具 😀"`, "工具 😀", true},
		{`"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t", true},
		{`"\u0000\u00e9\u4e2d\uD83D\uDE00x"`, "\x00é中😀x", true},
		{`"\uffff\ufffd"`, "\uffff\ufffd", true},
		{`"` + long + `\n"`, long + "\n", true},
		{`"\\u0061"`, `\u0061`, true},
		{``, "", false},
		{`"`, "", false},
		{`null`, "", false},
		{`12`, "", false},
		{`{}`, "", false},
		{`"a`, "", false},
		{`"a" `, "", false},
		{`"a"b"`, "", false},
		{`"\"`, "", false},
		{`"\ud800"`, "", false},
		{"\"\xff\"", "", false},
		{"\"\n\"", "", false},
	} {
		if got, ok := Str([]byte(tt.raw)); got != tt.want || ok != tt.ok {
			t.Errorf("Str(%s) = %q, %v, want %q, %v", tt.raw, got, ok, tt.want, tt.ok)
		}
	}
	if got, ok := Str(nil); got != "" || ok {
		t.Errorf("Str(nil) = %q, %v", got, ok)
	}
}

func TestSameString(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100)
	for _, tt := range []struct {
		raw, want string
		same      bool
	}{
		{`""`, "", true},
		{`"abc"`, "abc", true},
		{`"\u0061b\u0063"`, "abc", true},
		{`"\\u0061bc"`, `\u0061bc`, true},
		{`"\ud83d\ude00"`, "😀", true},
		{`"` + long + `"`, long, true},
		{`"` + strings.Repeat(`\u00e9`, 100) + `"`, long, true},
		{`"` + strings.Repeat(`\u00e9`, 101) + `"`, long, false},
		{`"abc"`, "ab", false},
		{`"abc"`, "abcd", false},
		{`"abc"`, "abC", false},
		{`"abc"`, "", false},
		{`abc`, "b", false},
		{`12`, "", false},
		{`null`, "ul", false},
		{``, "", false},
	} {
		if got := SameString([]byte(tt.raw), tt.want); got != tt.same {
			t.Errorf("SameString(%s, %q) = %v", tt.raw, tt.want, got)
		}
	}
}

func TestStrCopies(t *testing.T) {
	t.Parallel()
	raw := []byte(`"hello"`)
	got, _ := Str(raw)
	copy(raw, "XXXXXXX")
	if got != "hello" {
		t.Errorf("Str refers to its input: %q", got)
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"plain", `"plain"`},
		{"a \"quoted\" back\\slash", `"a \"quoted\" back\\slash"`},
		{"\n\r\t\x00\x1f\x7f", "\"\\n\\r\\t\\u0000\\u001f\x7f\""},
		{"<b>&amp;</b>\u2028", "\"<b>&amp;</b>\u2028\""},
		{"工具😀", `"工具😀"`},
		{"a\xffb\xc3", "\"a\ufffdb\ufffd\""},
		{"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
	} {
		got := string(AppendString([]byte("x"), tt.in))
		if got != "x"+tt.want {
			t.Errorf("AppendString(%q) = %s, want x%s", tt.in, got, tt.want)
		}
		if !Valid([]byte(got[1:])) {
			t.Errorf("AppendString(%q) = %s is not valid", tt.in, got)
		}
	}
}

func TestValidString(t *testing.T) {
	t.Parallel()
	// The word-at-a-time scan must see every byte at every position of a word.
	for c := range 256 {
		for at := range 20 {
			body := []byte(strings.Repeat("~", 20))
			body[at] = byte(c)
			raw := []byte(`"` + string(body) + `"`)
			want := c >= ' ' && c != '"' && c != '\\' && c < 0x80
			if got := Valid(raw); got != want {
				t.Errorf("Valid with byte %#x at %d = %v, want %v", c, at, got, want)
			}
		}
	}
}
