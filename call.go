package troupe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
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

// Roots asks for the client's roots outside of a call: see the function Roots. Unless
// the session has kept them, it sends the question on the standalone stream. It fails
// with ErrNoStream when there is no such stream, and as Call.Ask does.
func (p *Peer) Roots(ctx context.Context) ([]mcp.Root, error) {
	const key = "roots"
	q, caps := Roots(key), p.Capabilities()
	if lackingOf(q.needs, &caps) != 0 {
		return nil, fmt.Errorf("troupe: question %q: %w: %s", key, ErrUndeclared, q.needs)
	}
	a, err := p.p.Ask(ctx, actors.Question{Key: key, Method: q.method, Keep: q.keepsAnswer(&caps)})
	if err != nil {
		return nil, forHandler(err)
	}
	return Answers{map[string]hosted.Outcome{key: {Answer: a}}}.Roots(key)
}

// Log sends a log message that belongs to no call, on the session's standalone
// stream. It fails with ErrNoStream when the client has never opened one, and for a
// stateless client (2026-07-28), whose messages belong to its calls. While the client's
// connection is away, the message waits for its return. Log returns nil for a message
// that the client's level leaves out. The rest is as for Call.Log.
func (p *Peer) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	if p.p.Revision().Stateless() {
		return ErrNoStream
	}
	if !wantsLevel(p.p, level) || !p.p.AdmitLog(p.pushMissed) {
		return nil
	}
	if n := p.p.Missed(); n > 0 && wantsLevel(p.p, mcp.LevelWarning) {
		if err := p.p.Notify(ctx, mcp.NotifyMessage, missedParams(n)); err != nil {
			return forHandler(err)
		}
	}
	params, send, err := p.p.Handler().(*service).logParams(level, logger, data)
	if !send {
		return err
	}
	return forHandler(p.p.Notify(ctx, mcp.NotifyMessage, params))
}

// pushMissed sends the client the number of dropped messages once there is room again, if
// no other message has done so.
func (p *Peer) pushMissed() {
	if n := p.p.Missed(); n > 0 && wantsLevel(p.p, mcp.LevelWarning) {
		p.p.Push(mcp.NotifyMessage, missedParams(n))
	}
}

// Notify is Call.Notify outside of a call, on the session's standalone stream. It fails
// with ErrNoStream when the client has never opened one, and for a stateless client
// (2026-07-28). While the client's connection is away, the notification waits for its
// return.
func (p *Peer) Notify(ctx context.Context, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	return forHandler(p.p.Notify(ctx, method, raw))
}

// Values returns the values of the session. Each call returns other SessionValues, which have read nothing yet: see Set.
func (p *Peer) Values() SessionValues { return SessionValues{p.p, new(seenValues)} }

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

// Log sends a log message to the client if the client's level includes it. data is any
// value that encodes as JSON, and must hold no secrets. Before the client has set a
// level, it gets everything from info on. Since 2026-07-28 each request has a level of
// its own, and a request without a level gets no messages. Messages beyond
// Options.Limits.LogRate are dropped, and the client gets their number. An error means
// that data does not encode or that the call has ended.
func (c *Call) Log(ctx context.Context, level mcp.LoggingLevel, logger string, data any) error {
	send, dropped, err := c.c.AdmitLog(ctx, wantsLevel(c.peer.p, level))
	if dropped {
		c.dropped.Store(true)
	}
	if !send {
		return err
	}
	if err := c.tellMissed(ctx); err != nil {
		return err
	}
	params, send, err := c.svc.logParams(level, logger, data)
	if !send {
		c.c.Pass(ctx)
		return err
	}
	return forHandler(c.c.Notify(ctx, mcp.NotifyMessage, params))
}

// tellMissed tells the client how many log messages were dropped, if any.
func (c *Call) tellMissed(ctx context.Context) error {
	n := c.c.Missed()
	if n == 0 || !wantsLevel(c.peer.p, mcp.LevelWarning) {
		return nil
	}
	return forHandler(c.c.Tell(ctx, mcp.NotifyMessage, missedParams(n)))
}

// Notify sends a notification on the call's stream. The specification must not have its
// name, and params must encode as a JSON object. An error means that it was not sent: the
// name is the specification's, params do not encode, or the call has ended.
func (c *Call) Notify(ctx context.Context, method string, params any) error {
	raw, err := ownParams(method, params)
	if err != nil {
		return err
	}
	return forHandler(c.c.Notify(ctx, method, raw))
}

// withMessage returns a copy of the call with other params. It is a copy because a middleware may
// call next several times at once.
func (c *Call) withMessage(m *codec.Message) *Call {
	return &Call{c: c.c, msg: m, svc: c.svc, peer: Peer{c.peer.p}, passing: c.passing}
}

// Header returns a copy of the header of the HTTP request that the call came with, nil over
// stdio. Each call of Header makes another copy, which is the caller's own. When the call runs again in another process, or came by
// HTTP+SSE to another process than its session's, it holds only the headers that
// Options.HTTP.StoredHeaders names. If a stateless client sends the
// request again with answers (2026-07-28), the header is that of the request with which
// the handler began.
func (c *Call) Header() http.Header {
	if r := requestOf(c.c.Principal()); r != nil {
		return r.Header.Clone()
	}
	switch v := c.c.Principal().(type) {
	case json.RawMessage:
		return storedOf(v).Header
	case *carriedCaller:
		return v.Header.Clone()
	}
	return nil
}

// handlerContext returns ctx as the context of the call's handler, with the values that
// middleware has put into the context of the HTTP request, if there was one.
func (c *Call) handlerContext(ctx context.Context) context.Context {
	c.ctx = callContext{Context: ctx, call: c}
	if r := requestOf(c.c.Principal()); r != nil {
		c.ctx.values = r.Context()
	}
	return &c.ctx
}

// SetCache sets how long the contents that this call reads may be kept, in place of
// ServerOptions.ReadCache. It does nothing in calls of other methods than resources/read.
func (c *Call) SetCache(cache Cache) { c.cache.Store(&cache) }

// Session returns the values of the call's session.
func (c *Call) Session() SessionValues { return SessionValues{c.peer.p, &c.values} }

// Task returns the id of the task that the call runs for, "" if it is none, or none yet: see [TaskAutomatic].
func (c *Call) Task() string {
	if a := c.taskAttempt(); a != nil {
		return a.Key.ID
	}
	return ""
}

// TaskMessage sets the message for people that clients see with the task. It does nothing in a call that is no task.
func (c *Call) TaskMessage(ctx context.Context, message string) error {
	if a := c.taskAttempt(); a != nil {
		return forHandler(a.Say(ctx, message))
	}
	return nil
}

// Node returns the name of the node that runs the call ([StoreOptions].Node).
func (c *Call) Node() string { return c.svc.rt.cluster.Name() }

// callerView returns the server as the caller of c sees it, for use by the goroutine that handles c.
func (c *Call) callerView() *view {
	v := c.svc.access.viewOf(c.Principal)
	if v != nil {
		v.within = true
	}
	return v
}

// visibleTool returns t if the caller may see it.
func (c *Call) visibleTool(t *tool) *tool {
	if t != nil && c.svc.srv.opts.Visible != nil && !c.callerView().seesItem(t.item()) {
		return nil
	}
	return t
}

// visiblePrompt finds a prompt that the caller may see.
func (c *Call) visiblePrompt(name string) (*prompt, bool) {
	p, ok := c.svc.srv.prompts.getItem(name)
	return p, ok && c.callerView().seesItem(p.item())
}

// requireScopes notes that the call needs scopes, or returns the error of a call whose caller lacks one.
func (c *Call) requireScopes(needs []string) *mcp.Error {
	if len(needs) == 0 {
		return nil
	}
	refused := c.svc.access.refuseLackingScopes(c.c.Principal(), needs)
	if refused == nil {
		c.c.Need(needs)
		return nil
	}
	of := &c.asItCame().denied
	for {
		d := &denial{refused, refused.Err.(*mcp.Error), of.Load()}
		if of.CompareAndSwap(d.before, d) {
			return d.err
		}
	}
}

// askForScopes has the response to the call be one that asks for scopes, if err is that of requireScopes.
func (c *Call) askForScopes(err *mcp.Error) {
	for d := c.denied.Load(); d != nil && err != nil; d = d.before {
		if d.err == err {
			c.c.Deny(d.no)
			return
		}
	}
}

// Require returns nil if the scopes of the caller hold or imply the given ones, and otherwise an error for the handler to return, as it is or wrapped. It is for what
// depends on the arguments of a call; what every call of an item needs are the item's Scopes.
//
//	if in.Delete {
//		if err := call.Require("files:delete"); err != nil {
//			return nil, err
//		}
//	}
//
// As long as nothing was sent of the response, the client of such an error gets status 403 with a challenge that has the scopes to ask for: those of the caller and those that the
// call needs. After that, in a batch, in a task, and over HTTP+SSE it gets the error alone, with the same scopes in its data. So call Require first, before
// [Call.Progress] and the like: and whoever resumes the response, or reads the task, needs only those scopes that were required before it began. Over stdio everything is allowed. A text that is no scope is
// a mistake of the program, and an error of its own.
func (c *Call) Require(scopes ...string) error {
	if err := scope.Check(scopes); err != nil {
		return fmt.Errorf("troupe: require: %w", err)
	}
	if len(scopes) == 0 {
		return nil
	}
	if refused := c.requireScopes(scope.Union(c.c.Needs(), scopes)); refused != nil {
		return refused
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

// callContext is the context of a handler. [CallFrom] finds the call in it without cost, and
// the values of the HTTP request's context come after its own. The end of the request's
// context does not end it: a call outlives its request.
type callContext struct {
	context.Context
	call   *Call
	values context.Context // nil without an HTTP request
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	if v := c.Context.Value(key); v != nil || c.values == nil { // first, for the keys of package context itself
		return v
	}
	return c.values.Value(key)
}

// CallFrom returns the call whose handler got ctx, or a context made from that, and false
// for any other context.
func CallFrom(ctx context.Context) (*Call, bool) {
	c, ok := ctx.Value(callKey{}).(*Call)
	return c, ok
}
