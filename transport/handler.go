package transport

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
)

// Handler is the http.Handler of one MCP endpoint. Make it with NewHandler. SSE and Messages are two more endpoints of
// the same server, for the older transport; options, checks, Streams and Close apply to all three.
type Handler struct {
	d      Dispatcher
	o      Options
	reads  *watchdog // of bodies
	writes *watchdog // of plain responses

	hangups hangups // of connections that were taken over for stateless requests

	mu      sync.Mutex // guards the fields below
	streams *Exchange  // list of the open streams
	open    int
	closing bool
	idle    chan struct{} // closed when the last stream ends; made by Close
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a Handler that passes the requests it admits to d.
func NewHandler(d Dispatcher, o Options) *Handler {
	h := &Handler{d: d, o: o.withDefaults()}
	h.reads, h.writes = newWatchdog(h.o.BodyTimeout, endRead), newWatchdog(h.o.WriteTimeout, endWrite)
	h.reads.least = h.o.BodyRate
	return h
}

// Streams returns the number of open streams.
func (h *Handler) Streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// Close refuses new requests with 503 and ends the open streams once their queues are written. If ctx is done first, it
// cuts them and returns the cause. Requests that are being handled go on and may still be answered.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	if h.open > 0 && h.idle == nil {
		h.idle = make(chan struct{})
	}
	idle := h.idle
	h.mu.Unlock()
	for _, x := range h.openStreams() {
		x.Finish()
	}
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	for _, x := range h.openStreams() {
		x.cutStream(cutClosing)
	}
	return context.Cause(ctx)
}

func (h *Handler) openStreams() []*Exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*Exchange, 0, h.open)
	for x := h.streams; x != nil; x = x.next {
		out = append(out, x)
	}
	return out
}

// addStream adds x to the list of open streams. It returns false if the handler is being closed.
func (h *Handler) addStream(x *Exchange) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	x.next = h.streams
	if x.next != nil {
		x.next.prev = x
	}
	h.streams = x
	h.open++
	return true
}

func (h *Handler) removeStream(x *Exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.prev != nil {
		x.prev.next = x.next
	} else {
		h.streams = x.next
	}
	if x.next != nil {
		x.next.prev = x.prev
	}
	x.prev, x.next = nil, nil
	h.open--
	if h.open == 0 && h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
}

func (h *Handler) isClosing() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closing
}

// ServeHTTP checks the request and passes it to the dispatcher.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serveExchange(new(Exchange), w, r)
}

func (h *Handler) serveExchange(x *Exchange, w http.ResponseWriter, r *http.Request) {
	x.beginRequest(h, w, r)
	refused := x.chargeRequest(r)
	x.conn.BeginHandler()
	defer x.conn.EndHandler()
	passed := false
	defer func() {
		if !passed { // it is refused, or Authenticate, the body or the response, which the program may have wrapped, has panicked
			x.releaseBody()
		}
	}()
	if refused == nil {
		refused = h.admitRequest(x, w, r)
	}
	if refused != nil {
		if refused != preflight {
			h.refuseRequest(w, x.endpoint, refused, &x.plain)
		}
		return
	}
	if passed = true; x.inline { // dispatcherReturned releases it
		h.serveInline(x, w, r.Method)
		return
	}
	returned := false
	defer func() {
		if !returned { // the goroutine ends
			x.handlerReturned()
		}
	}()
	h.dispatchMethod(x, r.Method)
	returned = true
	x.handlerReturned()
}

func (h *Handler) dispatchMethod(x *Exchange, method string) {
	defer x.dispatcherReturned()
	switch {
	case x.endpoint == sseEndpoint:
		h.d.(Connector).Connect(x)
	case x.endpoint == messagesEndpoint:
		h.d.(Connector).Message(x)
	case method == http.MethodPost:
		h.d.Post(x)
	case method == http.MethodGet:
		h.d.Get(x)
	default:
		h.d.Delete(x)
	}
}

// dispatcherReturned runs when the dispatcher has returned or panicked, or ends its goroutine.
func (x *Exchange) dispatcherReturned() {
	if v := recover(); v != nil {
		if v != http.ErrAbortHandler {
			x.h.o.Log.LogAttrs(x.base, slog.LevelError, "transport: dispatcher panicked", panicAttrs(v, debug.Stack())...)
		}
		x.mu.Lock()
		streaming := x.s != nil
		x.mu.Unlock()
		if streaming || v == http.ErrAbortHandler {
			x.cutStream(cutPanic)
		}
	}
	if !x.isSent() { // asked first, because each request comes here and a refusal is an allocation
		id := x.Msg.ID
		if x.Msg.Kind != codec.Request {
			id = nil
		}
		refusal.Internal.Tell(x, id)
	}
	x.releaseBody()
}

// isLeaving reports whether connections must be closed after their responses.
func (h *Handler) isLeaving() bool { return h.o.Leaving != nil && h.o.Leaving() }

// bothEras reports whether stateless requests may come to the endpoint.
func (h *Handler) bothEras(x *Exchange) bool {
	return x.endpoint == streamable && len(h.o.Stateless) > 0
}
