// Package observe reports what a mounted server does to telemetry: it reads of calls and messages of
// the actors what a span, a metric or a line of the log says of them. Any goroutine may use it.
package observe

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// Observer observes one mounted server. Its fields do not change while it does.
type Observer struct {
	Tel      *telemetry.Instruments
	Requests *telemetry.Requests        // logs requests; nil for none
	Name     func(principal any) string // of whoever makes a request, in the log; "" for nobody
	User     func(principal any) string // the same on spans; nil if they say nothing of it
}

// The same numbers mean the same in both packages: otherwise this does not compile.
var _ = [1]struct{}{}[(actors.OverHTTP-telemetry.OverHTTP)+(actors.OverPipe-telemetry.OverPipe)]

// Active reports whether anything is observed.
func (o *Observer) Active() bool { return o.Tel.Active() || o.Requests != nil }

// Via is how a message came, for telemetry.
func Via(v actors.Via, r mcp.Revision) telemetry.Via {
	return telemetry.Via{Revision: r, HTTP: v.HTTP, Client: v.Client}
}

// BeginSpan begins the span of a call, m as a middleware passed it on, and has it follow the call.
func (o *Observer) BeginSpan(ctx context.Context, op *telemetry.Operation, c *actors.Call, m *codec.Message) (context.Context, telemetry.Span) {
	p := c.Peer()
	r := spanRequest(m, c.Trace())
	r.Via, r.Session, r.Run = Via(c.Via(), p.Revision()), p.Session(), c.Attempt()
	r.Earlier.Parent = c.Earlier()
	ctx, span := o.startSpan(ctx, op, &r, c.Principal())
	if span.Recording() {
		span := span // which moves to the heap here, and not where it is not kept
		c.Watch(&actors.Watched{Span: telemetry.TraceOf(ctx).Parent, Note: func(e actors.CallEvent) {
			span.Note(e.Name, messageTrace(e.Meta, e.Trace))
		}})
	}
	return ctx, span
}

// startSpan begins a span of a request of principal, whose pseudonym costs only the spans that are kept.
func (o *Observer) startSpan(ctx context.Context, op *telemetry.Operation, r *telemetry.Request, principal any) (context.Context, telemetry.Span) {
	ctx, span := op.StartSpan(ctx, r)
	if o.User != nil && span.Recording() {
		span.SetUser(o.User(principal))
	}
	return ctx, span
}

// End counts an operation that has ended, and logs it if requests are logged.
func (o *Observer) End(ctx context.Context, op *telemetry.Operation, v telemetry.Via, principal any, start time.Time, code int) {
	took := time.Since(start)
	op.RecordRun(ctx, v, took, code)
	if o.Requests.Wants(took, code) {
		op.LogRequest(ctx, o.Requests, v, o.Name(principal), took, code)
	}
}

// Begin observes a message that is no call: see actors.Handler.
func (o *Observer) Begin(op *telemetry.Operation, p *actors.Peer, from actors.Origin, m *codec.Message) (end func(mcp.Revision, *mcp.Error)) {
	start, ctx := time.Now(), context.Background()
	var span telemetry.Span
	if o.Tel.Tracing() {
		r := spanRequest(m, from.Trace)
		r.Via = Via(from.Via, 0)
		if p != nil {
			r.Session = p.Session()
		}
		ctx, span = o.startSpan(ctx, op, &r, from.Caller)
	}
	return func(r mcp.Revision, err *mcp.Error) {
		code, message := 0, ""
		if err != nil {
			code, message = err.Code, err.Message
		}
		o.End(ctx, op, Via(from.Via, r), from.Caller, start, code)
		span.SetRevision(r)
		span.End(code, message)
	}
}

// spanRequest is what the span of a message says of it.
func spanRequest(m *codec.Message, carrier actors.Trace) telemetry.Request {
	r := telemetry.Request{ID: m.ID, Carrier: telemetry.Trace(carrier), Message: messageTrace(m.Meta, actors.Trace{})}
	switch string(m.Method) {
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		r.URI = text(codec.Optional(m.Params, "uri"))
	}
	return r
}

// text is the text of a JSON string, "" of anything else.
func text(raw []byte) string {
	s, _ := codec.Str(raw)
	return s
}

// messageTrace is the trace context in `_meta` (SEP-414), which is the message's own, or else that of
// what the message came in.
func messageTrace(meta []byte, carrier actors.Trace) telemetry.Trace {
	member := func(name string) string { return text(codec.Optional(meta, name)) }
	t := telemetry.Trace{Parent: member("traceparent"), State: member("tracestate"), Baggage: member("baggage")}
	if t.Parent == "" && carrier.Parent != "" {
		t.Parent, t.State = carrier.Parent, carrier.State
	}
	return t
}

// Asking returns what observes a question to a client, for actors.Question.Sending: nil if nothing is to
// be observed. The question carries its trace context in `_meta`.
func (o *Observer) Asking(ctx context.Context, p *actors.Peer, via actors.Via, method string) func(params []byte) ([]byte, func(*actors.Answer)) {
	if !o.Tel.Active() {
		return nil
	}
	via.Client = "" // which is the server here
	return func(params []byte) ([]byte, func(*actors.Answer)) {
		asking := o.Tel.BeginAsking(ctx, method, Via(via, p.Revision()), p.Session())
		return withTrace(params, asking.Trace()), func(a *actors.Answer) {
			switch {
			case a == nil:
				asking.End(0, telemetry.Unanswered, "")
			case a.Err != nil && (a.Err.Code == 0 || a.Err.Code == telemetry.ToolError): // which mean something else
				asking.End(0, telemetry.OtherError, a.Err.Message)
			case a.Err != nil:
				asking.End(a.Err.Code, "", a.Err.Message)
			default:
				asking.End(0, "", "")
			}
		}
	}
}

// withTrace returns params with a trace context in `_meta`.
func withTrace(params []byte, t telemetry.Trace) []byte {
	if t.Parent == "" {
		return params
	}
	if len(params) == 0 {
		params = []byte("{}")
	}
	var members map[string]json.RawMessage
	if codec.Unmarshal(params, &members) != nil {
		return params
	}
	meta := mcp.Object(members["_meta"]).With("traceparent", mcp.Raw(t.Parent))
	if t.State != "" {
		meta = mcp.Object(meta).With("tracestate", mcp.Raw(t.State))
	}
	members["_meta"] = json.RawMessage(meta)
	traced, err := codec.Marshal(members)
	if err != nil {
		return params
	}
	return traced
}
