package toolschema_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/toolschema"
)

// BenchmarkLargeCall measures what happens to a call of 100,000 values before its handler runs: it is scanned,
// validated as a tree, and decoded into the type of its tool.
func BenchmarkLargeCall(b *testing.B) {
	type arguments struct {
		Items []struct {
			A int `json:"a"`
		} `json:"items"`
	}
	args := []byte(`{"items":[` + strings.Repeat(`{"a":1},`, 49_990) + `{"a":1}]}`)
	message := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":` + string(args) + `}}`)
	inferred, err := toolschema.InferArguments(reflect.TypeFor[arguments]())
	if err != nil {
		b.Fatal(err)
	}
	schema, _, err := inferred.Arguments()
	if err != nil {
		b.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"scan", func() error {
			if err := codec.Scan(message, new(codec.Message), codec.Limits{}); err != nil {
				return err
			}
			return nil
		}},
		{"tree", func() error { var v any; return codec.UnmarshalValid(args, &v) }},
		{"validate", func() error { return schema.Validate(args) }},
		{"decode", func() error { return codec.UnmarshalValid(args, new(arguments)) }},
	} {
		b.Run("step="+step.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := step.do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
