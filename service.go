package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/observe"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/spoken"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNotFound is for a ResourceHandler to return, or wrap, when there is no such
// resource.
var ErrNotFound = errors.New("troupe: not found")

// service is a mounted server: the actors call it to answer requests.
type service struct {
	rt               *shared
	srv              *Server
	svc              *actors.Service
	id               string // of the server in the store
	path             string // where it is mounted, or would be
	limits           Limits // those of ServerOptions, completed from Options
	speaks           spoken.Revisions
	served           func() // has the other nodes know what is served here
	ops              *telemetry.Operations
	spans            bool
	observe.Observer // of all that it does

	watch hosted.Watch // tasks of clients

	tasks     serviceTasks
	access    serviceAccess
	scopes    serviceScopes
	resources serviceResources
	lists     serviceLists
	tools     serviceTools
	prompts   servicePrompts
	methods   serviceMethods
	discovery serviceDiscovery
	hosting   hostedService
}

var (
	_ actors.Handler = (*service)(nil)
	_ logEncoder     = (*service)(nil)
)

// hostedService is what a service does with the backends of its server. It is in another file than what it is used by, and is found by its type alone.
type hostedService interface {
	// now is the server as far as backends serve for it, nil without any.
	now() *hosting.Server
	begin()
	configure(all []Backend)
	end()
	newCaller(ctx context.Context, capabilities []byte, r mcp.Revision) *hosting.Caller
	callerOf(p *actors.Peer) *hosting.Caller
	callerIn(call *Call) *hosting.Caller
	initializeResult(c *hosting.Caller, result mcp.InitializeResult, r mcp.Revision) ([]byte, error)
	resumes(method, name []byte) bool
	mayRun(tool string) bool
	countedAs(of listing.Of, name []byte) string
	callTool(ctx context.Context, call *Call, dst []byte) ([]byte, int, *mcp.Error)
	routeMethod(ctx context.Context, call *Call, m *codec.Message, dst []byte) (out []byte, taken bool, err *mcp.Error)
	mayFollow(v *view, uri string) bool
	follow(ctx context.Context, call *Call, m *codec.Message, uri string) *mcp.Error
	listen(ctx context.Context, call *Call, uris []string) (f *hosting.Follower, accepted []string)
	rootsChanged(p *actors.Peer)
	sessionEnded(p *actors.Peer, how actors.Ending)
	anchoring(m *codec.Message) actors.Anchoring
	anchored(ctx context.Context, p *actors.Peer, had []string) (here, unknown []string)
	left(key actors.SessionKey, moved bool)
	passes(principal any) map[string][]string
}

// bindParts gives the parts of s the service that they are parts of.
func (s *service) bindParts() {
	s.tasks.service, s.access.service, s.scopes.service, s.resources.service, s.lists.service = s, s, s, s, s
	s.tools.service, s.prompts.service, s.methods.service, s.discovery.service = s, s, s, s
	s.access.visible, s.access.count = s.srv.opts.Visible, func() { s.rt.node.Kernel().CountPanic() }
	s.access.log = func(failure *guard.Failure, unlogged int64) {
		s.rt.log.Error("a function of the server "+failure.Did(), append(failure.Attrs(), "server", s.id, "function", "Visible", "unlogged", unlogged)...)
	}
}

// maxClient bounds, in bytes, what a session keeps of its client.
var maxClient = limits.ClientInfo.Value()

// internalError logs an error that the client must not see, and returns the one for the client: an
// internal error, or one that says to send the request again if the store could not be read
// or written now, or that the session has ended. The end of a call's context, of its session or of
// the node is not an error, and is logged as debug.
func (s *service) internalError(what string, err error) *mcp.Error {
	level, shown := slog.LevelError, mcp.NewError(mcp.CodeInternalError, "")
	switch {
	case errors.Is(err, ErrSessionEnded):
		level, shown = slog.LevelDebug, actors.SessionGone
	case errors.Is(err, ErrCalledOff):
		level, shown = slog.LevelDebug, refusal.CalledOff.MCP()
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrRequestEnded), errors.Is(err, ErrUnmounted):
		level = slog.LevelDebug
	case errors.Is(err, ErrClosing):
		level, shown = slog.LevelDebug, actors.Unavailable
	case store.IsTransient(err):
		level, shown = slog.LevelWarn, actors.Unavailable
	}
	attrs := []any{"server", s.id, "method", what, "error", err}
	if of, ok := errors.AsType[storeError](err); ok { // what its text leaves out
		attrs = append(attrs, "store", of.err)
	}
	s.rt.log.Log(context.Background(), level, "request failed", attrs...)
	return shown
}

// observed holds what telemetry records of a request.
type observed struct {
	start time.Time
	op    *telemetry.Operation
	span  telemetry.Span
	done  bool
}

// endUnfinished records a call whose handler has panicked, or has ended its goroutine.
func (o *observed) endUnfinished(s *service, c *actors.Call) {
	if o.done || o.op == nil {
		return
	}
	s.End(context.Background(), o.op, observe.Via(c.Via(), c.Peer().Revision()), c.Principal(), o.start, mcp.CodeInternalError)
	o.span.End(mcp.CodeInternalError, "the handler did not return")
}

// handlerError returns the client's error for a handler's error.
func (s *service) handlerError(p *Peer, what string, err error) *mcp.Error {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		return wireError(p, wire)
	}
	return s.internalError(what, err)
}

// checkLevel refuses a request that asks for log messages of an unknown level
// (2026-07-28, server/utilities/logging).
func checkLevel(m *codec.Message) *mcp.Error {
	if level := codec.Optional(m.Meta, mcp.MetaLogLevel); level != nil && !mcp.LoggingLevel(decodeText(level)).Valid() {
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta: %s must be one of %s", mcp.MetaLogLevel, levels)
	}
	return nil
}

// levels are the log levels, for messages.
const levels = "debug, info, notice, warning, error, critical, alert, emergency"

func methodNotFound(m *codec.Message) *mcp.Error {
	return mcp.Errorf(mcp.CodeMethodNotFound, "method not found: %s", protocol.Shown(string(m.Method)))
}

// containPanic runs f, a function of the program, on a goroutine of its own, which f may end. A panic of f is logged and counted,
// and goes no further.
func (s *service) containPanic(what string, f func()) {
	if failure := guard.Apart(f); failure != nil {
		s.rt.node.Kernel().CountPanic()
		s.rt.log.Error("a function of the server "+failure.Did(), append(failure.Attrs(), "server", s.id, "function", what)...)
	}
}

// Opened sends a client what it may have missed while it did not listen: notifications of
// the lists that changed, and one update of each resource that it subscribed to.
func (s *service) Opened(p *actors.Peer, gap bool) {
	s.lists.announceLists(p, s.lists.remoteLists.differingLists())
	if !gap {
		return
	}
	s.resources.repeatUpdates(p)
}

// Initialize negotiates a session (2025-11-25, basic/lifecycle). For a version that the
// server does not speak it offers the newest one with sessions that it does.
func (s *service) Initialize(ctx context.Context, params []byte) (actors.Settled, []byte, *mcp.Error) {
	version, ok := codec.Str(codec.Field(params, "protocolVersion"))
	if len(s.speaks.WithSessions()) == 0 {
		return actors.Settled{}, nil, s.speaks.RefuseInitialize(version)
	}
	info, caps := codec.Field(params, "clientInfo"), codec.Field(params, "capabilities")
	if !ok || version == "" || !isObject(info) || !isObject(caps) {
		return actors.Settled{}, nil, mcp.NewError(mcp.CodeInvalidParams, "initialize needs protocolVersion, capabilities and clientInfo")
	}
	var p mcp.InitializeParams
	if err := codec.UnmarshalValid(params, &p); err != nil {
		return actors.Settled{}, nil, invalidParams(err)
	}
	r := protocol.Negotiate(p.ProtocolVersion, s.speaks)
	revision := r.String()
	client, kept, ok := actors.KeepClient(&p, maxClient)
	if !ok {
		return actors.Settled{}, nil, mcp.Errorf(mcp.CodeInvalidParams, "clientInfo: name and version are longer than %d bytes", maxClient)
	}
	hosted := s.hosting.newCaller(ctx, kept, r)
	result, err := s.hosting.initializeResult(hosted, mcp.InitializeResult{
		ProtocolVersion: revision,
		Capabilities:    s.discovery.shownCapabilities(),
		ServerInfo:      s.srv.impl,
		Instructions:    s.srv.opts.Instructions,
	}, r)
	if err != nil {
		return actors.Settled{}, nil, s.internalError("initialize", err)
	}
	return actors.Settled{Revision: revision, Client: client, Capabilities: kept, Announced: s.lists.listDigests(s.access.viewOf(ownerIn(ctx)), hosted)}, result, nil
}

// Safe reports whether a call may run again: the table of methods decides, and tools and methods of
// the program say it. One that is unknown is refused each time.
func (s *service) Safe(method, name []byte) bool {
	known, ok := protocol.LookupMethod(method)
	switch {
	case !ok:
		h, own := s.srv.findMethod(method)
		return !own || h.safe
	case known.Rerun == protocol.RerunTool:
		t, ok := s.tools.findTool(name)
		if h := s.hosting.now(); h != nil && !ok {
			return h.IsSafeTool(decodeText(name))
		}
		return ok && t.safe
	}
	return known.Rerun == protocol.RerunSafe
}

// insistsOnSafe reports whether a tool or a method has Rerun set to Safe.
func (s *service) insistsOnSafe(method, name []byte) bool {
	if string(method) != mcp.MethodToolsCall {
		h, ok := s.srv.findMethod(method)
		return ok && h.safe
	}
	t, ok := s.tools.findTool(name)
	if h := s.hosting.now(); h != nil && !ok {
		return h.InsistsOnSafe(decodeText(name))
	}
	return ok && t.Rerun == Safe
}

// Serve answers one request and records how long that took. Handlers may wait in it
// for a long time, so the frames down to them are kept small: see actors.Call.
func (s *service) Serve(ctx context.Context, c *actors.Call, dst []byte) ([]byte, *mcp.Error) {
	o := observed{start: time.Now()}
	defer o.endUnfinished(s, c)
	call := &Call{request: newRequest(c, s)}
	ctx, t := s.beginObserving(ctx, call, &o)
	var out []byte
	var code int
	var err *mcp.Error
	if s.methods.chain == nil {
		out, code, err = s.dispatchCall(ctx, call, t, dst)
	} else {
		out, code, err = s.methods.serveChained(ctx, call, dst)
	}
	err = s.endObserving(ctx, call, &o, code, err)
	if s.methods.chain != nil || call.fate.Load() != nil {
		s.tasks.concludeLong(call, out, dst, err)
	}
	return out, err
}

// beginObserving begins to observe a call. t is the tool that it calls, nil if there is none.
func (s *service) beginObserving(ctx context.Context, call *Call, o *observed) (_ context.Context, t *tool) {
	o.op, t = s.operationOf(call.msg)
	if o.op != nil && s.spans {
		ctx, o.span = s.BeginSpan(ctx, o.op, call.c, call.msg)
		if a := taskAttempt(call.c); a != nil {
			telemetry.NoteTask(ctx, a.Key.ID, a.Number)
		}
	}
	return beginContext(ctx, call), t
}

// endObserving records the outcome of a call, and returns the error as its client may get it.
func (s *service) endObserving(ctx context.Context, call *Call, o *observed, code int, err *mcp.Error) *mcp.Error {
	o.done = true
	message := ""
	if err != nil {
		err = protocol.ErrorFor(err, call.revision())
		code, message = err.Code, err.Message
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrCalledOff) { // whatever the handler has returned since
		code, message = refusal.CalledOff.Code, refusal.CalledOff.Text
	}
	if call.dropped.Load() {
		_ = call.tellMissed(ctx) // it fails when nobody waits for the response either
	}
	s.scopes.askForScopes(call, err)
	if o.op != nil {
		s.End(ctx, o.op, observe.Via(call.c.Via(), call.revision()), call.c.Principal(), o.start, code)
	}
	o.span.End(code, message)
	return err
}

// Observe implements actors.Handler.
func (s *service) Observe(p *actors.Peer, from actors.Origin, m *codec.Message) func(mcp.Revision, *mcp.Error) {
	if !s.Active() {
		return nil
	}
	op, _ := s.operationOf(m)
	return s.Begin(op, p, from, m)
}

// operationOf finds the operation that counts a request. A name that no catalogue has is
// not counted by name.
func (s *service) operationOf(m *codec.Message) (*telemetry.Operation, *tool) {
	switch string(m.Method) {
	case mcp.MethodToolsCall:
		if t, ok := s.tools.findTool(m.Name); ok {
			op := t.op.Load()
			if op == nil || !op.BelongsTo(s.ops) { // the server may have been mounted elsewhere before
				op = s.ops.Operation(mcp.MethodToolsCall, t.Name)
				t.op.Store(op)
			}
			return op, t
		}
		return s.ops.Operation(mcp.MethodToolsCall, s.hosting.countedAs(listing.Tools, m.Name)), nil
	case mcp.MethodPromptsGet:
		if p, ok := s.srv.prompts.Get(decodeText(m.Name)); ok {
			return s.ops.Operation(mcp.MethodPromptsGet, p.Name), nil
		}
		return s.ops.Operation(mcp.MethodPromptsGet, s.hosting.countedAs(listing.Prompts, m.Name)), nil
	}
	if known, ok := protocol.LookupMethod(m.Method); ok {
		return s.ops.Operation(known.Name, ""), nil
	}
	if _, ok := s.srv.findMethod(m.Method); ok {
		return s.ops.Operation(string(m.Method), ""), nil
	}
	return s.ops.Operation("_OTHER", ""), nil
}

// dispatchCall answers by method. code is 1 for a result with isError.
func (s *service) dispatchCall(ctx context.Context, call *Call, t *tool, dst []byte) (out []byte, code int, err *mcp.Error) {
	m := call.msg
	if call.revision().Stateless() {
		if err := checkLevel(m); err != nil {
			return nil, 0, err
		}
	}
	if string(m.Method) == mcp.MethodToolsCall { // which every revision has
		if t == nil && s.hosting.now() != nil {
			return s.hosting.callTool(ctx, call, dst)
		}
		return s.tools.callTool(ctx, call, call.visibleTool(t), dst)
	}
	out, err = s.routeMethod(ctx, call, m, dst)
	return out, 0, err
}

// routeMethod answers all methods except tools/call.
func (s *service) routeMethod(ctx context.Context, call *Call, m *codec.Message, dst []byte) (out []byte, err *mcp.Error) {
	r := call.revision()
	if known, ok := protocol.LookupMethod(m.Method); !ok || !known.Allowed(protocol.ToServer, r) {
		if h, ok := s.srv.findMethod(m.Method); ok {
			return s.methods.callMethod(ctx, call, h, dst)
		}
		if string(m.Method) == mcp.MethodInitialize && len(s.speaks.WithSessions()) == 0 {
			return nil, s.speaks.RefuseInitialize(r.String())
		}
		return nil, methodNotFound(m)
	}
	if s.hosting.now() != nil {
		if out, taken, err := s.hosting.routeMethod(ctx, call, m, dst); taken {
			return out, err
		}
	}
	switch string(m.Method) {
	case mcp.MethodPing:
		out = append(dst, '{', '}')
	case mcp.MethodServerDiscover:
		out, err = s.discovery.appendDiscovery(dst, r)
	case mcp.MethodToolsList:
		s.lists.remoteLists.noteListAsked(listTools)
		out, err = s.lists.appendListPage(call, m, s.lists.listCache(), pagerOf(s.srv.tools.Now(), call.callerView(), r, "tools"), dst)
	case mcp.MethodPromptsList:
		s.lists.remoteLists.noteListAsked(listPrompts)
		out, err = s.lists.appendListPage(call, m, s.lists.listCache(), pagerOf(s.srv.prompts.Now(), call.callerView(), r, "prompts"), dst)
	case mcp.MethodResourcesList:
		s.lists.remoteLists.noteListAsked(listResources)
		out, err = s.lists.appendListPage(call, m, s.lists.listCache(), pagerOf(s.srv.resources.Now(), call.callerView(), r, "resources"), dst)
	case mcp.MethodResourcesTemplatesList:
		s.lists.remoteLists.noteListAsked(listResources)
		out, err = s.lists.appendListPage(call, m, s.lists.listCache(), pagerOf(s.srv.templates.Now(), call.callerView(), r, "resourceTemplates"), dst)
	case mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesDirectoryRead:
		out, err = s.resources.skillsMethod(call, m, dst)
	case mcp.MethodPromptsGet:
		out, err = s.prompts.getPrompt(ctx, call, m, dst)
	case mcp.MethodResourcesRead:
		out, err = s.resources.readResource(ctx, call, m, dst)
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		out, err = s.resources.changeSubscription(ctx, call, m, dst)
	case mcp.MethodCompletionComplete:
		out, err = s.prompts.completeArgument(ctx, call, m, dst)
	case mcp.MethodLoggingSetLevel:
		out, err = s.setLevel(ctx, call, m, dst)
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult, mcp.MethodTasksList:
		out, err = s.tasks.tasksMethod(ctx, call, m, dst)
	case mcp.MethodInitialize:
		err = refusal.Initialized.MCP()
	default:
		err = methodNotFound(m)
	}
	return out, err
}

// logParams encodes a message, unless Options.Redact drops it.
func (s *service) logParams(level mcp.LoggingLevel, logger string, data any) (params []byte, send bool, err error) {
	if redact := s.rt.redact; redact != nil {
		m := LogMessage{Server: s.id, Level: level, Logger: logger, Data: data}
		if !redact(&m) {
			return nil, false, nil
		}
		level, logger, data = m.Level, m.Logger, m.Data
	}
	raw, err := codec.Marshal(data)
	if err != nil {
		return nil, false, err
	}
	params, err = codec.Marshal(mcp.LogParams{Level: level, Logger: logger, Data: json.RawMessage(raw)})
	return params, err == nil, err
}

func (s *service) setLevel(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	level := mcp.LoggingLevel(decodeText(codec.Field(m.Params, "level")))
	if !level.Valid() {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "level must be one of "+levels)
	}
	if err := call.peer.p.SetLevel(ctx, string(level)); err != nil {
		return nil, s.internalError(mcp.MethodLoggingSetLevel, err)
	}
	if h := s.hosting.now(); h != nil {
		h.SetLevel(ctx, s.hosting.callerIn(call), string(level))
	}
	return append(dst, '{', '}'), nil
}

func (s *service) logAdvice(a advice) {
	s.rt.log.LogAttrs(context.Background(), slog.LevelWarn, a.text, append([]slog.Attr{slog.String("server", s.id)}, a.attrs...)...)
}

// respondHandlerError returns the response to a handler's error, for methods that may ask the client
// for input.
func (s *service) respondHandlerError(dst []byte, call *Call, what string, err error) ([]byte, *mcp.Error) {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		return s.respondWireError(dst, call, wire)
	}
	if refusal := capabilityError(err); refusal != nil {
		return nil, refusal
	}
	return nil, s.internalError(what, err)
}

// respondWireError returns the response to a handler's wire error. For a stateless client, an error
// that makes the user open URLs first becomes an input_required result: like an older client,
// it sends the request again afterwards.
func (s *service) respondWireError(dst []byte, call *Call, e *mcp.Error) ([]byte, *mcp.Error) {
	r := call.revision()
	e = wireError(&call.peer, e)
	if !r.Stateless() || e.Code != mcp.CodeURLElicitationRequired {
		return nil, e
	}
	var urls mcp.URLElicitationRequired
	if err := codec.Unmarshal(e.Data, &urls); err != nil || len(urls.Elicitations) == 0 {
		return nil, e
	}
	questions := make(mcp.InputRequests, len(urls.Elicitations))
	for i, u := range urls.Elicitations {
		key := u.ElicitationID
		if _, taken := questions[key]; taken || key == "" {
			key = "url-" + strconv.Itoa(i+1)
		}
		asked, err := protocol.URLQuestionFor(u, r)
		if err != nil {
			return nil, s.internalError("elicitation", err)
		}
		params, err := codec.Marshal(asked)
		if err != nil {
			return nil, s.internalError("elicitation", err)
		}
		questions[key] = mcp.InputRequest{Method: mcp.MethodElicitationCreate, Params: params}
	}
	out, err := s.srv.head.inputRequired(dst, questions, "")
	if err != nil {
		return nil, s.internalError("elicitation", err)
	}
	return out, nil
}

// encodeResult appends a result that the server has made itself, which may be kept as cache
// says.
func (s *service) encodeResult(dst []byte, call *Call, m *codec.Message, cache *Cache, v any) (out []byte, _ *mcp.Error) {
	var err error
	if call.revision().Stateless() {
		out, err = s.srv.head.appendResult(dst, nil, cache, v)
	} else {
		out, err = codec.AppendMarshal(dst, v)
	}
	if err != nil {
		return nil, s.internalError(string(m.Method), err)
	}
	return out, nil
}

// hookSessions gives the actors the program's functions that learn of sessions, and the one that
// decides which updates a session gets.
func (s *service) hookSessions() {
	if f := s.srv.opts.SessionBegan; f != nil {
		s.svc.Began = func(ctx context.Context, p *actors.Peer) {
			s.containPanic("SessionBegan", func() { f(ctx, &Peer{p}) })
		}
	}
	if s.rt.tel.Active() {
		s.svc.Over = func(p *actors.Peer, via actors.Via, lasted time.Duration) {
			s.rt.tel.SessionEnded(observe.Via(via, p.Revision()), lasted)
		}
	}
	if s.svc.Ended = s.hosting.sessionEnded; s.srv.opts.SessionEnded != nil {
		s.svc.Ended = func(p *actors.Peer, how actors.Ending) {
			s.containPanic("SessionEnded", func() { s.srv.opts.SessionEnded(&Peer{p}, sessionEnds[how]) })
			s.hosting.sessionEnded(p, how)
		}
	}
	s.svc.Anchoring, s.svc.Anchored, s.svc.Left, s.svc.Passes = s.hosting.anchoring, s.hosting.anchored, s.hosting.left, s.hosting.passes
	s.svc.Known, s.svc.Withholds = s.access.isKnown, s.resources.withholdsUpdate
	if s.srv.opts.Visible != nil {
		s.svc.Hears = s.resources.mayGetUpdate
	}
}

// Notified handles the client's notifications other than cancellation. It ignores those
// that the client's revision does not have.
func (s *service) Notified(p *actors.Peer, method string, params []byte) {
	if f, ok := s.srv.notifications.Load(method); ok {
		s.containPanic(method, func() { f.(func(*Peer, []byte))(&Peer{p}, params) })
		return
	}
	if m, ok := protocol.LookupMethod(method); !ok || !m.Allowed(protocol.ToServer, p.Revision()) {
		return
	}
	switch method {
	case mcp.NotifyTasksStatus:
		s.watch.Changed(p.Key(), params)
	case mcp.NotifyRootsListChanged:
		p.Forget()
		s.hosting.rootsChanged(p)
		if s.srv.opts.RootsChanged != nil {
			s.containPanic("RootsChanged", func() { s.srv.opts.RootsChanged(&Peer{p}) })
		}
	}
}

// MayAsk reports whether a call may ask its client for input: a tool may if it has Needs;
// prompts and resources always may.
func (s *service) MayAsk(method, name []byte) bool {
	switch string(method) {
	case mcp.MethodToolsCall:
		t, ok := s.tools.findTool(name)
		if h := s.hosting.now(); h != nil && !ok {
			return h.MayHaveTool(decodeText(name))
		}
		return ok && t.Needs != 0
	case mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// Listening decides which notifications a listener gets: all that it asks for and the server
// has, except that ServerOptions.Subscribe must allow each resource, and that there are no
// more resources than a session may subscribe to.
func (s *service) Listening(ctx context.Context, c *actors.Call) (actors.Listening, *mcp.Error) {
	var in struct {
		Notifications *mcp.SubscriptionFilter `json:"notifications"`
	}
	call := &Call{request: newRequest(c, s)}
	if err := call.decodeParams(ctx, c.Message().Params, &in); err != nil {
		return actors.Listening{}, err
	}
	if in.Notifications == nil {
		return actors.Listening{}, mcp.NewError(mcp.CodeInvalidParams, "subscriptions/listen needs notifications")
	}
	caps := s.srv.declaredCapabilities()
	f := protocol.FilterWithin(*in.Notifications, &caps)
	ctx = beginContext(ctx, call)
	view := s.access.viewOf(call.Principal)
	limit := s.svc.Limits.Subscriptions
	followed, refusal := s.tasks.followableTasks(ctx, call, &f, limit)
	if refusal != nil {
		s.scopes.askForScopes(call, refusal)
		return actors.Listening{}, refusal
	}
	seen := make(map[string]bool)
	var denied *mcp.Error
	var uris []string
	for _, uri := range f.ResourceSubscriptions {
		uri = s.srv.listedSpelling(view, uri)
		switch {
		case seen[uri] || !isAbsolute(uri) || !s.resources.mayFollow(view, uri) || limit >= 0 && len(uris) >= limit || s.resources.tooLong(uri):
		case s.scopes.refusesTo(call, view, uri, &denied):
		case !s.resources.allowsResource(ctx, call, uri):
		default:
			seen[uri] = true
			uris = append(uris, uri)
		}
	}
	if denied != nil {
		s.scopes.askForScopes(call, denied)
		return actors.Listening{}, denied
	}
	follower, uris := s.hosting.listen(ctx, call, uris)
	f.ResourceSubscriptions = uris
	accepted, err := codec.Marshal(f)
	if err != nil {
		return actors.Listening{}, s.internalError(mcp.MethodSubscriptionsListen, err)
	}
	later := view.forLater()
	l := actors.Listening{Tools: f.ToolsListChanged, Prompts: f.PromptsListChanged, Resources: f.ResourcesListChanged, URIs: uris, Accepted: accepted, Changed: s.lists.changesFor(later, s.hosting.callerIn(call))}
	if len(followed) > 0 {
		l.Others = s.tasks.followTasks(followed)
	}
	principal := c.Principal()
	l.Hears = func(uri string) bool {
		return s.resources.mayFollow(later, uri) && !s.resources.withholdsResource(principal, uri)
	}
	if follower != nil {
		l.Others = follower.AddUpdates(l.Hears, l.Others)
	}
	if len(uris) > 0 && len(followed) == 0 && !l.Tools && !l.Prompts && !l.Resources {
		l.Uncovered = func() string { return s.resources.listenerEndReason(later, principal, uris) }
	}
	return l, nil
}

// discovery holds the results of server/discover by revision: each is the same for all
// requests, and encoded for the first.
type discovery [mcp.Latest + 1][16]atomic.Pointer[[]byte]

// serviceDiscovery answers server/discover.
type serviceDiscovery struct {
	*service
	discovered discovery
}

// appendDiscovery appends the result of server/discover for clients of the revision. It lists
// all versions, with sessions and without, newest first: a client takes the first one that
// it knows.
func (s *serviceDiscovery) appendDiscovery(dst []byte, r mcp.Revision) ([]byte, *mcp.Error) {
	declared := 0 // what of it may change
	for bit, has := range [...]*atomic.Bool{&s.srv.hasTasks, &s.srv.longTasks, &s.srv.hasSkills, &s.srv.hasPages} {
		if has.Load() {
			declared |= 1 << bit
		}
	}
	known := &s.discovered[min(r, mcp.Latest)][declared]
	if result := known.Load(); result != nil {
		return append(dst, *result...), nil
	}
	out, err := s.srv.head.appendResult(nil, nil, s.lists.listCache(), struct {
		SupportedVersions []string               `json:"supportedVersions"`
		Capabilities      mcp.ServerCapabilities `json:"capabilities"`
		Instructions      string                 `json:"instructions,omitempty"`
	}{s.speaks.NewestFirst(), protocol.ServerCapabilitiesFor(s.shownCapabilities(), r), s.srv.opts.Instructions})
	if err != nil {
		return nil, s.internalError(mcp.MethodServerDiscover, err)
	}
	known.Store(&out)
	return append(dst, out...), nil
}

// shownCapabilities are those of the server. The tasks of anonymous clients are not listed: they would see those of all others.
func (s *serviceDiscovery) shownCapabilities() mcp.ServerCapabilities {
	c := s.srv.declaredCapabilities()
	if c.Tasks != nil && s.rt.takesAnybody {
		c.Tasks.List = nil
	}
	return c
}

// wireError returns a handler's error as its client may get it: an error that makes the user
// open URLs means nothing to a client that has not declared URL elicitation.
func wireError(p *Peer, e *mcp.Error) *mcp.Error {
	if e.Code != mcp.CodeURLElicitationRequired {
		return e
	}
	lacking := refuseLacking(mcp.CapClientElicitationURL, p)
	if lacking == nil {
		return e
	}
	lacking.Message = e.Message + ", but " + lacking.Message
	return lacking
}
