package upstream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// The two outcomes of a request without an answer. Each [*Failure] is one of them by errors.Is.
var (
	// ErrUnsent says that the request had no effect: nothing of it reached the backend, or the backend
	// refused it unread. It may be sent again, to this instance or another.
	ErrUnsent = errors.New("the backend did not run the request")
	// ErrLost says that the request was handed over, at least in part, and that nobody knows whether
	// it took effect.
	ErrLost = errors.New("whether the request took effect is unknown")
)

// ErrNoQuestion is the error for an answer to a question that is not open: it was answered or withdrawn,
// or its request has ended. Nothing was sent. Where the connection has ended the error is that end.
var ErrNoQuestion = errors.New("upstream: the backend has no such question open")

// An Outcome says what is known of a request that has no answer.
type Outcome uint8

// The outcomes. The zero value is the one that promises nothing.
const (
	Lost   Outcome = iota // see [ErrLost]
	NotRun                // see [ErrUnsent]
)

// A Reason is why a request has no answer, or why a connection was not made or has ended. It is a
// word for logs, metrics and the data of errors, and never changes its meaning.
type Reason string

// The reasons.
const (
	ReasonCancelled   Reason = "cancelled"    // the context of the caller ended
	ReasonClosed      Reason = "closed"       // our side closed the connection
	ReasonEnded       Reason = "ended"        // the process, the connection or the stream ended
	ReasonUnreachable Reason = "unreachable"  // no connection could be made
	ReasonFull        Reason = "full"         // too many requests, or messages that the backend does not read
	ReasonTooLarge    Reason = "too-large"    // a message beyond MostMessage
	ReasonMalformed   Reason = "malformed"    // the answer is no answer of JSON-RPC
	ReasonSessionGone Reason = "session-gone" // the backend has forgotten the session
	ReasonCredentials Reason = "credentials"  // HTTP 401 or 403
	ReasonRedirected  Reason = "redirected"   // HTTP 3xx, which is not followed
	ReasonBusy        Reason = "busy"         // HTTP 429 or 503
	ReasonStatus      Reason = "status"       // any other HTTP status
	ReasonSilent      Reason = "silent"       // no answer to the handshake in time
	ReasonRefused     Reason = "refused"      // an error in answer to the handshake
	ReasonEra         Reason = "era"          // no revision that both sides speak
	ReasonRestart     Reason = "restart"      // the process was spoken to in the wrong era: start another
	ReasonListing     Reason = "listing"      // a list without end, or beyond its bounds
)

// A Failure is why something that was asked of a backend did not happen. All errors of a [Conn]
// are Failures, but [ErrNoQuestion], and the *[mcp.Error] with which a backend refuses a [Conn.List].
type Failure struct {
	Why     Reason
	Outcome Outcome
	// Text says what happened in a sentence that may be shown to clients: it names no address.
	Text string
	// Status is the HTTP status, 0 if there is none.
	Status int
	// After is how long the backend asked to wait before the next try; 0 if it did not say.
	After time.Duration
	// Excerpt is the beginning of what came instead of an answer, on one line, for a log.
	Excerpt string
	// Era is what is known of the backend with [ReasonRestart].
	Era Era
	// Err is the cause, nil for none: an error of the network, the cause of the end of a context, or
	// the *[mcp.Error] that the backend refused the handshake with.
	Err error
}

var _ error = (*Failure)(nil)

// Error returns the text with the cause.
func (f *Failure) Error() string {
	text := "upstream: " + f.Text
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Is reports whether target is the outcome of f, [ErrUnsent] or [ErrLost].
func (f *Failure) Is(target error) bool {
	return target == ErrUnsent && f.Outcome == NotRun || target == ErrLost && f.Outcome == Lost
}

// Wire returns the error that a client gets: [mcp.CodeCallLost] for a request that is lost, and
// [mcp.CodeInternalError] for one that was not run, whose data says so, or whose answer is none.
func (f *Failure) Wire() *mcp.Error {
	code := mcp.CodeInternalError
	if f.Outcome == Lost && f.Why != ReasonMalformed && f.Why != ReasonTooLarge {
		code = mcp.CodeCallLost
	}
	data := struct {
		Reason Reason `json:"reason"`
		Ran    *bool  `json:"ran,omitempty"`
		After  int64  `json:"retryAfterMs,omitempty"`
	}{Reason: f.Why, After: f.After.Milliseconds()}
	if f.Outcome == NotRun {
		data.Ran = new(bool)
	}
	return mcp.NewError(code, f.Text).WithData(data)
}

// failureOf returns err as a Failure. The end of the caller's context comes first, because it is what a
// link runs into when the caller gives up.
func failureOf(ctx context.Context, err error) *Failure {
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		f = &Failure{Why: ReasonEnded, Text: "the connection to the backend broke", Err: err}
	}
	if ctx.Err() != nil && f.Why != ReasonCancelled {
		return cancelled(ctx, f.Outcome)
	}
	return f
}

func cancelled(ctx context.Context, o Outcome) *Failure {
	return &Failure{Why: ReasonCancelled, Outcome: o, Text: "the request was given up", Err: context.Cause(ctx)}
}

func malformed(text string, data []byte) *Failure {
	return &Failure{Why: ReasonMalformed, Text: text, Excerpt: excerptOf(data)}
}

// mostExcerpt is how much of what is no message a Failure and an [Oddity] show, in bytes.
const mostExcerpt = 300

// excerptOf returns the beginning of data on one line.
func excerptOf(data []byte) string {
	cut := len(data) > mostExcerpt
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(data[:min(len(data), mostExcerpt)]), "�")), " ")
	if cut {
		text += "…"
	}
	return text
}
