package actors

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// stateless is the part of a request actor that only a stateless request has, as all
// requests are since 2026-07-28: there is no session to hold it.
type stateless struct {
	generation uint64 // the actor's, while it serves this request
	peer       Peer
	meta       requestMeta
	logged     *atomic.Pointer[logLimiter]
	own        atomic.Pointer[logLimiter] // logged points here for a request over HTTP
	inputEnded <-chan struct{}            // closed when the client can send no request again; nil: never
	alone      bool                       // the client has the process for itself
	charged    *sessionAccount            // of the connection that carries others, whose bucket has paid; nil over HTTP
	direct     direct                     // the delivery of a request whose handler runs on the goroutine that read it
	served     roundTrip                  // the exchange that the call is or was answered on last

	address string
	input   // questions and answers so far; the holder of input.mu owns it

	prev, next *requestActor // in the list of stateless requests
}

func (s *stateless) logLimiter() *atomic.Pointer[logLimiter] { return s.logged }

// requestMeta is what a client says of itself in the `_meta` of each stateless request. It
// is the peer's identity.
type requestMeta struct {
	first []byte
	now   atomic.Pointer[[]byte] // of the request that the call answers now
}

var _ identity = (*requestMeta)(nil)

func (m *requestMeta) clientRecord() session.Record {
	meta := *m.now.Load()
	level, _ := codec.Str(codec.Field(meta, mcp.MetaLogLevel))
	return session.Record{
		Revision: mcp.Revision20260728.String(), Client: codec.Optional(meta, mcp.MetaClientInfo),
		Capabilities: codec.Field(meta, mcp.MetaClientCapabilities), Level: level,
	}
}

func (*requestMeta) clientRevision() mcp.Revision           { return mcp.Revision20260728 }
func (*requestMeta) currentSession() (*sessionActor, error) { return nil, ErrNoStream }

// roundTrip is one request of a stateless call and its response: an HTTP exchange, or a
// message on a connection. The call may outlive it.
type roundTrip interface {
	delivery
	// attachCall makes r the call that the exchange answers.
	attachCall(r *requestActor)
	// watchConn begins to watch the connection: its end cancels the call.
	watchConn()
	// releaseExchange gives back what the exchange holds of its client's resources, unless its
	// response already did.
	releaseExchange()
	// awaitResponse waits until the exchange has its response or its client is gone. On a
	// connection that carries others it returns at once.
	awaitResponse()
}

// direct delivers a stateless request over its HTTP exchange. It stores nothing, and the
// end of the connection ends the request.
type direct struct {
	r       *requestActor
	conn    Exchange
	streams bool          // the response is a stream
	left    bool          // over is closed
	stream  *liveStream   // nil until the stream is open
	unwatch func() bool   // ends the watch on the connection, nil if there is none; read only after watched is set
	watched atomic.Bool   // unwatch is set; the connection may end before that
	over    chan struct{} // releases the goroutine that waits in awaitResponse; nil if that runs the handler
}

var (
	_ delivery  = (*direct)(nil)
	_ roundTrip = (*direct)(nil)
)

func (d *direct) attachCall(r *requestActor) { d.r = r }

func (d *direct) watchConn() {
	r, generation := d.r, d.r.generation
	d.unwatch = d.conn.WhenGone(func() { _ = r.Post(called{generation, connGone{d, exchangeBroken(d.conn), endedContext(d.conn)}}) })
	d.watched.Store(true)
}

func (d *direct) awaitResponse() {
	select {
	case <-d.over:
	case <-d.conn.Context().Done():
		if endedContext(d.conn) != nil { // the response can still be written
			<-d.over
		}
	}
}

func (d *direct) openStream() {
	if d.streams { // it waited for the outcome of a call whose response was a stream
		return
	}
	d.streams = true
	if d.conn.Open() {
		d.stream = d.r.pool.talking.addStream(d.conn, d.r.svc.Limits.KeepAlive)
	}
}

func (d *direct) sendEntry(e stream.Entry) {
	d.conn.Event("", 0, e.Data)
	d.conn.Flush()
	d.stream.noteWritten()
	e.Drop(nil)
}

func (d *direct) answerRequest(a response) {
	if !d.streams {
		d.endWatch() // first, because a client with its response may close the connection
	}
	switch {
	case d.streams:
		d.conn.Event("", 0, a.data)
		d.conn.Finish()
	case a.goesOn && d.over == nil: // the handler keeps the connection's goroutine
		d.conn.AnswerLast(200, a.data)
	case a.denied != nil:
		a.denied.Tell(d.conn, d.r.id)
	case a.exited:
		d.conn.AnswerLast(statusOf(a), a.data)
	case a.unavailable && !a.goesOn && d.r.isSafe(): // a proxy may send what is answered with 503 to another node
		refusal.Unavailable.Tell(d.conn, d.r.id)
	default:
		d.conn.Answer(statusOf(a), a.data)
	}
	d.endWatch()
	d.releaseExchange()
}

// statusOf is the HTTP status of a plain response.
func statusOf(a response) int {
	if info, ok := protocol.LookupError(a.code); a.code != 0 && ok {
		return info.StatelessStatus
	}
	return 200
}

func (d *direct) endDelivery(why ending, id []byte) {
	d.endWatch()
	switch {
	case why == givenUp && d.streams:
		d.conn.Event("", 0, d.r.givenUpResponse(id))
		d.conn.Finish()
	case why == givenUp && d.r.isSafe():
		refusal.Unavailable.Tell(d.conn, id)
	case why == givenUp: // the call may have taken effect, so that its client must decide whether to send it again
		d.conn.Answer(200, lostCall(id))
	case why == broken:
		d.r.Contain(func() { sendInternalError(d.conn, id, 500) })
		d.r.Contain(d.conn.Cut)
	}
	d.releaseExchange()
}

// endWatch ends the watch on the connection.
func (d *direct) endWatch() {
	if !d.watched.Load() { // there is no watch, or the connection ended while it began
		d.r.used = true
		return
	}
	if d.unwatch != nil && !d.unwatch() {
		d.r.used = true // connGone may be on its way to the actor
	}
	d.unwatch = nil
}

// releaseExchange lets the goroutine go on that waits in awaitResponse.
func (d *direct) releaseExchange() {
	if d.over != nil && !d.left {
		d.left = true
		close(d.over)
	}
}

// connGone reports to a request that the client of x is gone or, if broken is set, that the node is
// not heard that has its connection. If ended is set, the client is there, and a middleware has
// ended its request's context.
type connGone struct {
	x      roundTrip
	broken bool
	ended  error
}

// statelessCalls are the stateless requests of this node, unordered.
type statelessCalls struct {
	mu    sync.Mutex // guards the links between them
	first *requestActor
}

func (l *statelessCalls) addRequest(r *requestActor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.stateless.next = l.first; l.first != nil {
		l.first.stateless.prev = r
	}
	l.first = r
}

func (l *statelessCalls) dropRequest(r *requestActor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := r.stateless
	switch {
	case s.prev != nil:
		s.prev.stateless.next = s.next
	case l.first == r:
		l.first = s.next
	default:
		return // it was never added
	}
	if s.next != nil {
		s.next.stateless.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

func (l *statelessCalls) isEmpty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first == nil
}

// statelessRef names a request by its actor and the actor's generation.
type statelessRef struct {
	r          *requestActor
	generation uint64
}

// requestsOf returns the requests of a service, or all if svc is nil. An actor that serves
// another request by then drops a message that is wrapped in called.
func (l *statelessCalls) requestsOf(svc *Service) (all []statelessRef) {
	return l.selectRequests(ofService(svc))
}

// ofService picks the requests of a service, or all if svc is nil.
func ofService(svc *Service) func(*requestActor) bool {
	return func(r *requestActor) bool { return svc == nil || r.stateless.peer.svc == svc }
}

// selectRequests returns the requests for which which returns true.
func (l *statelessCalls) selectRequests(which func(*requestActor) bool) (all []statelessRef) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := l.first; r != nil; r = r.stateless.next {
		if which(r) {
			all = append(all, statelessRef{r, r.stateless.generation})
		}
	}
	return all
}

// giveUp gives up the requests of a service, or all if svc is nil.
func (l *statelessCalls) giveUp(svc *Service, cause error) {
	l.giveUpOf(cause, ofService(svc))
}

// giveUpOf gives up the requests for which which returns true.
func (l *statelessCalls) giveUpOf(cause error, which func(*requestActor) bool) {
	for _, x := range l.selectRequests(which) {
		_ = x.r.Post(called{x.generation, giveUp{cause}})
	}
}

// liveStream is an open event stream that cannot be resumed.
type liveStream struct {
	conn  Conn
	every time.Duration
	wrote atomic.Int64 // unix nanoseconds
}

func (s *liveStream) noteWritten() {
	if s != nil {
		s.wrote.Store(time.Now().UnixNano())
	}
}

func (s *liveStream) sendComment() {
	s.noteWritten()
	s.conn.Comment()
	s.conn.Flush()
}

// liveStreams has comments sent on streams that are silent for long, so that they stay
// open.
type liveStreams struct {
	mu  sync.Mutex // guards all
	all map[*liveStream]struct{}
}

func (l *liveStreams) addStream(conn Conn, every time.Duration) *liveStream {
	s := &liveStream{conn: conn, every: every}
	s.noteWritten()
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

// silentStreams returns the streams that are due for a comment.
func (l *liveStreams) silentStreams(now time.Time) []*liveStream {
	l.mu.Lock()
	var silent []*liveStream
	for s := range l.all {
		if now.UnixNano()-s.wrote.Load() >= int64(s.every) {
			silent = append(silent, s)
		}
	}
	l.mu.Unlock()
	return silent
}

func (l *liveStreams) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}
