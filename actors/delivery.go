package actors

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
)

// delivery carries a call to its client. Package actors/internal/request decides what happens to a
// call; the delivery decides what that looks like from outside. There are three:
//
//	logged   a request of a session over HTTP: a JSON response, or a stream that is stored before it is sent
//	direct   a stateless request over HTTP: a JSON response, or a stream, and nothing is stored
//	bound    a request on a connection that is the session, or that carries stateless requests
//
// A call gets its delivery when it begins. The delivery of a stateless request ends when
// its call parks; the request that is sent again brings another. The methods are called in
// the turn of the call's actor and never block.
type delivery interface {
	// openStream makes the response a stream: the handler has something to send, or the grace is
	// over.
	openStream()
	// sendEntry passes on a message of the handler, after openStream. e.Acked gets the outcome.
	sendEntry(e stream.Entry)
	// answerRequest delivers the response. No method is called after it.
	answerRequest(a response)
	// endDelivery ends the delivery without a response of the handler. No method is called after
	// it. id is the raw id of the request.
	endDelivery(why ending, id []byte)
}

// response is the message that ends a request: a result or an error.
type response struct {
	data        []byte           // the whole message, valid during the call
	code        int              // of the error, 0 for a result
	unavailable bool             // the error is Unavailable
	sessionGone bool             // the error is SessionGone
	goesOn      bool             // the handler goes on after it: the result is input_required, and the client must send the request again, or names what the call has become
	exited      bool             // the goroutine, which may be that of the connection, serves no other request: the handler has ended it, or goes on though an operator has ended its call
	denied      *refusal.Refusal // the error is that, otherwise nil
}

// ending is why a delivery ends without the handler's response.
type ending uint8

const (
	cancelled ending = iota // the client cancelled the request
	givenUp                 // the node stops, or no longer serves the service
	broken                  // a panic cut the response short
)

// way is all that depends on how a call is delivered. It is chosen when the call begins.
type way struct {
	delivery
	// grace is how long a call may take before its response becomes a stream.
	grace time.Duration
	// table finds the request by its id, so that the client can cancel it.
	table table
	// client is whom the call serves.
	client client
	// pace makes senders wait for a slow reader.
	pace pacer
	// returns says that the client comes back for the response by itself, so that another
	// process can go on with a call that may run again.
	returns bool
}

// client is whom a call serves: a session, or a single stateless request.
type client interface {
	// askClient puts questions to the client and returns all answers.
	askClient(ctx context.Context, c *Call, qs []Question) ([]Answer, error)
	// logLimiter counts the log messages against their limit.
	logLimiter() *atomic.Pointer[logLimiter]
}

var (
	_ client = sessionClient{}
	_ client = (*stateless)(nil)
)

// table finds requests by their ids. Its methods are called outside of the turn of the
// request's actor, except parkRequest and reenterRequest.
type table interface {
	// enterRequest adds the request. limit bounds the requests in the table; 0 means no limit.
	enterRequest(r *requestActor, limit int) error
	// removeRequest removes the request, so that the id may be used again.
	removeRequest(r *requestActor)
	// parkRequest removes a request that had the id and now waits to be sent again; reenterRequest
	// adds it again under its new id.
	parkRequest(r *requestActor, id string)
	reenterRequest(r *requestActor)
}

var (
	_ table = sessionTable{}
	_ table = noTable{}
)

// noTable is the table of requests whose ids no message can name.
type noTable struct{}

func (noTable) enterRequest(*requestActor, int) error { return nil }
func (noTable) removeRequest(*requestActor)           {}
func (noTable) parkRequest(*requestActor, string)     {}
func (noTable) reenterRequest(*requestActor)          {}

// pacer makes messages wait until the client has read enough.
type pacer interface {
	// lockSending waits, and keeps others from sending until unlockSending is called. An error is
	// the cause of the context; then unlockSending must not be called.
	lockSending(ctx context.Context) error
	unlockSending()
}

// noPacer is the pacer of calls whose messages are bounded elsewhere.
type noPacer struct{}

func (noPacer) lockSending(context.Context) error { return nil }
func (noPacer) unlockSending()                    {}

// noDelivery is the delivery of a parked call.
type noDelivery struct{}

func (noDelivery) openStream()                {}
func (noDelivery) sendEntry(e stream.Entry)   { e.Drop(stream.ErrEnded) }
func (noDelivery) answerRequest(response)     {}
func (noDelivery) endDelivery(ending, []byte) {}

// retryDelivery is the delivery of a running call whose client may send its request again.
type retryDelivery struct{ noDelivery }

func (retryDelivery) sendEntry(e stream.Entry) { e.Drop(nil) }

// logged delivers a request of a session over HTTP. Once the handler has something to send,
// or the grace is over, its response is a stream. Everything on the stream is stored before
// it is sent.
type logged struct {
	r      *requestActor
	sess   *sessionActor
	conn   Conn         // nil if the stream existed before the call
	stream *streamActor // nil until something is sent
}

var _ delivery = (*logged)(nil)

// loggedWay is the way of a request of a session over HTTP.
func (r *requestActor) loggedWay(s *sessionActor, conn Conn) way {
	r.logged = logged{r: r, sess: s, conn: conn}
	return way{
		delivery: &r.logged, grace: s.svc.Limits.Grace, table: sessionTable{s}, client: sessionClient{s}, pace: noPacer{},
		returns: protocol.Has(s.settledRevision(), protocol.FeatureStreamPriming),
	}
}

// moveToSession makes s the session of a request that has not been entered: its former session
// actor has left memory.
func (r *requestActor) moveToSession(s *sessionActor) {
	r.logged.sess = s
	r.way.table, r.way.client, r.call.client = sessionTable{s}, sessionClient{s}, sessionClient{s}
}

// openStream makes the call resumable: its stream stores the call record and only then sends
// headers.
func (d *logged) openStream() {
	d.r.used = true
	d.stream = d.beginStream()
}

// beginStream begins the call's stream.
func (d *logged) beginStream() *streamActor {
	r, n := d.r, d.r.pool
	rec := record.Stream{
		Version: record.Version, Node: n.name, Boot: n.boot, Epoch: 1, Attempt: 1, Revision: d.sess.view.Load().rec.Revision,
		Calls: []record.Call{{ID: bytes.Clone(r.id), Method: record.ClipMethod(r.call.msg.Method), Token: bytes.Clone(r.call.msg.ProgressToken), Parent: r.call.trace.Parent, State: r.call.trace.State, Span: r.call.Span()}},
		Safe:  r.svc.runsAgain(r.call.msg.Method, r.call.msg.Name), Scopes: r.call.Needs(),
	}
	if rec.Safe && !r.svc.storesMessage(r.call.msg, r.size) {
		rec.Safe = false
		n.refusals.Refused(limits.Recall.Row)
	}
	var body []byte
	if rec.Safe {
		body = bytes.Clone(r.body)
		rec.Principal, _ = codec.Marshal(r.call.principal)
	}
	s := n.streams.buildStream(&r.svc.Terms, d.sess, d.sess.key, d.sess.view.Load().rec.Subscribed, newID(), rec, d.conn)
	s.calls = []*kernel.Actor{&r.Actor}
	writerRecord{s}.keepBody(body)
	data, stored, err := writerRecord{s}.newRecord(body)
	s.start() // from here on the end of the session may come in a turn of the stream
	writerRecord{s}.storeRecord(data, body, stored, err)
	return s
}

func (d *logged) sendEntry(e stream.Entry) {
	if d.stream == nil { // a panic kept the stream from beginning
		e.Drop(stream.ErrEnded)
		return
	}
	push := &pushEntries{entries: []stream.Entry{e}}
	if err := d.stream.Post(push); err != nil {
		push.Refused(err)
	}
}

func (d *logged) answerRequest(a response) {
	switch {
	case d.stream != nil:
	case a.sessionGone:
		refusal.SessionEnded.Tell(d.conn, d.r.id)
		return
	case a.denied != nil:
		a.denied.Tell(d.conn, d.r.id)
		return
	case a.exited:
		if x, ok := d.conn.(Exchange); ok {
			x.AnswerLast(200, a.data)
			return
		}
		fallthrough
	default:
		d.conn.Answer(200, a.data)
		return
	}
	final := &pushEntries{entries: []stream.Entry{{Kind: stream.Final, Meta: d.r.id, Data: append([]byte(nil), a.data...), Acked: d.r.onMark}}, last: true}
	d.r.onMark = nil
	if err := d.stream.Post(final); err != nil {
		final.Refused(err)
	}
}

func (d *logged) endDelivery(why ending, id []byte) {
	r := d.r
	switch {
	case why == cancelled && d.stream == nil && d.sess.ended.Load():
		refusal.SessionEnded.Tell(d.conn, id)
	case why == cancelled && d.stream == nil:
		d.conn.Open()
		d.conn.Finish()
	case why == cancelled:
		mark := &pushEntries{entries: []stream.Entry{{Kind: stream.End, Meta: bytes.Clone(id), Acked: r.onMark}}, last: true, silent: true}
		r.onMark = nil
		if err := d.stream.Post(mark); err != nil {
			mark.Refused(err)
		}
	case why == givenUp && d.stream == nil:
		r.pool.refusals.refuseInSession(d.conn, refusal.Unavailable, id)
	case why == givenUp:
		r.handedOver = true
		r.pool.drain.handedOver.Add(1)
		_ = d.stream.Post(handOver{})
	case d.stream == nil:
		r.Contain(func() { sendInternalError(d.conn, id, 200) })
		r.Contain(d.conn.Cut)
	default:
		entry := stream.Entry{Kind: stream.Final, Meta: bytes.Clone(id), Data: internalError(id)}
		_ = d.stream.Post(&pushEntries{entries: []stream.Entry{entry}, last: true})
	}
}

// exchangeBroken reports whether the node is not heard that has the connection of x.
func exchangeBroken(x Exchange) bool {
	far, ok := x.(interface{ Broken() bool })
	return ok && far.Broken()
}

// endedContext returns what has ended the context of x's request, if that was not its client.
func endedContext(x Exchange) error {
	if near, ok := x.(interface{ Expired() error }); ok {
		return near.Expired()
	}
	return nil
}

// compactData makes the error data of a handler fit for a frame: on one line, or nil if it is
// not JSON.
func compactData(data []byte) []byte {
	if len(data) == 0 || !codec.Valid(data) {
		return nil
	}
	return codec.AppendCompact(nil, data)
}

// upgradeNow makes the response of a request a stream.
type upgradeNow struct {
	kernel.Reply
	stream *streamActor
}

func (u *upgradeNow) Refused(error) { u.Done() }

// withID is the response with an id, given the rest that follows the id.
func withID(id, rest []byte) []byte {
	b := make([]byte, 0, len(id)+len(rest)+24)
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	return append(b, rest...)
}

// sessionClient is a session as its calls see their client.
type sessionClient struct{ *sessionActor }

// askClient puts the questions of a call of the session.
func (s sessionClient) askClient(ctx context.Context, c *Call, qs []Question) ([]Answer, error) {
	answers, uses := make([]Answer, len(qs)), make([]int, len(qs))
	var own, common []int
	for i, q := range qs {
		uses[i] = callSteps{c}.runState().questions.countUse(q.Key)
		if q.Keep == nil || c.journal.hasQuestion(q.Key, uses[i]) {
			own = append(own, i)
		} else {
			common = append(common, i)
		}
	}
	if len(common) == 0 {
		return answers, s.askOwn(ctx, c, qs, uses, own, answers)
	}
	if len(common) == 1 && len(own) == 0 {
		a, err := s.askCommon(ctx, c, qs, uses, 0)
		answers[0] = a
		return answers, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ends := make(chan error, len(common))
	for _, i := range common {
		go func() {
			a, err := s.askCommon(ctx, c, qs, uses, i)
			answers[i] = a
			if err != nil {
				cancel(err)
			}
			ends <- err
		}()
	}
	err := s.askOwn(ctx, c, qs, uses, own, answers)
	if err != nil {
		cancel(err)
	}
	for range common {
		if e := <-ends; err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, context.Cause(ctx) // the first error, which ended the other questions
	}
	return answers, nil
}

// askCommon asks one question whose answer may be kept.
func (s sessionClient) askCommon(ctx context.Context, c *Call, qs []Question, uses []int, i int) (Answer, error) {
	return s.sharedAnswer().askShared(ctx, c.ctx, qs[i].Keep, func() (Answer, error) {
		answers := make([]Answer, len(qs))
		err := s.askOwn(ctx, c, qs, uses, []int{i}, answers)
		return answers[i], err
	})
}

// askOwn puts to the client the questions of qs whose indexes which lists, and fills in the
// answers. uses has the numbers of all questions: see type useCounter.
func (s sessionClient) askOwn(ctx context.Context, c *Call, qs []Question, uses, which []int, answers []Answer) (err error) {
	n := c.peer.sessions
	var on *streamActor // carries the questions
	begun := false      // on is settled
	waiting := make([]*pendingRequest, len(qs))
	defer func() {
		for i, x := range waiting {
			switch {
			case x == nil:
			case qs[i].Late != nil && callQuestions{c}.abandonsQuestion(err):
				n.pending.keepOpen(x, qs[i].Late)
			default:
				n.pending.closeQuestion(x)
			}
		}
	}()
	for _, i := range which {
		q := qs[i]
		past := c.journal.takeQuestion(q.Key, uses[i])
		if past != nil && past.Answer != nil {
			answers[i] = past.clientAnswer()
			continue
		}
		if past != nil { // the client has the question
			waiting[i] = past.open
			continue
		}
		if !begun {
			on, begun = c.becomeStream(), true
		}
		x, err := n.pending.openQuestion(s, on, &q)
		if err != nil {
			callQuestions{c}.withdrawQuestions(qs, waiting, "no longer needed")
			return err
		}
		waiting[i] = x
		if err := (callQuestions{c}).sendQuestion(ctx, x, q, uses[i]); err != nil {
			return err
		}
	}
	timer := time.NewTimer(c.peer.svc.Limits.MaxAsk)
	defer timer.Stop()
	for i, x := range waiting {
		if x == nil {
			continue
		}
		select {
		case answers[i] = <-x.ch:
			waiting[i] = nil
		case <-timer.C:
			callQuestions{c}.withdrawQuestions(qs, waiting, "timed out")
			n.refusals.Refused(limits.MaxAsk.Row)
			return ErrNoAnswer
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-s.inputEnded:
			return ErrSessionEnded
		case <-ctx.Done():
			callQuestions{c}.withdrawQuestions(qs, waiting, withdrawalReason(ctx))
			return context.Cause(ctx)
		}
	}
	return nil
}

func (s sessionClient) logLimiter() *atomic.Pointer[logLimiter] { return &s.logged }

// sessionTable is a session as the table of its requests.
type sessionTable struct{ *sessionActor }

// enterRequest enters a request in the session's table.
func (s sessionTable) enterRequest(r *requestActor, limit int) error {
	r.begin.Init()
	r.begin.req, r.begin.limit = r, limit
	if err := s.Post(&r.begin); err != nil {
		return err
	}
	r.begin.Wait()
	return r.begin.err
}

// removeRequest removes a request from the session's table.
func (s sessionTable) removeRequest(r *requestActor) {
	r.end.Init()
	r.end.req = r
	if s.Post(&r.end) == nil {
		r.end.Wait()
	}
}

func (s sessionTable) parkRequest(r *requestActor, id string) { _ = s.Post(&endCall{req: r, id: id}) }
func (s sessionTable) reenterRequest(r *requestActor)         { _ = s.Post(&beginCall{req: r}) }
