package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// sessions finds the sessions that a node serves now, by key, and loads others from their
// records. Bound sessions are not among them: only their connections find them.
type sessions struct {
	*kernel.Directory[SessionKey, *sessionActor]
	node    *Node
	lookups chan struct{} // one for each request that reads its session from the store
	guesses chan struct{} // the same for ids without the right tag
}

// sessionReads bounds the requests that read their session from the store at the same time;
// others wait. A made-up id costs a client nothing.
var sessionReads = limits.SessionReads.Value()

// maxLookups is sessionReads for a node that takes calls requests at once; -1 means no limit.
func maxLookups(calls int) int {
	if calls < 0 {
		return sessionReads
	}
	return max(1, min(sessionReads, calls))
}

// findSession finds the session that a message or a GET belongs to, or refuses it. id is that of a
// request, else nil.
func (d *sessions) findSession(svc *Service, in *Input, id []byte) *sessionActor {
	s, err := d.lookUp(svc, in)
	if s = d.checkFound(in, id, s, err); s != nil && s.view.Load().rec.Fresh && !s.noteFirstMessage(in) {
		unknownSession(in.Conn, id)
		return nil
	}
	return s
}

// checkFound returns the session that lookUp found, or refuses the request.
func (d *sessions) checkFound(in *Input, id []byte, s *sessionActor, err error) *sessionActor {
	n := d.node
	switch {
	case err == nil:
	case errors.Is(err, errNoSession):
		refusal.NoSession.Tell(in.Conn, id)
		return nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, ErrUnmounted):
		unknownSession(in.Conn, id)
		return nil
	case errors.Is(err, ErrClosing):
		refusal.Unavailable.Tell(in.Conn, id)
		return nil
	case errors.As(err, new(*refusal.Refusal)):
		if id != nil {
			n.refusals.refuseInSession(in.Conn, err, id)
		} else {
			n.refusals.refuseRequest(in.Conn, err, nil)
		}
		return nil
	default:
		n.log.Warn("session not readable", "session", in.Session, "error", err)
		if id != nil {
			n.refusals.refuseInSession(in.Conn, refusal.Unavailable, id)
		} else {
			refusal.Unavailable.Tell(in.Conn, nil)
		}
		return nil
	}
	s.peer.noteOwner(in)
	// The transport's revision and the protocol's are independent, but a client that names one
	// must name the negotiated one.
	if v := s.view.Load(); in.Version != "" && in.Version != v.rec.Revision {
		refusal.SessionRevision.TellMore(in.Conn, v.rec.Revision, id)
		return nil
	}
	return s
}

// errNoSession stands for a request that names no session.
var errNoSession = errors.New("actors: no session id")

// lookUp is loadSession for the session that a request names. It waits while too many others read the
// store.
func (d *sessions) lookUp(svc *Service, in *Input) (*sessionActor, error) {
	n := d.node
	switch {
	case in.Session == "":
		return nil, errNoSession
	case n.drain.closing.Load():
		return nil, ErrClosing // the sessions in memory stop, and no others may begin
	}
	key, ok := sessionKey(in.Tenant, svc.ID, in.Session)
	if !ok {
		return nil, store.ErrNotFound
	}
	if s, ok := d.Get(key); ok && s.svc == svc {
		switch expired, err := s.refreshView(d.lookups); {
		case err != nil:
			return nil, err
		case !expired:
			return s, nil
		}
	}
	lookups := d.lookups
	if !key.hasTag(in.Session, n.mrtr.keys) { // it may be a guess, and must not hold up the others
		lookups = d.guesses
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	select {
	case lookups <- struct{}{}:
		defer func() { <-lookups }()
	case <-ctx.Done():
		return nil, fmt.Errorf("actors: read session: too many requests read theirs: %w", store.ErrUnavailable)
	}
	return d.loadSession(ctx, svc, key, in)
}

// loadSession finds the actor of a session in memory, or makes it from the session's record. in is the
// request that pays for the memory; nil is none, and then the session's tenant pays.
func (d *sessions) loadSession(ctx context.Context, svc *Service, key SessionKey, in *Input) (*sessionActor, error) {
	n := d.node
	for {
		if n.drain.closing.Load() { // the node's sessions stop, and no others may begin
			return nil, ErrClosing
		}
		s, err := d.Obtain(key, func() (*sessionActor, error) {
			get := n.store.Get
			if in != nil && !key.hasTag(in.Session, n.mrtr.keys) { // it may be a guess, on which no write is spent
				get = n.store.Peek
			}
			rec, rev, err := d.readRecordBy(ctx, key, get)
			if err != nil {
				return nil, err
			}
			held, no := d.reserveMemory(&rec, key, in)
			if no != nil {
				return nil, no
			}
			s := d.activateSession(svc, key, rec, rev, held)
			s.beginning.markBegun()
			s.missed.Store(true)
			for _, uri := range rec.Subscribed {
				n.subs.Follow(s, uri)
			}
			return s, nil
		})
		if err != nil {
			return nil, err
		}
		s, stale, err := s.checkMounted(svc)
		switch {
		case err != nil:
			return nil, err
		case stale:
			continue
		}
		expired, err := s.refreshView(nil)
		if expired {
			s.endSession()
			err = store.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// reserveMemory counts the memory of a session.
func (d *sessions) reserveMemory(rec *session.Record, key SessionKey, in *Input) (*quota.Holding, *refusal.Refusal) {
	held := new(quota.Holding)
	if in == nil {
		d.node.accounts.reserveAnyway(held, nil, &Input{Tenant: key.Tenant}, quota.Sessions, recordMemory(rec))
		return held, nil
	}
	return held, d.node.accounts.reserveMemory(held, nil, in, quota.Sessions, recordMemory(rec))
}

// recordMemory is what a session with this record holds in memory.
func recordMemory(rec *session.Record) int64 {
	return sessionBytes + rec.Size() + uriBytes*int64(len(rec.Subscribed))
}

// eachSession calls f for every session on this node, with the bound ones.
func (d *sessions) eachSession(f func(*sessionActor)) {
	d.Each(f)
	d.node.bound.Each(func(l *boundConn) { f(l.sess) })
}

// errNewer reports a record of a newer release. That release may be about to take this
// process's place, and waiting here does not help.
var errNewer = fmt.Errorf("written by a newer release: %w", store.ErrUnavailable)

// createSession stores a new session and serves it here.
func (d *sessions) createSession(ctx context.Context, svc *Service, in *Input, set Settled) (*sessionActor, error) {
	n := d.node
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	rec := session.New(n.store.Now(), svc.Limits.Session)
	rec.Revision, rec.Client, rec.Capabilities, rec.Announced = set.Revision, set.Client, set.Capabilities, set.Announced
	data, err := rec.Encode()
	if err != nil {
		return nil, fmt.Errorf("actors: create session: %w", err)
	}
	held, no := d.reserveMemory(&rec, key, in)
	if no != nil {
		return nil, no
	}
	stored := n.accounts.sessionCharge(in, &rec, &svc.Limits.Session, len(data))
	if no := n.accounts.chargeStore(stored); no != nil {
		held.Free()
		return nil, refusal.Of(no)
	}
	rev, err := n.store.Create(ctx, key.recordKey(), data, rec.Expires.Sub(n.store.Now()))
	n.accounts.settleCharge(stored, err)
	if err != nil {
		held.Free()
		return nil, fmt.Errorf("actors: create session: %w", err)
	}
	s := d.activateSession(svc, key, rec, rev, held)
	d.Put(key, s)
	s, _, err = s.checkMounted(svc)
	return s, err
}

// activateSession makes and starts the actor of a session, which frees held when it leaves memory.
func (d *sessions) activateSession(svc *Service, key SessionKey, rec session.Record, rev uint64, held *quota.Holding) *sessionActor {
	s := d.buildActor(svc, key, rec, rev)
	s.memory.Move(held)
	s.peer.name = key.taggedID(d.node.mrtr.keys)
	s.home = storedHome{s}
	s.shared = d.node.fleet.mail != nil
	s.startSession()
	return s
}

// buildActor makes the actor of a session without its home; startSession starts it.
func (d *sessions) buildActor(svc *Service, key SessionKey, rec session.Record, rev uint64) *sessionActor {
	n := d.node
	s := &sessionActor{node: n, svc: svc, key: key, last: time.Now()}
	s.view.Store(&view{rec: rec, rev: rev})
	s.asOf.Store(int64(n.clock.sinceStart()))
	s.peer = &Peer{node: n, svc: svc, key: key}
	s.peer.who = ofSession{s.peer}
	s.peer.last.Store(s)
	return s
}

// adoptView makes s, and the actor that serves the session in its place by now, serve from a record
// that was written. An actor that begins later reads the record itself.
func (d *sessions) adoptView(s *sessionActor, v *view) {
	before := s.view.Load().rec.Standalone
	defer s.endReplacedStandalone(before)
	s.adoptView(v)
	if now, ok := d.Current(s.key); ok && now != s {
		now.adoptView(v)
	}
}

// Delete ends a session: its record goes first, then its calls and streams.
func (n *Node) Delete(svc *Service, in *Input) {
	if !n.accounts.admitMessage(nil, in, &codec.Message{}, 0) {
		return
	}
	s, err := n.sessions.lookUp(svc, in)
	if s = n.sessions.checkFound(in, nil, s, err); s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	first, err := n.sessions.removeSession(ctx, s)
	if err != nil {
		n.log.Warn("session not deleted", "session", s.key.ID, "error", err)
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	if first { // false if another DELETE was quicker
		n.accounts.refundSession(in, perSession-1)
		n.accounts.returnSession(in, &s.view.Load().rec, &svc.Limits.Session)
	}
	in.Conn.Answer(200, nil)
}

// removeSession ends a session on all nodes; it reports whether that was its first end here.
func (d *sessions) removeSession(ctx context.Context, s *sessionActor) (first bool, err error) {
	if err := d.node.store.Delete(ctx, s.key.recordKey(), 0); err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	first = s.endSession()
	d.node.fleet.broadcastEnd(ctx, s.key, &s.view.Load().rec, false)
	return first, nil
}

// EndSession ends a session as its client's DELETE does, for an operator. svc is nil if its server is not mounted here. What the session
// has stored counts for its principal until that is forgotten. ErrNotFound: there is no such session.
func (n *Node) EndSession(ctx context.Context, svc *Service, key SessionKey) error {
	if svc != nil {
		s, err := n.sessions.loadSession(ctx, svc, key, nil)
		if err == nil {
			_, err = n.sessions.removeSession(ctx, s)
		}
		return err
	}
	rec, _, err := n.sessions.readRecord(ctx, key)
	if err == nil {
		err = n.store.Delete(ctx, key.recordKey(), 0)
	}
	if err == nil {
		n.fleet.broadcastEnd(ctx, key, &rec, false)
	}
	return err
}

// endIfSessionEnded ends the stream w, which has just been entered in the directory, if its session
// ended before: a takeover takes a while. s is the session's actor as the caller knows it.
// ErrSessionEnded reports that the stream is gone.
func (d *streams) endIfSessionEnded(ctx context.Context, s *sessionActor, w *streamActor) error {
	var err error
	if s.Stopped() && !s.ended.Load() { // it has left memory: the actor in its place knows of the end
		s, err = d.node.sessions.loadSession(ctx, s.svc, s.key, nil)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && s.ended.Load() {
		w.endStream()
		return ErrSessionEnded
	}
	return err
}

// Post takes one POST. It returns when the handler has returned and the request's bytes are no
// longer needed; the response may still be an open stream then.
func (n *Node) Post(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	if in.Stateless {
		n.takeStateless(svc, in, principal, m, body)
		return
	}
	switch m.Kind {
	case codec.Request:
		if n.drain.refusesRequest(svc, principal, m, len(body)) || n.store.Suspended() && !n.awaitLease(svc.Limits.StoreWait) {
			if in.Session != "" && string(m.Method) != mcp.MethodInitialize {
				n.refusals.refuseInSession(in.Conn, refusal.Unavailable, m.ID)
			} else {
				refusal.Unavailable.Tell(in.Conn, m.ID)
			}
			return
		}
		switch {
		case string(m.Method) == mcp.MethodInitialize:
			n.sessions.initializeSession(svc, in, m, len(body))
			return
		case string(m.Method) == mcp.MethodPing && in.Session == "": // legal before initialize
			if n.accounts.admitMessage(nil, in, m, len(body)) {
				in.Conn.Answer(200, pingResponse(m.ID))
			}
			return
		}
		n.takeRequest(svc, in, principal, m, body)
	case codec.Notification, codec.Result, codec.ErrorResponse:
		if !n.accounts.admitMessage(nil, in, m, len(body)) {
			return
		}
		if m.Kind != codec.Notification {
			n.pending.takeAnswer(svc, in, m)
		} else if s := n.sessions.findSession(svc, in, nil); s != nil {
			s.takeNotification(m, time.Now().Add(svc.Limits.StoreWait))
			s.acceptMessage(in.Conn)
		}
	default:
		n.sessions.takeBatch(svc, in, principal, m, body)
	}
}

// pingResponse is the response to a ping.
func pingResponse(id []byte) []byte { return codec.AppendResult(nil, id, []byte("{}")) }

// initializeSession begins a session, or refuses to.
func (d *sessions) initializeSession(svc *Service, in *Input, m *codec.Message, size int) {
	n := d.node
	if in.Session != "" {
		refusal.SessionAgain.Tell(in.Conn, m.ID)
		return
	}
	if !n.accounts.admitSession(in, m.ID) {
		return
	}
	if !n.accounts.admitMessage(nil, in, m, size) {
		n.accounts.refundSession(in, perSession)
		return
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	set, result, rerr := svc.Handler.Initialize(withOwner(ctx, in.Principal), m.Params)
	if rerr != nil {
		n.accounts.refundSession(in, perSession)
		in.Conn.Answer(protocol.HTTPStatus(rerr, 0), codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	s, err := n.sessions.createSession(ctx, svc, in, set)
	if no, limited := errors.AsType[*refusal.Refusal](err); limited {
		n.accounts.refundSession(in, perSession)
		n.refusals.refuseRequest(in.Conn, no, m.ID)
		return
	}
	if err != nil {
		n.accounts.refundSession(in, perSession)
		n.log.Warn("session not created", "error", err)
		refusal.Unavailable.Tell(in.Conn, m.ID)
		return
	}
	s.peer.noteOwner(in)
	if s.beginStay() == nil {
		defer s.endStay()
	}
	s.callBegan(ctx)
	in.Conn.SetSession(s.peer.Session())
	in.Conn.Answer(200, codec.AppendResult(nil, m.ID, result))
}

// takeRequest runs one request of a session.
func (n *Node) takeRequest(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	for {
		s := n.sessions.findSession(svc, in, m.ID)
		if s == nil {
			return
		}
		r, err := s.admitRequest(in, m, len(body))
		if err == nil {
			s.beginRequest(r, r.loggedWay(s, in.Conn), m, body, (&Call{principal: principal, trace: in.Trace, attempt: 1}).withNeeds(in.Needs))
			err = s.enterAdmitted(r)
		}
		switch {
		case err == nil:
			r.serveRequest()
		case errors.Is(err, kernel.ErrStopped):
			continue // the session has just left memory: activate it anew
		default:
			n.refusals.refuseInSession(in.Conn, err, m.ID)
		}
		return
	}
}

// admitRequest returns the actor of a request of size bytes that may run now; refuseInSession sends the error.
func (s *sessionActor) admitRequest(in *Input, m *codec.Message, size int) (*requestActor, error) {
	if tooLong(m) {
		return nil, refusal.LongToken
	}
	a, no := s.node.accounts.admitRequest(&s.sessionAccount, &s.svc.Limits, in, s.callCost(m, size))
	if a == nil {
		return nil, no
	}
	return s.node.calls.takeActor(a), nil
}

// beginRequest makes r serve a request of the session, which is delivered in the way w.
func (s *sessionActor) beginRequest(r *requestActor, w way, m *codec.Message, body []byte, c *Call) {
	c.peer = s.peer
	r.beginRequest(s.svc, w, m, body, c)
}

// enterAdmitted enters an admitted request in the session. On an error it frees the actor; the caller passes the error to
// refuseInSession.
func (s *sessionActor) enterAdmitted(r *requestActor) error {
	s.home.keepAlive()
	err := r.enterTable(s.svc.Limits.PerSession)
	if err != nil {
		r.cancel(err)
		s.refundCall(r)
		r.releaseActor()
	}
	return err
}

// takeNotification takes a notification of the client. It waits for the store until until at most.
func (s *sessionActor) takeNotification(m *codec.Message, until time.Time) {
	switch string(m.Method) {
	case "notifications/cancelled":
		id := codec.Optional(m.Params, "requestId")
		reason, _ := codec.Str(codec.Field(m.Params, "reason"))
		if len(id) > 0 {
			s.cancelCall(string(id), reason, until)
		}
	case mcp.NotifyInitialized: // means something to a bound session alone
	default:
		s.svc.Handler.Notified(s.peer, string(m.Method), m.Params)
	}
}

// cancelCall hands a client's cancel to the call, and waits until the call's stream has the end mark: a cancelled call
// must not run again after a crash. If the call does not run here, the other nodes are told.
func (s *sessionActor) cancelCall(id, reason string, until time.Time) {
	done := make(chan error, 1)
	m := &cancelCall{id: id, reason: reason, acked: func(err error) { done <- err }}
	if err := s.Post(m); err != nil { // the session is leaving memory: nothing of it runs here
		m.Refused(err)
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case err := <-done:
		if errors.Is(err, errNotHere) && s.shared {
			s.node.fleet.broadcastCancel(s.key, id, reason)
		}
	case <-timer.C:
	}
}

// checkMounted returns s, which is in the directory, if svc may use it. A session of an unmounted
// service leaves; stale is set if the caller must look again, because another service has the
// id now.
func (s *sessionActor) checkMounted(svc *Service) (_ *sessionActor, stale bool, err error) {
	if s.svc.life.over.Load() {
		_ = s.Post(unmountSession{})
		s.node.sessions.Drop(s.key, s)
		stale = s.svc != svc
	}
	if svc.life.over.Load() {
		return nil, false, ErrUnmounted
	}
	return s, stale, nil
}

// takeAnswer takes an answer that a client POSTs. If no question waits for it, or the question has
// an answer, it is accepted and dropped.
func (q *pendingRequests) takeAnswer(svc *Service, in *Input, m *codec.Message) {
	n := q.node
	s := n.sessions.findSession(svc, in, nil)
	if s == nil {
		return
	}
	if err := s.takeAnswer(m); err != nil {
		n.log.Warn("answer not taken", "session", s.key.ID, "error", err)
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	s.acceptMessage(in.Conn)
}

// acceptMessage accepts a message that needs no response, unless the session ended while it was handled.
func (s *sessionActor) acceptMessage(c Conn) {
	if s.ended.Load() {
		unknownSession(c, nil)
		return
	}
	c.Accepted()
}

// Writer returns a session whose standalone stream, or connection, this node writes; nil if it writes none.
func (n *Node) Writer(key SessionKey) *Peer {
	if s, ok := n.sessions.Get(key); ok && (!s.shared || s.writesStandalone()) {
		return s.peer
	}
	if l, ok := n.bound.Get(key); ok {
		return l.sess.peer
	}
	return nil
}

// PushTo is Peer.Push to a session that is named by its key. It does nothing, and reports false, if the session is not in this node's
// memory, or if another node writes its standalone stream.
func (n *Node) PushTo(key SessionKey, method string, params []byte) (here bool) {
	if s, ok := n.sessions.Get(key); ok && (!s.shared || s.writesStandalone()) {
		s.home.pushNotification(codec.AppendNotification(nil, method, params))
		return true
	}
	l, ok := n.bound.Get(key)
	if ok {
		l.pushNotification(codec.AppendNotification(nil, method, params))
	}
	return ok
}
