package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// NewLogHandler returns a handler for package slog. It takes the call from a record's context
// and sends the record to the call's client, as [Call.Log] does: within the client's level,
// within Options.Limits.LogRate and through Options.Redact. The data of the log message is an
// object with the member msg and the record's attributes; an attribute whose name is taken gets
// an underscore behind it, or more: one named msg becomes msg_. The level is that of the record,
// or the nearest below it. logger names the logger and may be empty.
//
// A library that logs with the context of a call logs to the call's client, too: its records
// must hold nothing that this client may not read.
//
//	log := slog.New(troupe.NewLogHandler("weather", slog.Default().Handler()))
//	log.InfoContext(ctx, "asked", "city", city)
//
// Every record also goes to next, unless next is nil; a record without a call goes only there.
// An error comes from next, or from an attribute that does not encode. The records of a call
// that has ended are lost without an error.
func NewLogHandler(logger string, next slog.Handler) slog.Handler {
	if next == nil {
		next = slog.DiscardHandler
	}
	return &logHandler{logger: logger, next: next}
}

type logHandler struct {
	logger string
	next   slog.Handler
	with   []func(slog.Handler) slog.Handler // the WithAttrs and WithGroup of clients' records
}

// Enabled reports whether the client or next wants records of a level.
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	c, ok := CallFrom(ctx)
	return ok && wantsLevel(c.peer.p, logLevel(level)) || h.next.Enabled(ctx, level)
}

// Handle sends the record to both.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	var errs [2]error
	if c, ok := CallFrom(ctx); ok && wantsLevel(c.peer.p, logLevel(r.Level)) {
		errs[0] = h.sendRecord(ctx, c, r)
	}
	if h.next.Enabled(ctx, r.Level) {
		errs[1] = h.next.Handle(ctx, r)
	}
	return errors.Join(errs[:]...)
}

// sendRecord sends the record to the client of a call.
func (h *logHandler) sendRecord(ctx context.Context, c *Call, r slog.Record) error {
	var b bytes.Buffer
	own := false // whether slog's own members come now: time, level and message
	var encoder slog.Handler = slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: r.Level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch {
		case own && a.Key != slog.MessageKey:
			return slog.Attr{} // the log message has a level, and needs no time
		case own:
			own = false // attributes follow
		}
		return a
	}})
	for _, add := range h.with {
		encoder = add(encoder)
	}
	own = true
	if err := encoder.Handle(ctx, r); err != nil {
		return err
	}
	if err := c.Log(ctx, logLevel(r.Level), h.logger, json.RawMessage(renameDuplicates(bytes.TrimSpace(b.Bytes())))); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// renameDuplicates returns an object without two members of one name: those after the first get
// underscores.
func renameDuplicates(object []byte) []byte {
	seen := make(map[string]bool)
	b := []byte{'{'}
	for key, value := range codec.Members(object) {
		name := string(key)
		for seen[name] {
			name += "_"
		}
		seen[name] = true
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), '"', ':')
		b = append(b, value...)
	}
	return append(b, '}')
}

// WithAttrs returns a handler whose records have the attributes, too.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.withNext(h.next.WithAttrs(attrs), func(e slog.Handler) slog.Handler { return e.WithAttrs(attrs) })
}

// WithGroup returns a handler whose further attributes are in a group.
func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.withNext(h.next.WithGroup(name), func(e slog.Handler) slog.Handler { return e.WithGroup(name) })
}

func (h *logHandler) withNext(next slog.Handler, add func(slog.Handler) slog.Handler) slog.Handler {
	return &logHandler{logger: h.logger, next: next, with: append(slices.Clip(h.with), add)}
}

// logLevel returns the protocol's level for a level of slog: the nearest that is not above it.
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

var _ slog.Handler = (*logHandler)(nil)
