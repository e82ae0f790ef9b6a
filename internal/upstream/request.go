package upstream

import (
	"net/http"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// A Request is what is asked of a backend.
//
// Its functions are called on the goroutine that reads what the backend sends, in the order in which
// it came, and must not block: nothing else of the same stream is read meanwhile. The bytes that they
// get are theirs to keep, and not to change. After Do has returned because its context ended, one of
// them may still be called once.
type Request struct {
	// ID is from [Conn.NewID]; 0 has Do take one.
	ID     int64
	Method string
	// Params is a valid JSON object, or nil. Of its `_meta` the members that belong to the connection
	// of its client are left out, and those of this one are put in; all others stay as they are.
	Params []byte
	// Capabilities are those of the client for this request alone, an object (2026-07-28); nil is
	// those of [Options].
	Capabilities []byte
	// Level is the log level that the client of the request wants, which `_meta` says in place of what Params has
	// (2026-07-28); "" leaves that as it is. In the older era logging/setLevel tells it.
	Level string
	// Header has more HTTP headers, such as Mcp-Param-*. Links without headers ignore it.
	Header http.Header

	// Progress gets the params of each progress notification. nil asks for none.
	Progress func(params []byte)
	// ProgressOf is the ID of an earlier request that was answered with a task: its progress, which goes on
	// under its token, comes to Progress of this one. 0 has the request have its own.
	ProgressOf int64
	// Event gets what else belongs to the request: over HTTP the questions and notifications on its
	// response stream, but for those that are about the whole server; over lines only notifications
	// that carry the id of a subscription. nil leaves them to [Options].Event.
	Event func(Event)
	// Passed gets the id of each event of the response stream. A process that knows the last one, and
	// the id of the request, can go on with the stream, see [Resume].
	Passed func(event string)
	// Answered gets the answer before [Conn.Do] returns it: before the link asks for what comes next.
	Answered func(Response)
	// Late is called when the answer to the request came after Do had returned without it.
	Late func()
}

// A Response is the answer of a backend.
type Response struct {
	Kind   ResponseKind
	Result []byte // raw JSON, an object; nil for an error
	Error  []byte // the raw error object; nil for a result
}

// Err returns the error of the response decoded, nil for a result. Its message and data are the
// backend's.
func (r *Response) Err() *mcp.Error {
	if r.Kind != Refused {
		return nil
	}
	e := new(mcp.Error)
	if codec.UnmarshalValid(r.Error, e) != nil {
		// The code has more digits than a number of ours.
		e = mcp.NewError(mcp.CodeInternalError, "")
	}
	return e
}

// A ResponseKind says what an answer is. In the older era a result is always complete, whatever its
// members are: some servers let those of the newer era slip out.
type ResponseKind uint8

// The kinds.
const (
	Complete      ResponseKind = iota // a result
	InputRequired                     // a result that asks for input: the request is to be sent again with it
	TaskCreated                       // a result that is a task, of the extension
	UnknownResult                     // a result of a type that this package does not know
	Refused                           // an error
)

// kindOf returns the kind of a result in the newer era. A result without a type is complete, by the
// specification.
func kindOf(result []byte) ResponseKind {
	raw := codec.Field(result, "resultType")
	switch {
	case raw == nil || codec.SameString(raw, string(mcp.ResultComplete)):
		return Complete
	case codec.SameString(raw, string(mcp.ResultInputRequired)):
		return InputRequired
	case codec.SameString(raw, string(mcp.ResultTask)):
		return TaskCreated
	}
	return UnknownResult
}

// An Event is a message of the backend that is no answer: a notification, or a question, which is a
// request of the backend (before 2026-07-28).
type Event struct {
	Method string
	Params []byte // raw JSON, an object; nil for none
	// ID is the backend's id of a question, which [Conn.Answer] and [Conn.Refuse] take. It is nil for
	// a notification.
	ID []byte
	// Request is the id of the request on whose response stream the event came. 0 says that nothing
	// tells which request it is about, if any: it came over lines, or on a standalone stream.
	Request int64
}

// An Oddity is something that a backend does and should not. Nothing else comes of it.
type Oddity struct {
	What    OddityKind
	Count   uint64 // how often it has happened, this time included
	Excerpt string // of what came, on one line
}

// An OddityKind is a kind of oddity.
type OddityKind uint8

// The kinds.
const (
	OddText      OddityKind = iota // what is no JSON, such as a log on stdout
	OddMessage                     // JSON that is no message, or a message with members of wrong types
	OddBatch                       // a batch; its messages count
	OddAnswer                      // an answer to no open request: a second one, or one with an unknown id
	OddProgress                    // progress of no open request
	OddQuestion                    // a question that is asked in the newer era, too early, or with an id in use
	OddCancel                      // the withdrawal of something that is not open
	OddAnonymous                   // an error without an id, that could be about any request
	oddityKinds                    // their number
)

var oddityNames = [oddityKinds]string{"text", "message", "batch", "answer", "progress", "question", "cancel", "anonymous"}

// String returns a word for logs and metrics.
func (k OddityKind) String() string { return oddityNames[k] }

// Counts are how often each kind of oddity happened.
type Counts [oddityKinds]uint64
