package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/refusal"
)

// Handler is the http.Handler of one MCP endpoint. Make it with NewHandler. SSE and Messages are
// two more endpoints of the same server, for the older transport; options, checks, Streams and
// Close apply to all three.
type Handler struct {
	d      Dispatcher
	o      Options
	reads  *watchdog // of bodies
	writes *watchdog // of plain responses

	hangups hangups // of connections that were taken over for stateless requests

	streams openStreams
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
	h.streams.mu.Lock()
	defer h.streams.mu.Unlock()
	return h.streams.open
}

// Close refuses new requests with 503 and ends the open streams once their queues are written. If
// ctx is done first, it cuts them and returns the cause. Requests that are being handled go on and
// may still be answered.
func (h *Handler) Close(ctx context.Context) error {
	idle := h.streams.refuseStreams()
	for _, x := range h.streams.listStreams() {
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
	for _, x := range h.streams.listStreams() {
		x.writer().cutStream(cutClosing)
	}
	return context.Cause(ctx)
}

// ServeHTTP checks the request and passes it to the dispatcher.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serveExchange(new(Exchange), w, r)
}

func (h *Handler) serveExchange(x *Exchange, w http.ResponseWriter, r *http.Request) {
	request := exchangeRequest{x}
	request.beginRequest(h, w, r)
	refused := x.charges.chargeRequest(r)
	x.conn.BeginHandler()
	defer x.conn.EndHandler()
	passed := false
	defer func() {
		if !passed { // it is refused, or Authenticate, the body or the response, which the program may have wrapped, has panicked
			request.releaseBody()
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
		request.serveInline(w, r.Method)
		return
	}
	returned := false
	defer func() {
		if !returned { // the goroutine ends
			request.handlerReturned()
		}
	}()
	request.dispatchRequest(r.Method)
	returned = true
	request.handlerReturned()
}

// isLeaving reports whether connections must be closed after their responses.
func (h *Handler) isLeaving() bool { return h.o.Leaving != nil && h.o.Leaving() }

// bothEras reports whether stateless requests may come to the endpoint.
func (h *Handler) bothEras(x *Exchange) bool {
	return x.endpoint == streamable && len(h.o.Stateless) > 0
}

// respondUncached writes a whole response, with the media type that its header names if body is not
// empty. No cache may keep it, which would give it to other clients (RFC 9110, 15.1). No slow
// reader can hold it up for more than WriteTimeout, and no body that does not come for more than
// half of that. It ignores errors, because the peer is then gone.
func (h *Handler) respondUncached(w http.ResponseWriter, status int, body []byte, p *plain) {
	w.Header()["Cache-Control"] = noStore
	h.writeResponse(w, status, body, p)
}

// writeResponse is respondUncached for a response whose header says what caches may do.
func (h *Handler) writeResponse(w http.ResponseWriter, status int, body []byte, p *plain) {
	if len(body) > 0 || status != http.StatusNoContent { // with a length, as the flush would have it sent in chunks otherwise
		p.length[0] = strconv.Itoa(len(body))
		w.Header()["Content-Length"] = p.length[:]
	}
	p.conn.EndHandler() // what is left is up to the client
	defer p.conn.BeginHandler()
	if p.unread {
		h.endBody(w)
	}
	if p.timed {
		writeBy(w, h.o.WriteTimeout)
	}
	h.writes.beginWatch(&p.watch, w)
	defer h.writes.endWatch(&p.watch)
	w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = w.Write(body)
	}
	// The watchdog does not cover the server's own flush: the bytes must be out before the watch
	// ends.
	_ = http.NewResponseController(w).Flush()
}

// respondJSON is respondUncached for a body that is JSON.
func (h *Handler) respondJSON(w http.ResponseWriter, status int, body []byte, p *plain) {
	if len(body) > 0 {
		w.Header()["Content-Type"] = jsonHeader
	}
	h.respondUncached(w, status, body, p)
}

// endBody bounds the time for the rest of a body that no handler reads. The server reads a small
// one to its end before it sends the header of the response, so that this read must end before the
// time to write is over.
func (h *Handler) endBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(h.o.BodyTimeout, h.o.WriteTimeout) / 2))
}

// answerPreflight answers the request by which a browser asks what a page may send.
// Access-Control-Allow-Headers has no wildcard for a prefix, nor one for requests with credentials,
// so it repeats the Mcp-Param-* that were asked for.
func (h *Handler) answerPreflight(x *Exchange, w http.ResponseWriter, r *http.Request, methods string) {
	header := w.Header()
	header.Set("Allow", methods)
	if header["Access-Control-Allow-Origin"] != nil {
		header.Set("Access-Control-Allow-Methods", methods)
		header.Set("Access-Control-Allow-Headers", allowedHeaders+paramHeaders(r.Header["Access-Control-Request-Headers"]))
		header.Set("Access-Control-Max-Age", "600")
		delete(header, "Access-Control-Expose-Headers")
	} else {
		header.Set("Vary", "Origin")
	}
	h.respondUncached(w, http.StatusNoContent, nil, &x.plain)
}

// refuseRevision refuses a version that is not supported, with the id of its message if that was
// read.
func (h *Handler) refuseRevision(x *Exchange, requested string) *refusal.Refusal {
	if len(requested) > maxEchoed {
		requested = requested[:maxEchoed]
	}
	supported := append([]string{}, h.o.Revisions...)
	if h.bothEras(x) {
		supported = append(supported, h.o.Stateless...)
	}
	slices.SortFunc(supported, func(a, b string) int { return strings.Compare(b, a) }) // newest first, as clients choose
	// Strings and slices of them cannot fail to marshal; bytes that are not UTF-8 become U+FFFD.
	data, _ := json.Marshal(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{supported, strings.ToValidUTF8(requested, "\uFFFD")})
	refused := *refusal.Version
	if len(h.o.Stateless) == 0 {
		refused = *refusal.LegacyVersion
	}
	refused.Data = data
	return refusalWithID(&x.Msg, &refused)
}

// refuseRequest writes the refusal and counts it.
func (h *Handler) refuseRequest(w http.ResponseWriter, e endpoint, refused *refusal.Refusal, p *plain) {
	if h.o.Observer != nil {
		h.o.Observer.Rejected(refused.Status, refused.Label)
	}
	header := w.Header()
	switch refused.Status {
	case http.StatusMethodNotAllowed:
		header.Set("Allow", cmp.Or(refused.Allow, e.allowHeader()))
	case http.StatusUnauthorized:
		header.Set("Www-Authenticate", "Bearer")
	}
	if refused.Challenge != "" {
		header.Set("Www-Authenticate", refused.Challenge)
	}
	if refused.After > 0 {
		header.Set("Retry-After", wholeSeconds(refused.After))
	}
	if refused.HangUp {
		header.Set("Connection", "close")
	}
	if refused.Bare {
		h.respondUncached(w, refused.Status, nil, p)
		return
	}
	b := codec.GetBuffer()
	defer b.Free()
	b.B = codec.AppendError(b.B, refused.ID, refused.Code, refused.Text, refused.Data)
	h.respondJSON(w, refused.Status, b.B, p)
}

// SSE returns the handler of the GET that opens a session of the HTTP+SSE transport (2024-11-05).
// The session lives as long as its connection. Its first event gives the address of the session's
// messages: the path of the request as the client wrote it, with messages as its last segment, and
// the id of the session. So the address is right below any prefix that a mux strips; what a proxy
// cuts off comes before it, see Options.PublicPath. A POST is answered with 405, which tells a
// client that tries the newer transport first to fall back.
//
// If the dispatcher is no [Connector], every request is answered with 404.
func (h *Handler) SSE(messages string) http.Handler {
	if _, ok := h.d.(Connector); !ok {
		return http.HandlerFunc(h.serveNothing)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serveExchange(&Exchange{endpoint: sseEndpoint, messages: h.o.PublicPath + siblingPath(r, messages)}, w, r)
	})
}

// Messages returns the handler of the POSTs of the HTTP+SSE transport, each of one message for the
// session that the query parameter sessionId names. If the dispatcher is no [Connector], every
// request is answered with 404.
func (h *Handler) Messages() http.Handler {
	if _, ok := h.d.(Connector); !ok {
		return http.HandlerFunc(h.serveNothing)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serveExchange(&Exchange{endpoint: messagesEndpoint}, w, r)
	})
}

// serveNothing answers a request for an endpoint that the dispatcher does not serve.
func (h *Handler) serveNothing(w http.ResponseWriter, r *http.Request) {
	g := &Guard{h}
	g.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.Refuse(w, r) {
			g.Respond(w, r, http.StatusNotFound, nil)
		}
	}), false)
}

// onlyStateless reports whether a request is of a revision with sessions, of which the server
// speaks none, and of no session that began when it did.
func (h *Handler) onlyStateless(x *Exchange) bool {
	return len(h.o.Revisions) == 0 && h.bothEras(x) && x.SessionID == ""
}
