package hostfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// written is a tree as JSON.
func written(n *node) string {
	switch n.kind {
	case null:
		return "null"
	case text:
		data, err := json.Marshal(n.text)
		if err != nil {
			panic(err)
		}
		return string(data)
	case list:
		var all []string
		for _, i := range n.items {
			all = append(all, written(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	case mapping:
		var all []string
		for _, e := range n.entries {
			all = append(all, written(&node{kind: text, text: e.name})+":"+written(e.value))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	return n.text
}

func TestReadJSON(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		`{}`:                                  `{}`,
		`{"a": 1, "a": [true, false, null]}`:  `{"a":1,"a":[true,false,null]}`,
		"// x\n{ /* \"b\": 1, */ \"a\": 1, }": `{"a":1}`,
		`[1, 2, /* , */ ] // end`:             `[1,2]`,
		`{"a": "// no \" comment /* */ ,}"}`:  `{"a":"// no \" comment /* */ ,}"}`,
		`{"a": "http://b/c", /**/}`:           `{"a":"http://b/c"}`,
		`{"a": "\\", "b": "\\\"",}`:           `{"a":"\\","b":"\\\""}`,
		`[[1,],[{},],]`:                       `[[1],[{}]]`,
		"\ufeff[1]":                           `[1]`,
		"{\r\n\t\"a\":\t\"C:\\\\b\"\r\n}\r\n": `{"a":"C:\\b"}`,
		`"\ud83d\ude00 \u00e4\/"`:             `"😀 ä/"`,
		`-1.5e3`:                              `-1.5e3`,
		`123456789012345678901234567890`:      `123456789012345678901234567890`,
	} {
		n, err := readJSON([]byte(file))
		if err != nil {
			t.Errorf("%q: %v", file, err)
		} else if got := written(n); got != want {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
	for _, file := range []string{`{,}`, `[,]`, `[1,,]`, `{"a":,}`, `{"a",}`, `[1 2]`, `[1/]`, `/`, `/* *`, `{"a": 01}`, `{'a': 1}`, `{a: 1}`, `[1]]`, `nul`, `"a`, `[`, `[1,`, `,`, `[1],`, "#\n[]"} {
		if n, err := readJSON([]byte(file)); err == nil {
			t.Errorf("%q: %s, want an error", file, written(n))
		}
	}
}

// TestLines has values with the lines in which they end.
func TestLines(t *testing.T) {
	t.Parallel()
	n, err := readJSON([]byte("{ // 1\n\"a\":\n\n1,/*\n\n*/\"b\": [\r\n  2,\n\n  3 ],\n}"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := n.entries[0], n.entries[1]
	if got := fmt.Sprint(n.line, a.line, a.value.line, b.line, b.value.line, b.value.items[0].line, b.value.items[1].line); got != "1 2 4 6 6 7 9" {
		t.Errorf("lines are %s", got)
	}
}

// FuzzReadJSON reads any file. What json takes is read as json reads it, and what was read is read again from what says the same.
func FuzzReadJSON(f *testing.F) {
	for _, file := range []string{"{}", `{"a": [1, "b", null,], /* c */}`, "// a", "/*", `"\u0000"`, "[[[[1]]]]", "\xef\xbb\xbf{}", `{"a":1,"a":2}`, `"//"`, "[1,]", "{,}", "1 // \r"} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		n, err := readJSON(file)
		if err != nil {
			wrong, ok := err.(*lineError)
			if !ok || wrong.line < 1 || wrong.line > 1+bytes.Count(file, []byte("\n")) {
				t.Errorf("error %#v", err)
			}
			if json.Valid(file) && utf8.Valid(file) && wrong.err != errTooDeep {
				t.Errorf("%q is JSON: %v", file, err)
			}
			return
		}
		text := written(n)
		if json.Valid(file) {
			var compact bytes.Buffer
			if err := json.Compact(&compact, file); err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal(compact.Bytes(), &a) == nil && json.Unmarshal([]byte(text), &b) == nil && fmt.Sprint(a) != fmt.Sprint(b) {
				t.Errorf("%q was read as %s", file, text)
			}
		}
		again, err := readJSON([]byte(text))
		if err != nil || written(again) != text {
			t.Errorf("%v, written as %s", err, text)
		}
	})
}
