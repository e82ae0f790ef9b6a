package troupe

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// observed holds what telemetry records of a request.
type observed struct {
	start time.Time
	op    *telemetry.Operation
	span  *telemetry.Span
}

// viaOf is how a message came, for telemetry.
func viaOf(v actors.Via, r mcp.Revision) telemetry.Via {
	return telemetry.Via{Revision: r, HTTP: v.HTTP, Client: v.Client}
}

// beginObserving begins to observe a call. t is the tool that it calls, nil if there is none.
func (s *service) beginObserving(ctx context.Context, call *Call, o *observed) (_ context.Context, t *tool) {
	o.op, t = s.operationOf(call.msg)
	if o.op != nil && s.spans {
		ctx = s.beginSpan(ctx, call, o)
	}
	return beginContext(ctx, call), t
}

// beginSpan begins the span of a call. It is a function of its own so that calls without a span have
// no room for it on their stacks.
//
//go:noinline
func (s *service) beginSpan(ctx context.Context, call *Call, o *observed) context.Context {
	c, peer := call.c, call.peer
	r := spanRequest(call.msg, c.Trace())
	r.Via, r.Session, r.Run = viaOf(c.Via(), call.revision()), peer.Session(), c.Attempt()
	r.Earlier.Parent, r.User = c.Earlier(), s.pseudonymOf(c.Principal())
	ctx, o.span = o.op.Start(ctx, r)
	if a := taskAttempt(c); a != nil {
		telemetry.Task(ctx, a.Key.ID, a.Number)
	}
	if o.span.Recording() {
		span := o.span
		c.Watch(&actors.Watched{Span: telemetry.TraceOf(ctx).Parent, Note: func(e actors.CallEvent) {
			span.Note(e.Name, messageTrace(e.Meta, e.Trace))
		}})
	}
	return ctx
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
	s.access.askForScopes(call, err)
	if o.op != nil {
		s.recordEnd(ctx, o.op, viaOf(call.c.Via(), call.revision()), call.c.Principal(), o.start, code)
	}
	o.span.End(code, message)
	return err
}

// recordEnd counts an operation that has ended, and logs it if requests are logged.
func (s *service) recordEnd(ctx context.Context, op *telemetry.Operation, v telemetry.Via, principal any, start time.Time, code int) {
	took := time.Since(start)
	op.End(ctx, v, took, code)
	if s.rt.requests.Wants(took, code) {
		who := principalOf(principal)
		op.Request(ctx, s.rt.requests, v, who.String(), took, code)
	}
}

// pseudonymOf stands for a principal on spans, "" for nobody or where spans say nothing of who calls.
func (s *service) pseudonymOf(principal any) string {
	if !s.rt.pseudonyms || isAnonymous(principal) {
		return ""
	}
	who := principalOf(principal)
	if who.Subject == "" && who.Issuer == "" {
		return ""
	}
	return hex.EncodeToString(s.rt.keys.Tag([]byte(who.tenantHash())))[:16]
}

// Observe observes what no handler is called for: initialize, notifications, pings that the actors
// answer, and the beginnings of listeners.
func (s *service) Observe(p *actors.Peer, in *actors.Input, m *codec.Message) func(mcp.Revision, *mcp.Error) {
	start := time.Now()
	if !s.rt.tel.Active() && s.rt.requests == nil {
		return nil
	}
	op, _ := s.operationOf(m)
	session, principal := "", in.Caller
	if p != nil {
		session = p.Session()
	}
	var span *telemetry.Span
	ctx := context.Background()
	if s.spans {
		r := spanRequest(m, in.Trace)
		r.Via, r.Session, r.User = viaOf(in.Via, 0), session, s.pseudonymOf(principal)
		ctx, span = op.Start(ctx, r)
	}
	return func(r mcp.Revision, err *mcp.Error) {
		code, message := 0, ""
		if err != nil {
			code, message = err.Code, err.Message
		}
		s.recordEnd(ctx, op, viaOf(in.Via, r), principal, start, code)
		span.Settle(r)
		span.End(code, message)
	}
}

// spanRequest is what the span of a message says of it.
func spanRequest(m *codec.Message, carrier actors.Trace) *telemetry.Request {
	r := &telemetry.Request{ID: m.ID, Carrier: telemetry.Trace(carrier), Message: messageTrace(m.Meta, actors.Trace{})}
	switch string(m.Method) {
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		r.URI = decodeText(codec.Optional(m.Params, "uri"))
	}
	return r
}

// messageTrace is the trace context in `_meta` (SEP-414), which is the message's own, or else that of
// what the message came in.
func messageTrace(meta []byte, carrier actors.Trace) telemetry.Trace {
	text := func(name string) string {
		if raw := codec.Optional(meta, name); raw != nil {
			return decodeText(raw)
		}
		return ""
	}
	t := telemetry.Trace{Parent: text("traceparent"), State: text("tracestate"), Baggage: text("baggage")}
	if t.Parent == "" && carrier.Parent != "" {
		t.Parent, t.State = carrier.Parent, carrier.State
	}
	return t
}

// sendingTo returns what observes a question to a client, for actors.Question.Sending: nil if nothing
// is to be observed. The question carries its trace context in `_meta`.
func (s *service) sendingTo(ctx context.Context, p *actors.Peer, via actors.Via, method string) func(params []byte) ([]byte, func(*actors.Answer)) {
	if !s.rt.tel.Active() {
		return nil
	}
	return func(params []byte) ([]byte, func(*actors.Answer)) {
		via.Client = "" // which is the server here
		asking := s.rt.tel.Ask(ctx, method, viaOf(via, p.Revision()), p.Session())
		return withTrace(params, asking.Trace()), func(a *actors.Answer) {
			switch {
			case a == nil:
				asking.End(0, "unanswered", "")
			case a.Err != nil:
				asking.End(a.Err.Code, "", a.Err.Message)
			default:
				asking.End(0, "", "")
			}
		}
	}
}

// peerVia is how a client is asked outside of its calls.
func (s *service) peerVia() actors.Via {
	if s.piped {
		return actors.Via{}
	}
	return actors.Via{HTTP: 1}
}

// withTrace returns params with a trace context in `_meta`.
func withTrace(params []byte, t telemetry.Trace) []byte {
	if t.Parent == "" {
		return params
	}
	var members map[string]json.RawMessage
	if codec.Unmarshal(orEmpty(params), &members) != nil {
		return params
	}
	meta := mcp.Object(members["_meta"]).With("traceparent", mcp.Raw(t.Parent))
	if t.State != "" {
		meta = mcp.Object(meta).With("tracestate", mcp.Raw(t.State))
	}
	if t.Baggage != "" {
		meta = mcp.Object(meta).With("baggage", mcp.Raw(t.Baggage))
	}
	members["_meta"] = json.RawMessage(meta)
	traced, err := codec.Marshal(members)
	if err != nil {
		return params
	}
	return traced
}

// operationOf finds the operation that counts a request. A name that no catalogue has is
// not counted by name.
func (s *service) operationOf(m *codec.Message) (*telemetry.Operation, *tool) {
	switch string(m.Method) {
	case mcp.MethodToolsCall:
		if t, ok := s.tools.findTool(m.Name); ok {
			op := t.op.Load()
			if op == nil || !op.Of(s.ops) { // the server may have been mounted elsewhere before
				op = s.ops.Operation(mcp.MethodToolsCall, t.Name)
				t.op.Store(op)
			}
			return op, t
		}
		return s.ops.Operation(mcp.MethodToolsCall, ""), nil
	case mcp.MethodPromptsGet:
		if p, ok := s.srv.prompts.Get(decodeText(m.Name)); ok {
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
