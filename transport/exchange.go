package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
)

// ErrGone says that the connection of an exchange is closed, or that its response is complete.
// Queued data that was not yet written is lost.
var ErrGone = errors.New("transport: the connection is gone")

type state uint8

const (
	fresh     state = iota // nothing sent
	answered               // a whole response was sent or is being sent
	streaming              // Open
	finishing              // Finish: no more events, what is queued is being written
	gone                   // the stream ended, or the client went before anything was sent
)

// Exchange is one HTTP request and its response. Its methods may be called from any goroutine.
// Except Room, none waits for the peer; Answer and Reject write on the caller's goroutine. An
// Exchange is not reused: a late event on a reused one would reach another client, while one that
// is kept too long does no harm.
type Exchange struct {
	// Msg is what codec.Scan found in Body, which is the whole body of a POST. Both are valid until
	// the dispatcher returns.
	Msg  codec.Message
	Body []byte

	// SessionID and Version are Mcp-Session-Id and MCP-Protocol-Version, "" if absent. Version is
	// one of Options.Revisions. For Connector.Message SessionID comes from the query; for
	// Connector.Connect it is "". For a stateless request Version is one of Options.Stateless, and
	// SessionID is "", whatever the header holds.
	SessionID, Version string

	// LastEventID is the Last-Event-ID of a GET, unchanged and at most 256 bytes long.
	LastEventID string

	// Principal is what Options.Authenticate returned.
	Principal any

	// Header is the request's header. Do not write to it, and do not use it after the dispatcher
	// has returned.
	Header http.Header

	// Stateless says that the request is of 2026-07-28: it has no session, its headers match its
	// _meta and method, and its client cancels it by closing the connection, see Context.
	Stateless bool

	endpoint endpoint
	messages string // at the SSE endpoint, the path for the session's messages

	h      *Handler
	base   context.Context // the request's; done when the client is gone or ServeHTTP has returned
	remote string
	chunks bool // the peer knows chunked transfer encoding
	closes bool // no request can follow on the connection: the client says so, or a body was not read
	http1  bool
	inline bool // the connection cannot be taken over: ServeHTTP stays and writes
	body   *codec.Buffer

	plain

	wake chan struct{} // inline: wakes ServeHTTP

	// writing is held while another goroutine than that of ServeHTTP writes to w; ServeHTTP takes
	// it before it returns. It is taken while mu is held.
	writing sync.Mutex

	mu      sync.Mutex // guards the fields below
	w       http.ResponseWriter
	state   state
	aborted bool // Cut before anything was sent, or the writing of the response has panicked
	last    bool // AnswerLast
	session string
	s       *stream // nil unless opened
	end     clientEnd

	prev, next *Exchange // links of openStreams, guarded by its mu

	charges exchangeCharges
}

// writer returns the part of x that writes its event stream. It is no field, for which an Exchange
// would need a larger piece of memory.
func (x *Exchange) writer() exchangeWriter { return exchangeWriter{x} }

// client returns the part of x that notices when its client is gone. It is no field for the same
// reason.
func (x *Exchange) client() exchangeClient { return exchangeClient{x} }

// Context returns a context that is done when the client is gone or, once the exchange is a stream,
// when the connection was closed. It keeps the values of the request's context. The client of a
// stateless request cancels it by closing the connection: its context is done at once, also before
// anything was sent, and nothing is written after that. Closing the connection after AnswerLast
// cancels nothing. If a middleware has ended the request's context, that is the cause; see Expired.
func (x *Exchange) Context() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end.ctx != nil {
		return x.end.ctx
	}
	x.end.ctx, x.end.cancel = context.WithCancelCause(context.WithoutCancel(x.base))
	if x.client().hasEnded() {
		x.end.cancel(ErrGone)
	} else {
		x.client().watchBase()
	}
	return x.end.ctx
}

// WhenGone calls f once, on a goroutine of its own, when Context would be done, and costs less than
// Context. An exchange has one f at a time. stop takes f back; it reports whether f will not be
// called.
func (x *Exchange) WhenGone(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client().hasEnded() {
		go f()
		return func() bool { return false }
	}
	x.end.hook = f
	x.client().watchBase()
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.end.takeHook() != nil
	}
}

// Expired returns what has ended the request's context if that was not the client: a middleware
// that gave it a deadline, or a cause of its own. The response can still be written then, but
// nothing notices any more that the client goes. Nil means that the context has not ended, or that
// the client is gone.
func (x *Exchange) Expired() error {
	cause := context.Cause(x.base)
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// Account returns the account on which the bytes of the request are counted, nil if there is none.
// As long as the request's bytes are valid, the account is not dropped.
func (x *Exchange) Account() *quota.Account { return x.charges.account }

// RemoteAddr returns the client's address as net/http has it, "host:port".
func (x *Exchange) RemoteAddr() string { return x.remote }

// HTTPMajor returns the major version of HTTP that the client speaks.
func (x *Exchange) HTTPMajor() uint8 {
	if x.http1 {
		return 1
	}
	return 2
}

// SetSession puts Mcp-Session-Id on the response or, at the SSE endpoint, the id into the first
// event. It has no effect once something was sent.
func (x *Exchange) SetSession(id string) {
	x.mu.Lock()
	x.session = id
	x.mu.Unlock()
}

// Answer sends the whole response, as application/json if body is not empty. The caller may reuse
// body after the return. Answer returns false, and does nothing, if anything was sent before.
func (x *Exchange) Answer(status int, body []byte) bool {
	return x.sendAnswer(status, body, 0, false)
}

// AnswerLast is Answer for a dispatcher that goes on after it. Its goroutine may be that of the
// connection, so over HTTP/1 the response tells the client to send its next request on another one.
// After AnswerLast, neither the end of the connection nor that of the dispatcher ends Context.
func (x *Exchange) AnswerLast(status int, body []byte) bool {
	return x.sendAnswer(status, body, 0, true)
}

// Accepted sends 202 without a body. It does nothing if anything was sent before.
func (x *Exchange) Accepted() {
	x.sendAnswer(http.StatusAccepted, nil, 0, false)
}

// Reject sends a JSON-RPC error as the whole response. After becomes Retry-After in whole seconds,
// rounded up. It does nothing if anything was sent before.
func (x *Exchange) Reject(refused *refusal.Refusal) {
	if !x.isFresh() {
		return
	}
	if x.h.o.Observer != nil && refused.Label == refusal.Unavailable.Label { // all others that come here are counted by who refuses
		x.h.o.Observer.Rejected(refused.Status, refused.Label)
	}
	if refused.Challenge != "" {
		x.mu.Lock()
		if x.state == fresh && x.w != nil {
			x.w.Header()["Www-Authenticate"] = []string{refused.Challenge}
		}
		x.mu.Unlock()
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, refused.ID, refused.Code, refused.Text, refused.Data)
	x.sendAnswer(refused.Status, b.B, refused.After, false)
}

func (x *Exchange) sendAnswer(status int, body []byte, retryAfter time.Duration, last bool) bool {
	x.mu.Lock()
	if x.state != fresh || x.w == nil {
		x.mu.Unlock()
		return false
	}
	if x.client().hasCancelled() {
		x.mu.Unlock()
		x.client().endByClient()
		return false
	}
	held := int64(len(body))
	if held > requestBytes && x.charges.chargeBytes(quota.Queues, held) != nil {
		x.mu.Unlock()
		x.writer().cutStream(cutMemory)
		return false
	}
	x.state, x.last = answered, last
	w := x.w
	// This never waits: only the step out of fresh takes it, and ServeHTTP, which has cleared w by
	// then.
	x.writing.Lock()
	x.setHeaders(w.Header())
	if last {
		x.writer().closeAfter(w.Header())
	}
	if x.h.isLeaving() { // also over HTTP/2, where net/http makes it a GOAWAY
		w.Header().Set("Connection", "close")
	}
	x.mu.Unlock()
	if retryAfter > 0 {
		w.Header().Set("Retry-After", wholeSeconds(retryAfter))
	}
	whole := false
	defer func() {
		if !whole { // the response, which the program may have wrapped, has panicked
			x.mu.Lock()
			x.aborted = true
			x.mu.Unlock()
		}
		if held > requestBytes {
			x.charges.refundBytes(quota.Queues, held)
		}
		x.writing.Unlock()
		x.writer().wakeWriter()
	}()
	x.h.respondJSON(w, status, body, &x.plain)
	whole = true
	return true
}

// setHeaders sets the headers of every response of the dispatcher. mu is held.
func (x *Exchange) setHeaders(header http.Header) {
	if x.session != "" && x.endpoint == streamable && !x.Stateless {
		header["Mcp-Session-Id"] = []string{x.session}
	}
}

// Holder is who has the connection: Principal.
func (x *Exchange) Holder() any { return x.Principal }

// Gone calls f once, on a goroutine of its own, when the connection of an open stream is gone: a
// write failed because the peer closed it, or it was cut or finished. If it is gone already, Gone
// does so at once. It never calls f if the exchange does not become a stream.
func (x *Exchange) Gone(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == gone {
		go f()
		return
	}
	x.end.onGone = append(x.end.onGone, f)
}

func panicAttrs(v any, stack []byte) []slog.Attr {
	return []slog.Attr{slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(stack))}
}

// wholeSeconds formats d as whole seconds, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// isFresh reports whether nothing has been sent yet.
func (x *Exchange) isFresh() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state == fresh
}

// Open commits the response to text/event-stream and sends its header. At the SSE endpoint it also
// sends the event that gives the address of the session's messages. It returns false if the client
// is gone, something was sent before, or the handler is being closed.
func (x *Exchange) Open() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	// Over HTTP/1 the client may only have closed its sending side; if it is gone, the first write
	// notices. Where all ends with the connection, that is the end.
	over := (x.client().endsWithConnection() || x.inline) && x.client().hasLeft()
	if x.state != fresh || x.w == nil || over || !x.h.streams.addStream(x) {
		return false
	}
	header := x.w.Header()
	x.setHeaders(header)
	header["Content-Type"] = sseHeader
	header["Cache-Control"] = cacheHeader
	header["X-Accel-Buffering"] = bufferingHeader
	x.s = &stream{charged: streamBytes}
	x.charges.chargeBytesAnyway(quota.Queues, streamBytes)
	x.state = streaming
	if x.endpoint == sseEndpoint {
		b := x.s.pendingBuffer()
		b.B = appendEndpoint(b.B, x.messages, x.session)
		x.s.flushPending()
	}
	if x.inline {
		x.writer().closeAfter(header)
		if x.writer().closesAfterStream() {
			header.Set("Connection", "close")
		}
		x.writer().wakeWriter()
		return true
	}
	conn, rw, err := http.NewResponseController(x.w).Hijack()
	if err != nil { // a wrapper promised what the connection cannot do
		x.writer().pumpBeside(header)
		return true
	}
	if x.end.stopWatching != nil {
		x.end.stopWatching()
	}
	x.w = nil
	x.s.conn, x.s.reuse = conn, x.writer().reuseOf(rw.Reader.Buffered())
	if x.client().endsWithConnection() {
		x.client().watchConnection(conn)
	}
	x.s.head = x.writer().appendHead(header)
	x.writer().startWriter()
	return true
}

// Event queues one server-sent event: an id unless it is "", a retry in milliseconds if it is over
// 0, and always data, which is copied and may be empty. It cuts the connection if the event does
// not fit, see Options.MaxQueued. Without an open stream it does nothing. At the SSE endpoint,
// whose clients know no ids, an event is one message on one line: data, which must be JSON. Empty
// data sends nothing there.
func (x *Exchange) Event(id string, retryMS int, data []byte) {
	const around = 48 // bytes of an event beside its id and data
	if x.endpoint == sseEndpoint && isBlank(data) {
		return
	}
	x.mu.Lock()
	if x.state != streaming {
		x.mu.Unlock()
		return
	}
	size, limit := len(id)+len(data)+around, x.h.o.MaxQueued
	if !x.s.backlog.fitsEvent(x.s.queuedBytes(), size, limit) {
		x.writer().endAndUnlock(cutQueue)
		return
	}
	b := x.s.pendingBuffer()
	if x.endpoint == sseEndpoint {
		b.B = appendMessage(b.B, data)
	} else {
		b.B = appendEvent(b.B, id, retryMS, data)
	}
	x.s.backlog.noteQueued(x.s.queuedBytes(), size, limit, x.h.o.WriteTimeout)
	if !x.writer().chargeQueue() {
		x.writer().endAndUnlock(cutMemory)
		return
	}
	x.mu.Unlock()
}

// Comment queues a comment, which keeps the connection alive and finds out whether the peer is. If
// anything is queued already, that serves as well, and Comment adds nothing.
func (x *Exchange) Comment() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == streaming && x.s.queuedBytes() == 0 {
		b := x.s.pendingBuffer()
		b.B = append(b.B, comment...)
	}
}

// Flush hands what is queued to the connection's writer.
func (x *Exchange) Flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != streaming || x.s.pending == nil {
		return
	}
	x.s.flushPending()
	x.writer().startWriter()
}

// Finish ends the stream once everything queued is written, flushed or not. It closes the
// connection, unless Reuse keeps it. Later events are ignored.
func (x *Exchange) Finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != streaming {
		return
	}
	x.state = finishing
	x.s.flushPending()
	x.writer().startWriter()
}

// Cut closes the connection now; what is queued is lost. Before anything was sent, it breaks off
// the request without a response.
func (x *Exchange) Cut() { x.writer().cutStream(cutAsked) }

// Room waits until less than half of MaxQueued is queued: then any event fits. Events that were not
// flushed count, so call Flush first. It returns ErrGone when the connection is gone, or the cause
// of ctx.
func (x *Exchange) Room(ctx context.Context) error {
	for {
		x.mu.Lock()
		if x.state == gone || x.state == answered {
			x.mu.Unlock()
			return ErrGone
		}
		if x.s == nil || x.s.queuedBytes() < x.h.o.MaxQueued/2 {
			x.mu.Unlock()
			return nil
		}
		if x.s.room == nil {
			x.s.room = make(chan struct{})
		}
		room := x.s.room
		x.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
