package backend

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// An Error is why a call has no answer of its backend.
type Error struct {
	Backend string
	// Reason is a word that never changes its meaning: one of package pool or package upstream.
	Reason string
	// Ran is false if it is certain that the backend did nothing, and true if nobody knows.
	Ran bool
	// Text says what happened, for the client. It has no secrets, and the last words of a backend that did not start.
	Text string
	// After is when it may help to come again, 0 where that is not known.
	After time.Duration
	Err   error // the cause, nil for none
}

// Error returns the text.
func (e *Error) Error() string { return "backend " + e.Backend + ": " + e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Wire returns the error that a client gets: [mcp.CodeCallLost] where nobody knows what became of the call, and else
// [mcp.CodeInternalError], whose data says that it did not run.
func (e *Error) Wire() *mcp.Error {
	if f, ok := errors.AsType[*upstream.Failure](e.Err); ok && e.Ran {
		wire := f.Wire()
		return mcp.NewError(wire.Code, e.Error()).WithData(wireData{Backend: e.Backend, Reason: e.Reason})
	}
	return mcp.NewError(mcp.CodeInternalError, e.Error()).WithData(wireData{Backend: e.Backend, Reason: e.Reason, Ran: new(bool), After: e.After.Milliseconds()})
}

type wireData struct {
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
	Ran     *bool  `json:"ran,omitempty"`
	After   int64  `json:"retryAfterMs,omitempty"`
}

// refusals say why a want got no instance.
var refusals = map[pool.Reason]string{
	pool.FailedTo:  "it does not start",
	pool.TooSlow:   "it does not start in time",
	pool.Broken:    "it has failed again and again, and is left alone for a while",
	pool.QueueFull: "too many calls wait for it",
	pool.NoRoom:    "there was no room for one more instance of it in time",
	pool.NodeFull:  "the node has as many instances of backends as it may have",
	pool.Left:      "the session has ended",
	pool.Moved:     "the session is at another node now",
	pool.Closed:    "the node ends",
	pool.Replaced:  "it is not configured any more, or otherwise",
}

// newRefusal is the error of a call whose want was refused.
func newRefusal(name string, r *pool.Refuse) *Error {
	text := refusals[r.Reason]
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return &Error{Backend: name, Reason: string(r.Reason), Text: text, After: r.After}
}

// noStore is why a want is refused of which nobody knows what an earlier process has left for it.
const noStore pool.Reason = "store"

// unknownLeft is the error of such a call.
func unknownLeft(name string, err error) *Error {
	return &Error{Backend: name, Reason: string(noStore), Text: err.Error(), After: time.Second, Err: err}
}

// ends say why an instance has ended in mid-call that the pool has ended. What is not among them ends with the node, or serves no call.
var ends = map[pool.Reason]string{
	pool.Restarted: "an operator has restarted it",
	pool.Heavy:     "it held more than it may, and was ended",
	pool.Left:      "the session has ended",
	pool.Replaced:  refusals[pool.Replaced],
}

// newCallError is the error of a call of a backend that failed with err.
func newCallError(name string, err error) *Error {
	f, ok := errors.AsType[*upstream.Failure](err)
	if !ok {
		f = &upstream.Failure{Why: upstream.ReasonEnded, Text: err.Error(), Err: err}
	}
	text := f.Text
	if f.Wire().Code == mcp.CodeCallLost {
		text += "; whether the call took effect is unknown"
	}
	return &Error{Backend: name, Reason: string(f.Why), Ran: f.Outcome == upstream.Lost, Text: text, After: f.After, Err: f}
}
