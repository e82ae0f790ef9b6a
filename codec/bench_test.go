package codec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// sizes are the body sizes the benchmarks run at.
var sizes = []struct {
	name string
	n    int
}{{"200", 200}, {"10k", 10 << 10}, {"1m", 1 << 20}}

// textBody returns a tools/call request of about n bytes with one long text argument.
func textBody(n int) []byte {
	const head, tail = `{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":"p1"},"arguments":{"text":"`, `"}}}`
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", n/45+1)[:max(n-len(head)-len(tail), 0)]
	return []byte(head + text + tail)
}

// chineseBody is like textBody with a text of three-byte characters.
func chineseBody(n int) []byte {
	return []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"arguments":{"text":"` + strings.Repeat("敏捷的棕色狐狸跳过懒狗，", n/36) + `"}}}`)
}

// objectBody returns a tools/call request of about n bytes whose arguments hold many small objects.
func objectBody(n int) []byte {
	b := []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"store","arguments":{"items":[`)
	for i := 0; len(b) < n-4; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"name":"item-%d","tags":["red","green"],"price":%d.25,"stock":null,"active":true}`, 1000+i, i, i%97)
	}
	return append(b, "]}}}"...)
}

func bodies(b *testing.B, run func(b *testing.B, body []byte)) {
	for _, shape := range []struct {
		name string
		body func(int) []byte
	}{{"text", textBody}, {"chinese", chineseBody}, {"object", objectBody}} {
		for _, size := range sizes {
			body := shape.body(size.n)
			b.Run(shape.name+"="+size.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				run(b, body)
			})
		}
	}
}

func BenchmarkScan(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		var m Message
		for b.Loop() {
			if err := Scan(body, &m, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCompact(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		dst := make([]byte, 0, len(body))
		for b.Loop() {
			dst = AppendCompact(dst[:0], body)
		}
	})
}

func BenchmarkField(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		for b.Loop() {
			if Field(Field(body, "params"), "arguments") == nil {
				b.Fatal("no arguments")
			}
		}
	})
}

// BenchmarkMeta reads what a call of 2026-07-28 says of its client.
func BenchmarkMeta(b *testing.B) {
	meta := []byte(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{}}}`)
	names := []string{"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo"}
	var values [2][]byte
	b.ReportAllocs()
	for b.Loop() {
		Fields(meta, names, values[:])
		if values[0] == nil || values[1] == nil || Optional(meta, "io.modelcontextprotocol/logLevel") != nil {
			b.Fatal("the members are not as they are")
		}
	}
}

func BenchmarkAppendString(b *testing.B) {
	for _, size := range sizes {
		s := string(textBody(size.n)[:size.n*9/10])
		b.Run("text="+size.name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			b.ReportAllocs()
			dst := make([]byte, 0, 2*len(s))
			for b.Loop() {
				dst = AppendString(dst[:0], s)
			}
		})
	}
}

type benchItem struct {
	ID     int64    `json:"id"`
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Price  float64  `json:"price"`
	Stock  *int     `json:"stock"`
	Active bool     `json:"active"`
}

type benchArguments struct {
	Text  string          `json:"text,omitempty"`
	Items []benchItem     `json:"items,omitempty"`
	Raw   json.RawMessage `json:"raw,omitempty"`
}

func BenchmarkUnmarshal(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		var m Message
		if err := Scan(body, &m, Limits{}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			var v benchArguments
			if err := UnmarshalValid(m.Arguments, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkUnmarshalAny(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		var m Message
		if err := Scan(body, &m, Limits{}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			var v map[string]any
			if err := UnmarshalValid(m.Arguments, &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendMarshal(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		var v benchArguments
		var m Message
		if err := Scan(body, &m, Limits{}); err != nil {
			b.Fatal(err)
		}
		if err := UnmarshalValid(m.Arguments, &v); err != nil {
			b.Fatal(err)
		}
		buf := GetBuffer()
		for b.Loop() {
			var err error
			if buf.B, err = AppendMarshal(buf.B[:0], &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendMarshalRaw(b *testing.B) {
	bodies(b, func(b *testing.B, body []byte) {
		v := benchArguments{Raw: body}
		buf := GetBuffer()
		for b.Loop() {
			var err error
			if buf.B, err = AppendMarshal(buf.B[:0], &v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkAppendResult(b *testing.B) {
	id, result := []byte("12"), []byte(`{"content":[{"type":"text","text":"hello"}]}`)
	dst := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendResult(dst[:0], id, result)
	}
}
