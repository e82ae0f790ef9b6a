package refusal

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// A Refusal is why a request is refused, and the error that its client gets. Those of the table are
// for all requests and are never changed: the methods that add what is of one request return
// copies.
type Refusal struct {
	// Status is that of the HTTP response. A single request of a session gets 200 instead if it
	// may come back, or for DuplicateID and LongToken.
	Status int
	// Code, Text and Data are those of the JSON-RPC error, and ID is the request's; Data and ID are
	// raw JSON, nil for none.
	Code int
	Text string `json:"Message"`
	Data []byte `json:",omitempty"`
	ID   []byte `json:",omitempty"`
	// After is when the client may send the same request again; 0 if that would change nothing.
	After time.Duration `json:",omitempty"`
	// Challenge is the value of WWW-Authenticate, "" for none.
	Challenge string `json:",omitempty"`

	// Label is that of the counter troupe.http.refused; empty if the request has reached a
	// server, and that could answer it.
	Label string `json:"-"`
	// HangUp closes the connection, because its next bytes are not the start of a request.
	HangUp bool `json:"-"`
	// Bare leaves out the body.
	Bare bool `json:"-"`
	// Allow is the value of Allow with status 405, "" for all methods of the endpoint.
	Allow string `json:"-"`
	// When says when it occurs, for the document.
	When string `json:"-"`
	// Limit is the limit that was exceeded, nil for a fault.
	Limit *limits.Row `json:"-"`
	// Err is what the refusal comes from, for the log; nil if it says all there is.
	Err error `json:"-"`
}

// New is a refusal that has no row.
func New(status, code int, text string) *Refusal {
	return &Refusal{Status: status, Code: code, Text: text}
}

// Of is the refusal of a request that exceeds a limit. It may come back after a second.
func Of(limit *limits.Row) *Refusal {
	r := Refusal{Status: limit.Status, Code: mcp.CodeInvalidRequest, Text: limit.Text, After: time.Second, Label: limit.Counted, Limit: limit}
	if r.Status == 503 {
		r.Code = mcp.CodeInternalError
	}
	return &r
}

// Denied is the refusal of who is not let in. A status below 400 or above 599 means that of Auth,
// 401. err is for the log.
func Denied(status int, challenge string, err error) *Refusal {
	no := *Auth
	no.Challenge, no.Err = challenge, err
	if status >= 400 && status <= 599 && status != no.Status {
		no.Status, no.Text = status, cmp.Or(http.StatusText(status), "Refused")
	}
	if no.Status >= 500 {
		no.Code = mcp.CodeInternalError
	}
	return &no
}

// For returns the refusal of the request with the id.
func (r *Refusal) For(id []byte) *Refusal {
	no := *r
	no.ID = id
	return &no
}

// In returns the refusal of a request that may come back after a time.
func (r *Refusal) In(wait time.Duration) *Refusal {
	no := *r
	no.After = wait
	return &no
}

// A Conn takes the error.
type Conn interface {
	Reject(*Refusal)
}

// Tell refuses the request with the id. The data of the error says when it may come again.
func (r *Refusal) Tell(c Conn, id []byte) { r.TellMore(c, "", id) }

// TellMore is Tell with more appended to the text, such as the revision of a session.
func (r *Refusal) TellMore(c Conn, more string, id []byte) {
	no := r.For(id)
	no.Text, no.Data = r.Text+more, r.data()
	c.Reject(no)
}

// Error is for the log.
func (r *Refusal) Error() string {
	if r.Err == nil {
		return r.Text
	}
	return r.Err.Error()
}

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// MCP is the refusal as an error of package mcp.
func (r *Refusal) MCP() *mcp.Error { return &mcp.Error{Code: r.Code, Message: r.Text, Data: r.data()} }

// data is the data of the error: when to come back, in milliseconds, rounded up, if there is no other.
func (r *Refusal) data() []byte {
	if r.After <= 0 || r.Data != nil {
		return r.Data
	}
	ms := int64((r.After + time.Millisecond - 1) / time.Millisecond)
	return append(strconv.AppendInt([]byte(`{"retryAfterMs":`), ms, 10), '}')
}
