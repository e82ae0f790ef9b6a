package troupe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// Call is one request as its handler sees it. It may be used from any goroutine
// until the handler returns.
type Call struct {
	c    *actors.Call
	msg  *codec.Message // the request, as a middleware passed it on
	svc  *service
	peer Peer
	// dropped is set when a log message of the call was.
	dropped atomic.Bool
	cache   atomic.Pointer[Cache] // what SetCache was told
	over    atomic.Bool           // set when its middleware has returned
	asked   atomic.Bool           // set when the client has answered a question of the call
	ctx     callContext           // the handler's
}

// Principal returns who makes the call: what Options.Authenticate returned, or
// the zero Principal without authentication. It has no Token when the call runs again
// in another process.
func (c *Call) Principal() Principal { return principalOf(c.c.Principal()) }

func (c *Call) revision() mcp.Revision { return c.peer.p.Revision() }

// Peer is the client's side of the session.
func (c *Call) Peer() *Peer { return &c.peer }

// Meta is the request's `_meta` object as it came, or as a middleware passed it on, nil
// if absent. It is valid
// until the handler returns.
func (c *Call) Meta() mcp.Meta { return mcp.Meta(c.msg.Meta) }

// Attempt is 1 for the first run of a call, and more when it runs again because
// the process that ran it was lost.
func (c *Call) Attempt() int { return c.c.Attempt() }

// Progress tells the client how far the call has got; total 0 means unknown. The
// values must rise: one that does not is dropped, and above 100 a second the
// newest wins. It does nothing when the client asked for no progress; clients of
// 2024-11-05 do not get the message. An error means that the call has ended, and
// with it the need for progress.
func (c *Call) Progress(ctx context.Context, progress, total float64, message string) error {
	token := c.c.ProgressToken()
	if token == nil || math.IsNaN(progress) || math.IsInf(progress, 0) {
		return nil
	}
	b := append([]byte(nil), `{"progressToken":`...)
	b = append(b, token...)
	b = append(b, `,"progress":`...)
	b = strconv.AppendFloat(b, progress, 'f', -1, 64)
	if total > 0 && !math.IsInf(total, 0) {
		b = append(b, `,"total":`...)
		b = strconv.AppendFloat(b, total, 'f', -1, 64)
	}
	if message != "" && c.revision().Has(mcp.FeatureProgressMessage) {
		b = append(b, `,"message":`...)
		b = codec.AppendString(b, message)
	}
	return c.c.Progress(ctx, progress, append(b, '}'))
}

// ElicitationComplete tells the client that the interaction at the URL of an
// elicitation it was asked to open has ended. It does nothing where the client's
// revision has no such elicitation.
func (c *Call) ElicitationComplete(ctx context.Context, elicitationID string) error {
	if !c.revision().Has(mcp.FeatureElicitationIDs) {
		return nil
	}
	params, err := codec.Marshal(mcp.ElicitCompleteParams{ElicitationID: elicitationID})
	if err != nil {
		return err
	}
	return c.c.Notify(ctx, mcp.NotifyElicitationComplete, params)
}

// Disconnect closes the connection of the call's event stream while the call
// runs on: the client comes back, resumes the stream and gets what it missed.
// It saves a connection where a call takes long and has nothing to say. Clients of
// revisions before 2025-11-25 would not come back: for them it does nothing.
func (c *Call) Disconnect() { c.c.CloseConnection() }

// Peer is the client's side of a session. It may be used from any goroutine, and
// kept after the call.
type Peer struct{ p *actors.Peer }

// Session is the session's id. Ids are secrets of their clients: do not log
// them where others read.
func (p *Peer) Session() string { return p.p.Key().ID }

// Revision is the protocol revision that was negotiated.
func (p *Peer) Revision() string { return p.p.Revision().String() }

// Client is what the client says it is.
func (p *Peer) Client() mcp.Implementation {
	var i mcp.Implementation
	_ = codec.Unmarshal(p.p.Client(), &i) // initialize has decoded it once
	return i
}

// Capabilities are what the client declared, as far as its revision knows it.
func (p *Peer) Capabilities() mcp.ClientCapabilities {
	var c mcp.ClientCapabilities
	_ = codec.Unmarshal(p.p.Capabilities(), &c) // initialize has decoded it once
	return c.For(p.p.Revision())
}

// Ping asks the client, on its standalone stream, whether it is there. It fails with
// ErrNoAnswer if that does not answer within 30 s, or Options.Limits.MaxAsk if that is
// less, and with mcp.ErrInexpressible since 2026-07-28.
func (p *Peer) Ping(ctx context.Context) error {
	if err := pingable(p.p.Revision()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, ErrNoAnswer)
	defer cancel()
	a, err := p.p.Ask(ctx, actors.Question{Key: "ping", Method: mcp.MethodPing})
	if err != nil {
		return err
	}
	if a.Err != nil {
		return a.Err
	}
	return nil
}

// What goes wrong with questions. None of them was answered.
var (
	// ErrNoAnswer reports that the client did not answer in time.
	ErrNoAnswer = actors.ErrNoAnswer
	// ErrTooManyPending reports that too many calls of the session wait for its client.
	ErrTooManyPending = actors.ErrTooManyPending
	// ErrTooManyRounds reports a call that has asked its client a hundred times, each
	// time by having the request sent again (2026-07-28).
	ErrTooManyRounds = actors.ErrTooManyRounds
	// ErrTooMuchInput reports that the answers so far, which the client carries from
	// one request to the next (2026-07-28), are more than 64 KiB.
	ErrTooMuchInput = actors.ErrTooMuchInput
	// ErrNoStream reports that the client listens to no standalone stream.
	ErrNoStream = actors.ErrNoStream
	// ErrUndeclared reports a question that the client has not declared to
	// answer; it was not asked. Declare it in Needs to have such clients refused.
	ErrUndeclared = errors.New("troupe: the client does not declare this capability")
)

// The causes that a handler's context ends with, for context.Cause.
var (
	ErrCancelled    = actors.ErrCancelled    // by the client
	ErrDeadline     = actors.ErrDeadline     // the call ran for too long
	ErrSessionEnded = actors.ErrSessionEnded // the client deleted the session
	ErrStreamLost   = actors.ErrStreamLost   // nobody can get the answer any more
	ErrClosing      = actors.ErrClosing      // the node is stopping
	ErrUnmounted    = actors.ErrUnmounted    // the server was taken off the Runtime
)

// pingWait is how long a client has to answer a ping, which asks nobody who would have to think.
var pingWait = limits.Ping.Value()

// Ping asks the client, on the call's stream, whether it is there. It fails with
// ErrNoAnswer if that does not answer within 30 s, or Options.Limits.MaxAsk if that is
// less, and with mcp.ErrInexpressible since 2026-07-28, where a client that is gone
// ends the call.
func (c *Call) Ping(ctx context.Context) error {
	if err := pingable(c.revision()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, ErrNoAnswer)
	defer cancel()
	a, err := c.c.Ask(ctx, []actors.Question{{Key: "ping", Method: mcp.MethodPing}})
	if err != nil {
		return err
	}
	if a[0].Err != nil {
		return a[0].Err
	}
	return nil
}

// pingable says why a client cannot be pinged.
func pingable(r mcp.Revision) error {
	if ping, _ := mcp.LookupMethod(mcp.MethodPing); ping.Allowed(mcp.ToClient, r) {
		return nil
	}
	return fmt.Errorf("troupe: ping a client of %s: %w", r, mcp.ErrInexpressible)
}
