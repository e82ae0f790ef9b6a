package troupe

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/codec"
)

// inferSchema returns the JSON schema of T, which must be an object's.
func inferSchema[T any](name string) json.RawMessage {
	if reflect.TypeFor[T]() == reflect.TypeFor[struct{}]() {
		return json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	s, err := infer.For[T](nil)
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

// schemaURL is where a tool's schema stands while it is compiled; nothing is
// ever read from there.
const schemaURL = "https://tool.invalid/schema.json"

// noLoader refuses references to schemas elsewhere: a schema must be whole.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", url)
}

// compileSchema makes a schema ready for validation. The dialect is that of its
// $schema member, by default 2020-12.
func compileSchema(name, which string, raw json.RawMessage) *jsonschema.Schema {
	s, err := func() (*jsonschema.Schema, error) {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
		if err != nil {
			return nil, err
		}
		if m, ok := doc.(map[string]any); !ok || m["type"] != "object" {
			return nil, errors.New(`its type must be "object"`)
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		c.UseLoader(noLoader{})
		if err := c.AddResource(schemaURL, doc); err != nil {
			return nil, err
		}
		return c.Compile(schemaURL)
	}()
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: %s schema: %v", name, which, err))
	}
	return s
}

// validate checks raw, which is valid JSON, against a schema.
func validate(s *jsonschema.Schema, raw []byte) error {
	var v any
	if err := codec.UnmarshalValid(raw, &v); err != nil {
		return err
	}
	err := s.Validate(v)
	if err == nil {
		return nil
	}
	// The first line names the schema, which says nothing to a caller; the
	// others name each fault and its place.
	_, faults, ok := strings.Cut(err.Error(), "\n")
	if !ok {
		return err
	}
	lines := strings.Split(faults, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimSpace(l), "- ")
	}
	return errors.New(strings.Join(lines, "; "))
}
