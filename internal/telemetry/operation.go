package telemetry

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/mcp"
)

// Operations are the operations of one server. Make them with Instruments.NewOperations; they live
// as long as the server.
type Operations struct {
	in     *Instruments
	server string

	mu  sync.RWMutex // guards all
	all map[opKey]*Operation
}

type opKey struct{ method, name string }

// Operation is one method, of one tool or prompt if it has a name. Names that a client made up
// must not become operations: each is kept forever.
type Operation struct {
	of           *Operations
	method, name string
	span         string
	attrs        []attribute.KeyValue
	handlers     [mcp.Latest + 1]atomic.Pointer[lineHandlers] // what logs its requests, by revision

	ok     [transports][mcp.Latest + 1]atomic.Pointer[count] // what successes are counted under, by transport and revision
	mu     sync.Mutex                                        // guards the rest
	failed map[failureKey]*count
	codes  map[int]struct{} // that are told apart
}

// failureKey is what the failures of an operation are told apart by.
type failureKey struct {
	code int
	via  Via
}

// Operation returns the operation, making it at its first use.
func (s *Operations) Operation(method, name string) *Operation {
	key := opKey{method, name}
	s.mu.RLock()
	o := s.all[key]
	s.mu.RUnlock()
	if o != nil {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.all[key]; o != nil {
		return o
	}
	o = &Operation{of: s, method: method, name: name, span: method, failed: make(map[failureKey]*count), codes: make(map[int]struct{})}
	if name != "" {
		o.span += " " + name
	}
	o.attrs = o.names(DetailTool)
	s.all[key] = o
	return o
}

// names are the attributes that name the operation.
func (o *Operation) names(d Detail) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("mcp.method.name", o.method)}
	if o.method == mcp.MethodToolsCall {
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "execute_tool"))
	}
	if d != DetailMethod {
		attrs = append(attrs, attribute.String("troupe.server", o.of.server))
	}
	switch {
	case d != DetailTool || o.name == "":
	case o.method == mcp.MethodPromptsGet:
		attrs = append(attrs, attribute.String("gen_ai.prompt.name", o.name))
	default:
		attrs = append(attrs, attribute.String("gen_ai.tool.name", o.name))
	}
	return attrs
}

// attrsOf returns the attributes under which an outcome is counted.
func (o *Operation) attrsOf(d Detail, v Via, failure string) []metric.RecordOption {
	set := attribute.NewSet(append(append(o.names(d), v.attrs()...), failureAttrs(failure)...)...)
	return []metric.RecordOption{metric.WithAttributeSet(set)}
}

// BelongsTo reports whether o belongs to s.
func (o *Operation) BelongsTo(s *Operations) bool { return o.of == s }

// ToolError is the code of a result with isError.
const ToolError = 1

// The values of error.type that are no codes: of a result with isError, of codes that are not told
// apart, and of a question that was given up.
const (
	toolError  = "tool_error"
	OtherError = "_OTHER"
	Unanswered = "unanswered"
)

// failureOf is the error.type of a code, "" for 0.
func failureOf(code int) string {
	switch code {
	case 0:
		return ""
	case ToolError:
		return toolError
	}
	return strconv.Itoa(code)
}

// failureAttrs says what failed: failure is an error.type, "" for a success.
func failureAttrs(failure string) []attribute.KeyValue {
	switch failure {
	case "":
		return nil
	case toolError, OtherError, Unanswered:
		return []attribute.KeyValue{attribute.String("error.type", failure)}
	}
	return []attribute.KeyValue{attribute.String("error.type", failure), attribute.String("rpc.response.status_code", failure)}
}

// RecordRun records one run, and how long it took; code 0 is success, ToolError a tool's own error, and any other the code of the
// error response.
func (o *Operation) RecordRun(ctx context.Context, v Via, took time.Duration, code int) {
	in := o.of.in
	if in.duration == nil {
		return
	}
	c := o.countFor(v, code)
	in.duration.Record(ctx, took.Seconds(), c.in...)
	in.series.countCoarse(ctx, c)
}

// countFor returns what an outcome is counted under. Only failures take a lock.
func (o *Operation) countFor(v Via, code int) *count {
	if code != 0 || v.Revision > mcp.Latest {
		return o.failureCount(v, code)
	}
	at := &o.ok[v.transportIndex()][v.Revision]
	c := at.Load()
	if c == nil {
		c = o.of.in.series.countFor(o, v, "")
		at.Store(c)
	}
	return c
}

// maxCodes is how many codes of an operation are told apart: handlers make up codes of their own.
const maxCodes = 32

func (o *Operation) failureCount(v Via, code int) *count {
	v = v.ofMetrics()
	o.mu.Lock()
	defer o.mu.Unlock()
	key := failureKey{code, v}
	if c := o.failed[key]; c != nil {
		return c
	}
	kind := failureOf(code)
	if _, known := o.codes[code]; !known && len(o.codes) < maxCodes {
		o.codes[code] = struct{}{}
	} else if !known {
		if key.code, kind = 0, OtherError; o.failed[key] != nil {
			return o.failed[key]
		}
	}
	c := o.of.in.series.countFor(o, v, kind)
	o.failed[key] = c
	return c
}

// StartSpan begins a span, if there is a tracer, and brings the baggage of the request into the context.
// The span is zero if there is no tracer. Most spans are not kept, so it allocates nothing of its own for one
// without a parent and links.
func (o *Operation) StartSpan(ctx context.Context, r *Request) (context.Context, Span) {
	tracer := o.of.in.tracer
	if tracer == nil {
		return ctx, Span{}
	}
	parent, other := r.Message.spanContext(), r.Carrier.spanContext()
	if !parent.IsValid() {
		parent, other = other, trace.SpanContext{}
	}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	if text := cmp.Or(r.Message.Baggage, r.Carrier.Baggage); text != "" {
		ctx = baggage.Extract(ctx, carrier{Baggage: text})
	}
	var links []trace.Link
	if other.IsValid() {
		links = append(links, trace.Link{SpanContext: other, Attributes: []attribute.KeyValue{attribute.String("troupe.link", "transport")}})
	}
	if c := r.Earlier.spanContext(); c.IsValid() {
		links = append(links, trace.Link{SpanContext: c, Attributes: []attribute.KeyValue{attribute.String("troupe.link", "earlier run")}})
	}
	options := asServer
	if links != nil {
		options = []trace.SpanStartOption{asServer[0], trace.WithLinks(links...)}
	}
	ctx, span := tracer.Start(ctx, o.span, options...)
	if span.IsRecording() {
		span.SetAttributes(o.attrs...)
		span.SetAttributes(r.attrs()...)
	}
	return ctx, Span{span}
}
