package troupe

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

// inferred are the schemas of Go types that have been worked out.
var inferred sync.Map // reflect.Type to json.RawMessage

// inferArguments returns the JSON schema of T, which must be an object's. It must not
// be changed: others may have it too.
func inferArguments[T any](name string) json.RawMessage {
	s := inferSchema[T](name)
	if string(codec.Field(s, "type")) != `"object"` {
		panic(fmt.Sprintf("troupe: tool %q: %v is no object, as arguments must be", name, reflect.TypeFor[T]()))
	}
	return s
}

// inferSchema returns the JSON schema of T. It must not be changed: others may have
// it too.
func inferSchema[T any](name string) json.RawMessage {
	if reflect.TypeFor[T]() == reflect.TypeFor[struct{}]() {
		return json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	if known, ok := inferred.Load(reflect.TypeFor[T]()); ok {
		return known.(json.RawMessage)
	}
	s, err := infer.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: no schema can be inferred: %v", name, err))
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: schema: %v", name, err))
	}
	inferred.Store(reflect.TypeFor[T](), json.RawMessage(data))
	return data
}
