package transport

import (
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/transport/server"
)

// Values of headers that many responses share. Their capacity is their length, so that an append copies them.
var (
	jsonHeader     = []string{typeJSON}
	noStore        = []string{"no-store"}
	exposedHeaders = []string{"Mcp-Session-Id, MCP-Protocol-Version, Retry-After, WWW-Authenticate"}
)

// plain is what the writing of a response that is no stream needs beside the response.
type plain struct {
	conn   *server.Conn // nil if no Listener has the connection
	unread bool         // the request has a body of which the end was not read
	timed  bool         // the server has a WriteTimeout, which is lifted until the response
	length [1]string    // value of Content-Length
	watch  watched      // the read of the body, and then the write of the response
}

// plainOf returns the plain of a request.
func plainOf(r *http.Request) *plain {
	p := new(plain)
	p.noteRequest(r)
	return p
}

func (p *plain) noteRequest(r *http.Request) {
	p.conn, p.unread, p.timed = server.RequestConn(r), r.ContentLength != 0, endsWrites(r)
}

// respondUncached writes a whole response, with the media type that its header names if body is not empty. No cache may keep it, which would give
// it to other clients (RFC 9110, 15.1). No slow reader can hold it up for more than WriteTimeout, and no body that does not come for more
// than half of that. It ignores errors, because the peer is then gone.
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
	// The watchdog does not cover the server's own flush: the bytes must be out before the watch ends.
	_ = http.NewResponseController(w).Flush()
}

// respondJSON is respondUncached for a body that is JSON.
func (h *Handler) respondJSON(w http.ResponseWriter, status int, body []byte, p *plain) {
	if len(body) > 0 {
		w.Header()["Content-Type"] = jsonHeader
	}
	h.respondUncached(w, status, body, p)
}

// endBody bounds the time for the rest of a body that no handler reads. The server reads a small one to its end before it sends the
// header of the response, so that this read must end before the time to write is over.
func (h *Handler) endBody(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(min(h.o.BodyTimeout, h.o.WriteTimeout) / 2))
}
