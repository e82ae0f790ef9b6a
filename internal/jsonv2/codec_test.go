package jsonv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// newCodec returns a Codec that decodes interfaces by the standard library.
func newCodec() *Codec {
	return New(func(data []byte) (v any, ok bool) { return v, json.Unmarshal(data, &v) == nil })
}

type node struct {
	ID    int                   `json:"id"`
	Name  string                `json:"name"`
	Next  *node                 `json:"next"`
	By    map[string]node       `json:"by"`
	List  []node                `json:"list"`
	Raw   json.RawMessage       `json:"raw"`
	RawBy map[string]*rawHolder `json:"rawBy"`
	Any   any                   `json:"any"`
	Num   json.Number           `json:"num"`
	Shape fmt.Stringer          `json:"shape"`
}

type rawHolder struct{ raw string }

func (r *rawHolder) UnmarshalJSON(b []byte) error { r.raw = string(b); return nil }

// TestDecodeDuplicates decodes members that come twice: refused where they are read one by one, and kept where they are
// not, since what Append writes must be read again.
func TestDecodeDuplicates(t *testing.T) {
	t.Parallel()
	for in, refused := range map[string]bool{
		`{"id":1,"id":2}`:                                     true,
		`{"id":1,"name":"a","\u0069d":1}`:                     true,
		`{"other":1,"other":2}`:                               true,
		`{"next":{"id":1},"next":{}}`:                         true,
		`{"next":{"next":{"list":[{},{"id":1,"id":1}]}}}`:     true,
		` { "by" : { "x" : {} , "x" : { "id" : 1 } } } `:      true,
		`{"by":{"x":{"id":1,"id":1}}}`:                        true,
		`{"rawBy":{"x":1,"x":2}}`:                             true,
		`{"raw":{"a":1,"a":2},"next":{"name":"","name":"a"}}`: true,
		`{"raw":{"a":1,"a":[{"b":1,"b":2}]},"id":3}`:          false,
		`{"rawBy":{"x":{"a":1,"a":2}},"id":3}`:                false,
		`{"any":{"a":1,"a":2},"id":3}`:                        false,
		`{"other":{"a":1,"a":2},"id":3}`:                      false,
		`{"ID":1,"Id":2,"id":3}`:                              false,
		`{"list":[{"id":1},{"id":1}],"id":3}`:                 false,
	} {
		var v node
		err := newCodec().Decode([]byte(in), &v)
		if refused && !errors.Is(err, ErrDuplicate) || !refused && (err != nil || v.ID != 3) {
			t.Errorf("%s: got %v with %+v", in, err, v)
		}
		if refused {
			continue
		}
		out, err := newCodec().Append(nil, &v)
		if err == nil {
			err = newCodec().Decode(out, new(node))
		}
		if err != nil {
			t.Errorf("%s was written as %s, and is not read again: %v", in, out, err)
		}
	}
	deep := strings.Repeat(`{"next":`, 500) + `{"id":1,"id":2}` + strings.Repeat("}", 500)
	if err := newCodec().Decode([]byte(deep), new(node)); !errors.Is(err, ErrDuplicate) {
		t.Errorf("500 deep: got %v", err)
	}
}

// TestDecodeMismatch finds where the value that does not fit starts.
func TestDecodeMismatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want Mismatch
	}{
		{`{"id":"x"}`, Mismatch{6, reflect.TypeFor[int]()}},
		{`{"id" : [1] }`, Mismatch{8, reflect.TypeFor[int]()}},
		{`{"name":{"a":[]}}`, Mismatch{8, reflect.TypeFor[string]()}},
		{`{"list":[{}, 5]}`, Mismatch{13, reflect.TypeFor[node]()}},
		{`{"num":true}`, Mismatch{7, reflect.TypeFor[json.Number]()}},
		{`{"num":[1,2]}`, Mismatch{7, reflect.TypeFor[json.Number]()}},
		{`{"num":"1x"}`, Mismatch{7, reflect.TypeFor[json.Number]()}},
		{`{"shape":"x"}`, Mismatch{9, reflect.TypeFor[fmt.Stringer]()}},
		{`{"raw":{"a":1,"a":2},"id":1.5}`, Mismatch{26, reflect.TypeFor[int]()}},
		{`7`, Mismatch{0, reflect.TypeFor[node]()}},
	} {
		err := newCodec().Decode([]byte(tt.in), new(node))
		if got, ok := errors.AsType[*Mismatch](err); !ok || *got != tt.want {
			t.Errorf("%s: got %#v, want %#v", tt.in, err, &tt.want)
		}
	}
}
