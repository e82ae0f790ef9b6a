package troupe

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-run/troupe/codec"
)

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
	compiled atomic.Pointer[checker]
}

// inputSchema returns the schema of a tool's arguments, and what of them stands in
// headers, too. It panics when it is no schema of objects. The dialect is that of its
// $schema member, by default 2020-12.
func inputSchema(tool string, text json.RawMessage) (*schema, headerParams) {
	var params headerParams
	err := register(text, func(doc any) error {
		if m, ok := doc.(map[string]any); !ok || m["type"] != "object" {
			return errors.New(`its type must be "object"`)
		}
		return nil
	}, params.add)
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: input schema: %v", tool, err))
	}
	params.sort()
	return &schema{text: text}, params
}

// outputSchema returns the schema of a tool's structured content, which may be any
// value. It panics when it is no schema.
func outputSchema(tool string, text json.RawMessage) *schema {
	err := register(text, func(any) error { return nil }, func(map[string]any, []string) error { return nil })
	if err != nil {
		panic(fmt.Sprintf("troupe: tool %q: output schema: %v", tool, err))
	}
	return &schema{text: text}
}

// register checks a schema before it is used.
func register(text json.RawMessage, root func(doc any) error, visit func(map[string]any, []string) error) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := root(doc); err != nil {
		return err
	}
	if err := (&schemaWalk{visit: visit}).walk(doc); err != nil {
		return err
	}
	_, err = compiled.get(text)
	return err
}

// compiled are the schemas that are in use somewhere in the process.
var compiled compiledSchemas

type compiledSchemas struct {
	mu  sync.Mutex // guards all
	all map[[sha256.Size]byte]weak.Pointer[checker]
}

// get returns the compiled form of a schema's text.
func (c *compiledSchemas) get(text json.RawMessage) (*checker, error) {
	key := sha256.Sum256(text)
	c.mu.Lock()
	s := c.all[key].Value()
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := newChecker(text)
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(s, c.drop, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[[sha256.Size]byte]weak.Pointer[checker])
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
	c := s.compiled.Load()
	if c == nil {
		var err error
		if c, err = compiled.get(s.text); err != nil {
			return err // it was compiled before
		}
		s.compiled.Store(c)
	}
	var v any
	if err := codec.UnmarshalValid(raw, &v); err != nil {
		return err
	}
	if err := checkNumbers(v); err != nil {
		return err
	}
	err := c.check(v, len(raw))
	fault, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	return faults(fault)
}

// Bounds of what is told of arguments that do not fit. Nobody reads more, and a
// schema with alternatives can find a fault for each in each of thousands of values.
const (
	maxFaults    = 20
	maxFaultText = 4 << 10
)

// faults says what does not fit, each with its place.
func faults(err *jsonschema.ValidationError) error {
	left := maxFaults
	prune(err, &left)
	// The first line names the schema, which says nothing to a caller; the
	// others name each fault and its place.
	_, text, ok := strings.Cut(err.Error(), "\n")
	if !ok {
		return err
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimSpace(l), "- ")
	}
	if left <= 0 {
		lines = append(lines, "and more")
	}
	text = strings.Join(lines, "; ")
	if len(text) > maxFaultText {
		text = strings.ToValidUTF8(text[:maxFaultText], "") + "…"
	}
	return errors.New(text)
}

// prune keeps the first faults of a tree.
func prune(err *jsonschema.ValidationError, left *int) {
	if *left <= 0 {
		return
	}
	if len(err.Causes) == 0 {
		*left--
		return
	}
	for i, cause := range err.Causes {
		if prune(cause, left); *left <= 0 {
			err.Causes = err.Causes[:i+1]
			return
		}
	}
}
