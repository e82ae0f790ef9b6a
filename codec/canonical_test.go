package codec

import (
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for _, row := range []struct{ raw, want string }{
		{` {"b": 1, "a" : [ true , null, "\u00e9\/" ], "A":{}}`, `{"A":{},"a":[true,null,"é/"],"b":1}`},
		{`{"\u0061":1,"a":2}`, `{"a":1,"a":2}`},
		{`{"a":2,"\u0061":1}`, `{"a":2,"a":1}`},
		{`[]`, `[]`}, {` 1.50 `, `1.50`}, {`"x"`, `"x"`}, {`{}`, `{}`}, {`[[],{"z":[1]}]`, `[[],{"z":[1]}]`},
		{`{"n":1e2,"m":-0}`, `{"m":-0,"n":1e2}`},
		{`{"b":{"d":1,"c":[{"f":1,"e":2},3]},"a":4}`, `{"a":4,"b":{"c":[{"e":2,"f":1},3],"d":1}}`},
		{`{"b":1,"a":2,"b":3,"a":4}`, `{"a":2,"a":4,"b":1,"b":3}`},
		{`[1,[],"]}",{"a":"{["}]`, `[1,[],"]}",{"a":"{["}]`},
	} {
		if got := string(AppendCanonical([]byte("x"), []byte(row.raw))); got != "x"+row.want {
			t.Errorf("%s: got %s, want x%s", row.raw, got, row.want)
		}
		if again := string(AppendCanonical(nil, []byte(row.want))); again != row.want {
			t.Errorf("%s: not stable: %s", row.want, again)
		}
	}
}

// TestCanonicalOfAnything checks that Canonical ends without a panic for input that is not JSON.
func TestCanonicalOfAnything(t *testing.T) {
	for _, raw := range []string{``, ` `, `{`, `[`, `"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":}`, `{1:2}`, `[1`, `[}`, `{]`, `]`, `}`, `,`, `:`, `[,]`, `{,}`, `{"a":]`, `nul`, `"\`} {
		AppendCanonical(nil, []byte(raw))
	}
}

// BenchmarkCanonical has 4 MB at the bottom of nested objects, with their members in order and
// out of order.
func BenchmarkCanonical(b *testing.B) {
	for name, open := range map[string]string{"flat": "", "deep": strings.Repeat(`{"a":`, 120), "disordered": strings.Repeat(`{"b":1,"a":`, 120)} {
		raw := []byte(open + `[` + strings.Repeat(`1,`, 2<<20) + `1]` + strings.Repeat(`}`, strings.Count(open, "{")))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			var dst []byte
			for b.Loop() {
				dst = AppendCanonical(dst[:0], raw)
			}
		})
	}
}
