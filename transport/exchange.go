package transport

import (
	"cmp"
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
	"github.com/troupe-run/troupe/transport/server"
)

// ErrGone says that the connection of an exchange is closed, or that its response is complete. Queued data that was not
// yet written is lost.
var ErrGone = errors.New("transport: the connection is gone")

type state uint8

const (
	fresh     state = iota // nothing sent
	answered               // a whole response was sent or is being sent
	streaming              // Open
	finishing              // Finish: no more events, what is queued is being written
	gone                   // the stream ended, or the client went before anything was sent
)

// Exchange is one HTTP request and its response. Its methods may be called from any goroutine. Except Room, none waits
// for the peer; Answer and Reject write on the caller's goroutine. An Exchange is not reused: a late event on a reused
// one would reach another client, while one that is kept too long does no harm.
type Exchange struct {
	// Msg is what codec.Scan found in Body, which is the whole body of a POST. Both are valid until the dispatcher
	// returns.
	Msg  codec.Message
	Body []byte

	// SessionID and Version are Mcp-Session-Id and MCP-Protocol-Version, "" if absent. Version is one of
	// Options.Revisions. For Connector.Message SessionID comes from the query; for Connector.Connect it is "". For a
	// stateless request Version is one of Options.Stateless, and SessionID is "", whatever the header holds.
	SessionID, Version string

	// LastEventID is the Last-Event-ID of a GET, unchanged and at most 256 bytes long.
	LastEventID string

	// Principal is what Options.Authenticate returned.
	Principal any

	// Header is the request's header. Do not write to it, and do not use it after the dispatcher has returned.
	Header http.Header

	// Stateless says that the request is of 2026-07-28: it has no session, its headers match its _meta and method, and
	// its client cancels it by closing the connection, see Context.
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

	resumes       bool           // over HTTP/1.1, so that nothing refuses it but the number of connections
	addressed     bool           // account was found for the address remote
	account       *quota.Account // counts the bytes that are held for the client; nil until there are some
	bodyCharged   int64          // of these, for the request
	valuesCharged int64          // and for what decoding it makes

	wake chan struct{} // inline: wakes ServeHTTP

	// writing is held while another goroutine than that of ServeHTTP writes to w; ServeHTTP takes it before it returns.
	// It is taken while mu is held.
	writing sync.Mutex

	mu           sync.Mutex // guards the fields below
	w            http.ResponseWriter
	state        state
	aborted      bool // Cut before anything was sent, or the writing of the response has panicked
	last         bool // AnswerLast
	session      string
	s            *stream // nil unless opened
	ctx          context.Context
	cancel       context.CancelCauseFunc
	goneHook     func()      // of WhenGone
	stopWatching func() bool // stops watching base, nil if nothing watches
	onGone       []func()

	prev, next *Exchange // list of open streams, guarded by h.mu
}

func (x *Exchange) beginRequest(h *Handler, w http.ResponseWriter, r *http.Request) {
	x.h, x.w, x.base, x.remote, x.Header = h, w, r.Context(), r.RemoteAddr, r.Header
	x.chunks = r.ProtoAtLeast(1, 1)
	x.http1 = r.ProtoMajor == 1
	x.plain.noteRequest(r)
	x.closes = r.Close || r.Method != http.MethodPost && r.ContentLength != 0
	if x.http1 && len(r.TransferEncoding) > 0 && !server.Framed(r) {
		x.closes = true
		w.Header().Set("Connection", "close")
	}
	if x.timed {
		writeBy(w, 0)
	}
	x.inline = !x.http1 || !canHijack(w)
	if x.inline {
		x.wake = make(chan struct{}, 1)
	}
}

// canHijack looks for a Hijacker as http.ResponseController does.
func canHijack(w http.ResponseWriter) bool {
	for {
		switch t := w.(type) {
		case http.Hijacker:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return false
		}
	}
}

// releaseBody returns the memory of the request's bytes.
func (x *Exchange) releaseBody() {
	x.Body, x.Msg, x.Header = nil, codec.Message{}, nil
	x.body.Free()
	x.body = nil
	x.refundRequest()
}

// handlerReturned ends the exchange for the goroutine of ServeHTTP, which returns next. From here on nobody may write,
// unless the connection was taken over.
func (x *Exchange) handlerReturned() {
	x.mu.Lock()
	s, last := x.s, x.last
	if s == nil {
		x.w = nil
	}
	cancel, unwatch := x.cancel, x.stopWatching
	var hook func()
	if s == nil && !last {
		hook = x.takeHook()
	}
	x.mu.Unlock()
	x.awaitWriter()
	if s != nil {
		if s.pumped != nil {
			<-s.pumped
			x.abortIf(s)
		}
		return
	}
	if unwatch != nil {
		unwatch()
	}
	if !last {
		tellGone(cancel, hook)
	}
	x.mu.Lock()
	aborted := x.aborted
	x.mu.Unlock()
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

// awaitWriter waits for a response that another goroutine is writing.
func (x *Exchange) awaitWriter() {
	x.writing.Lock()
	defer x.writing.Unlock()
}

// Context returns a context that is done when the client is gone or, once the exchange is a stream, when the connection
// was closed. It keeps the values of the request's context. The client of a stateless request cancels it by closing the
// connection: its context is done at once, also before anything was sent, and nothing is written after that. Closing
// the connection after AnswerLast cancels nothing. If a middleware has ended the request's context, that is the cause; see
// Expired.
func (x *Exchange) Context() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx != nil {
		return x.ctx
	}
	x.ctx, x.cancel = context.WithCancelCause(context.WithoutCancel(x.base))
	if x.hasEnded() {
		x.cancel(ErrGone)
	} else {
		x.watchBase()
	}
	return x.ctx
}

// WhenGone calls f once, on a goroutine of its own, when Context would be done, and costs less than Context. An
// exchange has one f at a time. stop takes f back; it reports whether f will not be called.
func (x *Exchange) WhenGone(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.hasEnded() {
		go f()
		return func() bool { return false }
	}
	x.goneHook = f
	x.watchBase()
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.takeHook() != nil
	}
}

// hasEnded reports whether the end has come, so that nothing watches for it any more. mu is held.
func (x *Exchange) hasEnded() bool { return x.state == gone || x.s == nil && x.w == nil && !x.last }

// watchBase watches the request's context, unless the connection was taken over. mu is held.
func (x *Exchange) watchBase() {
	switch {
	case x.s != nil && x.s.conn != nil:
	case x.stopWatching == nil:
		x.stopWatching = context.AfterFunc(x.base, x.baseDone)
	case x.base.Err() != nil: // baseDone ran before
		go x.baseDone()
	}
}

// takeHook returns the function that WhenGone got, if it was not taken before. mu is held.
func (x *Exchange) takeHook() func() {
	f := x.goneHook
	x.goneHook = nil
	return f
}

func tellGone(cancel context.CancelCauseFunc, hook func()) {
	if cancel != nil {
		cancel(ErrGone)
	}
	if hook != nil {
		go hook()
	}
}

// baseDone runs when the request's context is done. If the connection was taken over, this only means that ServeHTTP
// has returned.
func (x *Exchange) baseDone() {
	cause := cmp.Or(x.Expired(), ErrGone)
	x.mu.Lock()
	var cancel context.CancelCauseFunc
	var hook func()
	if !x.last && (x.s == nil || x.s.conn == nil) {
		cancel, hook = x.cancel, x.takeHook()
	}
	x.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	tellGone(nil, hook)
}

// endByClient ends an exchange that ends with its connection, which the client has closed, unless the end of its response is
// being written.
func (x *Exchange) endByClient() {
	x.mu.Lock()
	ended := x.s != nil && x.s.ended
	x.mu.Unlock()
	if !ended {
		x.cutStream(cutClosed)
	}
}

// hasLeft reports whether the client of a stateless request has closed the connection: then nothing may be written. It
// only knows that of connections that were not taken over.
func (x *Exchange) hasLeft() bool { return x.Stateless && x.clientLeft() }

// clientLeft reports whether the client has ended the request's context.
func (x *Exchange) clientLeft() bool { return x.base.Err() != nil && x.Expired() == nil }

// Expired returns what has ended the request's context if that was not the client: a middleware that gave it a deadline, or
// a cause of its own. The response can still be written then, but nothing notices any more that the client goes. Nil means
// that the context has not ended, or that the client is gone.
func (x *Exchange) Expired() error {
	cause := context.Cause(x.base)
	if errors.Is(cause, context.Canceled) {
		return nil
	}
	return cause
}

// Account returns the account on which the bytes of the request are counted, nil if there is none. As long as the
// request's bytes are valid, the account is not dropped.
func (x *Exchange) Account() *quota.Account { return x.account }

// RemoteAddr returns the client's address as net/http has it, "host:port".
func (x *Exchange) RemoteAddr() string { return x.remote }

// SetSession puts Mcp-Session-Id on the response or, at the SSE endpoint, the id into the first event. It has no
// effect once something was sent.
func (x *Exchange) SetSession(id string) {
	x.mu.Lock()
	x.session = id
	x.mu.Unlock()
}

// Answer sends the whole response, as application/json if body is not empty. The caller may reuse body after the
// return. Answer returns false, and does nothing, if anything was sent before.
func (x *Exchange) Answer(status int, body []byte) bool {
	return x.sendAnswer(status, body, 0, false)
}

// AnswerLast is Answer for a dispatcher that goes on after it. Its goroutine may be that of the connection, so over
// HTTP/1 the response tells the client to send its next request on another one. After AnswerLast, neither the end of
// the connection nor that of the dispatcher ends Context.
func (x *Exchange) AnswerLast(status int, body []byte) bool {
	return x.sendAnswer(status, body, 0, true)
}

// Accepted sends 202 without a body. It does nothing if anything was sent before.
func (x *Exchange) Accepted() {
	x.sendAnswer(http.StatusAccepted, nil, 0, false)
}

// Reject sends a JSON-RPC error as the whole response. After becomes Retry-After in whole seconds, rounded up. It does
// nothing if anything was sent before.
func (x *Exchange) Reject(refused *refusal.Refusal) {
	if x.isSent() {
		return
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

// isSent reports whether anything of the response was sent.
func (x *Exchange) isSent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state != fresh
}

func (x *Exchange) sendAnswer(status int, body []byte, retryAfter time.Duration, last bool) bool {
	x.mu.Lock()
	if x.state != fresh || x.w == nil {
		x.mu.Unlock()
		return false
	}
	if x.hasLeft() {
		x.mu.Unlock()
		x.endByClient()
		return false
	}
	held := int64(len(body))
	if held > requestBytes && x.chargeBytes(quota.Queues, held) != nil {
		x.mu.Unlock()
		x.cutStream(cutMemory)
		return false
	}
	x.state, x.last = answered, last
	w := x.w
	// This never waits: only the step out of fresh takes it, and ServeHTTP, which has cleared w by then.
	x.writing.Lock()
	x.setHeaders(w.Header())
	if last {
		x.closeAfter(w.Header())
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
			x.refundBytes(quota.Queues, held)
		}
		x.writing.Unlock()
		x.wakeWriter()
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

// Gone calls f once, on a goroutine of its own, when the connection of an open stream is gone: a write failed because
// the peer closed it, or it was cut or finished. If it is gone already, Gone does so at once. It never calls f if the
// exchange does not become a stream.
func (x *Exchange) Gone(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == gone {
		go f()
		return
	}
	x.onGone = append(x.onGone, f)
}

// wakeWriter wakes the goroutine of ServeHTTP if that one writes.
func (x *Exchange) wakeWriter() {
	if x.wake == nil {
		return
	}
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func panicAttrs(v any, stack []byte) []slog.Attr {
	return []slog.Attr{slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(stack))}
}

// wholeSeconds formats d as whole seconds, rounded up.
func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// abortIf aborts ServeHTTP if the stream was cut, so that the client sees a broken response.
func (x *Exchange) abortIf(s *stream) {
	x.mu.Lock()
	cut := s.cut
	x.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
}
