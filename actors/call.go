package actors

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/mcp"
)

// Call is one request as its handler sees it. Its byte slices are valid until the handler
// returns. Any goroutine may call its methods; those that send fail once the handler has
// returned, and send nothing.
type Call struct {
	r          *requestActor // serves other requests later, see generation; nil for a listener's call
	generation uint64
	ctx        context.Context
	callFacts
	own     []byte // the progress token of the first request, nil if none; a copy
	member  int    // place in a batch
	journal *journal
	run     atomic.Pointer[runState] // nil until the handler asks or has a step

	// client and pace are those of the call's way; nil for a listener's call.
	client client
	pace   pacer

	detached atomic.Pointer[Detached]      // of a call that answers no request, or no more, otherwise nil
	long     atomic.Value                  // a Long: see WhenLong
	turn     func(work func() error) error // Turn of a listener's call, otherwise nil
	refunded atomic.Bool

	// unstored counts the bytes that are not in the log yet.
	unstored atomic.Int64
}

// callFacts are what is known of a call from its beginning, and what its handler says of it.
type callFacts struct {
	peer      *Peer
	msg       *codec.Message
	token     atomic.Pointer[[]byte] // the progress token of the request that is answered now
	principal any
	needs     atomic.Pointer[[]string]        // scopes, as far as is known; nil for none
	denied    atomic.Pointer[refusal.Refusal] // why the handler has refused it
	trace     Trace
	via       Via
	watched   atomic.Pointer[Watched]
	earlier   string // the span of the first run, as a traceparent; "" if there is none, or it is not known
	attempt   int
	from      *quota.Account // the call is counted on it; nil for a listener's call
}

// newCall returns the first run of a call of principal that in has brought.
func newCall(principal any, in *Input) *Call {
	c := &Call{callFacts: callFacts{principal: principal, trace: in.Trace, via: in.Via, attempt: 1}}
	c.needs.Store(in.Needs)
	return c
}

// Detached is what a call has that answers no request, because its request has been answered: that
// of a task.
type Detached interface {
	// Ask puts questions to the client and returns all answers.
	Ask(ctx context.Context, qs []Question) ([]Answer, error)
	// Tell sends a notification to whoever listens for the client. Nobody may.
	Tell(ctx context.Context, method string, params []byte) error
	// FindStep returns the stored result of a step, nil if the step has to run. KeepStep stores
	// one.
	FindStep(ctx context.Context, name string) (*Step, error)
	KeepStep(ctx context.Context, s Step) error
}

// Apart describes a call that answers no request.
type Apart struct {
	Tenant       string
	Session      string // in which it was made, "" for none
	Revision     mcp.Revision
	Client       []byte // clientInfo, raw
	Capabilities []byte // of the client, raw
	Principal    any    // see Call.Principal
	Attempt      int
}

// ofApart is the identity of the client of such a call.
type ofApart struct{ Apart }

var _ identity = (*ofApart)(nil)

func (a *ofApart) clientRecord() session.Record {
	return session.Record{Revision: a.Revision.String(), Client: a.Client, Capabilities: a.Capabilities}
}
func (a *ofApart) clientRevision() mcp.Revision         { return a.Revision }
func (*ofApart) currentSession() (*sessionActor, error) { return nil, ErrNoStream }

// Message is the scanned request. It must not be changed or kept.
func (c *callFacts) Message() *codec.Message { return c.msg }

// Peer is the session the call belongs to.
func (c *callFacts) Peer() *Peer { return c.peer }

// ProgressToken is the raw token under which the client wants progress, nil if it wants
// none.
func (c *callFacts) ProgressToken() []byte {
	if token := c.token.Load(); token != nil {
		return *token
	}
	return nil
}

// Principal is the value that the transport's authentication returned. When the call runs
// again after its node was lost, it is that value as raw JSON.
func (c *callFacts) Principal() any { return c.principal }

// Needs are the scopes that the call needs, as far as is known: who resumes its stream, sends it
// again or reads its task needs them.
func (c *callFacts) Needs() []string {
	if all := c.needs.Load(); all != nil {
		return *all
	}
	return nil
}

// Need adds scopes to those that the call needs. What is stored of the call already does not have
// them.
func (c *callFacts) Need(scopes []string) {
	for {
		before, all := c.needs.Load(), c.Needs()
		more := scope.Union(all, scopes)
		if len(more) == len(all) {
			return
		}
		kept := more
		if c.needs.CompareAndSwap(before, &kept) {
			return
		}
	}
}

// Deny has the response be the refusal, if nothing was sent yet and it is the error no.Err.
func (c *callFacts) Deny(no *refusal.Refusal) { c.denied.Store(no) }

// deniedAs is why the handler has refused the call with err, nil if that is another error.
func (c *callFacts) deniedAs(err *mcp.Error) *refusal.Refusal {
	if no := c.denied.Load(); no != nil && no.Err == error(err) {
		return no
	}
	return nil
}

// Refuse counts a refusal of the call because of a limit, and returns the client's error.
func (c *callFacts) Refuse(no *refusal.Refusal) *mcp.Error {
	return c.peer.sessions.refusals.refusalFor(no).MCP()
}

// From is the address of the call's client, or the network of an IPv6 address, where its tenant is
// that of many; "" otherwise.
func (c *callFacts) From() string { return c.from.NetworkAddress() }

// Detached is what the call has in place of a request, nil for the call of a request.
func (c *Call) Detached() Detached {
	if d := c.detached.Load(); d != nil {
		return *d
	}
	return nil
}

// Long is a call that does something about it when it takes long.
type Long interface {
	// TakesLong is called on a goroutine of its own, perhaps after the handler has returned: once
	// when the call takes long, unless it waits for its client then, and when the node ends: once,
	// and again after a while as long as it reports that what hindered it may pass. It may panic.
	TakesLong(ending bool) (again bool)
}

// WhenLong has l know when the call of a stateless client takes long: after a time, which is its
// grace if it is 0. All calls have one type of l.
func (c *Call) WhenLong(l Long, after time.Duration) {
	if after > 0 && after != c.peer.svc.Limits.StatelessGrace {
		c.r.late.Store(time.AfterFunc(after, func() { _ = c.postMessage(longNow{}) }))
	}
	c.long.Store(l)
}

// longNow tells a request that it takes long, if that is not when its grace is over.
type longNow struct{}

// lateGrace is for how long a call that takes long may become something else before its response
// becomes a stream.
const lateGrace = time.Second

// Asked is what a call has asked its client so far.
type Asked struct {
	Keys    []string          // of its questions, unique in the call
	Answers map[string][]byte // by key, raw, and what its client has brought for questions to come
}

// Still returns what the call of a stateless client has asked so far, and has further questions
// wait until goOn is called. It reports false if a question waits for its answer.
func (c *Call) Still() (asked Asked, goOn func(), ok bool) {
	in := &c.client.(*stateless).input
	soon, cancel := context.WithTimeout(c.ctx, stillWait)
	defer cancel()
	if in.mu.Lock(soon, c.ctx) != nil {
		return Asked{}, nil, false
	}
	asked = Asked{Keys: in.AskedKeys(), Answers: make(map[string][]byte, len(in.Given))}
	for key, answer := range in.Given {
		asked.Answers[key] = bytes.Clone(answer)
	}
	return asked, in.mu.Unlock, true
}

// stillWait is how long a question takes at most that is only being put, or has its answer.
const stillWait = 100 * time.Millisecond

// Detach answers the request of a stateless client with answer, which has all from the id on, while
// the handler goes on: it has d in place of the request, and counts as no request any more. end
// ends the handler's context. Detach reports false, and does nothing, if the request has or needs
// no response, or if the call has asked its client and waits.
func (c *Call) Detach(answer []byte, d Detached) (end context.CancelCauseFunc, ok bool) {
	m := &detachment{answer: answer, to: d}
	m.Init()
	if c.postMessage(m) == nil {
		m.Wait()
	}
	return m.end, m.end != nil
}

// detachment answers the request of a call that goes on without it.
type detachment struct {
	kernel.Reply
	answer []byte // from the id on
	to     Detached
	end    context.CancelCauseFunc
}

func (m *detachment) Refused(error) { m.Done() }

// Trace is the trace context of the HTTP request.
func (c *callFacts) Trace() Trace { return c.trace }

// Via is how the request came.
func (c *callFacts) Via() Via { return c.via }

// Watched is a call whose course somebody follows.
type Watched struct {
	Span string          // of this run, as a traceparent: later runs find it in Call.Earlier
	Note func(CallEvent) // is called in the call's turn: it must be quick and not panic
}

// CallEvent is something that happens to a call. Meta and Trace are those of the request that has
// brought it about, if there is one.
type CallEvent struct {
	Name  string
	Meta  []byte
	Trace Trace
}

// The events of a call.
const (
	BecameStream  = "troupe.stream"         // its response is a stream
	InputRequired = "troupe.input_required" // its client was asked, by the response to its request
	SentAgain     = "troupe.sent_again"     // the client has sent its request again, with answers
	CalledOff     = "troupe.called_off"     // an operator has ended it
)

// Watch has w learn what happens to the call from now on.
func (c *callFacts) Watch(w *Watched) { c.watched.Store(w) }

// Earlier is the span of the first run of a call that runs again, as a traceparent, "" if there is none.
func (c *callFacts) Earlier() string { return c.earlier }

func (c *callFacts) noteEvent(e CallEvent) {
	if w := c.watched.Load(); w != nil {
		w.Note(e)
	}
}

// Span is the span of this run, as a traceparent, "" if nobody follows it.
func (c *callFacts) Span() string {
	if w := c.watched.Load(); w != nil {
		return w.Span
	}
	return ""
}

// Attempt is 1 for the first run of a call and more when it runs again.
func (c *callFacts) Attempt() int { return c.attempt }

// Turn runs work that takes the processor for long, for a large request. Such work of all calls
// has few places, which principals get in turn. Turn fails with [Unavailable] if there is none in
// time; a client that has the process for itself waits for as long as it takes.
func (c *Call) Turn(ctx context.Context, work func() error) (err error) {
	if c.turn != nil {
		return c.turn(work)
	}
	if c.r.pool.accounts.runInTurn(ctx, c.from, c.isAlone(), func() { err = work() }) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.refundCall()
	return Unavailable
}

// refundCall returns the tokens of the call, once: it was refused after all.
func (c *Call) refundCall() {
	if c.attempt > 1 || c.refunded.Swap(true) { // a run after a crash has paid none
		return
	}
	switch r := c.r; who := c.client.(type) {
	case sessionClient:
		sessionCalls(who).refundCall(r)
	case *stateless:
		r.pool.accounts.refundTokens(who.charged, &r.svc.Limits, c.from, who.charged.callCost(c.msg, len(r.body)))
	}
}

// isAlone reports whether the client has the process for itself.
func (c *Call) isAlone() bool {
	if st := c.r.stateless; st != nil {
		return st.alone
	}
	s := c.peer.last.Load()
	return s != nil && s.isAlone()
}

// Notify sends a notification on the call's stream, which makes the response a stream. It
// waits only while Limits.Queue bytes wait for the log. After an error the notification was
// not sent: the call was cancelled or lost its stream.
func (c *Call) Notify(ctx context.Context, method string, params []byte) error {
	if d := c.Detached(); d != nil {
		return d.Tell(ctx, method, params)
	}
	callSteps{c}.countMessage(ctx)
	if c.journal != nil && c.journal.skipMessage() {
		return nil
	}
	return callMessages{c}.orTell(ctx, method, params, callMessages{c}.sendNotification(ctx, method, params, true))
}

// Progress reports progress under the request's token; params are the whole params of the
// notification. It drops a value that does not rise; above request.Rate notifications a
// second the newest wins. Without a token it does nothing.
func (c *Call) Progress(ctx context.Context, value float64, params []byte) error {
	if c.ProgressToken() == nil {
		return nil
	}
	if d := c.Detached(); d != nil {
		return d.Tell(ctx, mcp.NotifyProgress, params)
	}
	meta := record.AppendMember(binary.BigEndian.AppendUint64(nil, math.Float64bits(value)), c.member)
	p := &progressed{value: value, meta: meta, data: codec.AppendNotification(nil, "notifications/progress", params)}
	return callMessages{c}.orTell(ctx, mcp.NotifyProgress, params, callMessages{c}.sendMessage(ctx, p, &p.acked, len(p.data)))
}

// CloseConnection closes the connection of the call's stream while the call runs on, and
// has the client reconnect and resume. It does nothing if the client's revision has no way
// to say that.
func (c *Call) CloseConnection() {
	if protocol.Has(c.peer.Revision(), protocol.FeatureStreamPriming) {
		_ = c.postMessage(closeConn{})
	}
}

// called is a message of a handler. If a goroutine that the handler left behind sends it,
// the actor may serve another request by then.
type called struct {
	generation uint64
	m          any
}

func (c called) Refused(err error) {
	if r, ok := c.m.(kernel.Refusable); ok {
		r.Refused(err)
	}
}

func (c *Call) postMessage(m any) error {
	if c.r == nil { // a listener's call cannot send
		return errReturned
	}
	return c.r.Post(called{c.generation, m})
}

// Tell is Notify for a message that the handler did not send: a run after a crash does not
// count it as one of the handler's messages.
func (c *Call) Tell(ctx context.Context, method string, params []byte) error {
	return callMessages{c}.sendNotification(ctx, method, params, false)
}

// Missed returns how many log messages were dropped for their rate since the last call. The
// caller must tell the client.
func (c *Call) Missed() int64 {
	if c.r == nil {
		return 0
	}
	return c.client.logLimiter().Load().takeMissed()
}

// AdmitLog decides whether to send a log message; wanted says whether the client's level
// asks for it. A message that is not sent still counts for a run after a crash: that run
// drops as many of its first messages as the earlier run had come to, whatever the level
// and the rate allowed then. dropped reports that the rate left no room. An error means
// that the call has ended.
func (c *Call) AdmitLog(ctx context.Context, wanted bool) (send, dropped bool, err error) {
	if c.Detached() != nil {
		return false, false, context.Cause(c.ctx)
	}
	if c.r == nil { // a listener's call cannot send
		return false, false, errReturned
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return false, false, cause
	}
	if c.journal != nil && c.journal.skipMessage() {
		callSteps{c}.countMessage(ctx)
		return false, false, nil
	}
	if wanted {
		if logLimiterIn(c.client.logLimiter(), c.peer.svc.Limits.LogRate).admitMessage(c.peer.sessions.refusals) == 0 {
			return true, false, nil
		}
		dropped = true
	}
	c.Pass(ctx)
	return false, dropped, nil
}

// Pass counts a message that is not sent: see AdmitLog.
func (c *Call) Pass(ctx context.Context) {
	callSteps{c}.countMessage(ctx)
	_ = c.postMessage(passed{})
}

// becomeStream makes the call's response a stream and returns the stream that logs it. It returns
// nil if the call has no log, or can send nothing any more.
func (c *Call) becomeStream() *streamActor {
	m := &upgradeNow{}
	m.Init()
	if context.Cause(c.ctx) != nil || c.postMessage(m) != nil {
		return nil
	}
	m.Wait()
	return m.stream
}

// Ask puts questions to the client and waits for all answers. They travel on the call's stream or
// connection; a stateless client gets them with input_required and sends the request again. Ask
// fails with the cause of ctx or of the call, ErrNoAnswer or ErrTooManyPending, and for a stateless
// client also with ErrTooMuchInput or ErrTooManyRounds. An error that the client answers is an
// Answer.
func (c *Call) Ask(ctx context.Context, qs []Question) ([]Answer, error) {
	switch {
	case c.Detached() != nil:
		return c.Detached().Ask(ctx, qs)
	case c.r == nil:
		return nil, errReturned
	}
	answers, err := c.client.askClient(ctx, c, qs)
	if d := c.Detached(); err != nil && d != nil { // its request was answered just before the questions were to be put
		return d.Ask(ctx, qs)
	}
	return answers, err
}

// Over reports whether what the call has asked for is given up for good after err, an error of Ask.
// It is not where another process may go on with the call.
func (c *Call) Over(err error) bool { return callQuestions{c}.abandonsQuestion(err) }

// CallKey names a call over the processes that run it, for what goes on when this one ends. It is "" for a call whose client could come to no other
// process for the answer.
func CallKey(ctx context.Context, c *Call) string {
	switch who := c.client.(type) {
	case *stateless:
		in := &who.input
		if c.Detached() != nil || in.mu.Lock(ctx, c.ctx) != nil {
			return ""
		}
		defer in.mu.Unlock()
		if in.park == "" {
			in.park = newID()
		}
		return in.park
	case sessionClient:
		if _, stored := who.home.(storedHome); stored {
			sum := sha256.Sum256([]byte(strings.Join([]string{c.peer.key.Tenant, c.peer.key.Server, c.peer.key.ID, string(c.msg.ID)}, "/"))) // the session's id is a secret
			return hex.EncodeToString(sum[:16])
		}
	}
	return ""
}

// Place takes a place among the questions that wait for the client, for one of several requests:
// see Question.Part. The caller must give it back. It fails with ErrTooManyPending, except in a
// second run of the call.
func (c *Call) Place() (giveBack func(), err error) {
	s, ok := c.client.(sessionClient)
	if !ok {
		return nil, ErrNoStream
	}
	return c.peer.sessions.pending.takePlace(s, c.attempt > 1)
}

// Wait waits for a time, or until hint has a value; hint may be nil. It fails as Ask does when the
// client can answer no question of the call any more.
func (c *Call) Wait(ctx context.Context, d time.Duration, hint <-chan struct{}) error {
	var inputEnded <-chan struct{}
	if s, ok := c.client.(sessionClient); ok {
		inputEnded = s.inputEnded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-hint:
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-inputEnded:
		return ErrSessionEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Recorded reports whether an earlier run of the call asked its first question with a key, which
// this run has not.
func (c *Call) Recorded(key string) bool { return c.journal.hasQuestion(key, 1) }

// Order sends a request whose answer nobody needs: on the call's stream or, if the call can send
// nothing any more, on the session's standalone stream. It never waits, and is lost where there is
// neither.
func (c *Call) Order(method string, params []byte) {
	n := c.peer.sessions
	entry := stream.Entry{Kind: stream.Message, Data: codec.AppendRequest(nil, []byte(n.pending.unansweredID()), method, params)}
	instead := func() {
		ctx, cancel := context.WithTimeout(n.base, c.peer.svc.Limits.StoreWait)
		defer cancel()
		_ = clientSession{c.peer}.sendMessage(ctx, entry) // fails where there is no stream
	}
	m := &emitted{entry: entry}
	m.entry.Acked = func(err error) {
		if err != nil {
			go instead()
		}
	}
	if c.postMessage(m) != nil {
		go instead()
	}
}

// passed numbers a message that is not sent.
type passed struct{}

// callMessages is a call as it sends messages.
type callMessages struct{ *Call }

// orTell returns err, the error of a notification that was sent on the stream of the request. If
// that was answered meanwhile, and the call goes on, it sends the notification where the call has
// it now.
func (c callMessages) orTell(ctx context.Context, method string, params []byte, err error) error {
	if d := c.Detached(); err != nil && d != nil {
		return d.Tell(ctx, method, params)
	}
	return err
}

func (c callMessages) sendNotification(ctx context.Context, method string, params []byte, numbered bool) error {
	data := codec.AppendNotification(nil, method, params)
	m := &emitted{entry: stream.Entry{Kind: stream.Message, Data: data}, numbered: numbered}
	return c.sendMessage(ctx, m, &m.entry.Acked, len(data))
}

// sendMessage posts a message about an entry of the given size. When too many bytes wait for the
// log, or the client has its share of the memory, the handler waits until its own entry is stored.
// acked is the field of the message that learns of the outcome.
func (c callMessages) sendMessage(ctx context.Context, m any, acked *func(error), size int) error {
	if c.r == nil { // a listener's call cannot send
		return errReturned
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err := c.pace.lockSending(ctx); err != nil {
		return err
	}
	defer c.pace.unlockSending()
	var stored chan error
	if n := c.unstored.Add(int64(size)); n > int64(c.peer.svc.Limits.Queue) || n > waitingStep && c.r.pool.accounts.IsOutOfRoom(c.from) {
		stored = make(chan error, 1)
	}
	*acked = func(err error) {
		c.unstored.Add(-int64(size))
		if stored != nil {
			stored <- err // has room: acked is called once
		}
	}
	if err := c.postMessage(m); err != nil {
		c.unstored.Add(-int64(size))
		return err
	}
	if stored == nil {
		return nil
	}
	select {
	case err := <-stored:
		return err
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// callQuestions is a call as it asks the client of a session.
type callQuestions struct{ *Call }

// abandonsQuestion reports whether a question that failed with err is given up for good. It is not
// where another process may go on with the call, which then has the answer.
func (c callQuestions) abandonsQuestion(err error) bool {
	for _, resumable := range []error{ErrStreamLost, ErrClosing, ErrSessionEnded, ErrUnmounted, errInternal} {
		if errors.Is(err, resumable) || errors.Is(context.Cause(c.ctx), resumable) {
			return false
		}
	}
	return true
}

// sendQuestion sends one question, the use-th with its key.
func (c callQuestions) sendQuestion(ctx context.Context, x *pendingRequest, q Question, use int) error {
	asking := &emitted{entry: stream.Entry{
		Kind: stream.Request,
		Meta: record.QuestionMeta(record.Question{ID: x.id, Key: q.Key, Use: use, Member: c.member}),
		Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params),
	}}
	if q.Passing {
		asking.entry.Kind, asking.entry.Meta = stream.Message, nil
	}
	return callMessages(c).sendMessage(ctx, asking, &asking.entry.Acked, len(asking.entry.Data))
}

// withdrawQuestions tells the client that the questions of qs that are open need no answer.
func (c callQuestions) withdrawQuestions(qs []Question, open []*pendingRequest, why string) {
	for i, x := range open {
		if x == nil || qs[i].Late != nil || !c.peer.sessions.pending.closeQuestion(x) {
			continue
		}
		data := codec.AppendNotification(nil, "notifications/cancelled", cancelParams(x, why))
		_ = c.postMessage(&emitted{entry: stream.Entry{Kind: stream.Message, Data: data}})
	}
}
