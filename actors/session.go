package actors

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// sessionActor serves one session on this node. It owns nothing: it caches the
// record, and holds the table of calls that run here.
type sessionActor struct {
	kernel.Actor
	sessions *sessions
	svc      *Service
	key      SessionKey
	peer     *Peer

	// home, via and inputEnded are set before the actor starts, and never change.
	home       home
	via        uint8           // see Via.HTTP
	inputEnded <-chan struct{} // closed when the client can answer no more questions; nil: never
	beginning  beginning

	sessionAccount
	viewState
	standaloneState

	// logged counts log messages against their limit, nil before the first one.
	logged atomic.Pointer[logLimiter]

	// keeps has the client's answers that all calls share, nil before the first such question.
	keeps atomic.Pointer[sharedAnswer]

	// memory is what the session holds. It is freed when the session leaves memory.
	memory quota.Holding

	sends sending // see Send

	owing atomic.Bool // somebody finds out what became of what an earlier anchor had

	// ended is set once, when the record is gone, before the calls are told. A session that has
	// ended here is not served any more, though its actor may still run.
	ended atomic.Bool

	// The rest belongs to the actor's turn.

	calls session.Calls[*requestActor]

	// held counts live connections; sessionAccount.streams is the copy for other goroutines.
	// opening counts what keeps the session in memory besides: see beginStay. While calls, held or
	// opening is not 0, the session stays in memory, and its record is kept alive.
	held, opening int

	// last is when the session was used last. It leaves memory once that is SessionDrop ago and
	// nothing keeps it.
	last  time.Time
	timer *time.Timer // of the next look whether it may leave

	// closing is set when the actor is about to stop: it takes no more calls. givenUp is set when
	// its calls were told to end, and so are those that enter it later.
	closing, givenUp bool
}

// home is where a session lives. It is chosen when the session's actor is made. There are two:
//
//	storedHome   a record in the store: the session outlives its connections and its process
//	boundConn    the client's connection, with which the session ends
type home interface {
	// changeRecord makes edit change the session's record; edit returns false if nothing changes.
	changeRecord(ctx context.Context, edit func(*session.Record) bool) error
	// keepAlive notes that the session is in use, so that its record does not expire. It does not
	// wait.
	keepAlive()
	// timeLeft is how long it is until expires, by the clock that the session lives by.
	timeLeft(expires time.Time) time.Duration
	// deliverMessage sends a message that belongs to no call, and waits until the client cannot
	// miss it: ErrNoStream reports that there is no way to the client.
	deliverMessage(ctx context.Context, e stream.Entry) error
	// pushNotification sends a notification that the client may miss, and does not wait. It reports
	// whether the message is on its way; a message that is not is made good by Handler.Opened.
	pushNotification(data []byte) (taken bool)
	// pushUpdate is pushNotification of an update of a resource, but may wait until the client has
	// read enough.
	pushUpdate(data []byte)
	// currentActor returns the actor that serves the session after this one has stopped.
	currentActor() (*sessionActor, error)
	// endForGood ends the session on this node, for good. It reports whether this is the session's
	// first end. expired says that the time of the record is over. Otherwise the session's actor
	// must not call it in its turn, since it may wait for an activation under way.
	endForGood(expired bool) (first bool)
	// leaveMemory stops the actor, and takes it out of memory. broken says that a panic has ended
	// it.
	leaveMemory(broken bool)
}

type (
	// beginCall enters a request in the session's table.
	beginCall struct {
		kernel.Reply
		req   *requestActor
		limit int // of calls in flight; 0 means no limit
		err   error
	}
	// endCall removes the request from the table: no cancel reaches it afterwards, and its id may
	// be used again.
	endCall struct {
		kernel.Reply
		req *requestActor
		id  string // "" for the request's own
	}
	// cancelCall is a client's notifications/cancelled. acked gets nil once the call cannot run again,
	// and errNotHere if it does not run on this node.
	cancelCall struct {
		id     string
		reason string
		acked  func(error)
	}

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
	// hastenCalls makes streams of the calls that began at begun or before and can go on in another
	// process.
	hastenCalls struct{ begun time.Time }
	// visitCalls calls a function for each call, in the session's turn.
	visitCalls struct {
		kernel.Reply
		visit func(*requestActor)
	}
	// endIdle ends a bound session that has no calls.
	endIdle struct{}
)

func (b *beginCall) Refused(err error) { b.err = err; b.Done() }
func (m *beginStay) Refused(err error) { m.err = err; m.Done() }
func (m *visitCalls) Refused(error)    { m.Done() }
func (c *cancelCall) Refused(error)    { c.acked(errNotHere) }
func (e *endCall) Refused(error)       { e.Done() }

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
			sessionView{s}.followSubscribed(v.rec.Subscribed, rec.Subscribed)
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
	case *visitCalls:
		s.calls.Each(m.visit)
		m.Done()
	case hastenCalls:
		s.calls.Each(func(r *requestActor) { lastingCall{r}.hastenCall(m.begun) })
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

// checkIdle removes the session from memory when nothing has kept it here for a while. The timer is
// armed anew only when it fires, not with each message.
func (s *sessionActor) checkIdle() {
	if s.closing {
		return
	}
	now, lives := time.Now(), s.home.timeLeft(s.view.Load().rec.Expires)
	if lives <= 0 {
		if s.shared { // another node may have kept it alive
			sessionView{s}.rereadBeside()
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
		s.timer.Reset(sessionView{s}.untilLook(active, left))
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
		s.sessions.subs.Follow(subscriber{s}, uri)
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
	s.sessions.k.Start(&s.Actor, KindSession, s.key.keyPath(), s)
	s.timer = time.AfterFunc(time.Hour, func() { _ = s.Post(idleTick{}) })
	s.timer.Reset(sessionView{s}.untilLook(false, s.svc.Limits.SessionDrop)) // only now, since the tick uses the field
}

// billedAccount is the account of the session's last request. It also pays for the session's
// streams and questions.
func (s *sessionActor) billedAccount() *quota.Account {
	return s.account.Last(s.sessions.accounts.Accounts, s.key.Tenant)
}

func (s *sessionActor) unmountHere() {
	s.closing = true
	s.calls.Each(func(r *requestActor) { _ = r.Post(giveUp{ErrUnmounted}) })
	s.unloadSession(false)
}

// runsFor reports whether a call of one of some principals runs.
func (s *sessionActor) runsFor(which func(principal any) bool) (found bool) {
	s.visitCalls(func(r *requestActor) { found = found || which(r.call.principal) })
	return found
}

// visitCalls calls visit for each call of the session, in the session's turn. A session that has
// stopped has none.
func (s *sessionActor) visitCalls(visit func(*requestActor)) {
	m := &visitCalls{visit: visit}
	m.Init()
	if s.Post(m) == nil {
		m.Wait()
	}
}

// beginStay keeps the session in memory until endStay is called: while a GET is handled that may
// become a stream, and while the session begins.
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
func (s *sessionActor) endStay()          { _ = s.Post(endStay{}) }
func (s *sessionActor) named() SessionKey { return s.key }
func (s *sessionActor) mostPending() int  { return s.svc.Limits.Pending }
func (s *sessionActor) hasEnded() bool    { return s.ended.Load() }

// takeNotification takes a notification of the client. It waits for the store until until at most.
func (s *sessionActor) takeNotification(in *Input, m *codec.Message, until time.Time) {
	defer s.svc.observed(s.peer, in, m)(s.settledRevision(), nil)
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

// cancelCall hands a client's cancel to the call. If the call does not run here, or goes on elsewhere
// before its stream has the end mark, all nodes are told.
func (s *sessionActor) cancelCall(id, reason string, until time.Time) {
	if err := s.cancelHere(id, reason, until); err == nil || len(id) > maxToken { // no call has such an id
		return
	}
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "")
	}
	if _, ok := s.home.(storedHome); ok {
		s.sessions.cancelLate(s.key, id, reason)
	}
	if s.shared {
		s.sessions.fleet.broadcastCancel(s.key, id, reason)
	}
}

// cancelHere hands a client's cancel to the call, and waits until the call's stream has the end
// mark: a cancelled call must not run again after a crash. After an error it may; errNotHere reports
// that the call does not run here.
func (s *sessionActor) cancelHere(id, reason string, until time.Time) error {
	done := make(chan error, 1)
	m := &cancelCall{id: id, reason: reason, acked: func(err error) { done <- err }}
	if err := s.Post(m); err != nil { // the session is leaving memory: nothing of it runs here
		m.Refused(err)
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return context.DeadlineExceeded
	}
}

// checkMounted returns s, which is in the directory, if svc may use it. A session of an unmounted
// service leaves; stale is set if the caller must look again, because another service has the
// id now.
func (s *sessionActor) checkMounted(svc *Service) (_ *sessionActor, stale bool, err error) {
	if s.svc.life.over.Load() {
		_ = s.Post(unmountSession{})
		s.sessions.Drop(s.key, s)
		stale = s.svc != svc
	}
	if svc.life.over.Load() {
		return nil, false, ErrUnmounted
	}
	return s, stale, nil
}

// acceptMessage accepts a message that needs no response, unless the session ended while it was
// handled.
func (s *sessionActor) acceptMessage(c Conn) {
	if s.ended.Load() {
		unknownSession(c, nil)
		return
	}
	c.Accepted()
}

// forgetAnswer drops the kept answer, if there is one.
func (s *sessionActor) forgetAnswer() {
	if k := s.keeps.Load(); k != nil {
		k.forgetAnswer(0)
	}
}

// sharedAnswer is the session's kept answer.
func (s *sessionActor) sharedAnswer() *sharedAnswer {
	if k := s.keeps.Load(); k != nil {
		return k
	}
	s.keeps.CompareAndSwap(nil, new(sharedAnswer))
	return s.keeps.Load()
}

// edit changes the record of a bound session, which is not stored.
type edit struct {
	kernel.Reply
	f   func(*session.Record) bool
	err error
}

func (e *edit) Refused(error) { e.err = ErrSessionEnded; e.Done() }

// A beginning is how far the begin of a session has come. The session may end at any time:
// Ended is called after Began has returned, and only if Began was called. The zero value is a
// session that has not begun.
type beginning struct {
	at  atomic.Uint32
	how Ending // of endedEarly
}

// markBegun says that Began has run before, when the session was not in memory.
func (b *beginning) markBegun() { b.at.Store(hasBegun) }

// start reports whether Began is to be called: the session has not ended before.
func (b *beginning) start() bool { return b.at.CompareAndSwap(notBegun, begins) }

// returned says that Began has returned. It reports whether the session has ended meanwhile,
// and how, so that Ended is to be called.
func (b *beginning) returned() (how Ending, ended bool) {
	if b.at.CompareAndSwap(begins, hasBegun) {
		return 0, false
	}
	return b.how, true
}

// noteEnd says that the session has ended. It reports whether Ended is to be called now; if not,
// returned reports it, or Began is not called. Only the first end of a session may be
// reported.
func (b *beginning) noteEnd(how Ending) (now bool) {
	b.how = how
	return !b.at.CompareAndSwap(notBegun, endedFirst) && !b.at.CompareAndSwap(begins, endedEarly)
}

const (
	notBegun   uint32 = iota
	begins            // Began runs
	hasBegun          // Began has returned, perhaps in another process
	endedFirst        // the session has ended before Began was called, which it is not any more
	endedEarly        // the session has ended while Began runs
)

// unmountSession ends a session's calls like the end of a drain, and removes the session
// from memory; its record stays.
type unmountSession struct{}

// announcement is the state of the catalogues that a session last learned on its standalone
// stream. The record takes it over once the connection has lived three keep-alives longer:
// a connection that was already broken would have been noticed by then, which takes up to
// two comments. Until then the next stream announces it again.
type announcement struct {
	stream string
	digest string
	since  string // the state announced before the stream began
}

// subscriber is a session as the resources see it that it has subscribed to.
type subscriber struct{ *sessionActor }

func (s subscriber) Server() string { return s.key.Server }

// Push sends an update to the actor that serves the session now.
func (s subscriber) Push(data []byte) bool { return s.home.pushNotification(data) }

// Wants reports whether the newest record known here subscribes to uri.
func (s subscriber) Wants(uri string) bool {
	_, found := slices.BinarySearch(s.view.Load().rec.Subscribed, uri)
	return found && !s.Stopped()
}

func (s subscriber) Hears(uri string) bool { return s.svc.Hears == nil || s.svc.Hears(s.peer, uri) }

// sessionEnd is a session as it ends, and as its service hears of that.
type sessionEnd struct{ *sessionActor }

// endSession ends the session on this node: see home.endForGood.
func (s sessionEnd) endSession() (first bool) { return s.home.endForGood(false) }

// endCalls ends the calls of the session's actor; it reports whether this is the actor's first end.
func (s sessionEnd) endCalls() (first bool) {
	first = !s.ended.Swap(true)
	_ = s.Post(closeSession{cause: ErrSessionEnded})
	return first
}

// tellBegan calls Service.Began, if there is one, and Ended if the session ends meanwhile. It
// reports false if the session has ended before.
func (s sessionEnd) tellBegan(ctx context.Context) bool {
	if !s.beginning.start() {
		return false
	}
	if s.svc.Began != nil {
		s.svc.Began(ctx, s.peer)
	}
	if how, ended := s.beginning.returned(); ended {
		s.tellEnded(how)
	}
	return true
}

// reportEnd calls Service.Ended after the session's first end, unless Began has to return before.
func (s sessionEnd) reportEnd(how Ending) {
	if s.beginning.noteEnd(how) {
		s.tellEnded(how)
	}
}

// tellEnded calls Service.Ended, if there is one.
func (s sessionEnd) tellEnded(how Ending) {
	if s.svc.Ended != nil {
		go s.svc.Ended(s.peer, how)
	}
}

// endWithoutRecord ends the session on this node, whose record is no more. Only the node that has
// ended a session of a fleet tells the program.
func (s sessionEnd) endWithoutRecord() {
	if h, ok := s.home.(storedHome); ok && s.shared {
		h.endQuietly(false)
		return
	}
	s.endSession()
}

// sessionCalls is a session as it takes requests.
type sessionCalls struct{ *sessionActor }

// admitRequest returns the actor of a request of size bytes that may run now; refuseInSession sends
// the error.
func (s sessionCalls) admitRequest(in *Input, m *codec.Message, size int) (*requestActor, error) {
	if tooLong(m) {
		return nil, refusal.LongToken
	}
	a, no := s.sessions.accounts.admitRequest(&s.sessionAccount, &s.svc.Limits, in, s.callCost(m, size))
	if a == nil {
		return nil, no
	}
	return s.sessions.calls.takeActor(a), nil
}

// beginRequest makes r serve a request of the session, which is delivered in the way w.
func (s sessionCalls) beginRequest(r *requestActor, w way, m *codec.Message, body []byte, c *Call) {
	c.peer = s.peer
	r.beginRequest(s.svc, w, m, body, c)
}

// enterAdmitted enters an admitted request in the session. On an error it frees the actor; the
// caller passes the error to refuseInSession.
func (s sessionCalls) enterAdmitted(r *requestActor) error {
	err := r.enterTable(s.svc.Limits.PerSession)
	if err != nil {
		r.cancel(err)
		s.refundCall(r)
		r.releaseActor()
	}
	return err
}

// refundCall returns the tokens of a call that did not run.
func (s sessionCalls) refundCall(r *requestActor) {
	s.sessions.accounts.refundTokens(&s.sessionAccount, &s.svc.Limits, r.from, s.callCost(r.call.msg, len(r.body)))
}
