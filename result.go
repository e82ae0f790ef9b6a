package troupe

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/troupe-run/troupe/internal/toolschema"
	"github.com/troupe-run/troupe/mcp"
)

// Result is what a handler of [AddTool] returns that gives a typed result and content of
// its own: a table for programs, and a picture of it for people.
type Result[T any] struct {
	// Structured becomes the structured content. The tool's output schema is inferred
	// from T.
	Structured T
	// Content becomes the content. Clients of revisions before 2025-06-18 see nothing
	// else. nil is a text block that mirrors Structured.
	Content mcp.Contents
	// Meta becomes the `_meta` of the result. nil is none.
	Meta mcp.Meta
}

// typedResult is a [Result] of any type.
type typedResult interface {
	structured() any // a pointer to it
	rest() (mcp.Contents, mcp.Meta)
}

func (r *Result[T]) structured() any                { return &r.Structured }
func (r *Result[T]) rest() (mcp.Contents, mcp.Meta) { return r.Content, r.Meta }

// checkOut refuses results that are pointers to a [Result]: a handler that has none returns
// an error.
func checkOut[Out any]() error {
	if t := reflect.TypeFor[Out](); t.Kind() == reflect.Pointer && t.Implements(reflect.TypeFor[typedResult]()) {
		return fmt.Errorf("its handler returns a %v: return a %v, not a pointer to one", t, t.Elem())
	}
	return nil
}

// structuredType is the type of the structured content that a handler's result has.
func structuredType[Out any]() reflect.Type {
	if r, ok := any(new(Out)).(typedResult); ok {
		return reflect.TypeOf(r.structured()).Elem()
	}
	return reflect.TypeFor[Out]()
}

// InputSchema returns the schema that [AddTool] infers for arguments of type In, for a
// program that adds to it what Go types do not say, and sets Tool.InputSchema. It fails
// where AddTool panics. The schema is the caller's.
func InputSchema[In any]() (json.RawMessage, error) {
	return changeable(toolschema.InferArguments(reflect.TypeFor[In]()))
}

// OutputSchema returns the schema that [AddTool] infers for structured content of type
// Out, or for that of a [Result]. The rest is as for [InputSchema].
func OutputSchema[Out any]() (json.RawMessage, error) {
	if err := checkOut[Out](); err != nil {
		return nil, fmt.Errorf("troupe: output schema: %w", err)
	}
	return changeable(toolschema.InferResult(structuredType[Out]()))
}

// changeable is a schema that may be changed.
func changeable(schema json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return append(json.RawMessage(nil), schema...), nil
}
