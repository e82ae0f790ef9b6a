package actors

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/request"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// sessionActor serves one session on this node. It owns nothing: it caches the
// record, and holds the table of calls that run here.
type sessionActor struct {
	kernel.Actor
	node *Node
	svc  *Service
	key  SessionKey
	peer *Peer

	home       home            // never changes
	inputEnded <-chan struct{} // closed when the client can answer no more questions; nil: never
	beginning  beginning

	// view is the cached record; newer ones replace it, none is changed.
	view atomic.Pointer[view]

	// spoken is the revision of the record, 0 until it is first read.
	spoken atomic.Uint32

	sessionAccount

	// touching is set while the record is being rewritten for activity.
	touching atomic.Bool

	// missed is set when the session comes to this node from its record: its client may have missed notifications. It
	// is cleared when the client listens.
	missed atomic.Bool

	// logged counts log messages against their limit, nil before the first one.
	logged atomic.Pointer[logLimiter]

	// announced is what was announced on the standalone stream, nil if there is none yet.
	announced atomic.Pointer[announcement]

	memory quota.Holding // what the session holds

	viewAge // how old the view is, if other nodes may change the record

	// keeps has the client's answers that all calls share, nil before the first such question.
	keeps atomic.Pointer[sharedAnswer]

	calls   session.Calls[*requestActor]
	ended   atomic.Bool // the record is gone
	held    int         // live connections; sessionAccount.streams is the copy for other goroutines
	opening int         // what keeps the session in memory for now: see beginStay
	last    time.Time
	timer   *time.Timer
	closing bool
	givenUp bool // its calls were told to end, and so are those that enter it
}

// home is where a session lives. It is chosen when the session's actor is made. There are two:
//
//	storedHome   a record in the store: the session outlives its connections and its process
//	boundConn    the client's connection, with which the session ends
type home interface {
	// changeRecord makes edit change the session's record; edit returns false if nothing changes.
	changeRecord(ctx context.Context, edit func(*session.Record) bool) error
	// keepAlive notes that the session is in use, so that its record does not expire. It does not wait.
	keepAlive()
	// timeLeft is how long it is until expires, by the clock that the session lives by.
	timeLeft(expires time.Time) time.Duration
	// deliverMessage sends a message that belongs to no call, and waits until the client cannot miss it: ErrNoStream reports that
	// there is no way to the client.
	deliverMessage(ctx context.Context, e stream.Entry) error
	// pushNotification sends a notification that the client may miss, and does not wait. It reports whether the message is on its
	// way; a message that is not is made good by Handler.Opened.
	pushNotification(data []byte) (taken bool)
	// pushUpdate is pushNotification of an update of a resource, but may wait until the client has read enough.
	pushUpdate(data []byte)
	// currentActor returns the actor that serves the session after this one has stopped.
	currentActor(ctx context.Context) (*sessionActor, error)
	// endForGood ends the session on this node, for good. It reports whether this is the session's first end. expired says that
	// the time of the record is over. Otherwise the session's actor must not call it in its turn, since it may wait for
	// an activation under way.
	endForGood(expired bool) (first bool)
	// leaveMemory stops the actor, and takes it out of memory. broken says that a panic has ended it.
	leaveMemory(broken bool)
}

// view is a session record with its revision, as last read or written.
type view struct {
	rec session.Record
	rev uint64
}

type (
	// beginCall enters a request in the session's table.
	beginCall struct {
		kernel.Reply
		req   *requestActor
		limit int // of calls in flight; 0 means no limit
		err   error
	}
	// endCall removes the request from the table: no cancel reaches it afterwards, and its id may be used again.
	endCall struct {
		kernel.Reply
		req *requestActor
		id  string // "" for the request's own
	}
	// cancelCall is a client's notifications/cancelled. acked gets errNotHere if the call does not run on this node.
	cancelCall struct {
		id     string
		reason string
		acked  func(error)
	}
	// pinSession counts connections that keep the session in memory.
	pinSession struct{ by int }
	// beginStay keeps the session in memory until endStay arrives.
	beginStay struct {
		kernel.Reply
		err error
	}
	endStay struct{}
	// closeSession ends every call: the session is gone.
	closeSession struct{ cause error }
	idleTick     struct{}
	// giveUpCalls ends every call: the node stops.
	giveUpCalls struct{}
	// hastenCalls makes streams of the calls that began at begun or before and can go on in another process.
	hastenCalls struct{ begun time.Time }
	// runsFor asks whether a call of one of some principals runs.
	runsFor struct {
		kernel.Reply
		which func(principal any) bool
		found bool
	}
	// endIdle ends a bound session that has no calls.
	endIdle struct{}
)

func (b *beginCall) Refused(err error) { b.err = err; b.Done() }
func (m *beginStay) Refused(err error) { m.err = err; m.Done() }
func (m *runsFor) Refused(error)       { m.Done() }
func (c *cancelCall) Refused(error)    { c.acked(errNotHere) }
func (e *endCall) Refused(error)       { e.Done() }

// enterRequest enters a request in the session's table.
func (s *sessionActor) enterRequest(r *requestActor, limit int) error {
	r.begin.Init()
	r.begin.req, r.begin.limit = r, limit
	if err := s.Post(&r.begin); err != nil {
		return err
	}
	r.begin.Wait()
	return r.begin.err
}

// removeRequest removes a request from the session's table.
func (s *sessionActor) removeRequest(r *requestActor) {
	r.end.Init()
	r.end.req = r
	if s.Post(&r.end) == nil {
		r.end.Wait()
	}
}

func (s *sessionActor) parkRequest(r *requestActor, id string) { _ = s.Post(&endCall{req: r, id: id}) }
func (s *sessionActor) reenterRequest(r *requestActor)         { _ = s.Post(&beginCall{req: r}) }

func (s *sessionActor) Receive(m any) {
	switch m := m.(type) {
	case *beginCall:
		s.last = m.req.started
		if s.closing {
			m.err = kernel.ErrStopped
		} else if m.err = s.calls.Begin(m.req.idKey(), m.req, m.limit); m.err == nil && s.givenUp {
			_ = m.req.Post(giveUp{ErrClosing}) // one that runs again may come late
		}
		m.Done()
	case *endCall:
		id := m.id
		if id == "" {
			id = m.req.idKey()
		}
		if r, ok := s.calls.Find(id); ok && r == m.req { // another request may have the id by now
			s.calls.End(id)
		}
		m.Done()
	case *cancelCall:
		if req, ok := s.calls.Find(m.id); ok {
			c := &cancelRequest{id: m.id, reason: m.reason, acked: m.acked}
			if err := req.Post(c); err != nil {
				c.Refused(err)
			}
		} else {
			m.acked(errNotHere)
		}
	case *edit:
		v := s.view.Load()
		if rec := v.rec; m.f(&rec) {
			s.view.Store(&view{rec: rec, rev: v.rev + 1})
			s.memory.Set(recordMemory(&rec))
			s.followSubscribed(v.rec.Subscribed, rec.Subscribed)
		}
		m.Done()
	case pinSession:
		s.held += m.by
		s.streams.Store(int64(s.held))
		s.last = time.Now()
	case *beginStay:
		if s.closing {
			m.err = kernel.ErrStopped
		} else {
			s.opening++
		}
		m.Done()
	case endStay:
		s.opening--
		s.last = time.Now()
	case closeSession:
		s.closing = true
		s.calls.Each(func(r *requestActor) { _ = r.Post(abandon(m)) })
		s.unloadSession(false)
	case endIdle:
		if s.calls.Len() == 0 && !s.closing {
			s.closing = true
			s.unloadSession(false)
		}
	case *tally:
		s.calls.Each(m.countOfSession)
		m.Done()
	case *runsFor:
		s.calls.Each(func(r *requestActor) { m.found = m.found || m.which(r.call.principal) })
		m.Done()
	case hastenCalls:
		s.calls.Each(func(r *requestActor) { r.hastenCall(m.begun) })
	case giveUpCalls:
		s.givenUp = true
		s.calls.Each(func(r *requestActor) { _ = r.Post(giveUp{ErrClosing}) })
	case unmountSession:
		s.unmountHere()
	case idleTick:
		s.checkIdle()
	}
}

func (s *sessionActor) Failed(m any, last bool) {
	if m, ok := m.(kernel.Refusable); ok {
		defer m.Refused(errInternal)
	}
	if _, ok := m.(idleTick); ok {
		s.timer.Reset(s.svc.Limits.SessionDrop)
	}
	// A session that was about to end takes no more calls, and must not stay half ended.
	if last || s.closing {
		s.calls.Each(func(r *requestActor) { _ = r.Post(abandon{cause: errInternal}) })
		s.Contain(func() { s.unloadSession(true) })
	}
}

// checkIdle removes the session from memory when nothing has kept it here for a while. The timer is armed anew only when it
// fires, not with each message.
func (s *sessionActor) checkIdle() {
	if s.closing {
		return
	}
	now, lives := time.Now(), s.home.timeLeft(s.view.Load().rec.Expires)
	if lives <= 0 {
		if s.shared { // another node may have kept it alive
			s.rereadBeside()
			s.timer.Reset(lookPause)
			return
		}
		s.home.endForGood(true)
		return
	}
	left := s.svc.Limits.SessionDrop - now.Sub(s.last)
	active := s.calls.Len() > 0 || s.held > 0 || s.opening > 0
	if active {
		// A session with a call or a connection is active.
		s.home.keepAlive()
		left = s.svc.Limits.SessionDrop
	}
	if b := s.calling.Load(); left <= 0 && b != nil && !b.Full(now) {
		left = s.svc.Limits.SessionDrop // a session that comes back would have a full bucket
	}
	if left = min(left, lives); left > 0 {
		s.timer.Reset(s.untilLook(active, left))
		return
	}
	s.closing = true
	s.unloadSession(false)
}

// unloadSession takes the session out of memory.
func (s *sessionActor) unloadSession(broken bool) {
	s.timer.Stop()
	s.memory.Free()
	s.home.leaveMemory(broken)
	for _, uri := range s.view.Load().rec.Subscribed {
		s.node.subs.Follow(s, uri)
	}
}

// settledRevision is the revision that initialize settled; it never changes. It is 0 before that.
func (s *sessionActor) settledRevision() mcp.Revision {
	if r := s.spoken.Load(); r != 0 {
		return mcp.Revision(r)
	}
	r, _ := mcp.ParseRevision(s.view.Load().rec.Revision)
	s.spoken.Store(uint32(r))
	return r
}

func (s *sessionActor) startSession() {
	s.node.k.Start(&s.Actor, KindSession, s.key.keyPath(), s)
	s.timer = time.AfterFunc(time.Hour, func() { _ = s.Post(idleTick{}) })
	s.timer.Reset(s.untilLook(false, s.svc.Limits.SessionDrop)) // only now, since the tick uses the field
}

// adoptView makes the session serve from v unless it has a newer record. It does not wait for the actor's turn: a response
// to the client holds from then on.
func (s *sessionActor) adoptView(v *view) {
	for old := s.view.Load(); v.rev > old.rev; old = s.view.Load() {
		if s.view.CompareAndSwap(old, v) {
			s.memory.Set(recordMemory(&v.rec))
			s.followSubscribed(old.rec.Subscribed, v.rec.Subscribed)
			return
		}
	}
}

// newestView returns the record as it is in the store.
func (s *sessionActor) newestView() (*view, error) {
	if s.shared {
		if err := s.rereadRecord(s.node.sessions.lookups, true, true); err != nil {
			return nil, err
		}
	}
	return s.view.Load(), nil
}

// followSubscribed updates the subscriptions after the record's list of resources changed.
func (s *sessionActor) followSubscribed(old, now []string) {
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	for _, uri := range old { // for those that are also in now, nothing changes
		s.node.subs.Follow(s, uri)
	}
	for _, uri := range now {
		s.node.subs.Follow(s, uri)
	}
}

func (s *sessionActor) Server() string { return s.key.Server }

// Push sends an update to the actor that serves the session now.
func (s *sessionActor) Push(data []byte) bool { return s.home.pushNotification(data) }

// Wants reports whether the newest record known here subscribes to uri.
func (s *sessionActor) Wants(uri string) bool {
	_, found := slices.BinarySearch(s.view.Load().rec.Subscribed, uri)
	return found && !s.Stopped()
}

func (s *sessionActor) Hears(uri string) bool { return s.svc.Hears == nil || s.svc.Hears(s.peer, uri) }

// billedAccount is the account of the session's last request. It also pays for the session's streams and questions.
func (s *sessionActor) billedAccount() *quota.Account {
	return s.account.Last(s.node.accounts.Accounts, s.key.Tenant)
}

func (s *sessionActor) unmountHere() {
	s.closing = true
	s.calls.Each(func(r *requestActor) { _ = r.Post(giveUp{ErrUnmounted}) })
	s.unloadSession(false)
}

// runsFor reports whether a call of one of some principals runs.
func (s *sessionActor) runsFor(which func(principal any) bool) bool {
	m := &runsFor{which: which}
	m.Init()
	if s.Post(m) == nil {
		m.Wait()
	}
	return m.found
}

// tally counts the calls that began at begun or before and that only this node can end.
type tally struct {
	kernel.Reply
	begun time.Time
	own   int
}

func (m *tally) Refused(error) { m.Done() }

// countOfSession counts a request of a session's table. countStateless counts stateless requests.
func (m *tally) countOfSession(r *requestActor) {
	if r.stateless == nil && !r.started.After(m.begun) && r.endsOnlyHere() {
		m.own++
	}
}

// countStateless counts a stateless request. A parked call that is safe does not count: another process can go on with it, or else its
// client begins anew.
func (m *tally) countStateless(r *requestActor) {
	if r.started.After(m.begun) {
		return
	}
	switch msg := r.call.msg; r.phase {
	case request.Plain, request.Streaming:
		m.own++
	case request.Parked:
		if !r.svc.Handler.Safe(msg.Method, msg.Name) {
			m.own++
		}
	}
}

// beginStay keeps the session in memory until endStay is called: while a GET is handled that may become a stream, and while the
// session begins.
func (s *sessionActor) beginStay() error {
	m := &beginStay{}
	m.Init()
	if err := s.Post(m); err != nil {
		return err
	}
	m.Wait()
	return m.err
}

// endStay ends what beginStay began.
func (s *sessionActor) endStay() { _ = s.Post(endStay{}) }

// endSession ends the session on this node: see home.endForGood.
func (s *sessionActor) endSession() (first bool) { return s.home.endForGood(false) }

// endCalls ends the calls of the session's actor; it reports whether this is the actor's first end.
func (s *sessionActor) endCalls() (first bool) {
	first = !s.ended.Swap(true)
	_ = s.Post(closeSession{cause: ErrSessionEnded})
	return first
}

// callBegan calls Service.Began, if there is one, and Ended if the session ends meanwhile. It reports false if the
// session has ended before.
func (s *sessionActor) callBegan(ctx context.Context) bool {
	if !s.beginning.startBegan() {
		return false
	}
	if s.svc.Began != nil {
		s.svc.Began(ctx, s.peer)
	}
	if how, ended := s.beginning.beganReturned(); ended {
		s.callEnded(how)
	}
	return true
}

// reportEnd calls Service.Ended after the session's first end, unless Began has to return before.
func (s *sessionActor) reportEnd(how Ending) {
	if s.beginning.noteEnd(how) {
		s.callEnded(how)
	}
}

// callEnded calls Service.Ended, if there is one.
func (s *sessionActor) callEnded(how Ending) {
	if s.svc.Ended != nil {
		go s.svc.Ended(s.peer, how)
	}
}

// readRecord reads the record of a session. With ErrNotFound and a revision, the record has expired and is still stored.
func (d *sessions) readRecord(ctx context.Context, key SessionKey) (session.Record, uint64, error) {
	return d.readRecordBy(ctx, key, d.node.store.Get)
}

func (d *sessions) readRecordBy(ctx context.Context, key SessionKey, get func(ctx context.Context, key string) ([]byte, uint64, error)) (session.Record, uint64, error) {
	var rec session.Record
	data, rev, err := get(ctx, key.recordKey())
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read session: %w", err)
	}
	if v := session.Newer(data); v != 0 {
		return rec, 0, fmt.Errorf("actors: session record of version %d, this release reads %d: %w", v, session.RecordVersion, errNewer)
	}
	if rec, err = session.Decode(data); err != nil {
		return rec, 0, fmt.Errorf("actors: read session: %w", err)
	}
	if rec.Expired(d.node.store.Now()) {
		return rec, rev, store.ErrNotFound
	}
	return rec, rev, nil
}
