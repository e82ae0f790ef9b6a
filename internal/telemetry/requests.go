package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Requests says which requests are logged, each with one line; the zero value none.
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

// Request logs a request that has ended. It names who made it, "" for nobody, and what it called, and never says what
// was in it. The target is a name of the server's own, "" for none.
func (o *Operation) Request(ctx context.Context, r *Requests, v Via, principal string, took time.Duration, code int) {
	outcome := failureOf(code)
	if outcome == "" {
		outcome = "ok"
	}
	attrs := make([]slog.Attr, 0, 8)
	if principal != "" {
		attrs = append(attrs, slog.String("principal", principal))
	}
	attrs = append(attrs, slog.String("server", o.of.server), slog.String("method", o.method))
	if o.name != "" {
		attrs = append(attrs, slog.String("target", o.name))
	}
	attrs = append(attrs, slog.String("revision", v.Revision.String()), slog.Duration("duration", took), slog.String("outcome", outcome))
	if c := trace.SpanContextFromContext(ctx); c.HasTraceID() {
		attrs = append(attrs, slog.String("trace_id", c.TraceID().String()))
	}
	r.Log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}
