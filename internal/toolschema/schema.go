package toolschema

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
	"github.com/troupe-run/troupe/internal/limits"
)

// schemaURL names a tool's schema while it is compiled. Nothing is read from it, and no
// error names it.
const (
	schemaBase = "https://tool.invalid/"
	schemaURL  = schemaBase + "schema.json"
	whetherURL = schemaBase + "whether.json"
)

// readable replaces the names of schemaURL in errors by words for the schema's author.
var readable = strings.NewReplacer(`in schema "`+schemaURL+`"`, "in the schema", `"`+schemaURL+`#"`, "the schema", `"`+schemaURL+`#`, `"#`, `"`+schemaURL+`"`, "the schema", schemaURL+"#", "#",
	schemaURL, "the schema", schemaBase, "")

// noLoader refuses references to schemas elsewhere: a schema must be whole.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", url)
}

// A Schema is a JSON schema of a registered tool. All methods may be called from any
// goroutine.
//
// Its compiled form takes some hundred bytes for each of its members. So a Schema has it
// only once it has validated something, and Schemas with the same text share it.
type Schema struct {
	text     json.RawMessage
	formats  bool // a string must have the form that "format" names
	compiled atomic.Pointer[checker]
}

// Arguments returns the schema of a tool's arguments, and the arguments that clients repeat
// in headers. It fails unless text is a schema of objects. The dialect is that of its
// $schema member, by default 2020-12. The caller must not change text afterwards.
func Arguments(text json.RawMessage) (*Schema, Headers, error) { return argumentSchema(text, false) }

func argumentSchema(text json.RawMessage, formats bool) (*Schema, Headers, error) {
	var headers Headers
	err := registerSchema(text, formats, func(doc any) error {
		if m, ok := doc.(map[string]any); !ok || m["type"] != "object" {
			return errors.New(`its type must be "object"`)
		}
		return nil
	}, headers.addHeader)
	if err != nil {
		return nil, nil, err
	}
	headers.sortHeaders()
	return &Schema{text: text, formats: formats}, headers, nil
}

// Result returns the schema of a tool's structured content, which may be any value. It
// fails unless text is a schema. The caller must not change text afterwards.
func Result(text json.RawMessage) (*Schema, error) { return ofAnything(text, false) }

func ofAnything(text json.RawMessage, formats bool) (*Schema, error) {
	err := registerSchema(text, formats, func(any) error { return nil }, func(map[string]any, []string) error { return nil })
	if err != nil {
		return nil, err
	}
	return &Schema{text: text, formats: formats}, nil
}

// Form returns the schema of the answers to a form. There a string must have the form that
// "format" names; in other schemas "format" is only a remark. It fails unless text is a
// schema. The caller must not change text afterwards.
func Form(text json.RawMessage) (*Schema, error) { return ofAnything(text, true) }

// registerSchema checks a schema before it is used.
func registerSchema(text json.RawMessage, formats bool, root func(doc any) error, visit func(map[string]any, []string) error) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return notJSON(text, err)
	}
	if err := root(doc); err != nil {
		return err
	}
	if err := checkNumbers(doc); err != nil {
		return err
	}
	if err := (&schemaWalk{visit: visit}).walkDocument(doc); err != nil {
		return err
	}
	if _, err = compiled.getCompiled(text, formats); err != nil {
		return errors.New(readable.Replace(err.Error()))
	}
	return nil
}

// notJSON says where a schema is not JSON.
func notJSON(text []byte, err error) error {
	var v any
	wrong, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &v))
	if !ok {
		return err
	}
	before := text
	if !strings.HasPrefix(wrong.Error(), "unexpected end") {
		before = text[:max(wrong.Offset-1, 0)]
	}
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("it is not JSON: line %d, column %d: %w", line, column, wrong)
}

// compiled holds the compiled schemas that are in use.
var compiled compiledSchemas

// InUse returns how many compiled schemas the process holds.
func InUse() int {
	compiled.mu.Lock()
	defer compiled.mu.Unlock()
	return len(compiled.all)
}

type compiledSchemas struct {
	mu  sync.Mutex // guards all fields
	all map[compiledKey]weak.Pointer[checker]
}

// compiledKey is the text of a schema, and whether its formats are asserted.
type compiledKey struct {
	text    [sha256.Size]byte
	formats bool
}

// getCompiled returns the compiled form of a schema's text.
func (c *compiledSchemas) getCompiled(text json.RawMessage, formats bool) (*checker, error) {
	key := compiledKey{sha256.Sum256(text), formats}
	c.mu.Lock()
	s := c.all[key].Value()
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := newChecker(text, formats)
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(s, c.dropCompiled, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = make(map[compiledKey]weak.Pointer[checker])
	}
	c.all[key] = weak.Make(s)
	return s, nil
}

// dropCompiled removes a compiled schema that is no longer in use.
func (c *compiledSchemas) dropCompiled(key compiledKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all[key].Value() == nil {
		delete(c.all, key)
	}
}

// forms are the compiled forms of a schema. whether is the schema in a "not", which fails for what fits: the validator
// then stops at the first fault and names none, so that it takes less memory, and keeps none of it.
type forms struct{ schema, whether *jsonschema.Schema }

// compileText returns the compiled forms of a schema's text. With formats, a string must have the
// form that a "format" names; without, such members are remarks.
func compileText(text json.RawMessage, formats bool) (f forms, err error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return f, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if formats {
		c.AssertFormat()
	}
	if err := c.AddResource(schemaURL, doc); err != nil {
		return f, err
	}
	if err := c.AddResource(whetherURL, map[string]any{"not": map[string]any{"$ref": schemaURL}}); err != nil {
		return f, err
	}
	if f.schema, err = c.Compile(schemaURL); err != nil {
		return f, err
	}
	f.whether, err = c.Compile(whetherURL)
	return f, err
}

// Validate checks raw, which must be valid JSON, against the schema. It refuses an object in
// which a member comes twice, at any depth and whatever the schema: a decoder may make a value
// of it that was not checked. Its error names up to 20 faults, each with its place, in at most
// 4 KiB. Where the work may grow faster than the
// size of raw, validation has a budget, and fails when that is used up.
func (s *Schema) Validate(raw []byte) error {
	c := s.compiled.Load()
	if c == nil {
		var err error
		if c, err = compiled.getCompiled(s.text, s.formats); err != nil {
			return err // an error of compiling, which was tried before
		}
		s.compiled.Store(c)
	}
	if c.simple && c.plan.fitsValue(raw) {
		return nil
	}
	return c.validateWith(raw)
}

// validateWith checks raw with the validator.
func (c *checker) validateWith(raw []byte) error {
	v, err := codec.UniqueTree(raw)
	if err != nil {
		return err
	}
	if err := checkNumbers(v); err != nil {
		return err
	}
	err = c.check(v, len(raw))
	fault, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	return nameFaults(fault)
}

// Bounds of the text that says how arguments do not fit. Nobody reads more, and a schema
// with alternatives can find a fault for each of them in thousands of values.
var (
	maxFaults    = limits.Faults.Value()
	maxFaultText = limits.FaultText.Value()
)

// nameFaults names the faults of a value, each with its place.
func nameFaults(err *jsonschema.ValidationError) error {
	left := maxFaults
	pruneFaults(err, &left)
	// The first line names the schema, which tells a caller nothing; the others name each
	// fault and its place.
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

// pruneFaults keeps the first faults of a tree.
func pruneFaults(err *jsonschema.ValidationError, left *int) {
	if *left <= 0 {
		return
	}
	if len(err.Causes) == 0 {
		*left--
		return
	}
	for i, cause := range err.Causes {
		if pruneFaults(cause, left); *left <= 0 {
			err.Causes = err.Causes[:i+1]
			return
		}
	}
}
