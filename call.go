package troupe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// Call is one request as its handler sees it. It may be used from any goroutine
// until the handler returns.
type Call struct {
	request
	// dropped is set when a log message of the call was.
	dropped atomic.Bool
	faulty  bool                  // its tool has returned a result with isError
	cache   atomic.Pointer[Cache] // set by SetCache
	passing *passing              // through the middleware, nil if there is none
	asked   atomic.Bool           // set when the client has answered a question of the call
	ctx     callContext           // the handler's context
	urls    urlTasks
	values  seenValues               // of the session, that the call has read
	fate    atomic.Pointer[becoming] // of a call that may become a task by itself, otherwise nil; that of the call as it came counts
	tool    *tool                    // of such a call
	denied  atomic.Pointer[denial]   // what Require has refused; that of the call as it came counts
}

// request is what a call is of.
type request struct {
	c    *actors.Call
	msg  *codec.Message // the request, as a middleware passed it on
	svc  *service
	peer Peer
}

// newRequest returns the request of a call, as it came to svc.
func newRequest(c *actors.Call, svc *service) request {
	return request{c: c, msg: c.Message(), svc: svc, peer: Peer{c.Peer()}}
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
func (c *request) isLarge(raw []byte) bool {
	return len(raw) > limits.TurnBytes.Value() || c.msg.Values > limits.TurnValues.Value()
}

// decodeParams decodes the params of a request other than tools/call into in: in turn, if they are large.
func (c *request) decodeParams(ctx context.Context, params []byte, in any) *mcp.Error {
	params = orEmpty(params)
	var bad error
	if c.isLarge(params) {
		err := c.c.Turn(ctx, func() error {
			bad = codec.UnmarshalValid(params, in)
			return nil
		})
		if err != nil {
			return c.svc.handlerError(&c.peer, string(c.msg.Method), err)
		}
	} else {
		bad = codec.UnmarshalValid(params, in)
	}
	if bad != nil {
		return invalidParams(bad)
	}
	return nil
}

func (c *request) revision() mcp.Revision { return c.peer.p.Revision() }

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
	if tasks := c.urls.all.Load(); tasks != nil {
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

// urlTasks are the ids of the client's tasks that open a URL, by the ids of their elicitations.
type urlTasks struct{ all atomic.Pointer[sync.Map] } // nil without any

// noteTask notes the task that the client has made of an elicitation of a URL.
func (u *urlTasks) noteTask(elicitationID, task string) {
	u.all.CompareAndSwap(nil, new(sync.Map))
	u.all.Load().Store(elicitationID, task)
}

// Disconnect closes the connection of the call's event stream while the call
// runs on: the client comes back, resumes the stream and gets what it missed.
// This saves a connection while a long call sends no messages. Clients of revisions
// before 2025-11-25 would not come back: for them Disconnect does nothing.
func (c *Call) Disconnect() { c.c.CloseConnection() }

// The causes that a handler's context ends with, for context.Cause.
var (
	ErrCancelled    = actors.ErrCancelled    // by the client
	ErrCalledOff    = actors.ErrCalledOff    // by an operator; the client has a response
	ErrDeadline     = actors.ErrDeadline     // the call ran for too long
	ErrRequestEnded = actors.ErrRequestEnded // by a middleware, for a stateless request; its client gets the handler's answer
	ErrSessionEnded = actors.ErrSessionEnded // the client deleted the session
	ErrStreamLost   = actors.ErrStreamLost   // nobody can get the answer any more
	ErrClosing      = actors.ErrClosing      // the node is stopping
	ErrUnmounted    = actors.ErrUnmounted    // the server was taken off the Runtime
)

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
	a, err := c.c.Ask(ctx, []actors.Question{{Key: "ping", Method: mcp.MethodPing, Sending: c.sendingOf(ctx, mcp.MethodPing)}})
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

// SetCache sets how long the contents that this call reads may be kept, in place of
// ServerOptions.ReadCache. It does nothing in calls of other methods than resources/read.
func (c *Call) SetCache(cache Cache) { c.cache.Store(&cache) }

// Session returns the values of the call's session.
func (c *Call) Session() SessionValues { return SessionValues{c.peer.p, &c.values} }

// Task returns the id of the task that the call runs for, "" if it is none, or none yet: see [TaskAutomatic].
func (c *Call) Task() string {
	if a := taskAttempt(c.c); a != nil {
		return a.Key.ID
	}
	return ""
}

// TaskMessage sets the message for people that clients see with the task. It does nothing in a call that is no task.
func (c *Call) TaskMessage(ctx context.Context, message string) error {
	if a := taskAttempt(c.c); a != nil {
		return forHandler(a.Say(ctx, message))
	}
	return nil
}

// Node returns the name of the node that runs the call ([StoreOptions].Node).
func (c *Call) Node() string { return c.svc.rt.cluster.Name() }

// callerView returns the server as the caller of c sees it, for use by the goroutine that handles c.
func (c *request) callerView() *view {
	v := c.svc.access.viewOf(func() Principal { return principalOf(c.c.Principal()) })
	if v != nil {
		v.within = true
	}
	return v
}

// visibleTool returns t if the caller may see it.
func (c *request) visibleTool(t *tool) *tool {
	if t != nil && c.svc.srv.opts.Visible != nil && !c.callerView().seesItem(t.item()) {
		return nil
	}
	return t
}

// visiblePrompt finds a prompt that the caller may see.
func (c *request) visiblePrompt(name string) (*prompt, bool) {
	p, ok := c.svc.srv.prompts.Get(name)
	return p, ok && c.callerView().seesItem(p.item())
}

// requireScopes notes that the call needs scopes, or returns the error of a call whose caller lacks one.
func (c *Call) requireScopes(needs []string) *mcp.Error {
	if len(needs) == 0 {
		return nil
	}
	refused := c.svc.scopes.checkScopes(c.c.Principal(), needs)
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

// callContext is the context of a handler. [CallFrom] finds the call in it without cost, and
// the values of the HTTP request's context come after its own. The end of the request's
// context does not end it: a call outlives its request.
type callContext struct {
	context.Context
	call   *Call
	values context.Context // nil without an HTTP request
}

// beginContext returns ctx as the context of a call's handler, with the values that
// middleware has put into the context of the HTTP request, if there was one.
func beginContext(ctx context.Context, c *Call) context.Context {
	c.ctx = callContext{Context: ctx, call: c}
	if r := requestOf(c.c.Principal()); r != nil {
		c.ctx.values = r.Context()
	}
	return &c.ctx
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

// Ask sends all questions to the client at once and waits for all the answers. A
// person may need minutes to answer; meanwhile the call costs memory, but no connection.
//
// Ask fails with ErrUndeclared, ErrNoAnswer, ErrTooManyPending, ErrUnavailable, or the cause of ctx or of
// the call. From a stateless client (2026-07-28) it also fails with ErrTooManyRounds or
// ErrTooMuchInput. It fails with mcp.ErrInexpressible where the client's revision cannot
// express a question, such as a choice of several values in a form before 2025-11-25.
// Stateless clients can be asked only by tools, prompts and the handlers of resources: it is
// mcp.ErrInexpressible elsewhere. Two questions with one key are an error, and none is asked.
//
// If the client answers a question with an error, Ask succeeds, and the method of Answers
// that reads the answer returns that error.
func (c *Call) Ask(ctx context.Context, questions ...Question) (Answers, error) {
	qs, err := hostedQuestions(ctx, c, questions)
	if err != nil {
		return Answers{}, err
	}
	outcomes, err := hosted.Put(ctx, c.c, hostOf(c), qs)
	if err != nil {
		return Answers{}, forHandler(err)
	}
	c.asked.Store(true)
	a := Answers{make(map[string]hosted.Outcome, len(qs))}
	for i := range qs {
		a.byKey[qs[i].Key] = outcomes[i]
	}
	return a, nil
}

// hostedQuestions returns questions as the client of a call gets them.
func hostedQuestions(ctx context.Context, c *Call, questions []Question) ([]hosted.Question, error) {
	if method := c.msg.Method; c.revision().Stateless() && !actors.Asks(method) { // basic/patterns/mrtr
		return nil, fmt.Errorf("troupe: ask the client of a %s: %w", method, mcp.ErrInexpressible)
	}
	caps := c.peer.Capabilities()
	qs := make([]hosted.Question, len(questions))
	for i, q := range questions {
		if slices.ContainsFunc(questions[:i], func(before Question) bool { return before.key == q.key }) {
			return nil, fmt.Errorf("troupe: two questions have the key %q", q.key)
		}
		if lacking := lackingOf(q.needs, &caps); lacking != 0 {
			return nil, &undeclaredError{q.key, lacking, c.revision()}
		}
		params, err := q.paramsFor(c.revision())
		if err != nil {
			return nil, fmt.Errorf("troupe: question %q: %w", q.key, err)
		}
		qs[i] = hosted.Question{Question: actors.Question{Key: q.key, Valid: q.answerCheck(), Method: q.method, Keep: q.keepsAnswer(&caps), Sending: c.sendingOf(ctx, q.method)}, TTL: q.ttl}
		if url, ok := q.params.(mcp.ElicitURL); ok {
			qs[i].Hosted = func(task string) { c.urls.noteTask(url.ElicitationID, task) }
		}
		if params != nil {
			data, err := codec.Marshal(params)
			if err != nil {
				return nil, fmt.Errorf("troupe: question %q: %w", q.key, err)
			}
			qs[i].Params = data
		}
	}
	return qs, nil
}

// hostOf returns the client of a call if it hosts tasks for the server, otherwise nil.
func hostOf(c *Call) *hosted.Host {
	p := c.c.Peer()
	if !protocol.Has(p.Revision(), protocol.FeatureCoreTasks) || c.c.Detached() != nil {
		return nil
	}
	caps := c.peer.Capabilities()
	if !caps.Has(mcp.CapClientTasks) {
		return nil
	}
	return &hosted.Host{Call: c.c, Session: p.Key(), Caps: caps, Cancels: caps.Has(mcp.CapClientTasksCancel), MaxAsk: c.svc.limits.MaxAsk, Watch: &c.svc.watch, Log: c.svc.rt.log, Sending: c.sendingOf}
}

// sendingOf is what observes a question of the call: see observe.Observer.
func (c *request) sendingOf(ctx context.Context, method string) func([]byte) ([]byte, func(*actors.Answer)) {
	return c.svc.Asking(ctx, c.c.Peer(), c.c.Via(), method)
}

// elicitKey is the key of the question that [Call.Elicit] asks.
const elicitKey = "elicit"

// Elicit asks the user to fill in one form: see Ask. The content of the result decodes into
// a struct with json tags. [ElicitAs] makes the form from such a struct.
func (c *Call) Elicit(ctx context.Context, message string, form mcp.FormSchema) (mcp.ElicitResult, error) {
	a, err := c.Ask(ctx, Elicit(elicitKey, message, form))
	if err != nil {
		return mcp.ElicitResult{}, err
	}
	return a.Elicited(elicitKey)
}

// ElicitURL asks the user to open one URL: see Ask and the function ElicitURL.
func (c *Call) ElicitURL(ctx context.Context, message, id, url string) (mcp.ElicitResult, error) {
	const key = "elicit-url"
	a, err := c.Ask(ctx, ElicitURL(key, message, id, url))
	if err != nil {
		return mcp.ElicitResult{}, err
	}
	return a.Elicited(key)
}

// Sample asks the client's model for one message: see Ask.
func (c *Call) Sample(ctx context.Context, p mcp.CreateMessageParams) (mcp.CreateMessageResult, error) {
	const key = "sample"
	a, err := c.Ask(ctx, Sample(key, p))
	if err != nil {
		return mcp.CreateMessageResult{}, err
	}
	return a.Sampled(key)
}

// Roots asks for the client's roots: see Ask and the function Roots.
func (c *Call) Roots(ctx context.Context) ([]mcp.Root, error) {
	const key = "roots"
	a, err := c.Ask(ctx, Roots(key))
	if err != nil {
		return nil, err
	}
	return a.Roots(key)
}

// ErrStepUsed reports that a run of a handler uses the name of a step a second time. The step did not run again.
var ErrStepUsed = actors.ErrStepUsed

// permanentError is an error of a step that no run tries again.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error of a step as one that would come again: it is stored like a result, and every run of
// the call gets it. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

var stepTries = limits.StepTries.Value()

// Step runs fn once in the life of a call: its result is stored before Step returns it, and a run after a crash or a deploy gets the
// stored one, without running fn. A handler uses each name once: a second use is [ErrStepUsed]. Steps may run at once, and in each other.
//
// Where the result is stored depends on the call:
//
//   - In a task it is stored with the task, with at most 16 MiB.
//   - In a session over Streamable HTTP, up to 2025-11-25, it is stored in the log of the call's stream, if the call is safe to run again (Tool.Rerun).
//     The first step has the response become a stream. A call stores at most 1,000 results of together 256 KiB; a result beyond that is returned and not
//     stored. What is stored goes with the call.
//   - In a stateless call (2026-07-28) that is safe to run again it stays in memory, within the same limits. When the call becomes a
//     task, the task has it. When the call asks its client, the requestState carries results of together 64 KiB, and a run on another node finds them.
//   - In any other call, that of HTTP+SSE, of stdio or of a tool that may not run twice, nothing is stored: such a call has no second run.
//
// fn runs again, after 100 ms, 200 ms and so on up to 10 s, while it fails, ten times in all; then the handler gets the error, and a later
// run tries again. An error of [Permanent] is stored and returned at once. T must encode as JSON where the result may be needed again.
//
// If fn took effect and the process is lost before the result is stored, the step runs again: let fn find out whether it has
// run, for example by a key that it derives from the arguments of the call and the name of the step. A question that fn asks ([Call.Ask]) needs a key that
// the handler uses in no other place, as a run that finds the result does not ask it.
//
// After an error that is not fn's own the handler must end: the call has ended, or another process runs it, and whether the result is stored is unknown. The
// errors are those of the context, [ErrCancelled], [ErrTaskTakenOver] and the like, [ErrStreamLost], or say that the result does not encode.
func Step[T any](ctx context.Context, call *Call, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var out T
	found, run, err := call.c.BeginStep(ctx, name)
	switch {
	case err != nil:
		return out, forHandler(err)
	case found != nil:
		telemetry.NoteStep(ctx, name, time.Duration(found.Took)*time.Millisecond, true)
		if found.Failed != "" {
			return out, Permanent(errors.New(found.Failed))
		}
		if err := codec.Unmarshal(found.Value, &out); err != nil {
			return out, fmt.Errorf("troupe: the stored result of step %q does not fit: %w", name, err)
		}
		return out, nil
	}
	defer run.End()
	began := time.Now()
	out, failed := tryStep(run.Context(ctx), fn)
	if !run.Keeps() {
		return out, failed
	}
	var value []byte
	text := ""
	if failed != nil {
		permanent, ok := errors.AsType[permanentError](failed)
		if !ok {
			return out, failed
		}
		text = cmp.Or(permanent.Error(), "failed")
	} else if value, err = codec.Marshal(&out); err != nil {
		return out, fmt.Errorf("troupe: step %q: %w", name, err)
	}
	if err := run.Keep(ctx, value, text); err != nil {
		return out, forHandler(err)
	}
	telemetry.NoteStep(ctx, name, time.Since(began), false)
	return out, failed
}

// tryStep runs fn until it succeeds, fails for good or has failed often.
func tryStep[T any](ctx context.Context, fn func(ctx context.Context) (T, error)) (out T, err error) {
	wait := 100 * time.Millisecond
	for n := 1; ; n++ {
		out, err = fn(ctx)
		if _, permanent := errors.AsType[permanentError](err); err == nil || permanent || n == stepTries || ctx.Err() != nil {
			return out, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return out, err
		}
		wait = min(2*wait, 10*time.Second)
	}
}
