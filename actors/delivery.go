package actors

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// delivery carries a call to its client. internal/request decides what happens to a call,
// and its delivery what that looks like from outside. There are three:
//
//	logged   a request of a session: an answer of its own, or a stream that is stored first
//	direct   a stateless request over HTTP: its exchange has the answer, and nothing is stored
//	bound    a request on a connection that is the session, or carries stateless requests
//
// A delivery is chosen when the call begins; that of a stateless request that parks ends
// there, and the request that is sent again brings its own. The methods are called in the
// turn of the call's actor and never block.
type delivery interface {
	// open makes the answer a stream: the handler has something to send, or the grace
	// is over.
	open()
	// send passes on a message of the handler's, after open, and tells what becomes of
	// it with Drop.
	send(e stream.Entry)
	// answer delivers the response. Nothing follows.
	answer(a response)
	// end ends a delivery that gets no answer of the handler's. id is that of its request,
	// raw. Nothing follows.
	end(why ending, id []byte)
}

// response is the answer to a request.
type response struct {
	data  []byte // whole, valid during the call
	code  int    // of the error that it is, 0 for a result
	later bool   // it is Unavailable
	asks  bool   // it asks for input: the request is to be sent again
}

// ending is why a delivery ends without the handler's answer.
type ending uint8

const (
	cancelled ending = iota // the client took the request back
	givenUp                 // the node stops, or does not serve the service any more
	broken                  // a panic has cut the answer short
)

// way is all that depends on how a call is delivered, and is chosen when it begins.
type way struct {
	delivery
	// grace is how long an answer may take that is no stream.
	grace time.Duration
	// table knows the request by its id, so that it can be cancelled.
	table table
	// client is who it is for.
	client client
	// pace makes who sends wait for a slow reader.
	pace pacer
	// returns says that the client comes back for the answer by itself, so that another
	// process can go on with the call if it may run again.
	returns bool
}

// client is who a call is for: a session, or the stateless request that it is.
type client interface {
	// ask puts questions to the client and returns all the answers.
	ask(ctx context.Context, c *Call, qs []Question) ([]Answer, error)
	// logs is the account of the log messages.
	logs() *atomic.Pointer[logs]
}

var (
	_ client = (*sessionActor)(nil)
	_ client = (*stateless)(nil)
)

// table is where requests are known by their ids. It is used outside of the turn of the
// request's actor, but for parked and resumed.
type table interface {
	// enter makes the request known. limit bounds those that are, 0 does not.
	enter(r *requestActor, limit int) error
	// remove makes it unknown, so that the id may be used again.
	remove(r *requestActor)
	// parked makes a request unknown that had the id and waits to be sent again, and
	// resumed one known that was.
	parked(r *requestActor, id string)
	resumed(r *requestActor)
}

var (
	_ table = (*sessionActor)(nil)
	_ table = noTable{}
)

// noTable is that of requests whose ids nobody can name.
type noTable struct{}

func (noTable) enter(*requestActor, int) error { return nil }
func (noTable) remove(*requestActor)           {}
func (noTable) parked(*requestActor, string)   {}
func (noTable) resumed(*requestActor)          {}

// pacer makes messages wait until the client has read enough.
type pacer interface {
	// pace waits, and keeps others from sending until paced. An error is the cause of the
	// context: then paced must not be called.
	pace(ctx context.Context) error
	paced()
}

// unpaced is the pacer of those whose messages are bounded elsewhere.
type unpaced struct{}

func (unpaced) pace(context.Context) error { return nil }
func (unpaced) paced()                     {}

// nowhere is the delivery of a call that waits for its request to be sent again.
type nowhere struct{}

func (nowhere) open()               {}
func (nowhere) send(e stream.Entry) { e.Drop(stream.ErrEnded) }
func (nowhere) answer(response)     {}
func (nowhere) end(ending, []byte)  {}

// logged delivers a request of a session over HTTP. Once the handler has something to send
// or the grace is over, its answer is a stream, of which everything is stored before it is
// sent.
type logged struct {
	r      *requestActor
	sess   *sessionActor
	conn   Conn         // nil where the stream was there before the call
	stream *streamActor // nil while nothing was sent
}

var _ delivery = (*logged)(nil)

// loggedWay is the way of a request of a session over HTTP.
func (r *requestActor) loggedWay(s *sessionActor, conn Conn) way {
	r.logged = logged{r: r, sess: s, conn: conn}
	return way{
		delivery: &r.logged, grace: s.svc.Limits.Grace, table: s, client: s, pace: unpaced{},
		returns: s.revision().Has(mcp.FeatureStreamPriming),
	}
}

// moves makes s the session of a request that has not been entered: the one that it had
// has left memory.
func (r *requestActor) moves(s *sessionActor) {
	r.logged.sess = s
	r.way.table, r.way.client, r.call.client = s, s, s
}

// open makes the call resumable: its stream stores the call record and only then sends
// headers.
func (d *logged) open() {
	d.r.used = true
	d.stream = d.begin()
}

// begin begins the call's stream.
func (d *logged) begin() *streamActor {
	r, n := d.r, d.r.node
	rec := record.Stream{
		Version: record.Version, Node: n.name, Boot: n.boot, Epoch: 1, Attempt: 1, Revision: d.sess.view.Load().rec.Revision,
		Calls: []record.Call{{ID: bytes.Clone(r.id), Method: record.Method(r.call.msg.Method), Token: bytes.Clone(r.call.msg.ProgressToken)}},
		Safe:  r.svc.Handler.Safe(r.call.msg.Method, r.call.msg.Name),
	}
	var body []byte
	if rec.Safe {
		body = bytes.Clone(r.body)
		rec.Principal, _ = codec.Marshal(r.call.principal)
	}
	s := n.streams.build(r.svc, d.sess, newID(), rec, d.conn)
	s.reqs = []*requestActor{r}
	s.start()
	s.store(body)
	return s
}

func (d *logged) send(e stream.Entry) {
	if d.stream == nil { // a panic has kept it from beginning
		e.Drop(stream.ErrEnded)
		return
	}
	push := &pushEntries{entries: []stream.Entry{e}}
	if err := d.stream.Post(push); err != nil {
		push.Refused(err)
	}
}

func (d *logged) answer(a response) {
	if d.stream == nil {
		d.conn.Answer(200, a.data)
		return
	}
	entry := stream.Entry{Kind: stream.Final, Meta: d.r.id, Data: append([]byte(nil), a.data...)}
	_ = d.stream.Post(&pushEntries{entries: []stream.Entry{entry}, last: true})
}

func (d *logged) end(why ending, id []byte) {
	r := d.r
	switch {
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
		r.node.refusals.refuseInSession(d.conn, errUnavailable, id)
	case why == givenUp:
		r.handed = true
		r.node.drain.handed.Add(1)
		_ = d.stream.Post(handOver{})
	case d.stream == nil:
		r.Contain(func() { fault(d.conn, id, 200) })
		r.Contain(d.conn.Cut)
	default:
		entry := stream.Entry{Kind: stream.Final, Meta: bytes.Clone(id), Data: internalError(id)}
		_ = d.stream.Post(&pushEntries{entries: []stream.Entry{entry}, last: true})
	}
}
