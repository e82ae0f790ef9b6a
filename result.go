package troupe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/toolschema"
	"github.com/troupe-run/troupe/mcp"
)

// Result is a typed result with content of its own, for a handler of [AddTool]: for example
// a table for programs, and a picture of it for people.
type Result[T any] struct {
	// Structured becomes the structured content. The tool's output schema is inferred
	// from T.
	Structured T
	// Content becomes the content. Clients of revisions before 2025-06-18 see nothing
	// else. nil means a text block that mirrors Structured.
	Content mcp.Contents
	// Meta becomes the `_meta` of the result. nil means none.
	Meta mcp.Meta
}

// typedResult is a [Result] of any type.
type typedResult interface {
	structured() any // a pointer to it
	rest() (mcp.Contents, mcp.Meta)
}

func (r *Result[T]) structured() any                { return &r.Structured }
func (r *Result[T]) rest() (mcp.Contents, mcp.Meta) { return r.Content, r.Meta }

// checkOut refuses results that are pointers to a [Result]: a handler without a result returns
// an error.
func checkOut[Out any]() error {
	if t := reflect.TypeFor[Out](); t.Kind() == reflect.Pointer && t.Implements(reflect.TypeFor[typedResult]()) {
		return fmt.Errorf("its handler returns a %v: return a %v, not a pointer to one", t, t.Elem())
	}
	return nil
}

// structuredType returns the type of the structured content of a handler's result.
func structuredType[Out any]() reflect.Type {
	if r, ok := any(new(Out)).(typedResult); ok {
		return reflect.TypeOf(r.structured()).Elem()
	}
	return reflect.TypeFor[Out]()
}

// InputSchema returns the schema that [AddTool] infers for arguments of type In. A program
// can add to it what Go types do not say, and set Tool.InputSchema. InputSchema fails where
// AddTool panics. The caller may change the schema.
//
// A tool without an InputSchema also accepts null for pointers, slices and maps, as AddTool
// says, and hands its handler the defaults of form tags. One that has this schema does neither.
func InputSchema[In any]() (json.RawMessage, error) {
	inferred, err := toolschema.InferArguments(reflect.TypeFor[In]())
	if err != nil {
		return nil, err
	}
	return copySchema(inferred.Shown, nil)
}

// OutputSchema returns the schema that [AddTool] infers for structured content of type
// Out, or for the structured content of a [Result]. The rest is as for [InputSchema].
func OutputSchema[Out any]() (json.RawMessage, error) {
	if err := checkOut[Out](); err != nil {
		return nil, fmt.Errorf("troupe: output schema: %w", err)
	}
	return copySchema(toolschema.InferResult(structuredType[Out]()))
}

// copySchema returns a copy of a schema that the caller may change.
func copySchema(schema json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return append(json.RawMessage(nil), schema...), nil
}

// Cache says how long a result may be kept, and who may share it (2026-07-28,
// server/utilities/caching). Older clients do not get it. With the zero value a result
// counts as out of date at once. A client may keep a list until it gets a notification of
// a change; only a client that listens gets one.
type Cache struct {
	// TTL is how long the result counts as fresh after it has come, in whole
	// milliseconds. 0 and less: it may be out of date at once.
	TTL time.Duration
	// Scope says who may share the result. Empty means [mcp.CachePrivate] for the contents
	// of resources, since their handlers know who asks. For the lists and server/discover
	// it means mcp.CachePrivate with Options.Authenticate or ServerOptions.Visible, and
	// [mcp.CachePublic] without them: then all callers get the same, and everybody may
	// share it.
	Scope mcp.CacheScope
}

// appendMembers appends the members of a result that hold c.
func (c Cache) appendMembers(dst []byte) []byte {
	scope := mcp.CachePrivate
	if c.Scope == mcp.CachePublic { // an unknown scope is private
		scope = mcp.CachePublic
	}
	dst = append(dst, `"ttlMs":`...)
	dst = strconv.AppendInt(dst, max(c.TTL.Milliseconds(), 0), 10)
	dst = append(dst, `,"cacheScope":"`...)
	dst = append(dst, scope...)
	return append(dst, '"')
}

// resultHead is the beginning of a server's results for clients since 2026-07-28: the type
// of the result and the server's name. Results for older clients have neither.
type resultHead struct {
	start []byte          // {"resultType":"complete"
	meta  []byte          // "_meta":{…} where the handler gave none
	name  json.RawMessage // the server's name
}

func newResultHead(info mcp.Implementation) resultHead { return newNamedHead(mcp.Raw(info)) }

func newNamedHead(name json.RawMessage) resultHead {
	return resultHead{[]byte(`{"resultType":"complete"`), append([]byte(`"_meta":`), mcp.Raw(mcp.Meta{mcp.MetaServerInfo: name})...), name}
}

// rawMeta encodes the `_meta` of a handler's result; nil if that is empty.
func rawMeta(m mcp.Meta) ([]byte, error) {
	if len(m) == 0 {
		return nil, nil
	}
	raw, err := codec.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBadResult, err)
	}
	return raw, nil
}

// beginResult appends the beginning of a result up to the first of its own members, which
// follows a comma. own is the raw `_meta` of a handler, cache is nil for results that
// have no Cache.
func (h *resultHead) beginResult(dst, own []byte, cache *Cache) ([]byte, error) {
	dst = append(dst, h.start...)
	if cache != nil {
		dst = cache.appendMembers(append(dst, ','))
	}
	dst = append(dst, ',')
	if len(own) == 0 {
		return append(dst, h.meta...), nil
	}
	if own = bytes.TrimSpace(own); !isObject(own) || !codec.Valid(own) {
		return nil, fmt.Errorf("%w: its _meta is no object", errBadResult)
	}
	if codec.Optional(own, mcp.MetaServerInfo) == nil {
		own = mcp.Object(own).With(mcp.MetaServerInfo, h.name)
	}
	return codec.AppendCompact(append(dst, `"_meta":`...), own), nil
}

// appendResult appends a whole result. v encodes as an object without resultType, `_meta` and
// the members of a Cache.
func (h *resultHead) appendResult(dst, own []byte, cache *Cache, v any) ([]byte, error) {
	dst, err := h.beginResult(dst, own, cache)
	if err != nil {
		return nil, err
	}
	at := len(dst)
	if dst, err = codec.AppendMarshal(dst, v); err != nil {
		return nil, err
	}
	if len(dst) == at+len("{}") {
		return append(dst[:at], '}'), nil
	}
	dst[at] = ',' // where the object of v begins
	return dst, nil
}

// inputRequired appends the result that asks the client, which comes back with state.
func (h *resultHead) inputRequired(dst []byte, questions mcp.InputRequests, state string) ([]byte, error) {
	result := protocol.InputRequired(questions, state)
	result.Meta = mcp.Meta{mcp.MetaServerInfo: h.name}
	return codec.AppendMarshal(dst, result)
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func orEmpty(params []byte) []byte {
	if params == nil {
		return []byte("{}")
	}
	return params
}

// decodeText decodes a raw JSON string; anything else is "".
func decodeText(raw []byte) string {
	s, _ := codec.Str(raw)
	return s
}

// plainString returns the inside of a raw JSON string that has no escapes.
func plainString(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	for _, c := range raw {
		if c == '\\' {
			return nil, false
		}
	}
	return raw[1 : len(raw)-1], true
}
