package telemetry

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/mcp"
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

// lineHandlers are handlers whose records say what the lines of an operation have in common, and of successes the outcome. They are
// made once: to write that again in each line would cost as much as the rest of it.
type lineHandlers struct {
	of             *Requests
	plain, success slog.Handler
}

// handlersOf are the handlers of r for lines of the operation that say a revision.
func (o *Operation) handlersOf(r *Requests, v mcp.Revision) *lineHandlers {
	if v <= mcp.Latest {
		if h := o.handlers[v].Load(); h != nil && h.of == r {
			return h
		}
	}
	attrs := []slog.Attr{slog.String("server", o.of.server), slog.String("method", o.method)}
	if o.name != "" {
		attrs = append(attrs, slog.String("target", o.name))
	}
	h := r.Log.Handler().WithAttrs(append(attrs, slog.String("revision", v.String())))
	n := &lineHandlers{r, h, h.WithAttrs([]slog.Attr{slog.String("outcome", succeeded)})}
	if v <= mcp.Latest {
		o.handlers[v].Store(n)
	}
	return n
}

// succeeded is the outcome of a request that has not failed; of others it is their error.type.
const succeeded = "ok"

// LogRequest logs a request that has ended. It names who made it, "" for nobody, and what it called, and never says what
// was in it. The target is a name of the server's own, "" for none.
func (o *Operation) LogRequest(ctx context.Context, r *Requests, v Via, principal string, took time.Duration, code int) {
	n, failure := o.handlersOf(r, v.Revision), failureOf(code)
	h := n.success
	if failure != "" {
		h = n.plain
	}
	if !h.Enabled(ctx, slog.LevelInfo) {
		return
	}
	line := slog.NewRecord(time.Now(), slog.LevelInfo, "request", 0) // a Logger looks for the place in the code, too
	if failure != "" {
		line.AddAttrs(slog.String("outcome", failure))
	}
	if principal != "" {
		line.AddAttrs(slog.String("principal", principal))
	}
	line.AddAttrs(slog.Duration("duration", took))
	if c := trace.SpanContextFromContext(ctx); c.HasTraceID() {
		line.AddAttrs(slog.String("trace_id", c.TraceID().String()))
	}
	_ = h.Handle(ctx, line) // as a Logger does
}
