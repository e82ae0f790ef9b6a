package actors

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
)

// bound delivers a request on a connection that carries others: one that is a session, or
// that stateless requests come on. What the handler sends goes out at once. An answer that
// could not be delivered cannot be found again.
type bound struct {
	r    *requestActor
	link *link
	to   answerer // where the answer goes
}

var _ delivery = (*bound)(nil)

// boundWay is the way of a request of a session that is its connection.
func (r *requestActor) boundWay(s *sessionActor, to answerer) way {
	return way{delivery: &bound{r: r, link: s.link, to: to}, grace: s.svc.Limits.Grace, table: s, client: s, pace: s.link}
}

func (d *bound) open() {}

func (d *bound) send(e stream.Entry) {
	d.link.send(e.Data)
	e.Drop(nil)
}

func (d *bound) answer(a response) { d.to.Answer(200, a.data) }

func (d *bound) end(why ending, id []byte) {
	switch why {
	case givenUp:
		d.to.Answer(200, lostCall(id))
	case broken:
		d.r.Contain(func() { d.to.Answer(200, internalError(id)) })
	}
}

// overLink is the carrier of a stateless request on a connection that carries others.
type overLink struct{ s *sessionActor }

var _ carrier = overLink{}

func (overLink) keeps() bool { return false }

func (c overLink) exchange(Exchange) exchange {
	return &boundExchange{bound: bound{link: c.s.link, to: c.s.link}}
}

func (c overLink) way(self *stateless, w way) way {
	self.deaf, self.logged = c.s.deaf, &c.s.logged
	w.table, w.pace = c.s, c.s.link
	return w
}

func (c overLink) run(f func())             { c.s.link.calls.Go(f) }
func (c overLink) listen(Exchange) audience { return linkAudience{c.s.link, c.s} }

// boundExchange is one stateless request on a connection. It has one of the client's
// places, if the client waits for one, until it has its answer.
type boundExchange struct {
	bound
	left bool // the place is free
}

var _ exchange = (*boundExchange)(nil)

func (x *boundExchange) joins(r *requestActor) { x.r = r }
func (x *boundExchange) serves()               {}
func (x *boundExchange) await()                {}

func (x *boundExchange) answer(a response) {
	x.bound.answer(a)
	x.leave()
}

func (x *boundExchange) end(why ending, id []byte) {
	x.bound.end(why, id)
	if why != cancelled { // else its handler has the place until it returns
		x.leave()
	}
}

func (x *boundExchange) leave() {
	if !x.left {
		x.left = true
		x.link.leave()
	}
}

// answerer is where a request is answered or refused.
type answerer interface {
	Answer(status int, body []byte) bool
	Reject(status, code int, message string, data, id []byte, retryAfter time.Duration)
}

// replier is where a request of a session that is its connection is answered.
type replier interface {
	answerer
	// over says that no answer comes any more.
	over()
}

var (
	_ replier = (*link)(nil)
	_ replier = (*batchMember)(nil)
)

// Answer sends a response on the connection.
func (l *link) Answer(_ int, body []byte) bool {
	l.send(body)
	return true
}

// Reject sends an error on the connection.
func (l *link) Reject(_, code int, message string, data, id []byte, _ time.Duration) {
	l.send(codec.AppendError(nil, id, code, message, data))
}

func (l *link) over() {}

// linkBatch gathers the answers to a batch that came on a session's one connection, or for it. The last of its
// requests to end sends them as one message, an array (JSON-RPC 2.0, section 6); those that were cancelled have no
// element, and if all were, nothing is sent. What else the requests have to say goes out at once.
type linkBatch struct {
	link *link // of the session

	mu   sync.Mutex // guards what follows
	open int        // requests that have not ended
	out  []byte     // "[", and the answers so far with commas between them
}

// member is where one request of the batch is answered.
func (b *linkBatch) member() *batchMember { return &batchMember{batch: b} }

// ended takes the answer of one request, nil if it has none.
func (b *linkBatch) ended(answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		lead := byte(',')
		if b.out == nil {
			lead = '['
		}
		b.out = append(append(b.out, lead), answer...)
	}
	if b.open--; b.open == 0 && b.out != nil {
		b.link.send(append(b.out, ']'))
		b.out = nil
	}
}

// batchMember is where one request of a linkBatch is answered. Only the first of Answer,
// Reject and over counts.
type batchMember struct {
	batch *linkBatch
	once  sync.Once
}

// Answer adds an answer to those of the batch.
func (m *batchMember) Answer(_ int, body []byte) bool {
	first := false
	m.once.Do(func() {
		first = true
		m.batch.ended(body)
	})
	return first
}

// Reject adds an error to the answers of the batch.
func (m *batchMember) Reject(_, code int, message string, data, id []byte, _ time.Duration) {
	m.Answer(200, codec.AppendError(nil, id, code, message, data))
}

func (m *batchMember) over() { m.once.Do(func() { m.batch.ended(nil) }) }
