package transport

import (
	"net/http"

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
