package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/mcp"
)

// Asking is a request to a client that waits for its answer. Its span, of the kind client, is that
// of Context.
type Asking struct {
	in      *Instruments
	method  string
	via     Via
	start   time.Time
	span    trace.Span // nil without a tracer
	Context context.Context
}

// BeginAsking begins to observe a request to a client.
func (i *Instruments) BeginAsking(ctx context.Context, method string, v Via, session string) *Asking {
	a := &Asking{in: i, method: method, via: v, start: time.Now(), Context: ctx}
	if i.tracer == nil {
		return a
	}
	a.Context, a.span = i.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindClient))
	if a.span.IsRecording() {
		a.span.SetAttributes(attribute.String("mcp.method.name", method))
		a.span.SetAttributes(v.spanAttrs()...)
		if session != "" {
			a.span.SetAttributes(attribute.String("mcp.session.id", Hash(session)))
		}
	}
	return a
}

// Trace is the trace context that the request carries, zero without a tracer.
func (a *Asking) Trace() Trace {
	if a.span == nil {
		return Trace{}
	}
	return TraceOf(a.Context)
}

// End records the outcome: code is that of an error of the client, 0 for an answer. why is set if the
// request has none, to OtherError or Unanswered.
func (a *Asking) End(code int, why, message string) {
	failure := why
	if failure == "" {
		failure = failureOf(code)
	}
	attrs := failureAttrs(failure)
	if a.span != nil {
		if failure != "" && a.span.IsRecording() {
			a.span.SetStatus(codes.Error, shorten(message, maxMessage))
			a.span.SetAttributes(attrs...)
		}
		a.span.End()
	}
	if a.in.asked == nil {
		return
	}
	if code != 0 && !isProtocolCode(code) { // a client makes up codes of its own
		attrs = failureAttrs(OtherError)
	}
	attrs = append(append(attrs, attribute.String("mcp.method.name", a.method)), a.via.attrs()...)
	a.in.asked.Record(context.WithoutCancel(a.Context), time.Since(a.start).Seconds(), metric.WithAttributes(attrs...))
}

// isProtocolCode reports whether a client may mean something by a code: those of JSON-RPC, and that of a
// user who has refused.
func isProtocolCode(code int) bool {
	switch code {
	case -1, mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeMethodNotFound, mcp.CodeInvalidParams, mcp.CodeInternalError:
		return true
	}
	return false
}
