package troupe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
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
	cache   atomic.Pointer[Cache]    // set by SetCache
	passing *passing                 // through the middleware, nil if there is none
	asked   atomic.Bool              // set when the client has answered a question of the call
	ctx     callContext              // the handler's context
	urls    atomic.Pointer[sync.Map] // ids of the client's tasks that open a URL, by the ids of their elicitations; nil without
	values  seenValues               // of the session, that the call has read
	fate    atomic.Pointer[becoming] // of a call that may become a task by itself, otherwise nil; that of the call as it came counts
	tool    *tool                    // of such a call
	denied  atomic.Pointer[denial]   // what Require has refused; that of the call as it came counts
}

// asItCame returns the call as it came, before a middleware changed its params.
func (c *Call) asItCame() *Call {
	if c.passing == nil {
		return c
	}
	return c.passing.outer
}

// passing is a request on its way through the middleware.
type passing struct {
	outer   *Call          // the call as it came
	over    atomic.Bool    // the outermost has returned
	running []atomic.Int32 // how often each runs now
}

// Principal returns the principal that makes the call, as Options.Authenticate returned
// it, or the zero Principal without authentication. It has no Token when the call runs
// again in another process.
func (c *Call) Principal() Principal { return principalOf(c.c.Principal()) }

// isLarge reports whether to read raw, all or a part of the request, takes the processor for so long that it must be done in
// turn.
func (c *Call) isLarge(raw []byte) bool {
	return len(raw) > limits.TurnBytes.Value() || c.msg.Values > limits.TurnValues.Value()
}

// decodeParams decodes the params of a request other than tools/call into in: in turn, if they are large.
func (c *Call) decodeParams(ctx context.Context, params []byte, in any) *mcp.Error {
	params = orEmpty(params)
	var bad error
	if c.isLarge(params) {
		err := c.c.Turn(ctx, func() error {
			bad = codec.UnmarshalValid(params, in)
			return nil
		})
		if err != nil {
			return c.svc.handlerError(c, string(c.msg.Method), err)
		}
	} else {
		bad = codec.UnmarshalValid(params, in)
	}
	if bad != nil {
		return invalidParams(bad)
	}
	return nil
}

func (c *Call) revision() mcp.Revision { return c.peer.p.Revision() }

// Peer returns the client of the call.
func (c *Call) Peer() *Peer { return &c.peer }

// Meta returns the request's `_meta`, as it came or as a middleware passed it on; nil if absent. It
// is decoded anew each time, and the caller may keep and change it. A task has of it the progress token, the
// trace, and, if they have 8 KiB at most, the members that say nothing of how the request is to be read.
func (c *Call) Meta() (m mcp.Meta) {
	if c.msg.Meta != nil {
		_ = m.UnmarshalJSON(c.msg.Meta) // the scan has found an object
	}
	return m
}

// Attempt returns 1 for the first run of a call, and more when the call runs again
// because the process that ran it was lost.
func (c *Call) Attempt() int { return c.c.Attempt() }

// Progress tells the client how far the call has got; total 0 means unknown. The
// values must rise: one that does not is dropped. Of more than 100 values a second the
// newest are sent. Progress does nothing when the client asked for no progress; clients
// of 2024-11-05 do not get the message. An error means that the call has ended, and
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
	if message != "" && protocol.Has(c.revision(), protocol.FeatureProgressMessage) {
		b = append(b, `,"message":`...)
		b = codec.AppendString(b, message)
	}
	return forHandler(c.c.Progress(ctx, progress, append(b, '}')))
}

// ElicitationComplete tells the client that the interaction at a URL has ended, which
// an elicitation had asked the user to open. It does nothing where the client's revision
// has no such notification.
func (c *Call) ElicitationComplete(ctx context.Context, elicitationID string) error {
	if !protocol.Has(c.revision(), protocol.FeatureElicitationIDs) {
		return nil
	}
	p := protocol.ElicitCompleteParams{ElicitationID: elicitationID}
	if tasks := c.urls.Load(); tasks != nil {
		if task, ok := tasks.Load(elicitationID); ok {
			p.Meta = relatedTask(p.Meta, task.(string))
		}
	}
	params, err := codec.Marshal(p)
	if err != nil {
		return err
	}
	return forHandler(c.c.Notify(ctx, mcp.NotifyElicitationComplete, params))
}

// noteHostedTask notes the task that the client has made of an elicitation of a URL.
func (c *Call) noteHostedTask(elicitationID, task string) {
	c.urls.CompareAndSwap(nil, new(sync.Map))
	c.urls.Load().Store(elicitationID, task)
}

// Disconnect closes the connection of the call's event stream while the call
// runs on: the client comes back, resumes the stream and gets what it missed.
// This saves a connection while a long call sends no messages. Clients of revisions
// before 2025-11-25 would not come back: for them Disconnect does nothing.
func (c *Call) Disconnect() { c.c.CloseConnection() }

// Peer is the client of a session or of a stateless request. It may be used from any
// goroutine, and kept after the call.
type Peer struct{ p *actors.Peer }

// Session returns the session's id. Ids are secrets of their clients: do not log
// them where others read.
func (p *Peer) Session() string { return p.p.Session() }

// Revision returns the protocol revision that the client and the server use.
func (p *Peer) Revision() string { return p.p.Revision().String() }

// Client returns the client's name, version and title, as the client gave them. A session
// does not keep the rest of its clientInfo, nor a title for which 8 KiB leave no room. For a
// stateless client it is all that the request says.
func (p *Peer) Client() mcp.Implementation {
	var i mcp.Implementation
	_ = codec.Unmarshal(p.p.Client(), &i) // initialize has decoded it once
	return i
}

// Capabilities returns the capabilities that the client declared, as far as its revision
// has them. A session keeps those that a revision defines, and Experimental, Extensions and
// Extra as far as 8 KiB have room for them.
func (p *Peer) Capabilities() mcp.ClientCapabilities {
	var c mcp.ClientCapabilities
	_ = codec.Unmarshal(p.p.Capabilities(), &c) // initialize has decoded it once
	return protocol.ClientCapabilitiesFor(c, p.p.Revision())
}

// Ping asks the client, on its standalone stream, whether it is there. It fails with
// ErrNoAnswer if the client does not answer within 30 s, or within Options.Limits.MaxAsk
// if that is less. It fails with mcp.ErrInexpressible for a stateless client (2026-07-28).
func (p *Peer) Ping(ctx context.Context) error {
	if err := checkPingable(p.p.Revision()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, ErrNoAnswer)
	defer cancel()
	a, err := p.p.Ask(ctx, actors.Question{Key: "ping", Method: mcp.MethodPing})
	if err != nil {
		return forHandler(err)
	}
	if a.Err != nil {
		return a.Err
	}
	return nil
}

// The errors of questions. No answer came.
var (
	// ErrNoAnswer reports that the client did not answer in time.
	ErrNoAnswer = actors.ErrNoAnswer
	// ErrTooManyPending reports that as many questions wait for the client, of the session
	// or of the principal, as its limit allows.
	ErrTooManyPending = actors.ErrTooManyPending
	// ErrTooManyRounds reports that a call has asked its stateless client (2026-07-28)
	// one hundred times; each time the client sent the request again.
	ErrTooManyRounds = actors.ErrTooManyRounds
	// ErrTooMuchInput reports that the answers so far, which a stateless client
	// (2026-07-28) carries from one request to the next, are more than 64 KiB.
	ErrTooMuchInput = actors.ErrTooMuchInput
	// ErrNoStream reports that the client listens to no standalone stream.
	ErrNoStream = actors.ErrNoStream
	// ErrUndeclared reports a question that was not asked, because the client does not
	// declare its capability. Put the capability into Needs to refuse such clients.
	ErrUndeclared = errors.New("troupe: the client does not declare this capability")
)

// The causes that a handler's context ends with, for context.Cause.
var (
	ErrCancelled    = actors.ErrCancelled    // by the client
	ErrDeadline     = actors.ErrDeadline     // the call ran for too long
	ErrRequestEnded = actors.ErrRequestEnded // by a middleware, for a stateless request; its client gets the handler's answer
	ErrSessionEnded = actors.ErrSessionEnded // the client deleted the session
	ErrStreamLost   = actors.ErrStreamLost   // nobody can get the answer any more
	ErrClosing      = actors.ErrClosing      // the node is stopping
	ErrUnmounted    = actors.ErrUnmounted    // the server was taken off the Runtime
)

// pingWait is how long a client has to answer a ping; no person has to answer it.
var pingWait = limits.Ping.Value()

// Ping asks the client, on the call's stream, whether it is there. It fails with
// ErrNoAnswer if the client does not answer within 30 s, or within Options.Limits.MaxAsk
// if that is less. It fails with mcp.ErrInexpressible for a stateless client (2026-07-28),
// whose call ends when the client is gone.
func (c *Call) Ping(ctx context.Context) error {
	if err := checkPingable(c.revision()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pingWait, ErrNoAnswer)
	defer cancel()
	a, err := c.c.Ask(ctx, []actors.Question{{Key: "ping", Method: mcp.MethodPing}})
	if err != nil {
		return forHandler(err)
	}
	if a[0].Err != nil {
		return a[0].Err
	}
	return nil
}

// checkPingable says why a client cannot be pinged.
func checkPingable(r mcp.Revision) error {
	if ping, _ := protocol.LookupMethod(mcp.MethodPing); ping.Allowed(protocol.ToClient, r) {
		return nil
	}
	return fmt.Errorf("troupe: ping a client of %s: %w", r, mcp.ErrInexpressible)
}
