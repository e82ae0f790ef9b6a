package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// sessions finds the sessions that a node serves now, by key, and loads others from their
// records.
type sessions struct {
	*kernel.Directory[SessionKey, *sessionActor]
	node    *Node
	lookups chan struct{} // one for each request that reads its session from the store
}

// lookupsAtOnce bounds the requests that read their session from the store at the same time;
// others wait. A made-up id costs a client nothing.
var lookupsAtOnce = limits.SessionReads.Value()

// maxLookups is lookupsAtOnce for a node that takes calls requests at once; -1 means no limit.
func maxLookups(calls int) int {
	if calls < 0 {
		return lookupsAtOnce
	}
	return max(1, min(lookupsAtOnce, calls))
}

// of finds the session that a message or a GET belongs to, or refuses it. id is that of a
// request, else nil.
func (d *sessions) of(svc *Service, in *Input, id []byte) *sessionActor {
	s, err := d.lookUp(svc, in)
	return d.found(in, id, s, err)
}

// found returns the session that lookUp found, or refuses the request.
func (d *sessions) found(in *Input, id []byte, s *sessionActor, err error) *sessionActor {
	n := d.node
	switch {
	case err == nil:
	case errors.Is(err, errNoSession):
		faults.NoSession.Tell(in.Conn, id)
		return nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrUnmounted):
		unknownSession(in.Conn, id)
		return nil
	case errors.Is(err, ErrClosing):
		n.refusals.unavailable(in.Conn, id)
		return nil
	default:
		n.log.Warn("session not readable", "session", in.Session, "error", err)
		if id != nil {
			n.refusals.refuseInSession(in.Conn, errUnavailable, id)
		} else {
			n.refusals.unavailable(in.Conn, nil)
		}
		return nil
	}
	s.peer.madeBy(in)
	// The transport's revision and the protocol's are independent, but a client that names one
	// must name the negotiated one.
	if v := s.view.Load(); in.Version != "" && in.Version != v.rec.Revision {
		faults.SessionRevision.TellMore(in.Conn, v.rec.Revision, id)
		return nil
	}
	return s
}

// errNoSession stands for a request that names no session.
var errNoSession = errors.New("actors: no session id")

// lookUp is load for the session that a request names. It waits while too many others read the
// store.
func (d *sessions) lookUp(svc *Service, in *Input) (*sessionActor, error) {
	n := d.node
	switch {
	case in.Session == "":
		return nil, errNoSession
	case n.drain.closing.Load():
		return nil, ErrClosing // the sessions in memory stop, and no others may begin
	}
	if !stream.ValidID(in.Session) {
		return nil, ErrNotFound
	}
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: in.Session}
	if s, ok := d.Get(key); ok && s.svc == svc && !s.view.Load().rec.Expired(time.Now()) {
		if s.bound != nil {
			return nil, ErrNotFound // only its connection finds a bound session
		}
		return s, nil
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	select {
	case d.lookups <- struct{}{}:
		defer func() { <-d.lookups }()
	case <-ctx.Done():
		return nil, fmt.Errorf("actors: read session: too many requests read theirs: %w", ErrUnavailable)
	}
	return d.load(ctx, svc, key)
}

// load finds the actor of a session in memory, or makes it from the session's record.
func (d *sessions) load(ctx context.Context, svc *Service, key SessionKey) (*sessionActor, error) {
	n := d.node
	for {
		if n.drain.closing.Load() { // the node's sessions stop, and no others may begin
			return nil, ErrClosing
		}
		s, err := d.Obtain(key, func() (*sessionActor, error) {
			rec, rev, err := d.read(ctx, key)
			if err != nil {
				return nil, err
			}
			s := d.activate(svc, key, rec, rev)
			s.missed.Store(true)
			for _, uri := range rec.Subscribed {
				n.subs.Follow(s, uri)
			}
			return s, nil
		})
		if err != nil {
			return nil, err
		}
		s, stale, err := s.usable(svc)
		switch {
		case err != nil:
			return nil, err
		case stale:
			continue
		}
		if v := s.view.Load(); v.rec.Expired(time.Now()) {
			s.endSession()
			return nil, ErrNotFound
		}
		return s, nil
	}
}

// errNewer reports a record of a newer release. That release may be about to take this
// process's place, and waiting here does not help.
var errNewer = fmt.Errorf("written by a newer release: %w", ErrUnavailable)

// create stores a new session and serves it here.
func (d *sessions) create(ctx context.Context, svc *Service, in *Input, set Settled) (*sessionActor, error) {
	n := d.node
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	rec := session.New(time.Now(), svc.Limits.Session)
	rec.Revision, rec.Client, rec.Capabilities, rec.Announced = set.Revision, set.Client, set.Capabilities, set.Announced
	data, err := codec.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("actors: create session: %w", err)
	}
	if no := n.accounts.storable(n.accounts.Of(in.Tenant, in.Address), SessionBudget, len(data), time.Until(rec.Expires)); no != admitted {
		return nil, verdict{reason: no}
	}
	rev, err := n.store.Create(ctx, key.record(), data, time.Until(rec.Expires))
	if err != nil && !errors.Is(err, ErrUnavailable) {
		n.accounts.gone(in, &rec, time.Until(rec.Expires))
	}
	if err != nil {
		return nil, fmt.Errorf("actors: create session: %w", err)
	}
	s := d.activate(svc, key, rec, rev)
	d.Put(key, s)
	s, _, err = s.usable(svc)
	return s, err
}

// activate makes and starts the actor of a session.
func (d *sessions) activate(svc *Service, key SessionKey, rec session.Record, rev uint64) *sessionActor {
	s := d.build(svc, key, rec, rev)
	s.startSession()
	return s
}

// build makes the actor of a session; startSession starts it.
func (d *sessions) build(svc *Service, key SessionKey, rec session.Record, rev uint64) *sessionActor {
	n := d.node
	s := &sessionActor{node: n, svc: svc, key: key, last: time.Now()}
	s.view.Store(&view{rec: rec, rev: rev})
	s.peer = &Peer{node: n, svc: svc, key: key}
	s.peer.who = ofSession{s.peer}
	s.peer.last.Store(s)
	return s
}

// adopt makes s, and the actor that serves the session in its place by now, serve from a record
// that was written. An actor that begins later reads the record itself.
func (d *sessions) adopt(s *sessionActor, v *view) {
	before := s.view.Load().rec.Standalone
	defer s.disown(before)
	s.adopt(v)
	if now, ok := d.Current(s.key); ok && now != s {
		now.adopt(v)
	}
}

// listen begins a new standalone stream, which replaces the old one.
func (s *sessionActor) listen(svc *Service, in *Input) {
	n := s.node
	if n.store.Suspended() {
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	rec := record.Stream{Version: record.Version, Node: n.name, Boot: n.boot, Epoch: 1, Revision: s.view.Load().rec.Revision}
	st := n.streams.build(svc, s, newID(), rec, in.Conn)
	st.order = n.listened.Add(1)
	// The actor starts before the record names it, so that every reader of the record finds it:
	// a message for it waits, and the next stream ends it.
	st.start()
	data, err := st.newRecord(nil)
	named := make(chan naming, 1)
	go func() { named <- s.storeStandalone(st, data, err) }()
	if <-st.ready; st.unstored.Load() {
		return // the stream ended before it could begin, and the client knows
	}
	of := <-named
	s.listens(st.key.ID, of.old, s.endStandalone(of.old))
	if svc.life.over.Load() {
		st.unmount()
		return
	}
	gap := s.missed.Swap(false) || of.old != "" || len(s.view.Load().rec.Subscribed) > 0
	svc.Handler.Opened(s.peer, gap)
}

// naming is the outcome of making a stream the session's standalone stream.
type naming struct {
	old      string // the former standalone stream; its successor ends it, so that each is ended once
	replaced bool   // a later GET was quicker: the stream ends before it begins
	err      error
}

// storeStandalone stores a new standalone stream and then has the session's record name it.
// data is the stream's record, unless err says why the stream may not begin. If the process is
// lost in between, the old stream is still the session's; the new one is unknown and expires.
// The client learns of the stream last: any event id that it has is of a stream that was named.
func (s *sessionActor) storeStandalone(st *streamActor, data []byte, err error) (of naming) {
	n := s.node
	ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
	defer cancel()
	var rev uint64
	if err == nil {
		rev, err = n.store.OpenStream(ctx, st.path, data, nil, s.svc.recordTTL())
	}
	if err == nil && !st.Stopped() {
		of = s.nameStandalone(ctx, st)
		err = of.err
	}
	switch {
	case err != nil:
		of.err = err
		s.unopened(st, err)
	case of.replaced:
		st.endStream()
	case st.Post(recordStored{rev: rev}) != nil: // the stream has ended meanwhile
		go n.streams.forget(st.path)
		s.disown(of.old)
	}
	return of
}

// unopened refuses a stream that could not be stored or named. The old stream goes on.
func (s *sessionActor) unopened(st *streamActor, err error) {
	n := s.node
	if !errors.Is(err, ErrNotFound) { // ErrNotFound: the session has just been deleted
		n.log.Warn("stream not opened", "session", s.key.ID, "error", err)
	}
	_ = st.Post(recordStored{err: err})
	// If the outcome is unknown, the record may name the stream, and messages sent to it are
	// lost. No client listens to it, and the next read of the record ends the old stream.
	s.missed.Store(true)
	go n.streams.forget(st.path)
}

// nameStandalone makes the session's record name the stream as its standalone stream, unless
// the record already names one with a later GET.
func (s *sessionActor) nameStandalone(ctx context.Context, st *streamActor) (of naming) {
	of.err = s.change(ctx, func(r *session.Record) bool {
		if now, ok := s.node.streams.Get(StreamKey{s.key, r.Standalone}); ok && now.order > st.order {
			of.replaced = true
			return false
		}
		if r.Standalone != st.key.ID { // equal if an attempt with an unknown outcome succeeded
			of.old, r.Standalone = r.Standalone, st.key.ID
		}
		return true
	})
	if of.err != nil && s.isCurrent(st.key.ID) {
		of.err = nil // another goroutine has read a record that names the stream
	}
	return of
}

// endStandalone ends a standalone stream, if there is one, for good. It reports whether the
// stream seemed to have a connection.
func (s *sessionActor) endStandalone(id string) (live bool) {
	n := s.node
	if id == "" {
		return false
	}
	key := StreamKey{s.key, id}
	if st, ok := n.streams.Get(key); ok {
		live = st.heard.Load()
		_ = st.Post(endStream{})
	}
	// A client that comes back after this does not find the stream again, since the session's
	// record names another.
	n.streams.forget(key.path())
	return live
}

// disown ends the standalone stream before, which the session's record named earlier. It does
// so if the record now names a stream that is not here: one of another node, or one that could
// not begin though it was named. Otherwise the client would listen to a stream without a
// writer. A new stream that is here ends the old one itself.
func (s *sessionActor) disown(before string) {
	n := s.node
	now := s.view.Load().rec.Standalone
	if before == "" || before == now {
		return
	}
	if _, here := n.streams.Get(StreamKey{s.key, now}); here {
		return
	}
	if _, here := n.streams.Get(StreamKey{s.key, before}); here {
		s.missed.Store(true)
		go s.endStandalone(before)
	}
}

// isCurrent reports whether the session's standalone stream is id, as far as this node knows.
// No other standalone stream has a writer: a client that resumed it would wait forever.
func (s *sessionActor) isCurrent(id string) bool { return s.view.Load().rec.Standalone == id }

// mustName reads the session's record. It fails with errBadEvent unless the record names id as
// the standalone stream.
func (s *sessionActor) mustName(ctx context.Context, id string) error {
	n := s.node
	rec, rev, err := n.sessions.read(ctx, s.key)
	if errors.Is(err, ErrNotFound) {
		return ErrSessionEnded
	}
	if err != nil {
		return err
	}
	n.sessions.adopt(s, &view{rec: rec, rev: rev})
	if !s.isCurrent(id) {
		return errBadEvent
	}
	return nil
}

// Delete ends a session: its record goes first, then its calls and streams.
func (n *Node) Delete(svc *Service, in *Input) {
	s := n.sessions.of(svc, in, nil)
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	if err := n.store.Delete(ctx, s.key.record(), 0); err != nil && !errors.Is(err, ErrNotFound) {
		n.log.Warn("session not deleted", "session", s.key.ID, "error", err)
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	if s.endSession() { // false if another DELETE was quicker
		n.accounts.forgive(in)
		n.accounts.gone(in, &s.view.Load().rec, svc.Limits.Session.Idle)
	}
	in.Conn.Answer(200, nil)
}

// over calls Service.Ended if this is the first end of the session, and it has begun.
func (s *sessionActor) over(first bool) {
	switch rec := &s.view.Load().rec; {
	case !first:
	case s.bound != nil:
		if s.beginning.end() {
			s.tellEnded(Disconnected)
		}
	case rec.Expired(time.Now()):
		s.tellEnded(Expired)
	default:
		s.tellEnded(Deleted)
	}
}

// tellEnded calls Service.Ended, if there is one.
func (s *sessionActor) tellEnded(how Ending) {
	if s.svc.Ended != nil {
		go s.svc.Ended(s.peer, how)
	}
}

// end ends the calls of the session's actor; it reports whether this is the actor's first end.
func (s *sessionActor) end() (first bool) {
	first = !s.ended.Swap(true)
	_ = s.Post(closeSession{cause: ErrSessionEnded})
	return first
}

// survives ends the stream w, which has just been entered in the directory, if its session
// ended before: a takeover takes a while. s is the session's actor as the caller knows it.
// ErrSessionEnded reports that the stream is gone.
func (d *streams) survives(ctx context.Context, s *sessionActor, w *streamActor) error {
	var err error
	if s.Stopped() && !s.ended.Load() { // it has left memory: the actor in its place knows of the end
		s, err = d.node.sessions.load(ctx, s.svc, s.key)
	}
	if errors.Is(err, ErrNotFound) || err == nil && s.ended.Load() {
		w.endStream()
		return ErrSessionEnded
	}
	return err
}

// Post takes one POST. It returns when the handler has returned and the request's bytes are no
// longer needed; the response may still be an open stream then.
func (n *Node) Post(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	if in.Stateless {
		n.stateless(svc, in, principal, m, body)
		return
	}
	switch m.Kind {
	case codec.Request:
		if n.drain.refuses(svc, principal, m) || n.store.Suspended() && !n.regained(svc.Limits.StoreWait) {
			if in.Session != "" && string(m.Method) != mcp.MethodInitialize {
				n.refusals.refuseInSession(in.Conn, errUnavailable, m.ID)
			} else {
				n.refusals.unavailable(in.Conn, m.ID)
			}
			return
		}
		switch {
		case string(m.Method) == mcp.MethodInitialize:
			n.sessions.initialize(svc, in, m)
			return
		case string(m.Method) == mcp.MethodPing && in.Session == "": // legal before initialize
			in.Conn.Answer(200, pong(m.ID))
			return
		}
		n.request(svc, in, principal, m, body)
	case codec.Notification:
		if s := n.sessions.of(svc, in, nil); s != nil {
			s.notified(m, time.Now().Add(svc.Limits.StoreWait))
			in.Conn.Accepted()
		}
	case codec.Result, codec.ErrorResponse:
		n.pending.answer(svc, in, m)
	default:
		n.sessions.batch(svc, in, principal, m, body)
	}
}

// pong is the response to a ping.
func pong(id []byte) []byte { return codec.AppendResult(nil, id, []byte("{}")) }

// initialize begins a session, or refuses to.
func (d *sessions) initialize(svc *Service, in *Input, m *codec.Message) {
	n := d.node
	if in.Session != "" {
		faults.SessionAgain.Tell(in.Conn, m.ID)
		return
	}
	if !n.accounts.admitSession(in, m.ID) {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	set, result, rerr := svc.Handler.Initialize(withOwner(ctx, in.Principal), m.Params)
	if rerr != nil {
		n.accounts.forgive(in)
		in.Conn.Answer(200, codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	s, err := n.sessions.create(ctx, svc, in, set)
	if no, limited := errors.AsType[verdict](err); limited {
		n.accounts.forgive(in)
		n.refusals.refuseVerdict(in.Conn, m.ID, no)
		return
	}
	if err != nil {
		n.accounts.forgive(in)
		n.log.Warn("session not created", "error", err)
		n.refusals.unavailable(in.Conn, m.ID)
		return
	}
	s.peer.madeBy(in)
	svc.began(ctx, s.peer)
	in.Conn.SetSession(s.key.ID)
	in.Conn.Answer(200, codec.AppendResult(nil, m.ID, result))
}

// request runs one request of a session.
func (n *Node) request(svc *Service, in *Input, principal any, m *codec.Message, body []byte) {
	for {
		s := n.sessions.of(svc, in, m.ID)
		if s == nil {
			return
		}
		r, err := s.admitted(in, m)
		if err == nil {
			s.begins(r, r.loggedWay(s, in.Conn), m, body, &Call{principal: principal, trace: in.Trace, attempt: 1})
			err = s.enters(r)
		}
		switch {
		case err == nil:
			r.serve()
		case errors.Is(err, kernel.ErrStopped):
			continue // the session has just left memory: activate it anew
		default:
			n.refusals.refuseInSession(in.Conn, err, m.ID)
		}
		return
	}
}

// usable returns s, which is in the directory, if svc may use it. A session of an unmounted
// service leaves; stale is set if the caller must look again, because another service has the
// id now.
func (s *sessionActor) usable(svc *Service) (_ *sessionActor, stale bool, err error) {
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

// answer takes an answer that a client POSTs. If no question waits for it, or the question has
// an answer, it is accepted and dropped.
func (q *pendingRequests) answer(svc *Service, in *Input, m *codec.Message) {
	n := q.node
	s := n.sessions.of(svc, in, nil)
	if s == nil {
		return
	}
	if err := s.answered(m); err != nil {
		n.log.Warn("answer not taken", "session", s.key.ID, "error", err)
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	in.Conn.Accepted()
}
