package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/troupe-run/troupe/codec"
)

// inferSchema returns the JSON schema of T, which must be an object's.
func inferSchema[T any](name string) json.RawMessage {
	if reflect.TypeFor[T]() == reflect.TypeFor[struct{}]() {
		return json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: no schema can be inferred: %v", name, err))
	}
	if s.Type != "object" {
		panic(fmt.Sprintf("troupe: tool %q: %v is no object, as arguments and structured content must be", name, reflect.TypeFor[T]()))
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: schema: %v", name, err))
	}
	return data
}

// resolveSchema compiles a schema for validation.
func resolveSchema(name, which string, raw json.RawMessage) *jsonschema.Resolved {
	var s jsonschema.Schema
	err := json.Unmarshal(raw, &s)
	if err == nil && s.Type != "object" {
		err = errors.New(`its type must be "object"`)
	}
	var r *jsonschema.Resolved
	if err == nil {
		r, err = s.Resolve(nil)
	}
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: %s schema: %v", name, which, err))
	}
	return r
}

// validate checks raw, which is valid JSON, against a schema.
func validate(r *jsonschema.Resolved, raw []byte) error {
	var v any
	if err := codec.UnmarshalValid(raw, &v); err != nil {
		return err
	}
	v, err := numbers(v)
	if err != nil {
		return err
	}
	return r.Validate(v)
}

// numbers turns the exact numbers of a decoded value into the Go numbers that
// the validator knows: integers stay exact as far as 64 bits go.
func numbers(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return i, nil
		}
		if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return u, nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil {
			return nil, fmt.Errorf("the number %.40s is out of range", v)
		}
		return f, nil
	case map[string]any:
		for k, x := range v {
			y, err := numbers(x)
			if err != nil {
				return nil, err
			}
			v[k] = y
		}
	case []any:
		for i, x := range v {
			y, err := numbers(x)
			if err != nil {
				return nil, err
			}
			v[i] = y
		}
	}
	return v, nil
}
