package troupe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/toolschema"
	"github.com/troupe-run/troupe/mcp"
)

// Rerun says whether a call may run again when the process that ran it was lost
// before it had answered.
type Rerun uint8

const (
	// RerunDefault is Safe for tools whose annotations say that they are
	// read-only or idempotent, and Never for the others. A call whose message, or
	// batch, has more than 256 KiB is Never: it is not stored.
	RerunDefault Rerun = iota
	// Never answers such a call with error -32010: whether it took effect is
	// unknown.
	Never
	// Safe runs the call again from the start. Questions that the client has answered
	// return their answers, and no message that was sent is sent again. The message
	// of the call is stored for that, whatever its size.
	Safe
)

// Tool describes a tool. Name and Description should be set.
//
// A nil schema is inferred from the handler's types, and bounded by their form tags ([AddTool]); any other is passed on byte for byte, and
// it alone decides what fits. Its dialect is the one that $schema names: draft 4, 6, 7, 2019-09 or, by default,
// 2020-12. docs/limits.md has the bounds of schemas. A property of the input schema may
// have x-mcp-header: clients since 2026-07-28 repeat the argument in a header of that name,
// which proxies on the way can read. A call whose header differs from its argument is
// refused.
type Tool struct {
	Name         string
	Title        string
	Description  string
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  *mcp.ToolAnnotations
	Icons        []mcp.Icon
	Meta         mcp.Meta
	// UI ties the tool to a page that shows its results. The zero value does not.
	UI UI
	// Needs are the client's capabilities that the handler's questions need, such as
	// mcp.CapClientElicitationForm | mcp.CapClientRoots: the modes of elicitation,
	// sampling, sampling with tools, and roots. A client that lacks one of them is
	// refused before the handler runs.
	Needs mcp.Capability
	// Scopes are those that a call needs beside ServerOptions.Scopes. A caller that lacks one sees the tool in lists, and is refused before the handler runs;
	// see [Call.Require] for what depends on arguments.
	Scopes []string
	Rerun  Rerun
	// Task says whether calls of the tool become tasks. A task whose process is lost runs
	// again if Rerun, or the annotations, say that it may; it ends as failed otherwise. A request of more than
	// 256 KiB becomes a task only with Rerun: Safe.
	Task TaskSupport
	// TaskTTL is how long a task of the tool is kept after its creation, whatever it does, unless
	// its client asks for another time (2025-11-25). 0 means 24 hours. Options.Store.TaskMax is the most.
	TaskTTL time.Duration
	// TaskAfter is how long a call that becomes a task is waited for: if it ends in
	// that time, its client gets the result at once, and no task. A client of 2025-11-25 that asks for
	// a task gets one. 0 means no time with TaskOptional and TaskRequired, and Limits.StatelessGrace with TaskAutomatic.
	TaskAfter time.Duration
	// TaskNotice is what a model may be told as soon as the task is created (2025-11-25).
	TaskNotice string
	// BeforeTask runs before a task is created, while the client waits: it may ask the client, refuse
	// the call, and change the arguments that the handler gets. They were validated before it, and are
	// once more when the handler runs. It does not run with TaskAutomatic, where the handler runs already. nil does nothing.
	BeforeTask func(ctx context.Context, call *Call, args json.RawMessage) (json.RawMessage, error)
}

// Refusals to register an item.
var (
	errNoHandler = errors.New("its handler is nil")
	errNoServer  = errors.New("the server is nil: make one with NewServer")
)

// tool is a registered tool.
type tool struct {
	Tool
	input   *toolschema.Schema
	presets *toolschema.Presets // of an inferred input schema
	headers toolschema.Headers
	output  *toolschema.Schema
	safe    bool
	needs   []string                            // scopes, with those of the server
	meta    mcp.Meta                            // as clients get it
	op      atomic.Pointer[telemetry.Operation] // counts its calls
	hosted  *hostedTask                         // it stands for a tool of a backend, in one call; nil for one of the server's own
	// run appends the result to dst.
	run func(ctx context.Context, c *Call, args []byte, dst []byte) ([]byte, error)
}

func (t *tool) wire() mcp.Tool {
	return mcp.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.OutputSchema,
		Annotations: t.Annotations, Execution: t.Task.wire(), Icons: t.Icons, Meta: t.meta}
}

// AddTool registers a tool with a typed handler. The arguments are validated
// against the input schema and decoded into In. Out decides the result:
//
//   - *mcp.CallToolResult is sent as it is;
//   - string, mcp.Content and mcp.Contents become the content;
//   - any other type becomes the structured content, with a text block that mirrors
//     it, and gives the tool its output schema. Clients before 2026-07-28 know only
//     objects there: of anything else they get the text. [Result] gives it content of
//     its own. A pointer has the schema of what it points to, and must not be nil.
//
// In is a struct, a map with keys that are strings, or a pointer to one. An inferred
// schema describes the JSON that decodes into In or encodes Out: json tags count as in
// encoding/json, a []byte is a string in base64, a time.Time a date-time, a
// json.RawMessage anything, and a type with text methods, such as net.IP, a string. A
// jsonschema tag is the description of a field. For a type with JSON methods of its own
// no schema can be inferred: set InputSchema or OutputSchema.
//
// A form tag bounds what a field of In takes, at any depth. Clients see the bounds in the
// schema, and a call that does not keep them does not reach the handler. Its properties are
// separated by semicolons:
//
//	enum=A|B|C       the values that a string may have, or the elements of a []string
//	min=N, max=N     of a number, of the characters of a string, of the elements of a slice
//	format=NAME      that a string must have: email, uri, date or date-time
//	pattern=REGEXP   that matches a part of a string; it comes last, as it may have semicolons
//	default=VALUE    of a string, a number or a bool; A|B of a []string
//	title=TEXT       the property's title
//	header=NAME      the x-mcp-header of a string, a bool or an integer: see [Tool]
//
// An argument with a default may be left out, or be null where null stands for what is left
// out, and the handler gets the default. Tags of Out, and beside an InputSchema that the
// program sets, bound nothing.
//
// An inferred schema names one type for each argument. A field that is a pointer, or has
// omitempty or omitzero, may be left out, and null leaves a pointer, a slice or a map nil.
// In results a nil slice or map is empty, and a nil pointer null, unless it is left out by
// omitempty or omitzero.
//
// An error of the handler becomes a result with isError, which the model sees;
// an *mcp.Error becomes a protocol error. AddTool replaces a tool of the same
// name, and the log says so; [TryAddTool] refuses it. The log also names the characters of a name that
// the specification advises against, as some clients do not take them. AddTool panics when
//
//   - the handler is nil;
//   - the name is empty, not UTF-8, or longer than 1 KiB: not every client could send it;
//   - a schema is not valid, or cannot be inferred, or a form tag is wrong;
//   - Needs has a capability that no question needs, or Scopes a text that is no scope;
//   - UI names a page that does not begin with ui://, or Meta has a member "ui" beside it;
//   - Out is a pointer to a [Result].
func AddTool[In, Out any](s *Server, t Tool, handler func(ctx context.Context, call *Call, in In) (Out, error)) {
	must(addTyped(s, t, handler, true))
}

// TryAddTool is AddTool for a tool that the program learns when it runs: where AddTool
// panics, and where it would replace a tool, it returns an error and registers nothing.
func TryAddTool[In, Out any](s *Server, t Tool, handler func(ctx context.Context, call *Call, in In) (Out, error)) error {
	return addTyped(s, t, handler, false)
}

func addTyped[In, Out any](s *Server, t Tool, handler func(ctx context.Context, call *Call, in In) (Out, error), replace bool) error {
	err := checkOut[Out]()
	if handler == nil {
		err = errNoHandler
	}
	if err != nil {
		return fmt.Errorf("troupe: tool %q: %w", t.Name, err)
	}
	var inferred *toolschema.Inferred
	if t.InputSchema == nil {
		if inferred, err = toolschema.InferArguments(reflect.TypeFor[In]()); err != nil {
			return fmt.Errorf("troupe: tool %q: %w", t.Name, err)
		}
		t.InputSchema = inferred.Shown
	}
	respond, structured := resultWriter[Out]()
	if structured && t.OutputSchema == nil {
		if t.OutputSchema, err = toolschema.InferResult(structuredType[Out]()); err != nil {
			return fmt.Errorf("troupe: tool %q: %w", t.Name, err)
		}
	}
	precompileTypes(reflect.TypeFor[In](), structuredType[Out]())
	e, err := newTool(t, inferred)
	if err != nil {
		return err
	}
	e.run = func(ctx context.Context, c *Call, args, dst []byte) ([]byte, error) {
		var in In
		if err := e.readArguments(ctx, c, args, &in); err != nil {
			return nil, err
		}
		out, err := handler(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return respond(e, c, dst, out)
	}
	return s.addTool(e, replace)
}

// AddRawTool registers a tool whose handler gets its arguments as JSON, validated
// against the tool's input schema, which is required. The handler may keep and change
// args. The rest is as for AddTool.
func AddRawTool(s *Server, t Tool, handler func(ctx context.Context, call *Call, args json.RawMessage) (*mcp.CallToolResult, error)) {
	must(addRaw(s, t, handler, true))
}

// TryAddRawTool is AddRawTool with an error in place of a panic, as TryAddTool is AddTool.
func TryAddRawTool(s *Server, t Tool, handler func(ctx context.Context, call *Call, args json.RawMessage) (*mcp.CallToolResult, error)) error {
	return addRaw(s, t, handler, false)
}

func addRaw(s *Server, t Tool, handler func(ctx context.Context, call *Call, args json.RawMessage) (*mcp.CallToolResult, error), replace bool) error {
	if t.InputSchema == nil {
		return fmt.Errorf("troupe: tool %q: a raw tool needs an input schema", t.Name)
	}
	if handler == nil {
		return fmt.Errorf("troupe: tool %q: %w", t.Name, errNoHandler)
	}
	e, err := newTool(t, nil)
	if err != nil {
		return err
	}
	e.run = func(ctx context.Context, c *Call, args, dst []byte) ([]byte, error) {
		if err := e.readArguments(ctx, c, args, nil); err != nil {
			return nil, err
		}
		out, err := handler(ctx, c, append(json.RawMessage(nil), args...))
		if err != nil {
			return nil, err
		}
		return e.appendResult(c, dst, out)
	}
	return s.addTool(e, replace)
}

// resultTypes compiles the codec of results before the first call of any tool.
var resultTypes = sync.OnceFunc(func() {
	precompileTypes(reflect.TypeFor[mcp.CallToolResult](), reflect.TypeFor[*mcp.TextContent]())
})

// newTool makes a tool whose arguments are checked against the inferred schema, or against its InputSchema if that is nil.
func newTool(t Tool, inferred *toolschema.Inferred) (*tool, error) {
	resultTypes()
	err := checkName("tool", t.Name)
	if err != nil {
		return nil, err
	}
	if err := checkNeeds(t.Needs); err != nil {
		return nil, fmt.Errorf("troupe: tool %q: %w", t.Name, err)
	}
	e := &tool{Tool: t.clone()}
	if e.meta, err = t.UI.toolMeta(t.Meta); err != nil {
		return nil, fmt.Errorf("troupe: tool %q: %w", t.Name, err)
	}
	if inferred != nil {
		e.presets = inferred.Presets
		e.input, e.headers, err = inferred.Arguments()
	} else {
		e.input, e.headers, err = toolschema.Arguments(e.InputSchema)
	}
	if err != nil {
		return nil, fmt.Errorf("troupe: tool %q: input schema: %w", t.Name, err)
	}
	if e.OutputSchema != nil {
		if e.output, err = toolschema.Result(e.OutputSchema); err != nil {
			return nil, fmt.Errorf("troupe: tool %q: output schema: %w", t.Name, err)
		}
	}
	a := e.Annotations
	e.safe = t.Rerun == Safe || t.Rerun == RerunDefault && a != nil && (a.ReadOnlyHint || a.IdempotentHint)
	return e, nil
}

// clone returns a copy that shares no memory with t that the program may write to.
func (t Tool) clone() Tool {
	t.InputSchema, t.OutputSchema = slices.Clone(t.InputSchema), slices.Clone(t.OutputSchema)
	t.Icons, t.Meta = slices.Clone(t.Icons), t.Meta.Clone()
	t.UI.For, t.Scopes = slices.Clone(t.UI.For), slices.Clone(t.Scopes)
	if t.Annotations != nil {
		a := *t.Annotations
		t.Annotations = &a
	}
	return t
}

// serviceTools is what a service does with its tools.
type serviceTools struct {
	*service
}

// checkHeaders compares the headers of a request with its arguments. It does so for a request
// that a client sends again with answers, too.
func (s *serviceTools) checkHeaders(m *codec.Message, principal any, header map[string][]string) *mcp.Error {
	if string(m.Method) != mcp.MethodToolsCall {
		return nil
	}
	t, ok := s.findTool(m.Name)
	if !ok {
		return nil
	}
	if v := s.access.viewOf(func() Principal { return principalOf(principal) }); !v.seesItem(t.item()) {
		return nil
	}
	if err := t.headers.Check(header, m.Arguments); err != nil {
		return mcp.NewError(mcp.CodeHeaderMismatch, err.Error())
	}
	return nil
}

// argumentError is a fault of the arguments: a result that the model sees, so
// that it can correct the call, or an error where the revision asks for that.
type argumentError struct{ err error }

func (e *argumentError) Error() string {
	return "invalid arguments: " + strings.TrimPrefix(e.err.Error(), "codec: ")
}

func (e *argumentError) Unwrap() error { return e.err }

func (t *tool) checkInput(args []byte) error {
	if err := t.input.Validate(args); err != nil {
		return &argumentError{err}
	}
	return nil
}

// readArguments checks the arguments of a call, and decodes them into in unless that is nil. Large
// arguments are read in turn.
func (t *tool) readArguments(ctx context.Context, c *Call, args []byte, in any) error {
	if c.isLarge(args) {
		return c.c.Turn(ctx, func() error { return t.readArgumentsNow(args, in) })
	}
	return t.readArgumentsNow(args, in)
}

func (t *tool) readArgumentsNow(args []byte, in any) error {
	if err := t.checkInput(args); err != nil {
		return err
	}
	if in == nil {
		return nil
	}
	if err := codec.UnmarshalValid(t.presets.Fill(args), in); err != nil {
		return &argumentError{err}
	}
	return nil
}

// resultWriter returns the function that makes a result of a value of type Out.
func resultWriter[Out any]() (f func(t *tool, c *Call, dst []byte, out Out) ([]byte, error), structured bool) {
	wrap := func(content func(Out) mcp.Contents) func(*tool, *Call, []byte, Out) ([]byte, error) {
		return func(t *tool, c *Call, dst []byte, out Out) ([]byte, error) {
			return t.appendResult(c, dst, &mcp.CallToolResult{Content: content(out)})
		}
	}
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[*mcp.CallToolResult]():
		return func(t *tool, c *Call, dst []byte, out Out) ([]byte, error) {
			return t.appendResult(c, dst, any(out).(*mcp.CallToolResult))
		}, false
	case reflect.TypeFor[string]():
		return wrap(func(out Out) mcp.Contents { return mcp.Contents{mcp.Text(any(out).(string))} }), false
	case reflect.TypeFor[mcp.Content]():
		return wrap(func(out Out) mcp.Contents {
			block, _ := any(out).(mcp.Content) // it may be nil
			return mcp.Contents{block}
		}), false
	case reflect.TypeFor[mcp.Contents]():
		return wrap(func(out Out) mcp.Contents { return any(out).(mcp.Contents) }), false
	}
	if _, ok := any(new(Out)).(typedResult); ok {
		return func(t *tool, c *Call, dst []byte, out Out) ([]byte, error) {
			r := any(&out).(typedResult)
			data, err := codec.Marshal(r.structured())
			if err != nil {
				return nil, fmt.Errorf("troupe: tool %s: %w: %w", t.Name, errBadResult, err)
			}
			content, meta := r.rest()
			return t.appendResult(c, dst, &mcp.CallToolResult{Content: content, StructuredContent: data, Meta: meta})
		}, true
	}
	return func(t *tool, c *Call, dst []byte, out Out) ([]byte, error) {
		data, err := codec.Marshal(&out) // a pointer, so that methods of pointers count for fields, as they do in the schema
		if err != nil {
			return nil, fmt.Errorf("troupe: tool %s: %w: %w", t.Name, errBadResult, err)
		}
		return t.appendResult(c, dst, &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(string(data))}, StructuredContent: data})
	}, true
}

// appendResult appends a result for the client of the call. Structured content is checked
// against the output schema, and mirrored as text where the handler gave no content.
func (t *tool) appendResult(call *Call, dst []byte, r *mcp.CallToolResult) ([]byte, error) {
	if r == nil {
		return nil, fmt.Errorf("troupe: tool %s: %w", t.Name, errNoResult)
	}
	if err := checkResult(r); err != nil {
		return nil, fmt.Errorf("troupe: tool %s: %w: %w", t.Name, errBadResult, err)
	}
	if t.output != nil && !r.IsError {
		if r.StructuredContent == nil {
			return nil, fmt.Errorf("troupe: tool %s: %w: the tool declares an output schema, but the handler returned no structured content", t.Name, errBadResult)
		}
		if err := t.output.Validate(r.StructuredContent); err != nil {
			return nil, fmt.Errorf("troupe: tool %s: %w: structured content: %w", t.Name, errBadResult, err)
		}
	}
	if r.StructuredContent != nil && len(r.Content) == 0 {
		r = &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(string(r.StructuredContent))}, StructuredContent: r.StructuredContent, IsError: r.IsError, Meta: r.Meta}
	}
	if typed := r.Content.Typed(); len(typed) > 0 && &typed[0] != &r.Content[0] {
		c := *r
		c.Content = typed
		r = &c
	}
	out, err := call.svc.tools.appendToolResult(dst, call, r)
	if err != nil {
		return nil, fmt.Errorf("troupe: tool %s: %w: %w", t.Name, errBadResult, err)
	}
	return out, nil
}

// runsLong reports whether a call that takes long becomes a task by itself.
func (t *tool) runsLong() bool { return t.Task == TaskAutomatic && t.safe }

// runLong runs the tool, and has the call become a task if that takes long. Where a middleware calls next several times, the first one promises that, for the
// call as it came: its params are what a later run begins with, and its result is the one that the outermost middleware returns.
func (t *tool) runLong(ctx context.Context, call *Call, args, dst []byte) (out []byte, err error) {
	whole := call.asItCame()
	if !whole.fate.CompareAndSwap(nil, promised) {
		return t.run(ctx, call, args, dst)
	}
	whole.tool = t
	if t.runsLong() { // else it becomes a task if its backend says so
		whole.c.WhenLong((*longCall)(whole), t.TaskAfter)
	}
	returned := false
	defer func() { // the handler may panic, or end the goroutine; a middleware may go on then
		if !returned && call.passing == nil {
			concludeTask(call, brokenResult)
		}
	}()
	out, err = t.run(ctx, call, args, dst)
	returned = true
	return out, err
}

func (t *tool) item() Item {
	return Item{Kind: ItemTool, Name: t.Name, Annotations: t.Annotations, Meta: t.Meta}
}

// checkResult returns an error for a result that no client could read.
func checkResult(r *mcp.CallToolResult) error {
	if r.StructuredContent != nil && !codec.Valid(r.StructuredContent) {
		return errors.New("the structured content is not JSON")
	}
	return cmp.Or(protocol.CheckMeta(r.Meta), protocol.CheckContents(r.Content))
}

// precompileTypes compiles the codec of types before the first call needs it.
func precompileTypes(types ...reflect.Type) {
	for _, t := range types {
		if t.Kind() == reflect.Struct || t.Kind() == reflect.Pointer {
			_ = codec.Pretouch(t) // a type that fails here is compiled, or refused, at its first use
		}
	}
}

// findTool finds a tool by a raw JSON string. It allocates only if the string has escapes.
func (s *serviceTools) findTool(name []byte) (*tool, bool) {
	inside, ok := plainString(name)
	if !ok {
		inside = []byte(decodeText(name))
	}
	return s.srv.tools.Find(inside)
}

func (s *serviceTools) callTool(ctx context.Context, call *Call, t *tool, dst []byte) ([]byte, int, *mcp.Error) {
	args, refusal := callArguments(call, t)
	if refusal != nil {
		return nil, 0, refusal
	}
	if t.Task.startsAsTask() || call.msg.Task != nil {
		task, refusal := s.tasks.becomesTask(call, t)
		if refusal != nil {
			return nil, 0, refusal
		}
		if task {
			return s.tasks.createTask(ctx, call, t, args, dst)
		}
	}
	var out []byte
	var err error
	if t.runsLong() && mayBecome(call) {
		out, err = t.runLong(ctx, call, args, dst)
	} else {
		out, err = t.run(ctx, call, args, dst)
	}
	if err == actors.Unavailable { // it did not run
		return nil, 0, actors.Unavailable
	}
	if err != nil {
		return s.failedTool(call, t, dst, err)
	}
	code := 0
	if call.faulty {
		code = telemetry.ToolError
	}
	return out, code, nil
}

// callArguments returns the arguments of a call of t, or why t cannot be called.
func callArguments(call *Call, t *tool) ([]byte, *mcp.Error) {
	m := call.msg
	if t == nil {
		name, ok := codec.Str(m.Name)
		if !ok {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "tools/call needs the name of a tool")
		}
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", protocol.Shown(name))
	}
	if err := call.requireScopes(t.needs); err != nil {
		return nil, err
	}
	if err := refuseLacking(t.Needs, &call.peer); err != nil {
		return nil, err
	}
	switch {
	case m.Arguments == nil:
		return []byte("{}"), nil
	case m.Arguments[0] != '{':
		return nil, mcp.NewError(mcp.CodeInvalidParams, "arguments must be an object")
	}
	return m.Arguments, nil
}

// failedTool makes a response of a tool's error.
func (s *serviceTools) failedTool(call *Call, t *tool, dst []byte, err error) ([]byte, int, *mcp.Error) {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		out, failed := s.respondWireError(dst, call, wire)
		return out, 0, failed
	}
	if refusal := capabilityError(err); refusal != nil {
		return nil, 0, refusal
	}
	if ofStore(err) { // its text is for the log, and a client that comes again may have its result
		return nil, 0, s.internalError("tools/call "+t.Name, err)
	}
	if fault, ok := errors.AsType[*argumentError](err); ok && !protocol.Has(call.revision(), protocol.FeatureInputErrorsAsResults) {
		return nil, 0, mcp.NewError(mcp.CodeInvalidParams, fault.Error())
	}
	if errors.Is(err, errNoResult) || errors.Is(err, errBadResult) {
		return nil, 0, s.internalError("tools/call "+t.Name, err)
	}
	result := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(err.Error())}, IsError: true}
	out, err := call.svc.tools.appendToolResult(dst, call, result)
	if err != nil {
		return nil, 0, s.internalError("tools/call "+t.Name, err)
	}
	return out, 1, nil
}

// logMissingPages logs the tools whose page the server does not have: a host would show nothing.
func (s *serviceTools) logMissingPages() {
	now := s.srv.tools.Now()
	for _, name := range now.Names {
		page := now.ByName[name].UI.Page
		if page == "" {
			continue
		}
		if _, ok := s.srv.findReader(nil, page); !ok {
			s.rt.log.Warn("a tool names a page that its server does not have", "server", s.id, "tool", name, "page", page)
		}
	}
}

// appendToolResult appends what a tool returned, as the client of the call may see it.
func (s *serviceTools) appendToolResult(dst []byte, c *Call, x *mcp.CallToolResult) ([]byte, error) {
	r := c.revision()
	c.faulty = x.IsError
	if taskAttempt(c.c) != nil { // each reader of the task gets what its revision has
		return codec.AppendMarshal(dst, x)
	}
	if x = protocol.CallResultFor(x, r); !r.Stateless() {
		return codec.AppendMarshal(dst, x)
	}
	own, err := rawMeta(x.Meta)
	if err != nil {
		return nil, err
	}
	if x.Meta != nil || x.ResultType != "" {
		bare := *x
		bare.Meta, bare.ResultType = nil, ""
		x = &bare
	}
	return s.srv.head.appendResult(dst, own, nil, x)
}

// UI ties a tool to a page that shows its results (the extension MCP Apps, SEP-1865). The
// zero value does nothing. Hosts without the extension show the result's content: a tool
// with a page should still return one that says all.
type UI struct {
	// Page is the URI of the page, ui:// and what follows: see [AddPage].
	Page string
	// For says who may call the tool: models, pages of the same server, or both. Empty is
	// both. Hosts without the extension have models call it in any case.
	For []mcp.UIAudience
}

// pageURI reports whether uri may be that of a page.
func pageURI(uri string) bool {
	return len(uri) > len("ui://") && strings.HasPrefix(uri, "ui://") && !strings.ContainsFunc(uri, func(c rune) bool { return c <= ' ' || c == 0x7f })
}

// withUI returns a `_meta` with the member "ui", unless value is nil.
func withUI(meta mcp.Meta, value any) (mcp.Meta, error) {
	if err := protocol.CheckMeta(meta); err != nil {
		return nil, err
	}
	if value == nil {
		return meta.Clone(), nil
	}
	if _, ok := meta[protocol.MetaUI]; ok {
		return nil, errors.New(`its Meta has a member "ui" already`)
	}
	raw, err := codec.Marshal(value)
	if err != nil {
		return nil, err
	}
	return meta.Clone().With(protocol.MetaUI, json.RawMessage(raw)), nil
}

// toolMeta returns the `_meta` of a tool that is tied to a page.
func (u *UI) toolMeta(meta mcp.Meta) (mcp.Meta, error) {
	if u.Page == "" && len(u.For) == 0 {
		return meta.Clone(), nil
	}
	if u.Page != "" && !pageURI(u.Page) {
		return nil, fmt.Errorf("UI.Page: %q does not begin with ui://", u.Page)
	}
	for _, who := range u.For {
		if who != mcp.UIModel && who != mcp.UIApp {
			return nil, fmt.Errorf("UI.For: %q is neither model nor app", who)
		}
	}
	return withUI(meta, protocol.UITool{ResourceURI: u.Page, Visibility: u.For})
}
