package troupe

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNotFound is for a ResourceHandler to return, or wrap, when there is no such
// resource.
var ErrNotFound = errors.New("troupe: not found")

// service is a mounted server: the actors call it to answer requests.
type service struct {
	rt     *Runtime
	srv    *Server
	svc    *actors.Service
	id     string // of the server in the store
	path   string // where it is mounted, or would be
	limits Limits // those of ServerOptions, completed from Options
	speaks spoken
	ops    *telemetry.Operations
	spans  bool
	chain  MethodHandler // the middleware; nil if there is none
	layers int           // how many middlewares that are
	hiding panicLog      // the panics of Visible

	asking      sync.Map     // *asker that puts a task's questions to its client, by the task's id
	watch       hosted.Watch // tasks of clients
	discovery   discovery
	remoteLists remoteLists // what is known of the lists of other nodes
}

var _ actors.Handler = (*service)(nil)

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

func orEmpty(params []byte) []byte {
	if params == nil {
		return []byte("{}")
	}
	return params
}

func invalidParams(err error) *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "invalid params"+mismatchText(err))
}

// mismatchText says which part of a client's JSON does not fit, in JSON's terms. It leaves out
// faults that have a text only in terms of Go.
func mismatchText(err error) string {
	if wrong, ok := errors.AsType[*codec.DecodeError](err); ok {
		return ": " + strings.TrimPrefix(wrong.Error(), "codec: ")
	}
	if errors.Is(err, codec.ErrDuplicate) {
		return ": a member comes twice"
	}
	return ""
}

// maxShown is how many bytes of an unknown name are sent back.
const maxShown = 128

// shownName returns name as messages quote it.
func shownName(name string) string {
	return shortenText(name, maxShown)
}

// shortenText is text, or its first bytes, of which none is half a character.
func shortenText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// internalError logs an error that the client must not see, and returns the one for the client: an
// internal error, or one that says to send the request again if the store could not be read
// or written now, or that the session has ended. The end of a call's context, of its session or of
// the node is not an error, and is logged as debug.
func (s *service) internalError(what string, err error) *mcp.Error {
	level, shown := slog.LevelError, mcp.NewError(mcp.CodeInternalError, "")
	switch {
	case errors.Is(err, ErrSessionEnded):
		level, shown = slog.LevelDebug, actors.SessionGone
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrRequestEnded), errors.Is(err, ErrUnmounted):
		level = slog.LevelDebug
	case errors.Is(err, ErrClosing):
		level, shown = slog.LevelDebug, actors.Unavailable
	case store.IsTransient(err):
		level, shown = slog.LevelWarn, actors.Unavailable
	}
	attrs := []any{"server", s.id, "method", what, "error", err}
	if of, ok := errors.AsType[storeError](err); ok { // what its text leaves out
		attrs = append(attrs, "store", of.err)
	}
	s.rt.log.Log(context.Background(), level, "request failed", attrs...)
	return shown
}

// decodeText decodes a raw JSON string; anything else is "".
func decodeText(raw []byte) string {
	s, _ := codec.Str(raw)
	return s
}

// plainString returns the inside of a raw JSON string that has no escapes.
func plainString(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	for _, c := range raw {
		if c == '\\' {
			return nil, false
		}
	}
	return raw[1 : len(raw)-1], true
}

// observed holds what telemetry records of a request.
type observed struct {
	start time.Time
	op    *telemetry.Operation
	end   func(code int, message string) // of its span, nil if it has none
}

// handlerError returns the client's error for a handler's error.
func (s *service) handlerError(call *Call, what string, err error) *mcp.Error {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		return wireError(call, wire)
	}
	return s.internalError(what, err)
}

// checkLevel refuses a request that asks for log messages of an unknown level
// (2026-07-28, server/utilities/logging).
func checkLevel(m *codec.Message) *mcp.Error {
	if level := codec.Optional(m.Meta, mcp.MetaLogLevel); level != nil && !mcp.LoggingLevel(decodeText(level)).Valid() {
		return mcp.Errorf(mcp.CodeInvalidParams, "_meta: %s must be one of %s", mcp.MetaLogLevel, levels)
	}
	return nil
}

// levels are the log levels, for messages.
const levels = "debug, info, notice, warning, error, critical, alert, emergency"

// must panics with err, a mistake in the program.
func must(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func methodNotFound(m *codec.Message) *mcp.Error {
	return mcp.Errorf(mcp.CodeMethodNotFound, "method not found: %s", shownName(string(m.Method)))
}

// containPanic runs f, a function of the program, on a goroutine of its own, which f may end. A panic of f is logged and counted,
// and goes no further.
func (s *service) containPanic(what string, f func()) {
	if failure := guard.Apart(f); failure != nil {
		s.rt.node.Kernel().CountPanic()
		s.rt.log.Error("a function of the server "+failure.Did(), append(failure.Attrs(), "server", s.id, "function", what)...)
	}
}
