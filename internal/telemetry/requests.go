package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Requests says which requests are logged, each with one line; the zero value none. It has the form that users write.
type Requests struct {
	Log    *slog.Logger
	All    bool
	Errors bool          // those that fail
	Slow   time.Duration // those that take so long, and more; 0 for none
}

// Wants reports whether a request is logged.
func (r *Requests) Wants(took time.Duration, code int) bool {
	return r != nil && (r.All || r.Errors && code != 0 || r.Slow > 0 && took >= r.Slow)
}

// named is a handler whose records name an operation. They are made once: to write the same again in each line would cost
// as much as the rest of it.
type named struct {
	of *Requests
	slog.Handler
}

// handlerOf is the handler of r for lines of the operation.
func (o *Operation) handlerOf(r *Requests) slog.Handler {
	if h := o.named.Load(); h != nil && h.of == r {
		return h.Handler
	}
	attrs := []slog.Attr{slog.String("server", o.of.server), slog.String("method", o.method)}
	if o.name != "" {
		attrs = append(attrs, slog.String("target", o.name))
	}
	h := &named{r, r.Log.Handler().WithAttrs(attrs)}
	o.named.Store(h)
	return h.Handler
}

// Request logs a request that has ended. It names who made it, "" for nobody, and what it called, and never says what
// was in it. The target is a name of the server's own, "" for none.
func (o *Operation) Request(ctx context.Context, r *Requests, v Via, principal string, took time.Duration, code int) {
	h := o.handlerOf(r)
	if !h.Enabled(ctx, slog.LevelInfo) {
		return
	}
	outcome := failureOf(code)
	if outcome == "" {
		outcome = "ok"
	}
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0) // a Logger looks for the place in the code, too
	if principal != "" {
		line.AddAttrs(slog.String("principal", principal))
	}
	line.AddAttrs(slog.String("revision", v.Revision.String()), slog.Duration("duration", took), slog.String("outcome", outcome))
	if c := trace.SpanContextFromContext(ctx); c.HasTraceID() {
		line.AddAttrs(slog.String("trace_id", c.TraceID().String()))
	}
	_ = h.Handle(ctx, line) // as a Logger does
}
