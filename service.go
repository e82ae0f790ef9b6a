package troupe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNotFound is what a ResourceHandler returns, or wraps, when there is no such
// resource.
var ErrNotFound = errors.New("troupe: not found")

// service is a mounted server: what the actors call to have requests answered.
type service struct {
	rt     *Runtime
	srv    *Server
	svc    *actors.Service
	id     string // of the server in the store
	limits Limits // its own over those of Options
	ops    *telemetry.Operations
	spans  bool
	chain  MethodHandler // the middleware; nil if there is none
	hiding panicLog      // what Visible panics with

	discovery discovery
}

var _ actors.Handler = (*service)(nil)

// maxClient bounds what a session keeps of its client's initialize, in bytes: clientInfo,
// whose icons may be in it as data, and capabilities.
var maxClient = limits.ClientInfo.Value()

// Initialize settles a session (2025-11-25, basic/lifecycle): a version nobody
// knows is answered with the newest this release speaks.
func (s *service) Initialize(ctx context.Context, params []byte) (actors.Settled, []byte, *mcp.Error) {
	version, ok := codec.Str(codec.Field(params, "protocolVersion"))
	info, caps := codec.Field(params, "clientInfo"), codec.Field(params, "capabilities")
	if !ok || version == "" || !isObject(info) || !isObject(caps) {
		return actors.Settled{}, nil, mcp.NewError(mcp.CodeInvalidParams, "initialize needs protocolVersion, capabilities and clientInfo")
	}
	if len(info)+len(caps) > maxClient {
		return actors.Settled{}, nil, mcp.NewError(mcp.CodeInvalidParams, "clientInfo and capabilities are too large")
	}
	var p mcp.InitializeParams
	if err := codec.UnmarshalValid(params, &p); err != nil {
		return actors.Settled{}, nil, invalidParams(err)
	}
	r := mcp.Negotiate(p.ProtocolVersion, handshakes)
	revision := r.String()
	result, err := codec.Marshal(mcp.InitializeResult{
		ProtocolVersion: revision,
		Capabilities:    s.srv.capabilities(),
		ServerInfo:      s.srv.impl,
		Instructions:    s.srv.opts.Instructions,
	}.For(r))
	if err != nil {
		return actors.Settled{}, nil, s.internal("initialize", err)
	}
	return actors.Settled{Revision: revision, Client: clone(info), Capabilities: clone(caps), Announced: s.srv.digests(s.viewOf(ownerIn(ctx)))}, result, nil
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func clone(b []byte) []byte { return append([]byte(nil), b...) }

func orEmpty(params []byte) []byte {
	if params == nil {
		return []byte("{}")
	}
	return params
}

func invalidParams(err error) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "invalid params"+mismatch(err))
}

// mismatch says what of a client's JSON does not fit, in JSON's terms; faults that
// are only told in ours are left out.
func mismatch(err error) string {
	if wrong, ok := errors.AsType[*codec.DecodeError](err); ok {
		return ": " + strings.TrimPrefix(wrong.Error(), "codec: ")
	}
	return ""
}

// maxShown is how much of a name that is not known is sent back.
const maxShown = 128

// shown is name as messages quote it.
func shown(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown], "") + "…"
}

// internal logs what went wrong inside and tells the client no more than that, or that it
// may send the request again when the store could not be read or written now. What
// ended because somebody wanted it to is nothing wrong.
func (s *service) internal(what string, err error) *mcp.Error {
	level, told := slog.LevelError, mcp.NewError(mcp.CodeInternalError, "")
	if actors.Later(err) {
		level, told = slog.LevelWarn, actors.Unavailable
	}
	if errors.Is(err, ErrCancelled) || errors.Is(err, ErrSessionEnded) || errors.Is(err, ErrUnmounted) {
		level = slog.LevelDebug
	}
	s.rt.log.Log(context.Background(), level, "request failed", "server", s.id, "method", what, "error", err)
	return told
}

// Safe reports whether a call may run again: what only reads may, and tools that
// say so.
func (s *service) Safe(method, name []byte) bool {
	if string(method) != mcp.MethodToolsCall {
		if h, ok := s.srv.method(method); ok {
			return h.safe
		}
		return string(method) != mcp.MethodLoggingSetLevel
	}
	t, ok := s.tool(name)
	return ok && t.safe
}

// tool finds a tool by a raw JSON string. It allocates only if that has escapes.
func (s *service) tool(name []byte) (*tool, bool) {
	inside, ok := plain(name)
	if !ok {
		inside = []byte(text(name))
	}
	return s.srv.tools.find(inside)
}

// text decodes a raw JSON string; anything else is "".
func text(raw []byte) string {
	s, _ := codec.Str(raw)
	return s
}

// plain returns the inside of a raw JSON string that has no escapes.
func plain(raw []byte) ([]byte, bool) {
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

// observed is what is recorded of a request.
type observed struct {
	start time.Time
	op    *telemetry.Operation
	end   func(code int, message string) // of its span, nil if it has none
}

// Serve answers one request and records how long that took. Handlers may wait in it
// for long: down to them frames are kept small, see actors.Call.
func (s *service) Serve(ctx context.Context, c *actors.Call, dst []byte) ([]byte, *mcp.Error) {
	o := observed{start: time.Now()}
	call := &Call{c: c, msg: c.Message(), svc: s, peer: Peer{c.Peer()}}
	ctx, t := s.begin(ctx, call, &o)
	var out []byte
	var code int
	var err *mcp.Error
	if s.chain == nil {
		out, code, err = s.dispatch(ctx, call, t, dst)
	} else {
		out, code, err = s.serveChained(ctx, call, dst)
	}
	return out, s.ended(ctx, call, &o, code, err)
}

// begin begins to observe a call. t is the tool that it is of, if it is there.
func (s *service) begin(ctx context.Context, call *Call, o *observed) (_ context.Context, t *tool) {
	m := call.msg
	o.op, t = s.operation(m)
	if o.op != nil && s.spans {
		trace := telemetry.Trace(call.c.Trace())
		ctx, o.end = o.op.Start(ctx, s.trace(m, trace), string(m.ID), call.peer.Session(), call.peer.Revision())
	}
	return call.context(ctx), t
}

// ended records what came of a call, and returns the error as its client may know it.
func (s *service) ended(ctx context.Context, call *Call, o *observed, code int, err *mcp.Error) *mcp.Error {
	message := ""
	if err != nil {
		err = err.For(call.revision())
		code, message = err.Code, err.Message
	}
	if call.dropped.Load() {
		_ = call.tellMissed(ctx) // it fails when nobody waits for the answer either
	}
	if o.op != nil {
		o.op.End(ctx, o.start, code)
	}
	if o.end != nil {
		o.end(code, message)
	}
	return err
}

// trace prefers the trace context in `_meta`, which is the call's own, to that
// of the HTTP request.
func (s *service) trace(m *codec.Message, t telemetry.Trace) telemetry.Trace {
	if p := codec.Optional(m.Meta, "traceparent"); p != nil {
		return telemetry.Trace{Parent: text(p), State: text(codec.Field(m.Meta, "tracestate"))}
	}
	return t
}

// operation finds what a request is counted as. Names that no catalogue has are
// not counted by name.
func (s *service) operation(m *codec.Message) (*telemetry.Operation, *tool) {
	switch string(m.Method) {
	case mcp.MethodToolsCall:
		if t, ok := s.tool(m.Name); ok {
			op := t.op.Load()
			if op == nil || !op.Of(s.ops) { // the server may have been mounted elsewhere before
				op = s.ops.Operation(mcp.MethodToolsCall, t.Name)
				t.op.Store(op)
			}
			return op, t
		}
		return s.ops.Operation(mcp.MethodToolsCall, ""), nil
	case mcp.MethodPromptsGet:
		if p, ok := s.srv.prompts.get(text(m.Name)); ok {
			return s.ops.Operation(mcp.MethodPromptsGet, p.Name), nil
		}
	}
	if known, ok := mcp.LookupMethod(m.Method); ok {
		return s.ops.Operation(known.Name, ""), nil
	}
	if _, ok := s.srv.method(m.Method); ok {
		return s.ops.Operation(string(m.Method), ""), nil
	}
	return s.ops.Operation("_OTHER", ""), nil
}

// dispatch answers by method. code is 1 for a result with isError.
func (s *service) dispatch(ctx context.Context, call *Call, t *tool, dst []byte) (out []byte, code int, err *mcp.Error) {
	m := call.msg
	if call.revision().Stateless() {
		if err := checkLevel(m); err != nil {
			return nil, 0, err
		}
	}
	if string(m.Method) == mcp.MethodToolsCall { // which every revision has
		return s.callTool(ctx, call, call.seen(t), dst)
	}
	out, err = s.route(ctx, call, m, dst)
	return out, 0, err
}

// route answers all but tools/call.
func (s *service) route(ctx context.Context, call *Call, m *codec.Message, dst []byte) (out []byte, err *mcp.Error) {
	r := call.revision()
	if known, ok := mcp.LookupMethod(m.Method); !ok || !known.Allowed(mcp.ToServer, r) {
		if h, ok := s.srv.method(m.Method); ok {
			return s.callMethod(ctx, call, h, dst)
		}
		return nil, methodNotFound(m)
	}
	switch string(m.Method) {
	case mcp.MethodPing:
		out = append(dst, '{', '}')
	case mcp.MethodServerDiscover:
		out, err = s.discover(dst, r)
	case mcp.MethodToolsList:
		out, err = s.list(call, m, s.srv.tools.now.Load().pager(call.view(), r, "tools"), dst)
	case mcp.MethodPromptsList:
		out, err = s.list(call, m, s.srv.prompts.now.Load().pager(call.view(), r, "prompts"), dst)
	case mcp.MethodResourcesList:
		out, err = s.list(call, m, s.srv.resources.now.Load().pager(call.view(), r, "resources"), dst)
	case mcp.MethodResourcesTemplatesList:
		out, err = s.list(call, m, s.srv.templates.now.Load().pager(call.view(), r, "resourceTemplates"), dst)
	case mcp.MethodPromptsGet:
		out, err = s.getPrompt(ctx, call, m, dst)
	case mcp.MethodResourcesRead:
		out, err = s.readResource(ctx, call, m, dst)
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		out, err = s.subscribe(ctx, call, m, dst)
	case mcp.MethodCompletionComplete:
		out, err = s.complete(ctx, call, m, dst)
	case mcp.MethodLoggingSetLevel:
		out, err = s.setLevel(ctx, call, m, dst)
	case mcp.MethodInitialize:
		err = faults.Initialized.Error()
	default:
		err = methodNotFound(m)
	}
	return out, err
}

func methodNotFound(m *codec.Message) *mcp.Error {
	return mcp.Errorf(mcp.CodeMethodNotFound, "method not found: %s", shown(string(m.Method)))
}

func (s *service) callTool(ctx context.Context, call *Call, t *tool, dst []byte) ([]byte, int, *mcp.Error) {
	args, refusal := callArguments(call, t)
	if refusal != nil {
		return nil, 0, refusal
	}
	out, err := t.run(ctx, call, args, dst)
	if err != nil {
		return s.failedTool(call, t, dst, err)
	}
	return out, 0, nil
}

// callArguments are those of a call of t, unless it cannot be called.
func callArguments(call *Call, t *tool) ([]byte, *mcp.Error) {
	m := call.msg
	if t == nil {
		name, ok := codec.Str(m.Name)
		if !ok {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "tools/call needs the name of a tool")
		}
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown tool: %s", shown(name))
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

// failedTool answers for a tool that failed.
func (s *service) failedTool(call *Call, t *tool, dst []byte, err error) ([]byte, int, *mcp.Error) {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		out, failed := s.wireResult(dst, call, wire)
		return out, 0, failed
	}
	if refusal := undeclared(err); refusal != nil {
		return nil, 0, refusal
	}
	if fault, ok := errors.AsType[*argumentError](err); ok && !call.revision().Has(mcp.FeatureInputErrorsAsResults) {
		return nil, 0, mcp.NewError(mcp.CodeInvalidParams, fault.Error())
	}
	if errors.Is(err, errNoResult) || errors.Is(err, errBadResult) {
		return nil, 0, s.internal("tools/call "+t.Name, err)
	}
	result := &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(err.Error())}, IsError: true}
	out, err := call.appendToolResult(dst, result)
	if err != nil {
		return nil, 0, s.internal("tools/call "+t.Name, err)
	}
	return out, 1, nil
}

func (s *service) getPrompt(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	var params mcp.GetPromptParams
	if err := codec.UnmarshalValid(orEmpty(m.Params), &params); err != nil {
		return nil, invalidParams(err)
	}
	if params.Name == "" {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "prompts/get needs the name of a prompt")
	}
	p, ok := call.prompt(params.Name)
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", shown(params.Name))
	}
	for _, a := range p.Arguments {
		if _, ok := params.Arguments[a.Name]; a.Required && !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "missing argument: %s", a.Name)
		}
	}
	if err := refuseLacking(p.Needs, &call.peer); err != nil {
		return nil, err
	}
	result, err := p.handler(ctx, call, params.Arguments)
	if err == nil && result == nil {
		err = errNoResult
	}
	if err != nil {
		return s.unfinished(dst, call, "prompts/get "+p.Name, err)
	}
	out, err := call.appendPrompt(dst, result)
	if err != nil {
		return nil, s.internal(string(m.Method), err)
	}
	return out, nil
}

// failure is what the client learns of a handler's error.
func (s *service) failure(call *Call, what string, err error) *mcp.Error {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		return wireError(call, wire)
	}
	return s.internal(what, err)
}

// wireError is a handler's error as its client may get it: one that makes the user
// open URLs means nothing to a client that has not declared that.
func wireError(call *Call, e *mcp.Error) *mcp.Error {
	if e.Code != mcp.CodeURLElicitationRequired {
		return e
	}
	lacking := refuseLacking(mcp.CapClientElicitationURL, &call.peer)
	if lacking == nil {
		return e
	}
	lacking.Message = e.Message + ", but " + lacking.Message
	return lacking
}

// encode appends a result of the server's own making, which may be kept as cache
// says.
func (s *service) encode(dst []byte, call *Call, m *codec.Message, cache *Cache, v any) (out []byte, _ *mcp.Error) {
	var err error
	if call.revision().Stateless() {
		out, err = s.srv.head.append(dst, nil, cache, v)
	} else {
		out, err = codec.AppendMarshal(dst, v)
	}
	if err != nil {
		return nil, s.internal(string(m.Method), err)
	}
	return out, nil
}

func (s *service) complete(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	if s.srv.opts.Complete == nil {
		return nil, mcp.NewError(mcp.CodeMethodNotFound, "the server has no completions")
	}
	var p mcp.CompleteParams
	if err := codec.UnmarshalValid(orEmpty(m.Params), &p); err != nil {
		return nil, invalidParams(err)
	}
	switch {
	case p.Argument.Name == "":
		return nil, mcp.NewError(mcp.CodeInvalidParams, "completion needs the name of an argument")
	case p.Ref.Type == mcp.RefPrompt:
		if _, ok := call.prompt(p.Ref.Name); !ok {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown prompt: %s", shown(p.Ref.Name))
		}
	case p.Ref.Type == mcp.RefResource:
		if t, ok := s.srv.templates.get(p.Ref.URI); !ok || !call.view().sees(t.item()) {
			if h, _ := s.srv.reader(call.view(), p.Ref.URI); h == nil {
				return nil, mcp.Errorf(mcp.CodeInvalidParams, "Unknown resource: %s", shown(p.Ref.URI))
			}
		}
	default:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "ref must be of type ref/prompt or ref/resource")
	}
	got, err := s.srv.opts.Complete(ctx, call, p)
	if err != nil {
		return nil, s.failure(call, "completion/complete", err)
	}
	if len(got.Values) > mcp.MaxCompletionValues {
		more := true
		if got.Total == nil {
			total := int64(len(got.Values))
			got.Total = &total
		}
		got.Values, got.HasMore = got.Values[:mcp.MaxCompletionValues], &more
	}
	return s.encode(dst, call, m, nil, mcp.CompleteResult{Completion: got})
}

func (s *service) setLevel(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	level := mcp.LoggingLevel(text(codec.Field(m.Params, "level")))
	if !level.Valid() {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "level must be one of "+levels)
	}
	if err := call.peer.p.SetLevel(ctx, string(level)); err != nil {
		return nil, s.internal(mcp.MethodLoggingSetLevel, err)
	}
	return append(dst, '{', '}'), nil
}

// checkLevel refuses a request that wants log messages of a level that is none
// (2026-07-28, server/utilities/logging).
func checkLevel(m *codec.Message) *mcp.Error {
	if level := codec.Optional(m.Meta, mcp.MetaLogLevel); level != nil && !mcp.LoggingLevel(text(level)).Valid() {
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta: %s must be one of %s", mcp.MetaLogLevel, levels)
	}
	return nil
}

// levels are the log levels, for messages.
const levels = "debug, info, notice, warning, error, critical, alert, emergency"

// pager is a list that can be read page by page.
type pager func(dst []byte, after string, size int) (out []byte, last string)

func (s *snapshot[T]) pager(v *view, r mcp.Revision, member string) pager {
	return func(dst []byte, after string, size int) ([]byte, string) {
		return s.page(dst, v, r, member, after, size)
	}
}

// list answers a page. Its cursor is sealed, and holds for the method and
// principal that got it: it is the last name shown, so that pages stay right
// while the list changes.
func (s *service) list(call *Call, m *codec.Message, p pager, dst []byte) ([]byte, *mcp.Error) {
	key := call.peer.p.Key()
	aad := []byte("cursor\x00" + key.Tenant + "\x00" + key.Server + "\x00" + string(m.Method))
	after := ""
	if m.Cursor != nil {
		var err error
		switch after, err = s.rt.unseal(text(m.Cursor), aad); {
		case actors.Later(err):
			return nil, s.internal(string(m.Method), fmt.Errorf("open cursor: %w", err))
		case err != nil:
			return nil, mcp.NewError(mcp.CodeInvalidParams, "invalid cursor")
		}
	}
	var err error
	if call.revision().Stateless() {
		if dst, err = s.srv.head.begin(dst, nil, s.listCache()); err != nil {
			return nil, s.internal(string(m.Method), err)
		}
		dst = append(dst, ',')
	} else {
		dst = append(dst, '{')
	}
	out, last := p(dst, after, s.srv.opts.PageSize)
	if last != "" {
		cursor, err := s.rt.seal(last, aad)
		if err != nil {
			return nil, s.internal(string(m.Method), fmt.Errorf("seal cursor: %w", err))
		}
		out = append(out, `,"nextCursor":`...)
		out = strconv.AppendQuote(out, cursor)
	}
	return append(out, '}'), nil
}
