package refusal

import (
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// A Refusal is why a request is refused, and the error that its client gets. Those of the table, and of a limit, are for all requests and are
// never changed: the methods that add what is of one request return copies.
type Refusal struct {
	// Status is that of the HTTP response. A single request of a session gets 200 instead if it
	// may come back, or for DuplicateID and LongToken.
	Status int
	// Code and Text are those of the JSON-RPC error.
	Code int
	Text string
	// After is when the client may send the same request again; 0 if that would change nothing.
	After time.Duration
	// Label is that of the counter troupe.http.refused; empty if the request has reached a
	// server.
	Label string
	// HangUp closes the connection, because its next bytes are not the start of a request.
	HangUp bool
	// When says when it occurs, for the document.
	When string
}

// Of is the refusal of a request that exceeds a limit. It may come back after a second.
func Of(limit *limits.Row) *Refusal {
	r := Refusal{Status: limit.Status, Code: mcp.CodeInvalidRequest, Text: limit.Text, After: time.Second, Label: limit.Counted}
	if r.Status == 503 {
		r.Code = mcp.CodeInternalError
	}
	return &r
}

// In returns the refusal of a request that may come back after a time.
func (r *Refusal) In(wait time.Duration) *Refusal {
	later := *r
	later.After = wait
	return &later
}

// A Conn takes the error.
type Conn interface {
	Reject(status, code int, message string, data, id []byte, retryAfter time.Duration)
}

// Tell refuses the request with the id.
func (r *Refusal) Tell(c Conn, id []byte) { r.TellMore(c, "", id) }

// TellMore is Tell with more appended to the text, such as the revision of a session.
func (r *Refusal) TellMore(c Conn, more string, id []byte) {
	c.Reject(r.Status, r.Code, r.Text+more, r.data(), id, r.After)
}

// MCP is the refusal as an error of package mcp.
func (r *Refusal) MCP() *mcp.Error { return &mcp.Error{Code: r.Code, Message: r.Text, Data: r.data()} }

// data is the data of the error: when to come back, in milliseconds, rounded up.
func (r *Refusal) data() []byte {
	if r.After <= 0 {
		return nil
	}
	ms := int64((r.After + time.Millisecond - 1) / time.Millisecond)
	return append(strconv.AppendInt([]byte(`{"retryAfterMs":`), ms, 10), '}')
}
