package actors

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/request"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// standing is what a request has of its own that stands for itself, as all do
// since 2026-07-28: there is no session that others could belong to.
type standing struct {
	peer  Peer
	turn0 uint64                 // the actor's turn that the request is
	token atomic.Pointer[[]byte] // of the exchange that is served now

	// exchange is served now, if the handler has a goroutine of its own; nil where
	// it runs on the one that read the request. It belongs to the actor.
	exchange *exchange
	unwatch  func() bool // ends the watch on the connection; belongs to the actor
	stream   *aloneStream
	address  string
	logged   atomic.Pointer[logs]
	parking  *parking // of a call that has asked, or was sent again; set before others can know

	input      // what the handler has asked for and been given; belongs to who holds input.mu
	prev, next *requestActor
}

// exchange is one HTTP request of a call that may outlive it, and its response.
type exchange struct {
	conn  Conn
	id    []byte
	token []byte
	meta  []byte // of a request that is sent again
	from  *quota.Account
	heard chan struct{} // closed when the response is complete
	slot  *link         // that has a place for it, nil if none
}

// watched is a connection that tells when its client is gone.
type watched interface {
	Context() context.Context
	// WhenGone has f called once when Context would be done, and costs less.
	WhenGone(f func()) (stop func() bool)
}

// lasting is a connection that can be answered before the goroutine that read
// its request is free.
type lasting interface {
	AnswerLast(status int, body []byte) bool
}

// alone takes a request that stands for itself. s is the session of its connection
// where that carries others, else nil. It returns when the handler has, or, where the
// call may ask for input, when the exchange has its answer; on a connection that
// carries others it does not wait. It reports whether it has begun one.
func (n *Node) alone(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message, body []byte) (begun bool) {
	switch {
	case m.Kind == codec.Notification:
		in.Conn.Accepted() // over HTTP there is none that says anything
		return false
	case m.Kind != codec.Request:
		faults.OneMessage.Tell(in.Conn, m.ID)
		return false
	case tooLong(m): // they come back with every message
		n.refusals.refused(in.Conn, errLongToken, m.ID)
		return false
	case n.turnsAway(svc, m) || n.store.Suspended() && !n.regained(svc.Limits.StoreWait), svc.life.over.Load():
		n.refusals.unavailable(in.Conn, m.ID)
		return false
	case string(m.Method) == mcp.MethodSubscriptionsListen:
		n.listenAlone(svc, s, in, principal, m)
		return false
	case m.State != nil && Asks(m.Method):
		return n.again(svc, s, in, principal, m, body)
	}
	given, ok := responses(m)
	if !ok {
		badResponses(in.Conn, m.ID)
		return false
	}
	a, no := n.accounts.admit(s, in, m)
	if a == nil {
		n.refusals.refuse(in.Conn, m.ID, no)
		return false
	}
	r, x := n.newAlone(svc, s, in, principal, m, body, a, s != nil || svc.Handler.MayAsk(m.Method, m.Name))
	r.self.given = given
	r.goAlone(x)
	return true
}

// Asks reports whether requests of the method may be answered with questions
// (2026-07-28, basic/patterns/mrtr).
func Asks(method []byte) bool {
	switch string(method) {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// newAlone returns the actor of a request that was admitted. s is the session of
// its connection where that carries others, else nil. Where the call may outlive
// the exchange it is apart: x is the exchange then, else nil.
func (n *Node) newAlone(svc *Service, s *sessionActor, in *Input, principal any, m *codec.Message, body []byte, a *quota.Account, apart bool) (r *requestActor, x *exchange) {
	var meta []byte
	if apart { // the bytes are not the handler's beyond this exchange
		own := new(codec.Message)
		body = bytes.Clone(body)
		_ = codec.Scan(body, own, anyMessage) // it was scanned before
		m, meta = own, own.Meta
	} else {
		meta = bytes.Clone(m.Meta) // which the peer may be asked for after the call
	}
	r = n.takeRequest(a)
	self := &standing{peer: Peer{node: n, svc: svc, key: SessionKey{Tenant: in.Tenant, Server: svc.ID}, meta: meta}, address: in.Address}
	self.turn0 = r.turn
	c := &Call{principal: principal, trace: in.Trace, attempt: 1, peer: &self.peer, self: self}
	r.self = self
	r.stands(svc, s, in.Conn, m, body, c)
	self.token.Store(&c.token)
	if apart {
		r.used = true
		r.out.Free() // which others can use while the call waits
		r.out = new(codec.Buffer)
		x = &exchange{conn: in.Conn, from: a, heard: make(chan struct{}), slot: s.place()}
		self.exchange = x
	}
	return r, x
}

// goAlone runs the request, and returns when its exchange has its answer.
func (r *requestActor) goAlone(x *exchange) {
	n := r.node
	r.self.watch(r, r.conn, x)
	if err := r.enter(r.svc.Limits.PerSession); err != nil {
		r.self.stop()
		n.refusals.refused(r.conn, err, r.id)
		r.self.heard()
		if r.self.park != "" {
			n.parks.Drop(r.self.park, r)
		}
		r.release()
		return
	}
	n.standings.add(r)
	if x == nil {
		r.serve()
		return
	}
	s := r.sess
	if s != nil && s.link != nil {
		s.link.calls.Go(r.serve)
		return
	}
	go r.serve()
	x.await(nil)
}

// await waits until the exchange has its answer, or its client is gone. On a
// connection that carries others nobody waits: s is its session.
func (x *exchange) await(s *sessionActor) {
	if s != nil {
		return
	}
	var gone <-chan struct{}
	if w, ok := x.conn.(watched); ok {
		gone = w.Context().Done()
	}
	select {
	case <-x.heard:
	case <-gone:
	}
}

// connGone tells a request that its client is gone. x is nil unless the call may
// outlive its exchange.
type connGone struct{ x *exchange }

// watch makes the end of the connection the end of the request.
func (s *standing) watch(r *requestActor, conn Conn, x *exchange) {
	s.unwatch = nil
	if w, ok := conn.(watched); ok {
		turn := r.turn
		s.unwatch = w.WhenGone(func() { _ = r.Post(called{turn, connGone{x}}) })
	}
}

// stop ends the watch; it reports whether nothing of it is under way.
func (s *standing) stop() bool {
	if s.unwatch == nil {
		return true
	}
	stopped := s.unwatch()
	s.unwatch = nil
	return stopped
}

// emitAlone sends something of the handler's to the client.
func (r *requestActor) emitAlone(e stream.Entry) {
	phase, act := request.StepAlone(r.phase, request.Emit)
	r.phase = phase
	if act&request.Headers != 0 {
		r.openAlone()
	}
	if act&request.Send == 0 {
		e.Drop(stream.ErrEnded)
		return
	}
	if l := r.link(); l != nil {
		l.send(e.Data)
	} else {
		r.conn.Event("", 0, e.Data)
		r.conn.Flush()
		r.self.stream.touch()
	}
	e.Drop(nil)
}

// openAlone makes the answer a stream. Nothing of it is stored.
func (r *requestActor) openAlone() {
	if r.link() != nil {
		return
	}
	if r.conn.Open() {
		r.self.stream = r.node.talking.add(r.conn, r.svc.Limits.KeepAlive)
	}
}

// stepAlone takes a request that stands for itself through e.
func (r *requestActor) stepAlone(e request.Event, data []byte, cause error) {
	phase, act := request.StepAlone(r.phase, e)
	r.phase = phase
	if act&request.Headers != 0 {
		r.openAlone()
	}
	if act&(request.Answer|request.Final) != 0 {
		r.answerAlone(act, data)
	}
	if act&request.Lose != 0 {
		for _, lost := range lostCalls([]callRecord{{ID: r.id}}, nil) {
			r.answerAlone(request.Final, lost.Data)
		}
	}
	if e == request.GiveUp {
		r.giveUpOthers()
	}
	if act&request.StopCall != 0 {
		r.cancel(cause)
		r.goOn(more{err: cause})
	}
	if act&request.Refuse != 0 {
		r.self.stop()
		if l := r.link(); l != nil {
			l.send(lostCalls([]callRecord{{ID: r.id}}, nil)[0].Data)
		} else {
			r.turnAway(r.conn, r.id)
		}
		r.self.heard()
	}
}

// turnAway answers an exchange of a call that is given up.
func (r *requestActor) turnAway(conn Conn, id []byte) {
	if r.link() == nil && r.svc.Handler.Safe(r.call.msg.Method, r.call.msg.Name) {
		r.node.refusals.unavailable(conn, id)
		return
	}
	// Who is on a pipe has nobody to send it to again; and what may have taken effect
	// is not to be sent again without a thought.
	conn.Answer(200, lostCalls([]callRecord{{ID: id}}, nil)[0].Data)
}

// answerAlone sends the answer, or what stands in its place, and lets go of the
// exchange.
func (r *requestActor) answerAlone(act request.Action, data []byte) {
	switch l := r.link(); {
	case l != nil:
		l.send(data)
	case act&request.Final != 0:
		r.conn.Event("", 0, data)
		r.conn.Finish()
	default:
		r.self.stop()
		last, ok := r.conn.(lasting)
		if ok && r.phase == request.Parked && r.self.exchange == nil {
			last.AnswerLast(200, data)
		} else if r.phase != request.Parked && r.result.later {
			r.node.refusals.unavailable(r.conn, r.id)
		} else {
			r.conn.Answer(r.status(), data)
		}
	}
	r.self.stop()
	r.self.heard()
	if r.phase == request.Parked && r.link() == nil {
		r.conn, r.self.stream = nobody{}, nil
	}
}

// nobody is the connection of a call that waits for its client to send the request
// again.
type nobody struct{}

func (nobody) SetSession(string)                                      {}
func (nobody) Answer(int, []byte) bool                                { return false }
func (nobody) Accepted()                                              {}
func (nobody) Reject(int, int, string, []byte, []byte, time.Duration) {}
func (nobody) Open() bool                                             { return false }
func (nobody) Event(string, int, []byte)                              {}
func (nobody) Comment()                                               {}
func (nobody) Flush()                                                 {}
func (nobody) Finish()                                                {}
func (nobody) Cut()                                                   {}
func (nobody) Room(context.Context) error                             { return errReturned }
func (nobody) Gone(func())                                            {}

// status is that of a plain answer.
func (r *requestActor) status() int {
	if r.phase == request.Parked || r.result.code == 0 {
		return 200
	}
	if info, ok := mcp.LookupError(r.result.code); ok {
		return info.ModernStatus
	}
	return 200
}

// heard lets the goroutine go that waits for the exchange's answer.
func (s *standing) heard() {
	if x := s.exchange; x != nil {
		s.exchange = nil
		x.hear()
	}
}

// hear ends the exchange: it has its answer.
func (x *exchange) hear() {
	close(x.heard)
	if x.slot != nil {
		x.slot.leave()
	}
}

// connectionGone is what the end of a connection is to a call: another exchange
// that waits for the same answer takes its place, or the call is cancelled.
func (r *requestActor) connectionGone(m connGone) {
	if m.x != r.self.exchange {
		return // it has had its answer
	}
	if p := r.self.parking; p != nil && len(p.others) > 0 {
		x := p.others[0]
		p.others = p.others[1:]
		r.serveExchange(x)
		return
	}
	r.step(request.Cancel, nil, fmt.Errorf("%w: the connection was closed", ErrCancelled))
}

// standings are the requests of this node that stand for themselves, in no
// particular order.
type standings struct {
	mu    sync.Mutex // guards the links between them
	first *requestActor
}

func (l *standings) add(r *requestActor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.self.next = l.first; l.first != nil {
		l.first.self.prev = r
	}
	l.first = r
}

func (l *standings) drop(r *requestActor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := r.self
	switch {
	case s.prev != nil:
		s.prev.self.next = s.next
	case l.first == r:
		l.first = s.next
	default:
		return // it was never added
	}
	if s.next != nil {
		s.next.self.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

func (l *standings) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first == nil
}

// turnOf is a request by the turn of its actor that it was.
type turnOf struct {
	r    *requestActor
	turn uint64
}

// snapshot returns all there are. What stands for another request by the time of a message to it leaves that alone.
func (l *standings) snapshot() (all []turnOf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := l.first; r != nil; r = r.self.next {
		all = append(all, turnOf{r, r.self.turn0})
	}
	return all
}

// giveUp gives up those of a service, or all if that is nil.
func (l *standings) giveUp(svc *Service, cause error) {
	var all []turnOf
	l.mu.Lock()
	for r := l.first; r != nil; r = r.self.next {
		if svc == nil || r.self.peer.svc == svc {
			all = append(all, turnOf{r, r.self.turn0})
		}
	}
	l.mu.Unlock()
	for _, x := range all {
		_ = x.r.Post(called{x.turn, giveUp{cause}})
	}
}

// aloneStream is an open event stream that cannot be resumed.
type aloneStream struct {
	conn  Conn
	every time.Duration
	wrote atomic.Int64 // unix nanoseconds
}

func (s *aloneStream) touch() {
	if s != nil {
		s.wrote.Store(time.Now().UnixNano())
	}
}

// aloneStreams keeps those streams open that have nothing to say for long.
type aloneStreams struct {
	mu  sync.Mutex // guards all
	all map[*aloneStream]struct{}
}

func (l *aloneStreams) add(conn Conn, every time.Duration) *aloneStream {
	s := &aloneStream{conn: conn, every: every}
	s.touch()
	l.mu.Lock()
	l.all[s] = struct{}{}
	l.mu.Unlock()
	conn.Gone(func() {
		l.mu.Lock()
		delete(l.all, s)
		l.mu.Unlock()
	})
	return s
}

// silent are the streams that are due to have a comment.
func (l *aloneStreams) silent(now time.Time) []*aloneStream {
	l.mu.Lock()
	var silent []*aloneStream
	for s := range l.all {
		if now.UnixNano()-s.wrote.Load() >= int64(s.every) {
			silent = append(silent, s)
		}
	}
	l.mu.Unlock()
	return silent
}

func (s *aloneStream) comment() {
	s.touch()
	s.conn.Comment()
	s.conn.Flush()
}

func (l *aloneStreams) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// reply sends a whole response to a request that stands for itself.
func (n *Node) reply(s *sessionActor, conn Conn, status int, data []byte) {
	if s != nil {
		s.link.send(data)
		return
	}
	conn.Answer(status, data)
}
