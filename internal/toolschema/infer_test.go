package toolschema

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestInfer(t *testing.T) {
	t.Parallel()
	type inner struct {
		Tags []string `json:"tags"`
	}
	for _, tt := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[struct{}](), `{"type":"object","additionalProperties":false}`},
		{reflect.TypeFor[int](), `{"type":"integer"}`},
		{reflect.TypeFor[any](), `true`},
		{reflect.TypeFor[map[string]bool](), `{"type":"object","additionalProperties":{"type":"boolean"}}`},
		{reflect.TypeFor[inner](), `{"type":"object","properties":{"tags":{"type":["null","array"],"items":{"type":"string"}}},"required":["tags"],"additionalProperties":false}`},
	} {
		for range 2 { // the second time from memory
			got, err := Infer(tt.of)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v: got %s, %v, want %s", tt.of, got, err, tt.want)
			}
		}
	}
	for _, none := range []reflect.Type{reflect.TypeFor[chan int](), reflect.TypeFor[func()](), reflect.TypeFor[complex128]()} {
		if got, err := Infer(none); err == nil || !strings.Contains(err.Error(), "no schema can be inferred") {
			t.Errorf("%v: got %s, %v, want an error", none, got, err)
		}
	}
}

func TestInferArguments(t *testing.T) {
	t.Parallel()
	for _, good := range []reflect.Type{reflect.TypeFor[struct{}](), reflect.TypeFor[struct{ A int }](), reflect.TypeFor[map[string]any]()} {
		text, err := InferArguments(good)
		if err == nil {
			_, _, err = Arguments(text)
		}
		if err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[[]int](), reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage]()} {
		if text, err := InferArguments(bad); err == nil || err.Error() != bad.String()+" is no object, as arguments must be" {
			t.Errorf("%v: got %s, %v, want an error", bad, text, err)
		}
	}
}
