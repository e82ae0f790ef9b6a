package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// Handler is the http.Handler of one MCP endpoint. Make it with NewHandler.
type Handler struct {
	d      Dispatcher
	o      Options
	reads  *watchdog // of bodies
	writes *watchdog // of plain answers

	mu      sync.Mutex // guards what follows; taken while an Exchange's mu is held, never the other way round
	streams *Exchange  // list of the open streams
	open    int
	closing bool
	idle    chan struct{} // closed when the last stream ends; made by Close
}

var _ http.Handler = (*Handler)(nil)

// NewHandler returns a Handler that gives the requests it lets through to d.
func NewHandler(d Dispatcher, o Options) *Handler {
	h := &Handler{d: d, o: o.filled()}
	h.reads, h.writes = newWatchdog(h.o.BodyTimeout, endRead), newWatchdog(h.o.WriteTimeout, endWrite)
	return h
}

// Streams returns the number of open streams.
func (h *Handler) Streams() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}

// Close refuses new requests with 503 and ends the open streams once what they have queued is written. When ctx is
// done first it cuts them and returns the cause. Requests that are being handled go on and may still be answered.
func (h *Handler) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	if h.open > 0 && h.idle == nil {
		h.idle = make(chan struct{})
	}
	idle := h.idle
	h.mu.Unlock()
	for _, x := range h.list() {
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
	for _, x := range h.list() {
		x.cut(cutClosing)
	}
	return context.Cause(ctx)
}

func (h *Handler) list() []*Exchange {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*Exchange, 0, h.open)
	for x := h.streams; x != nil; x = x.next {
		out = append(out, x)
	}
	return out
}

// add enters x into the list of open streams. It returns false if the handler is being closed.
func (h *Handler) add(x *Exchange) bool {
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

func (h *Handler) remove(x *Exchange) {
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

// ServeHTTP checks the request and hands it to the dispatcher.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := new(Exchange)
	x.begin(h, w, r)
	if no := h.admit(x, w, r); no != nil {
		if no != preflight {
			h.refuse(w, r, no)
		}
		x.release()
		return
	}
	if x.inline {
		h.serveInline(x, w, r.Method)
		return
	}
	h.dispatch(x, r.Method)
	x.leave()
}

func (h *Handler) dispatch(x *Exchange, method string) {
	defer x.returned()
	switch method {
	case http.MethodPost:
		h.d.Post(x)
	case http.MethodGet:
		h.d.Get(x)
	default:
		h.d.Delete(x)
	}
}

// returned runs when the dispatcher has returned or panicked.
func (x *Exchange) returned() {
	if v := recover(); v != nil {
		if v != http.ErrAbortHandler {
			x.h.o.Log.LogAttrs(x.base, slog.LevelError, "transport: dispatcher panicked", panicAttrs(v, debug.Stack())...)
		}
		x.mu.Lock()
		streaming := x.s != nil
		x.mu.Unlock()
		if streaming || v == http.ErrAbortHandler {
			x.cut(cutPanic)
		}
	}
	id := x.Msg.ID
	if x.Msg.Kind != codec.Request {
		id = nil
	}
	x.Reject(http.StatusInternalServerError, mcp.CodeInternalError, "Internal error", nil, id, 0)
	x.release()
}

// admit makes all checks that come before the dispatcher. Nil lets the request through.
func (h *Handler) admit(x *Exchange, w http.ResponseWriter, r *http.Request) *refusal {
	switch r.Method {
	case http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions:
	default:
		return refuseMethod
	}
	loopback := onLoopback(r)
	if !h.o.hostAllowed(r.Host, loopback) {
		return refuseHost
	}
	if origin := r.Header["Origin"]; len(origin) > 0 {
		if len(origin) > 1 || !h.o.originAllowed(origin[0], r.Host, loopback) {
			return refuseOrigin
		}
		header := w.Header()
		header["Access-Control-Allow-Origin"] = origin[:1:1]
		header["Access-Control-Expose-Headers"] = exposedHeaders
		header.Add("Vary", "Origin")
	}
	if r.Method == http.MethodOptions {
		h.answerPreflight(w)
		return preflight
	}
	if h.isClosing() {
		return refuseClosing
	}
	if h.o.Authenticate != nil {
		principal, err := h.o.Authenticate(r)
		if err != nil {
			h.o.Log.DebugContext(r.Context(), "transport: authentication refused", "remote", r.RemoteAddr, "error", err)
			return refuseAuth
		}
		x.Principal = principal
	}
	if v := r.Header["Mcp-Protocol-Version"]; len(v) > 0 {
		i := slices.Index(h.o.Revisions, v[0])
		if i < 0 || len(v) > 1 {
			return h.refuseRevision(strings.Join(v, ", "))
		}
		x.Version = h.o.Revisions[i]
	}
	if v := r.Header["Mcp-Session-Id"]; len(v) > 0 {
		if len(v) > 1 || !visible(v[0]) {
			return refuseSession
		}
		x.SessionID = v[0]
	}
	switch r.Method {
	case http.MethodPost:
		return h.admitPost(x, w, r)
	case http.MethodGet:
		if _, sse := accepts(r.Header["Accept"]); !sse {
			return refuseAcceptGet
		}
		if v := r.Header["Last-Event-Id"]; len(v) > 0 {
			if len(v) > 1 || len(v[0]) > maxEventID {
				return refuseEventID
			}
			x.LastEventID = v[0]
		}
	}
	return nil
}

func (h *Handler) admitPost(x *Exchange, w http.ResponseWriter, r *http.Request) *refusal {
	if v := r.Header["Content-Type"]; len(v) != 1 || !isJSON(v[0]) {
		return refuseContentType
	}
	if v := r.Header["Content-Encoding"]; len(v) > 1 || len(v) == 1 && !strings.EqualFold(v[0], "identity") {
		return refuseEncoding
	}
	if json, sse := accepts(r.Header["Accept"]); !json || !sse {
		return refuseAcceptPost
	}
	if r.ContentLength > h.o.MaxBody {
		return refuseTooLarge
	}
	if no := h.readBody(x, w, r); no != nil {
		return no
	}
	if err := codec.Scan(x.Body, &x.Msg, h.o.Limits); err != nil {
		return refuseMessage(err)
	}
	return nil
}

// maxAhead bounds the memory that is set aside on the word of a Content-Length, before its bytes have come.
const maxAhead = 64 << 10

// readBody reads the body into x.Body, at most MaxBody+1 bytes of it.
func (h *Handler) readBody(x *Exchange, w http.ResponseWriter, r *http.Request) *refusal {
	if r.ContentLength == 0 {
		return refuseEmpty
	}
	x.body = codec.GetBuffer()
	b := x.body.B[:0]
	// One byte more than announced, so that the end is seen without another round.
	b = slices.Grow(b, int(min(max(r.ContentLength, 0)+1, maxAhead)))
	h.reads.begin(&x.watch, w)
	defer h.reads.end(&x.watch)
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, len(b))
		}
		room := min(int64(cap(b)), h.o.MaxBody+1)
		n, err := r.Body.Read(b[len(b):room])
		b = b[:len(b)+n]
		x.body.B = b
		if int64(len(b)) > h.o.MaxBody {
			return refuseTooLarge
		}
		if err == nil {
			continue
		}
		if err != io.EOF {
			return refuseUnread(err)
		}
		break
	}
	if len(b) == 0 {
		return refuseEmpty
	}
	x.Body = b
	return nil
}

func refuseUnread(err error) *refusal {
	var tooLarge *http.MaxBytesError // of a middleware with a lower limit
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuseSlowBody
	case errors.As(err, &tooLarge):
		return refuseTooLarge
	}
	return refuseBody
}

// Values of headers that many responses share. Nobody appends to them in place: their capacity is their length.
var (
	jsonHeader     = []string{typeJSON}
	exposedHeaders = []string{"Mcp-Session-Id, MCP-Protocol-Version, Retry-After, WWW-Authenticate"}
)

func (h *Handler) answerPreflight(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Allow", methodsAllowed)
	if header["Access-Control-Allow-Origin"] != nil {
		header.Set("Access-Control-Allow-Methods", methodsAllowed)
		header.Set("Access-Control-Allow-Headers", "Content-Type, Accept, Authorization, Mcp-Session-Id, "+
			"MCP-Protocol-Version, Last-Event-ID, Mcp-Method, Mcp-Name, traceparent, tracestate")
		header.Set("Access-Control-Max-Age", "600")
		delete(header, "Access-Control-Expose-Headers")
	} else {
		header.Set("Vary", "Origin")
	}
	w.WriteHeader(http.StatusNoContent)
}

// respond writes a whole response and lets no slow reader hold it up for more than WriteTimeout. Errors are the
// peer's loss: nobody is there to be told. length is memory for the value of Content-Length, and watch for the watchdog.
func (h *Handler) respond(w http.ResponseWriter, status int, body []byte, length *[1]string, watch *watched) {
	header := w.Header()
	if len(body) == 0 {
		w.WriteHeader(status)
		return
	}
	header["Content-Type"] = jsonHeader
	length[0] = strconv.Itoa(len(body))
	header["Content-Length"] = length[:]
	h.writes.begin(watch, w)
	w.WriteHeader(status)
	_, _ = w.Write(body)
	// Nobody watches the server's own flush: the bytes must be out before the watch ends.
	_ = http.NewResponseController(w).Flush()
	h.writes.end(watch)
}

// visible reports whether s is a session id by the specification: one or more of 0x21 to 0x7E.
func visible(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return s != ""
}

// seconds formats d as whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
