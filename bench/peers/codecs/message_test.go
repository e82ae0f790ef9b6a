package codecs

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A shape makes the arguments of a call: one long string, or many small values.
type shape struct {
	name string
	body func(size int) []byte
}

var shapes = []shape{{"text", textBody}, {"structure", structureBody}}

// sizes are those of the messages, in bytes.
var sizes = []struct {
	name string
	n    int
}{{"200", 200}, {"10k", 10_000}, {"1m", 1_000_000}}

const (
	head = `{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"store","_meta":{"progressToken":"p1"},"arguments":{`
	tail = `}}}`
)

// textBody returns a call with one long string. Some of its characters have escapes, as line breaks and quotes do.
func textBody(size int) []byte {
	const open, end, sentence = `"text":"`, `"`, `The quick brown \"fox\" jumps over the lazy dog.\n`
	left := size - len(head) - len(open) - len(end) - len(tail)
	whole := max(left, 0) / len(sentence)
	text := strings.Repeat(sentence, whole) + strings.Repeat("x", max(left, 0)%len(sentence))
	return []byte(head + open + text + end + tail)
}

// structureBody returns a call with many small objects and arrays.
func structureBody(size int) []byte {
	b := []byte(head + `"items":[`)
	for i := 0; i == 0 || len(b) < size-len(tail)-len(`{"id":1000,"name":"item-0","tags":["red","green"],"price":0.25,"stock":null,"active":true}`); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"name":"item-%d","tags":["red","green"],"price":%d.25,"stock":null,"active":true}`, 1000+i, i, i%97)
	}
	return append(b, "]"+tail...)
}

// arguments are those of both shapes.
type arguments struct {
	Text  string `json:"text,omitempty"`
	Items []item `json:"items,omitempty"`
}

type item struct {
	ID     int64    `json:"id"`
	Name   string   `json:"name"`
	Tags   []string `json:"tags"`
	Price  float64  `json:"price"`
	Stock  *int     `json:"stock"`
	Active bool     `json:"active"`
}

// A result is what a tool returns that has stored its arguments: their text, or their items.
type result struct {
	Content    []block    `json:"content"`
	Structured *arguments `json:"structuredContent,omitempty"`
}

type block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// resultOf returns a result that is as large as the arguments.
func resultOf(a *arguments) *result {
	if a.Items != nil {
		return &result{Content: []block{}, Structured: a}
	}
	return &result{Content: []block{{"text", a.Text}}}
}

// The types below are those into which a library reads a message, and from which it writes an answer.

type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

type callParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  *result         `json:"result"`
}
