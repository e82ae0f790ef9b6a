package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/transport/server"
)

// exchangeRequest is an exchange as ServeHTTP has it: its request is read and passed to the
// dispatcher, and its end awaited.
type exchangeRequest struct{ *Exchange }

// beginRequest sets what x has of the request.
func (x exchangeRequest) beginRequest(h *Handler, w http.ResponseWriter, r *http.Request) {
	x.charges.Exchange = x.Exchange
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

// maxAhead bounds the memory, in bytes, that is allocated for an announced Content-Length before
// the body has come.
const maxAhead = 64 << 10

// readStep is how much of a body is read before others have their turn, in bytes.
const readStep = 64 << 10

// readBody reads the body into x.Body, at most MaxBody+1 bytes of it.
func (x exchangeRequest) readBody(w http.ResponseWriter, r *http.Request) *refusal.Refusal {
	if r.ContentLength == 0 {
		return refusal.Empty
	}
	// Before a byte of it is read.
	if refused := x.charges.chargeBody(max(r.ContentLength, 0)); refused != nil {
		return refused
	}
	x.body = codec.GetBuffer()
	b := x.body.B[:0]
	// One byte more than announced, so that the last read also finds the end.
	b = slices.Grow(b, int(min(max(r.ContentLength, 0)+1, maxAhead)))
	x.conn.EndHandler() // it is up to the client
	defer x.conn.BeginHandler()
	x.h.reads.beginWatch(&x.watch, w)
	defer x.h.reads.endWatch(&x.watch)
	for others := readStep; ; {
		// Who sends faster than we read never blocks, and would keep the processor for 10 ms at a time.
		if len(b) >= others {
			others = len(b) + readStep
			runtime.Gosched()
		}
		if len(b) == cap(b) {
			more := len(b)
			if left := r.ContentLength + 1 - int64(len(b)); left > 0 {
				more = min(more, int(left))
			}
			if r.ContentLength < 0 {
				if refused := x.charges.chargeBody(int64(len(b) + more)); refused != nil {
					return refused
				}
			}
			b = slices.Grow(b, more)
		}
		room := min(int64(cap(b)), x.h.o.MaxBody+1, int64(len(b)+readStep))
		n, err := r.Body.Read(b[len(b):room])
		b = b[:len(b)+n]
		x.body.B = b
		x.watch.got.Store(int64(len(b)))
		if int64(len(b)) > x.h.o.MaxBody {
			return refuseSize(x.h.o.MaxBody)
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			x.unread = !errors.Is(err, os.ErrDeadlineExceeded) // or its time is over
			if x.watch.trickled.Load() {
				return refusal.Trickle
			}
			return refuseUnread(err)
		}
		break
	}
	x.unread = false
	if len(b) == 0 {
		return refusal.Empty
	}
	x.Body = b
	return nil
}

func refuseUnread(err error) *refusal.Refusal {
	var tooLarge *http.MaxBytesError // set by a middleware with a lower limit
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refusal.SlowBody
	case errors.As(err, &tooLarge):
		return refusal.TooLarge
	}
	return refusal.Body
}

// scanBody scans the body. Large ones are scanned in turn, and none but the smallest while the
// client owes for others: to look at one of those costs no more than to refuse it.
func (x exchangeRequest) scanBody(ctx context.Context) *refusal.Refusal {
	if len(x.Body) > limits.OwedBytes.Value() && x.charges.account != nil && x.h.o.Debt != nil {
		if wait := x.h.o.Debt(x.charges.account); wait > 0 {
			return refusal.Of(limits.PrincipalRate.Row).In(wait)
		}
	}
	if len(x.Body) > limits.TurnBytes.Value() && x.charges.account != nil {
		ctx, cancel := context.WithTimeout(ctx, limits.TurnWait.Value())
		defer cancel()
		turns := x.h.o.Accounts.Turns
		if !turns.Take(ctx, x.charges.account) {
			return refusal.Turn
		}
		defer turns.Leave()
	}
	if err := codec.Scan(x.Body, &x.Msg, x.h.o.Limits); err != nil {
		return refuseMessage(err)
	}
	return nil
}

// releaseBody returns the memory of the request's bytes.
func (x exchangeRequest) releaseBody() {
	x.Body, x.Msg, x.Header = nil, codec.Message{}, nil
	x.body.Free()
	x.body = nil
	x.charges.refundRequest()
}

// dispatchRequest passes x to the dispatcher.
func (x exchangeRequest) dispatchRequest(method string) {
	defer x.dispatcherReturned()
	switch {
	case x.endpoint == sseEndpoint:
		x.h.d.(Connector).Connect(x.Exchange)
	case x.endpoint == messagesEndpoint:
		x.h.d.(Connector).Message(x.Exchange)
	case method == http.MethodPost:
		x.h.d.Post(x.Exchange)
	case method == http.MethodGet:
		x.h.d.Get(x.Exchange)
	default:
		x.h.d.Delete(x.Exchange)
	}
}

// dispatcherReturned runs when the dispatcher has returned or panicked, or ends its goroutine.
func (x exchangeRequest) dispatcherReturned() {
	if v := recover(); v != nil {
		if v != http.ErrAbortHandler {
			x.h.o.Log.LogAttrs(x.base, slog.LevelError, "transport: dispatcher panicked", panicAttrs(v, debug.Stack())...)
		}
		x.mu.Lock()
		streaming := x.s != nil
		x.mu.Unlock()
		if streaming || v == http.ErrAbortHandler {
			x.writer().cutStream(cutPanic)
		}
	}
	if x.isFresh() { // asked first, because each request comes here and a refusal is an allocation
		id := x.Msg.ID
		if x.Msg.Kind != codec.Request {
			id = nil
		}
		refusal.Internal.Tell(x.Exchange, id)
	}
	x.releaseBody()
}

// serveInline serves an exchange whose connection cannot be taken over. The response ends when
// ServeHTTP returns, while a call may go on. So the dispatcher gets a goroutine of its own, and
// this one writes.
func (x exchangeRequest) serveInline(w http.ResponseWriter, method string) {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		x.dispatchRequest(method)
	}()
	woken, done := false, x.base.Done()
	for x.isFresh() {
		select {
		case <-x.wake:
			woken = true
		case <-returned:
			// Something was sent by now; the state says what.
			returned = nil
		case <-done:
			if done = nil; x.client().hasLeft() {
				x.client().noteGone()
			}
		}
	}
	x.mu.Lock()
	s, writes := x.s, x.state == answered
	x.mu.Unlock()
	if s != nil {
		x.writer().pumpStream(w)
		x.abortIf(s)
		return
	}
	if writes && !woken {
		// The response is being written. handlerReturned would wait for the lock, and virtual time stands
		// still there.
		<-x.wake
	}
	x.handlerReturned()
}

// abortIf aborts ServeHTTP if the stream was cut, so that the client sees a broken response.
func (x exchangeRequest) abortIf(s *stream) {
	x.mu.Lock()
	cut := s.cut
	x.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// handlerReturned ends the exchange for the goroutine of ServeHTTP, which returns next. From here
// on nobody may write, unless the connection was taken over.
func (x exchangeRequest) handlerReturned() {
	x.mu.Lock()
	s, last := x.s, x.last
	if s == nil {
		x.w = nil
	}
	cancel, unwatch := x.end.cancel, x.end.stopWatching
	var hook func()
	if s == nil && !last {
		hook = x.end.takeHook()
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
		tellGone(cancel, hook, nil)
	}
	x.mu.Lock()
	aborted := x.aborted
	x.mu.Unlock()
	if aborted {
		panic(http.ErrAbortHandler)
	}
}

// awaitWriter waits for a response that another goroutine is writing.
func (x exchangeRequest) awaitWriter() {
	x.writing.Lock()
	defer x.writing.Unlock()
}
