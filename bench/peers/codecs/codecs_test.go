package codecs

import (
	"bytes"
	std "encoding/json"
	"errors"
	"maps"
	"reflect"
	"testing"

	"github.com/bytedance/sonic"
)

// floats makes float64 of the numbers in a decoded value: Troupe keeps their digits, as json.Number.
func floats(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, m := range v {
			v[k] = floats(m)
		}
	case []any:
		for i, m := range v {
			v[i] = floats(m)
		}
	case std.Number:
		f, _ := v.Float64()
		return f
	}
	return v
}

// TestAgree proves that all contestants do the same work: they find the same parts, decode the same values, and write the same answer.
func TestAgree(t *testing.T) {
	t.Parallel()
	all := contestants()
	for _, s := range shapes {
		for _, size := range sizes {
			body := s.body(size.n)
			if got := len(body); got < size.n*9/10 || got > size.n*6/5 {
				t.Errorf("%s of %s has %d bytes", s.name, size.name, got)
			}
			want := wanted(t, body)
			for _, c := range all {
				got, err := c.does(body)
				if err != nil {
					t.Errorf("%s, %s of %s: %v", c.name, s.name, size.name, err)
				} else if !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %s of %s: the work is another", c.name, s.name, size.name)
				}
			}
		}
	}
}

// work is all that a contestant finds in a message and makes of it.
type work struct {
	id, method, params, tool, args string
	typed                          arguments
	untyped, answer                any
}

func (c contestant) does(body []byte) (w work, err error) {
	body = bytes.Clone(body)
	first, err := c.envelope(body)
	if err != nil {
		return w, err
	}
	w.id, w.method, w.params = string(first.id), string(first.method), string(first.params)
	p, tool, args, err := c.call(body)
	if err != nil {
		return w, err
	}
	if string(p.params) != w.params {
		return w, errors.New("other params the second time")
	}
	w.tool, w.args = tool, string(args)
	if err := c.decode(args, &w.typed); err != nil {
		return w, err
	}
	var untyped map[string]any
	if err := c.decode(args, &untyped); err != nil {
		return w, err
	}
	w.untyped = floats(untyped)
	answer, err := c.respond(nil, p.id, resultOf(&w.typed))
	if err != nil {
		return w, err
	}
	return w, std.Unmarshal(answer, &w.answer)
}

// wanted is what encoding/json makes of a message, in the plainest way.
func wanted(t *testing.T, body []byte) (w work) {
	t.Helper()
	var m struct {
		ID     std.RawMessage
		Method string
		Params std.RawMessage
	}
	var p struct {
		Name      string
		Arguments std.RawMessage
	}
	for _, err := range []error{std.Unmarshal(body, &m), std.Unmarshal(m.Params, &p), std.Unmarshal(p.Arguments, &w.typed)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var untyped map[string]any
	if err := std.Unmarshal(p.Arguments, &untyped); err != nil {
		t.Fatal(err)
	}
	w.untyped = untyped
	w.id, w.method, w.params, w.tool, w.args = string(m.ID), m.Method, string(m.Params), p.Name, string(p.Arguments)
	answer, err := std.Marshal(map[string]any{"jsonrpc": "2.0", "id": 12, "result": resultOf(&w.typed)})
	if err == nil {
		err = std.Unmarshal(answer, &w.answer)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// notRefused is how many faults of the table each contestant does not refuse in the envelope; docs/performance.md tells of them.
var notRefused = map[string]int{"sonic": 7, "sonic-std": 4, "sonic-fastest": 13, "goccy": 4, "encoding/json": 4, "json/v2-dup": 1}

// TestFaults proves that Troupe's codec refuses each fault in the envelope already, and holds the others to what the documents say of them.
// With -v it prints what each does with which fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	if sonic.APIKind != sonic.UseSonicJSON {
		t.Skip("sonic's other path takes what encoding/json takes")
	}
	got := map[string]int{}
	table := "fault"
	all := contestants()
	for _, c := range all {
		table += " | " + c.name
	}
	for _, f := range faults {
		table += "\n" + f.name
		for _, c := range all {
			e := c.meets(f)
			table += " | " + string(e)
			if e != refused {
				got[c.name]++
			}
		}
	}
	t.Log(table)
	if !maps.Equal(got, notRefused) {
		t.Errorf("faults that are not refused in the envelope: %v, want %v", got, notRefused)
	}
}
