package troupe

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/codec"
)

// inferred are the schemas of Go types that have been worked out.
var inferred sync.Map // reflect.Type to json.RawMessage

// inferSchema returns the JSON schema of T, which must be an object's. It must not
// be changed: others may have it too.
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
	if s.Type != "object" {
		panic(fmt.Sprintf("troupe: tool %q: %v is no object, as arguments and structured content must be", name, reflect.TypeFor[T]()))
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: schema: %v", name, err))
	}
	inferred.Store(reflect.TypeFor[T](), json.RawMessage(data))
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

// schema is a JSON schema. Its compiled form takes some hundred bytes for each of
// its members, so that a tool has it only once it has been called, and tools with
// the same schema have it together.
type schema struct {
	text     json.RawMessage
	compiled atomic.Pointer[jsonschema.Schema]
}

// newSchema returns the schema with that text; it panics when it is none. The
// dialect is that of its $schema member, by default 2020-12.
func newSchema(tool, which string, text json.RawMessage) *schema {
	if _, err := compiled.get(text); err != nil {
		panic(fmt.Sprintf("troupe: tool %q: %s schema: %v", tool, which, err))
	}
	return &schema{text: text}
}

// compiled are the schemas that are in use somewhere in the process.
var compiled compiledSchemas

type compiledSchemas struct {
	mu  sync.Mutex // guards all
	all map[[sha256.Size]byte]weak.Pointer[jsonschema.Schema]
}

// get returns the compiled form of a schema's text.
func (c *compiledSchemas) get(text json.RawMessage) (*jsonschema.Schema, error) {
	key := sha256.Sum256(text)
	c.mu.Lock()
	s := c.all[key].Value()
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := compile(text)
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(s, c.drop, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[[sha256.Size]byte]weak.Pointer[jsonschema.Schema])
	}
	c.all[key] = weak.Make(s)
	return s, nil
}

// drop forgets a schema that nobody has any more.
func (c *compiledSchemas) drop(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key].Value() == nil {
		delete(c.all, key)
	}
}

func compile(text json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
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
}

// validate checks raw, which is valid JSON, against the schema.
func (s *schema) validate(raw []byte) error {
	checker := s.compiled.Load()
	if checker == nil {
		var err error
		if checker, err = compiled.get(s.text); err != nil {
			return err // it was compiled before
		}
		s.compiled.Store(checker)
	}
	var v any
	if err := codec.UnmarshalValid(raw, &v); err != nil {
		return err
	}
	err := checker.Validate(v)
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
