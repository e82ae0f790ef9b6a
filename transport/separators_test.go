package transport

import (
	"encoding/json"
	"reflect"
	"testing"
)

// separated has a string with both separators, and with characters that are like them. It comes escaped or as it is.
const (
	separated = "\"a\u2028b\u2029\u2027\u202ac\u0085\u20ac\\\"\u2028\""
	escaped   = "\"a\\u2028b\\u2029\u2027\u202ac\u0085\u20ac\\\"\\u2028\""
)

func TestEscapeSeparators(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"a":"b"}`: `{"a":"b"}`,
		separated:   escaped,
		`{"jsonrpc":"2.0","id":` + separated + `,"result":{"content":[{"type":"text","text":` + separated + `}]}}`: `{"jsonrpc":"2.0","id":` + separated + `,"result":{"content":[{"type":"text","text":` + escaped + `}]}}`,
		`{"_meta" : {"a":[` + separated + `,{"b":"}"}],"c":` + separated + `},"d":` + separated + `}`:              `{"_meta" : {"a":[` + separated + `,{"b":"}"}],"c":` + separated + `},"d":` + escaped + `}`,
		`{"progressToken":12,"message":` + separated + `}`:                                                         `{"progressToken":12,"message":` + escaped + `}`,
		`{"nextCursor":` + separated + `,"tools":[{"inputSchema":{"description":` + separated + `}}]}`:             `{"nextCursor":` + separated + `,"tools":[{"inputSchema":{"description":` + separated + `}}]}`,
		`["id",` + separated + `,{` + separated + `:null,"id":true,"x":` + separated + `}]`:                        `["id",` + escaped + `,{` + escaped + `:null,"id":true,"x":` + escaped + `}]`,
		`{"requestState":"",` + "\n" + `"id":[],"taskId":{},"text":` + separated + `}`:                             `{"requestState":"",` + "\n" + `"id":[],"taskId":{},"text":` + escaped + `}`,
	} {
		if got := string(escapeSeparators([]byte(in))); got != want {
			t.Errorf("%s:\n got %+q\nwant %+q", in, got, want)
		}
	}
	// Of what is no JSON there is only to be said that nothing is lost.
	for _, in := range []string{"", "\xe2", "\xe2\x80", `"\u2028`, "\u2028\"", `{"id":` + "\u2028", `{"_meta":{"a":"\` + "\u2028", `{"id":}` + "\u2028"} {
		_ = escapeSeparators([]byte(in))
	}
}

// FuzzEscapeSeparators requires that a message means the same, and has no separators but in verbatim members.
func FuzzEscapeSeparators(f *testing.F) {
	for _, s := range []string{separated, `{"id":` + separated + `,"a":[` + separated + `]}`, `{"a":{"_meta":{"b":` + separated + `}}}`, `{"id"` + "\u2028"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := escapeSeparators(data)
		var before, after any
		if json.Unmarshal(data, &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%+q becomes %+q: %v", data, got, err)
		}
	})
}

// BenchmarkEscapeSeparators looks through text that has none, but characters that begin like them.
func BenchmarkEscapeSeparators(b *testing.B) {
	data := []byte(`{"text":"`)
	for len(data) < 10<<10 {
		data = append(data, "It’s a text – as people write it. "...)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		escapeSeparators(data)
	}
}
