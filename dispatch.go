package troupe

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// maxClient bounds, in bytes, what a session keeps of its client.
var maxClient = limits.ClientInfo.Value()

// Initialize negotiates a session (2025-11-25, basic/lifecycle). For a version that the
// server does not speak it offers the newest one with sessions that it does.
func (s *service) Initialize(ctx context.Context, params []byte) (actors.Settled, []byte, *mcp.Error) {
	version, ok := codec.Str(codec.Field(params, "protocolVersion"))
	if len(s.speaks.withSessions()) == 0 {
		return actors.Settled{}, nil, s.speaks.refuseInitialize(version)
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
	client, kept, ok := session.Keep(&p, maxClient)
	if !ok {
		return actors.Settled{}, nil, mcp.Errorf(mcp.CodeInvalidParams, "clientInfo: name and version are longer than %d bytes", maxClient)
	}
	result, err := codec.Marshal(protocol.InitializeResultFor(mcp.InitializeResult{
		ProtocolVersion: revision,
		Capabilities:    s.shownCapabilities(),
		ServerInfo:      s.srv.impl,
		Instructions:    s.srv.opts.Instructions,
	}, r))
	if err != nil {
		return actors.Settled{}, nil, s.internalError("initialize", err)
	}
	return actors.Settled{Revision: revision, Client: client, Capabilities: kept, Announced: s.listDigests(s.viewOf(ownerIn(ctx)))}, result, nil
}

// Safe reports whether a call may run again: requests that only read may, and tools and
// methods that say so.
func (s *service) Safe(method, name []byte) bool {
	if string(method) != mcp.MethodToolsCall {
		if h, ok := s.srv.findMethod(method); ok {
			return h.safe
		}
		return string(method) != mcp.MethodLoggingSetLevel
	}
	t, ok := s.findTool(name)
	return ok && t.safe
}

// insistsOnSafe reports whether a tool or a method has Rerun set to Safe.
func (s *service) insistsOnSafe(method, name []byte) bool {
	if string(method) != mcp.MethodToolsCall {
		h, ok := s.srv.findMethod(method)
		return ok && h.safe
	}
	t, ok := s.findTool(name)
	return ok && t.Rerun == Safe
}

// Serve answers one request and records how long that took. Handlers may wait in it
// for a long time, so the frames down to them are kept small: see actors.Call.
func (s *service) Serve(ctx context.Context, c *actors.Call, dst []byte) ([]byte, *mcp.Error) {
	o := observed{start: time.Now()}
	call := &Call{c: c, msg: c.Message(), svc: s, peer: Peer{c.Peer()}}
	ctx, t := s.beginObserving(ctx, call, &o)
	var out []byte
	var code int
	var err *mcp.Error
	if s.chain == nil {
		out, code, err = s.dispatchCall(ctx, call, t, dst)
	} else {
		out, code, err = s.serveChained(ctx, call, dst)
	}
	err = s.endObserving(ctx, call, &o, code, err)
	if s.chain != nil || call.fate.Load() != nil {
		s.concludeLong(call, out, dst, err)
	}
	return out, err
}

// beginObserving begins to observe a call. t is the tool that it calls, nil if there is none.
func (s *service) beginObserving(ctx context.Context, call *Call, o *observed) (_ context.Context, t *tool) {
	m := call.msg
	o.op, t = s.operationOf(m)
	if o.op != nil && s.spans {
		trace := telemetry.Trace(call.c.Trace())
		ctx, o.end = o.op.Start(ctx, s.traceOf(m, trace), string(m.ID), call.peer.Session(), call.peer.Revision())
		if a := call.taskAttempt(); a != nil {
			telemetry.Task(ctx, a.Key.ID, a.Number)
		}
	}
	return call.handlerContext(ctx), t
}

// endObserving records the outcome of a call, and returns the error as its client may get it.
func (s *service) endObserving(ctx context.Context, call *Call, o *observed, code int, err *mcp.Error) *mcp.Error {
	message := ""
	if err != nil {
		err = protocol.ErrorFor(err, call.revision())
		code, message = err.Code, err.Message
	}
	if call.dropped.Load() {
		_ = call.tellMissed(ctx) // it fails when nobody waits for the response either
	}
	call.askForScopes(err)
	if o.op != nil {
		o.op.End(ctx, o.start, code)
	}
	if o.end != nil {
		o.end(code, message)
	}
	return err
}

// traceOf prefers the trace context in `_meta`, which is the call's own, to that
// of the HTTP request.
func (s *service) traceOf(m *codec.Message, t telemetry.Trace) telemetry.Trace {
	if p := codec.Optional(m.Meta, "traceparent"); p != nil {
		return telemetry.Trace{Parent: decodeText(p), State: decodeText(codec.Field(m.Meta, "tracestate"))}
	}
	return t
}

// operationOf finds the operation that counts a request. A name that no catalogue has is
// not counted by name.
func (s *service) operationOf(m *codec.Message) (*telemetry.Operation, *tool) {
	switch string(m.Method) {
	case mcp.MethodToolsCall:
		if t, ok := s.findTool(m.Name); ok {
			op := t.op.Load()
			if op == nil || !op.Of(s.ops) { // the server may have been mounted elsewhere before
				op = s.ops.Operation(mcp.MethodToolsCall, t.Name)
				t.op.Store(op)
			}
			return op, t
		}
		return s.ops.Operation(mcp.MethodToolsCall, ""), nil
	case mcp.MethodPromptsGet:
		if p, ok := s.srv.prompts.getItem(decodeText(m.Name)); ok {
			return s.ops.Operation(mcp.MethodPromptsGet, p.Name), nil
		}
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
		return s.callTool(ctx, call, call.visibleTool(t), dst)
	}
	out, err = s.routeMethod(ctx, call, m, dst)
	return out, 0, err
}

// routeMethod answers all methods except tools/call.
func (s *service) routeMethod(ctx context.Context, call *Call, m *codec.Message, dst []byte) (out []byte, err *mcp.Error) {
	r := call.revision()
	if known, ok := protocol.LookupMethod(m.Method); !ok || !known.Allowed(protocol.ToServer, r) {
		if h, ok := s.srv.findMethod(m.Method); ok {
			return s.callMethod(ctx, call, h, dst)
		}
		if string(m.Method) == mcp.MethodInitialize && len(s.speaks.withSessions()) == 0 {
			return nil, s.speaks.refuseInitialize(r.String())
		}
		return nil, methodNotFound(m)
	}
	switch string(m.Method) {
	case mcp.MethodPing:
		out = append(dst, '{', '}')
	case mcp.MethodServerDiscover:
		out, err = s.appendDiscovery(dst, r)
	case mcp.MethodToolsList:
		s.remoteLists.noteListAsked(listTools)
		out, err = s.appendListPage(call, m, s.listCache(), s.srv.tools.now.Load().pagerFor(call.callerView(), r, "tools"), dst)
	case mcp.MethodPromptsList:
		s.remoteLists.noteListAsked(listPrompts)
		out, err = s.appendListPage(call, m, s.listCache(), s.srv.prompts.now.Load().pagerFor(call.callerView(), r, "prompts"), dst)
	case mcp.MethodResourcesList:
		s.remoteLists.noteListAsked(listResources)
		out, err = s.appendListPage(call, m, s.listCache(), s.srv.resources.now.Load().pagerFor(call.callerView(), r, "resources"), dst)
	case mcp.MethodResourcesTemplatesList:
		s.remoteLists.noteListAsked(listResources)
		out, err = s.appendListPage(call, m, s.listCache(), s.srv.templates.now.Load().pagerFor(call.callerView(), r, "resourceTemplates"), dst)
	case mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesDirectoryRead:
		out, err = s.skillsMethod(call, m, dst)
	case mcp.MethodPromptsGet:
		out, err = s.getPrompt(ctx, call, m, dst)
	case mcp.MethodResourcesRead:
		out, err = s.readResource(ctx, call, m, dst)
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		out, err = s.changeSubscription(ctx, call, m, dst)
	case mcp.MethodCompletionComplete:
		out, err = s.completeArgument(ctx, call, m, dst)
	case mcp.MethodLoggingSetLevel:
		out, err = s.setLevel(ctx, call, m, dst)
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel, mcp.MethodTasksResult, mcp.MethodTasksList:
		out, err = s.tasksMethod(ctx, call, m, dst)
	case mcp.MethodInitialize:
		err = refusal.Initialized.MCP()
	default:
		err = methodNotFound(m)
	}
	return out, err
}
