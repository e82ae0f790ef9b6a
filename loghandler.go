package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/troupe-run/troupe/mcp"
)

// NewLogHandler returns a handler for package slog that sends records to the client of the
// call that their context is of, as [Call.Log] does: within the client's level, within
// Options.Limits.LogRate and through Options.Redact. The data of the log message is an object with
// the member msg and the record's attributes, of which one with that name is sent as msg_;
// the level is the nearest below that of the record, and logger is its name, which may be
// empty. A library that logs with the context of a call logs to its client, too: its records
// must hold nothing that this client may not read, whoever's it is.
//
//	log := slog.New(troupe.NewLogHandler("weather", slog.Default().Handler()))
//	log.InfoContext(ctx, "asked", "city", city)
//
// Every record also goes to next, which nil leaves out; so does one whose context is of no
// call. An error is that of next, or of an attribute that does not encode: a call that has
// ended loses its records in silence.
func NewLogHandler(logger string, next slog.Handler) slog.Handler {
	if next == nil {
		next = slog.DiscardHandler
	}
	return &logHandler{logger: logger, next: next}
}

type logHandler struct {
	logger string
	next   slog.Handler
	with   []func(slog.Handler) slog.Handler // what WithAttrs and WithGroup have added, for clients
	// grouped says that attributes are in a group, where none can be taken for the message.
	grouped bool
}

var _ slog.Handler = (*logHandler)(nil)

// Enabled reports whether the client or next wants records of a level.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	c, ok := CallFrom(ctx)
	return ok && wants(c.peer.p, logLevel(level)) || h.next.Enabled(ctx, level)
}

// Handle sends the record to both.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var errs [2]error
	if c, ok := CallFrom(ctx); ok && wants(c.peer.p, logLevel(r.Level)) {
		errs[0] = h.send(ctx, c, r)
	}
	if h.next.Enabled(ctx, r.Level) {
		errs[1] = h.next.Handle(ctx, r)
	}
	return errors.Join(errs[:]...)
}

// send sends the record to the client of a call.
func (h *logHandler) send(ctx context.Context, c *Call, r slog.Record) error {
	var b bytes.Buffer
	own := false // whether slog's own members come now, which are the time, the level and the message
	var encoder slog.Handler = slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: r.Level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch {
		case own && a.Key != slog.MessageKey:
			return slog.Attr{} // the message says the level, and when it comes
		case own:
			own = false // attributes follow
		}
		return a
	}})
	for _, add := range h.with {
		encoder = add(encoder)
	}
	if !h.grouped {
		renamed := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
		r.Attrs(func(a slog.Attr) bool { renamed.AddAttrs(apart(a)); return true })
		r = renamed
	}
	own = true
	if err := encoder.Handle(ctx, r); err != nil {
		return err
	}
	if err := c.Log(ctx, logLevel(r.Level), h.logger, json.RawMessage(bytes.TrimSpace(b.Bytes()))); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// apart is an attribute under another name than that of the message: one called msg, a
// group or not, is msg_. The members of a group without a name stand beside the message.
func apart(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch {
	case a.Key == slog.MessageKey:
		a.Key += "_"
	case a.Key == "" && a.Value.Kind() == slog.KindGroup:
		a.Value = slog.GroupValue(allApart(a.Value.Group())...)
	}
	return a
}

func allApart(attrs []slog.Attr) []slog.Attr {
	renamed := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		renamed[i] = apart(a)
	}
	return renamed
}

// WithAttrs returns a handler whose records have the attributes, too.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	sent := attrs
	if !h.grouped {
		sent = allApart(attrs)
	}
	return h.and(h.next.WithAttrs(attrs), h.grouped, func(e slog.Handler) slog.Handler { return e.WithAttrs(sent) })
}

// WithGroup returns a handler whose further attributes are in a group.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	sent := name
	if !h.grouped {
		sent = apart(slog.Attr{Key: name}).Key
	}
	return h.and(h.next.WithGroup(name), true, func(e slog.Handler) slog.Handler { return e.WithGroup(sent) })
}

func (h *logHandler) and(next slog.Handler, grouped bool, add func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{logger: h.logger, next: next, grouped: grouped, with: append(slices.Clip(h.with), add)}
}

// logLevel is the level of the protocol for one of slog: the nearest that is not above it.
func logLevel(level slog.Level) mcp.LoggingLevel {
	switch {
	case level < slog.LevelInfo:
		return mcp.LevelDebug
	case level < slog.LevelInfo+2:
		return mcp.LevelInfo
	case level < slog.LevelWarn:
		return mcp.LevelNotice
	case level < slog.LevelError:
		return mcp.LevelWarning
	case level < slog.LevelError+4:
		return mcp.LevelError
	}
	return mcp.LevelCritical
}
