package upstream

import (
	"context"
	"strconv"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// Options say how to speak to a backend. The zero value is a client without a name and capabilities
// that ignores what the backend says by itself, and refuses its questions.
type Options struct {
	// ClientInfo and Capabilities are what the backend is told of us, objects as raw JSON. nil is a client without a
	// name, and no capabilities.
	ClientInfo, Capabilities []byte

	// Known is the era that the backend is remembered to speak. With Pinned it is spoken to as Known says, or not at
	// all. After [ReasonSilent] or [ReasonEra] it is better forgotten.
	Known  Era
	Pinned bool
	// Want is EraLegacy to speak the older era with a backend of both; any other value is the newer one.
	Want Era
	// Epoch is the number of connections to this backend's instance before this one. Ids begin with it, so that a late
	// answer to another process is never taken for one to us. It is below 1<<20.
	Epoch uint32
	// Standalone asks for the stream of what the backend says by itself, on a link that has one
	// (Streamable HTTP, before 2026-07-28).
	Standalone bool

	// Event gets what belongs to no request, and what a request does not take. nil ignores notifications and refuses
	// questions. It is called as the functions of a [Request] are.
	Event func(Event)
	// Passed gets the id of each event of the standalone stream, after which another process can take it up, see [Resume].
	Passed func(event string)
	// Odd gets what the backend does and should not, the first time and each time that the number has doubled.
	Odd func(Oddity)
	// Ended is called once when no request can be sent any more, other than by Close, on a goroutine of the Conn.
	Ended func(*Failure)

	Clock Clock // nil is the system's
}

// A Conn is one connection to a backend, after the handshake. Its methods may be called from any
// goroutine.
type Conn struct {
	link    Link
	o       Options
	clock   Clock
	settled Settled

	replies replies
	life    context.Context // ends with the Conn
	end     context.CancelCauseFunc
	running sync.WaitGroup

	calling  sync.Mutex // guards the rest; held for no call of a function of others
	calls    *calls
	rejoined map[int64]*call // in flight since before this process, and not yet waited for
}

func newConn(link Link, o Options) *Conn {
	c := &Conn{link: link, o: o, clock: clockOr(o.Clock), calls: newCalls(o.Epoch)}
	c.replies.c = c
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// openLink opens the link.
func (c *Conn) openLink(ctx context.Context) error {
	if err := c.link.Open(ctx, inbox{c}); err != nil {
		f := failureOf(ctx, err)
		f.Outcome = NotRun
		c.shut(context.WithoutCancel(ctx), f, false)
		return f
	}
	return nil
}

// Settled returns what both sides agreed on.
func (c *Conn) Settled() *Settled { return &c.settled }

// Counts returns how often the backend did what it should not.
func (c *Conn) Counts() Counts {
	c.calling.Lock()
	defer c.calling.Unlock()
	return c.calls.counts
}

// NewID returns the id of a request to come. A caller who wants to find its answer again after the end of this process
// stores it before [Conn.Do].
func (c *Conn) NewID() int64 {
	c.calling.Lock()
	defer c.calling.Unlock()
	return c.calls.newID()
}

// Do sends a request and waits for its answer. The error is a *[Failure], whose Outcome says whether the request may have
// run; an error of the backend is no error of Do, but a [Response].
//
// When ctx ends, the backend is told that the request is given up, by its response stream in the newer era over HTTP
// and else by a notification, and Do returns at once.
func (c *Conn) Do(ctx context.Context, q Request) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, cancelled(ctx, NotRun)
	}
	c.calling.Lock()
	one, f := c.calls.begin(q)
	c.calling.Unlock()
	if f != nil {
		return Response{}, f
	}
	m := c.encodeCall(one, c.settled.Revision)
	if len(m.Body) > MostMessage {
		c.giveUpCall(one, false)
		return Response{}, &Failure{Why: ReasonTooLarge, Outcome: NotRun, Text: "the request is too large for a backend"}
	}
	r, f := c.awaitAnswer(ctx, one, c.link.Send(ctx, m), true)
	if f != nil {
		return Response{}, f
	}
	return r, nil
}

// encodeCall encodes a call for a revision, 0 for none yet.
func (c *Conn) encodeCall(one *call, r mcp.Revision) Outgoing {
	h := hop{revision: r, clientInfo: c.o.ClientInfo, capabilities: one.q.Capabilities, level: one.q.Level}
	if h.capabilities == nil {
		h.capabilities = c.o.Capabilities
	}
	if one.q.Progress != nil && one.q.ProgressOf == 0 {
		h.progress = one.id
	}
	var params []byte
	if p := appendParams(nil, one.q.Params, h); len(p) > 0 {
		params = p
	}
	body := codec.AppendRequest(nil, strconv.AppendInt(nil, one.id, 10), one.method, params)
	return Outgoing{Body: body, ID: one.id, Method: one.method, Name: nameOf(one.method, one.q.Params), Header: one.q.Header, Revision: r, Mark: &one.mark}
}

// awaitAnswer waits for the answer to a call that the link has handed over, or not.
func (c *Conn) awaitAnswer(ctx context.Context, one *call, err error, mayCancel bool) (Response, *Failure) {
	if err != nil {
		f := failureOf(ctx, err)
		if !c.giveUpCall(one, f.Outcome == Lost) {
			<-one.done // the answer was faster
			return one.response, one.failure
		}
		if f.Why == ReasonCancelled && f.Outcome == Lost && mayCancel {
			c.sayCancelled(one)
		}
		return Response{}, f
	}
	c.calling.Lock()
	f := c.calls.noteSent(one)
	c.calling.Unlock()
	if f != nil {
		if taken, ok := c.link.(marker); ok && taken.unsent(one.mark.Load()) {
			f.Outcome = NotRun
		}
		return Response{}, f
	}
	select {
	case <-one.done:
		return one.response, one.failure
	case <-ctx.Done():
	}
	if !c.giveUpCall(one, true) {
		<-one.done
		return one.response, one.failure
	}
	if mayCancel {
		c.sayCancelled(one)
	}
	return Response{}, cancelled(ctx, Lost)
}

func (c *Conn) giveUpCall(one *call, mayAnswer bool) bool {
	c.calling.Lock()
	defer c.calling.Unlock()
	return c.calls.giveUpCall(one, mayAnswer)
}

// sayCancelled tells the backend that a request is given up, unless the end of its stream did. A backend that takes nothing
// is told nothing: it would work in vain in any case.
func (c *Conn) sayCancelled(one *call) {
	if c.settled.Revision.Stateless() && c.link.ClosesStream() {
		return
	}
	params := append(strconv.AppendInt([]byte(`{"requestId":`), one.id, 10), '}')
	c.replies.send(codec.AppendNotification(nil, mcp.NotifyCancelled, params))
}

// Notify sends a notification. The error is a *[Failure].
func (c *Conn) Notify(ctx context.Context, method string, params []byte) error {
	r := c.settled.Revision
	if params = appendParams(nil, params, hop{}); len(params) == 0 {
		params = nil
	}
	return c.send(ctx, Outgoing{Body: codec.AppendNotification(nil, method, params), Method: method, Revision: r})
}

// Answer answers a question of the backend with a result, an object as raw JSON. The error is [ErrNoQuestion], or a
// *[Failure].
func (c *Conn) Answer(ctx context.Context, question, result []byte) error {
	return c.sendAnswer(ctx, question, codec.AppendResult(nil, question, result))
}

// Refuse answers a question of the backend with an error.
func (c *Conn) Refuse(ctx context.Context, question []byte, e *mcp.Error) error {
	var data []byte
	if len(e.Data) > 0 {
		data = e.Data
	}
	return c.sendAnswer(ctx, question, codec.AppendError(nil, question, e.Code, e.Message, data))
}

func (c *Conn) sendAnswer(ctx context.Context, question, message []byte) error {
	c.calling.Lock()
	open, ended := c.calls.takeQuestion(question), c.calls.ended
	c.calling.Unlock()
	if !open && ended == nil {
		return ErrNoQuestion
	}
	return c.send(ctx, Outgoing{Body: message, Revision: c.settled.Revision})
}

func (c *Conn) send(ctx context.Context, m Outgoing) error {
	c.calling.Lock()
	ended := c.calls.ended
	c.calling.Unlock()
	switch {
	case ended != nil:
		f := *ended
		f.Outcome = NotRun
		return &f
	case len(m.Body) > MostMessage:
		return &Failure{Why: ReasonTooLarge, Outcome: NotRun, Text: "the message is too large for a backend"}
	}
	if err := c.link.Send(ctx, m); err != nil {
		return failureOf(ctx, err)
	}
	return nil
}

// Ping returns nil if the backend answers, with a result or an error. The newer era has no ping: it is asked what it
// speaks.
func (c *Conn) Ping(ctx context.Context) error {
	method := mcp.MethodPing
	if c.settled.Revision.Stateless() {
		method = mcp.MethodServerDiscover
	}
	_, err := c.Do(ctx, Request{Method: method})
	return err
}

// Close ends the connection and the backend's session, as far as it can be told within ctx, and waits until nothing of the
// Conn runs any more. Open requests fail. Closing twice is fine.
func (c *Conn) Close(ctx context.Context) { c.shut(ctx, closedByUs(), false) }

// Detach is Close without a word to the backend: another process goes on with its session, see [Conn.State].
func (c *Conn) Detach(ctx context.Context) { c.shut(ctx, closedByUs(), true) }

func closedByUs() *Failure {
	return &Failure{Why: ReasonClosed, Text: "the connection to the backend was closed"}
}

func (c *Conn) shut(ctx context.Context, f *Failure, keep bool) {
	c.failCalls(f)
	c.end(f)
	c.replies.end()
	ctx, cancel := withTimeout(ctx, c.clock, Farewell, f)
	defer cancel()
	c.link.Close(ctx, keep)
	c.running.Wait()
}

// failCalls ends all calls that were handed over, and lets no other begin. It reports whether that is new.
func (c *Conn) failCalls(f *Failure) bool {
	c.calling.Lock()
	first := c.calls.ended == nil
	lost := c.calls.noteLinkEnd(f)
	c.calling.Unlock()
	taken, _ := c.link.(marker)
	for _, one := range lost {
		g := *f
		g.Outcome = Lost
		if taken != nil && taken.unsent(one.mark.Load()) {
			g.Outcome = NotRun
		}
		one.failure = &g
		close(one.done)
	}
	return first
}

// spokenRevision is the revision of the Conn for goroutines that run beside the handshake.
func (c *Conn) spokenRevision() mcp.Revision {
	c.calling.Lock()
	defer c.calling.Unlock()
	if !c.calls.ready {
		return 0
	}
	return c.settled.Revision
}

// Session returns the id of the backend's session, "" if it has none, or over lines.
func (c *Conn) Session() string {
	if r, ok := c.link.(resumer); ok {
		return r.Session()
	}
	return ""
}
