package toolschema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/toolschema"
)

// leaf and tree are arguments of every form that a decoder can fill.
type (
	leaf struct {
		N    int64          `json:"n,omitempty"`
		Role string         `json:"role,omitempty"`
		F    float64        `json:"f,omitempty"`
		M    map[string]int `json:"m,omitempty"`
		A    any            `json:"a,omitempty"`
	}
	tree struct {
		O leaf            `json:"o,omitzero"`
		P *leaf           `json:"p,omitempty"`
		M map[string]leaf `json:"m,omitempty"`
		L []leaf          `json:"l,omitempty"`
		F [2]leaf         `json:"f,omitzero"`
		S string          `json:"s,omitempty"`
		U uint8           `json:"u,omitempty"`
		B bool            `json:"b,omitempty"`
		R json.RawMessage `json:"r,omitempty"`
		A any             `json:"a,omitempty"`
	}
)

// These schemas allow of a leaf only n >= 0 and the role "user". The first is checked in place, the second by the validator.
const (
	plainLeaf = `{"type":"object","properties":{"n":{"type":"integer","minimum":0},"role":{"enum":["user"]},"f":{"type":"number"},"m":{"type":"object","additionalProperties":{"type":"integer","minimum":0}},"a":{}},"additionalProperties":false}`
	plainTree = `{"type":"object","properties":{"o":` + plainLeaf + `,"p":` + plainLeaf + `,"m":{"type":"object","additionalProperties":` + plainLeaf + `},"l":{"type":"array","items":` + plainLeaf + `},"f":{"type":"array","items":` + plainLeaf + `}}}`
	otherTree = `{"type":"object","$defs":{"l":` + plainLeaf + `},"properties":{"o":{"$ref":"#/$defs/l"},"p":{"$ref":"#/$defs/l"},"m":{"type":"object","additionalProperties":{"$ref":"#/$defs/l"}},"l":{"type":"array","items":{"$ref":"#/$defs/l"}},"f":{"type":"array","items":{"$ref":"#/$defs/l"}}}}`
)

func (l *leaf) allowed() bool {
	if l == nil {
		return true
	}
	for _, n := range l.M {
		if n < 0 {
			return false
		}
	}
	return l.N >= 0 && (l.Role == "" || l.Role == "user")
}

func (v *tree) allowed() bool {
	for _, l := range v.M {
		if !l.allowed() {
			return false
		}
	}
	for i := range v.L {
		if !v.L[i].allowed() {
			return false
		}
	}
	return v.O.allowed() && v.P.allowed() && v.F[0].allowed() && v.F[1].allowed()
}

// repeats reports whether a member comes twice in data, which is valid JSON.
func repeats(t *testing.T, data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var objects []map[string]bool // the names of those that are open; nil for an array
	name := false                 // the next token is a name
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			var names map[string]bool
			if token == json.Delim('{') {
				names = map[string]bool{}
			}
			objects, name = append(objects, names), names != nil
			continue
		case json.Delim('}'), json.Delim(']'):
			objects = objects[:len(objects)-1]
		default:
			if name {
				names, key := objects[len(objects)-1], token.(string)
				if names[key] {
					return true
				}
				names[key], name = true, false
				continue
			}
		}
		name = len(objects) > 0 && objects[len(objects)-1] != nil
	}
}

// FuzzTyped checks that what is validated is what a handler gets: of arguments that fit a schema, the value of the handler's
// type is that of the tree that was checked, holds nothing that the schema forbids, and comes of no member that is there twice.
func FuzzTyped(f *testing.F) {
	for _, s := range []string{`{}`, `{"o":{"n":-5},"o":{}}`, `{"o":{"role":"admin"},"o":{"n":1}}`, `{"p":{"role":"admin"},"p":null}`, `{"m":{"x":{"role":"admin"}},"m":{"y":{}}}`,
		`{"m":{"x":{"n":1},"\u0078":{"role":"user"}}}`, `{"l":[{"role":"admin"},{"n":-7}],"l":[{}]}`, `{"f":[{"role":"admin"}],"f":[]}`, `{"o":{"m":{"a":-1}},"o":{"m":{"b":1}}}`,
		`{"o":{"n":1.0,"f":1e2,"m":{"a":-0}}}`, `{"o":{"n":9223372036854775808}}`, `{"o":{"n":12345678901234567890123}}`, `{"o":{"f":1e400}}`, `{"O":{"n":-1},"o":{"N":-1}}`, `{"u":256}`, `{"u":1e2}`,
		`{"s":"\ud83d\ude00\u0000","b":null,"r":[1.0,{"a":"b"}]}`, `{"a":{"x":[1,{"y":1,"y":2}]}}`, `{"a":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"a":10}}`, `{"":1,"":2}`, `{"a":{"é":1,"\u00e9":2}}`,
		` { "l" : [ { "n" : 3 } , { } ] , "r" : { "n" : 1 , "n" : 1 } } `, `{"r":"","r":{"\"":1}}`} {
		f.Add([]byte(s))
	}
	inferred, err := toolschema.InferArguments(reflect.TypeFor[tree]())
	if err != nil {
		f.Fatal(err)
	}
	schemas := map[string]*toolschema.Schema{"in place": nil, "by the validator": nil, "inferred": nil, "shown": nil}
	for name, text := range map[string]string{"in place": plainTree, "by the validator": otherTree, "inferred": string(inferred.Checked), "shown": string(inferred.Shown)} {
		if schemas[name], _, err = toolschema.Arguments([]byte(text)); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !codec.Valid(data) {
			return
		}
		twice := repeats(t, data)
		value, err := codec.UniqueTree(data)
		if _, repeated := errors.AsType[*codec.RepeatedError](err); repeated != twice || err != nil && !repeated {
			t.Fatalf("%q: a member comes twice: %t, and the tree says %v", data, twice, err)
		}
		for name, schema := range schemas {
			if schema.Validate(data) != nil {
				continue
			}
			if twice {
				t.Fatalf("%q: %s: a member comes twice, and it fits", data, name)
			}
			checked, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			var got, want tree
			if gotErr, wantErr := codec.UnmarshalValid(data, &got), codec.UnmarshalValid(checked, &want); (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("%q: %s: decoded %v, the checked tree %s %v", data, name, gotErr, checked, wantErr)
			} else if gotErr != nil {
				continue
			}
			if !bytes.Equal(canonical(got.R), canonical(want.R)) {
				t.Fatalf("%q: %s: the handler gets %s, of the checked tree %s", data, name, got.R, want.R)
			}
			got.R, want.R = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: %s: the handler gets %+v, and checked was %+v", data, name, got, want)
			}
			if (name == "in place" || name == "by the validator") && !got.allowed() {
				t.Fatalf("%q: %s: the handler gets %+v", data, name, got)
			}
		}
	})
}

func canonical(raw json.RawMessage) []byte {
	var v any
	if codec.UnmarshalValid(raw, &v) != nil {
		return nil
	}
	out, _ := json.Marshal(v)
	return out
}
