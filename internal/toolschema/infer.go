package toolschema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

// inferred holds the schemas of Go types that have been asked for.
var inferred sync.Map // reflect.Type to json.RawMessage

// InferArguments returns the JSON schema of a tool's arguments of type t, as [Infer] does, and fails for types that
// are not JSON objects.
func InferArguments(t reflect.Type) (json.RawMessage, error) {
	s, err := Infer(t)
	if err == nil && string(codec.Field(s, "type")) != `"object"` {
		return nil, fmt.Errorf("%v is no object, as arguments must be", t)
	}
	return s, err
}

// Infer returns the JSON schema of a Go type, by its fields and their json and jsonschema tags. Callers share the
// result and must not change it.
func Infer(t reflect.Type) (json.RawMessage, error) {
	if t == reflect.TypeFor[struct{}]() {
		return json.RawMessage(`{"type":"object","additionalProperties":false}`), nil
	}
	if known, ok := inferred.Load(t); ok {
		return known.(json.RawMessage), nil
	}
	s, err := infer.ForType(t, nil)
	if err != nil {
		return nil, fmt.Errorf("no schema can be inferred: %w", err)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	inferred.Store(t, json.RawMessage(data))
	return data, nil
}
