package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
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

// acceptMessage accepts a message that needs no response, unless the session ended while it was handled.
func (s *sessionActor) acceptMessage(c Conn) {
	if s.ended.Load() {
		unknownSession(c, nil)
		return
	}
	c.Accepted()
}

// viewOutdated reports whether the record must be read again before the session is served from it.
func (s *sessionActor) viewOutdated() bool {
	if !s.shared {
		return false
	}
	n := s.node
	n.fleet.pulse.Feel()
	at := s.asOf.Load()
	return at < n.fleet.lettersLost.Load() || int64(n.clock.sinceStart())-at > int64(recordAge) || s.view.Load().rev < s.behind.Load()
}

// refreshView reads the record again if it is outdated, or has expired as far as is known: another node may have kept the
// session alive. It reports whether the session has expired, as far as this node can decide that; ErrNotFound: it has ended.
// slots bounds the reads, nil for a caller that has a place.
func (s *sessionActor) refreshView(slots chan struct{}) (expired bool, err error) {
	expired = s.view.Load().rec.Expired(s.node.store.Now())
	if !s.shared || !expired && !s.viewOutdated() {
		return expired, nil
	}
	if err = s.rereadRecord(slots, true, false); err == nil && s.viewOutdated() { // by what has come since that read began
		err = s.rereadRecord(slots, true, true)
	}
	return false, err // it was not just now
}

// rereadRecord reads the record again. Those who want it at once share one read. late says that the session's client may have
// been told of what is found; anew, that the read must not have begun before the call.
func (s *sessionActor) rereadRecord(slots chan struct{}, late, anew bool) error {
	r := &recordRead{done: make(chan struct{}), err: errInternal}
	for !s.reading.CompareAndSwap(nil, r) {
		if other := s.reading.Load(); other != nil {
			if <-other.done; !anew {
				return other.err
			}
			anew = false // whatever begins after that one does
		}
	}
	defer func() {
		s.reading.Store(nil)
		close(r.done)
	}()
	r.err = s.readRecord(slots, late)
	return r.err
}

func (s *sessionActor) readRecord(slots chan struct{}, late bool) error {
	n := s.node
	ctx, cancel := context.WithTimeout(n.base, s.svc.Limits.StoreWait)
	defer cancel()
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return fmt.Errorf("actors: read session: too many requests read theirs: %w", store.ErrUnavailable)
		}
	}
	at := n.clock.sinceStart()
	rec, rev, err := n.sessions.readRecord(ctx, s.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if rev != 0 && n.store.Delete(ctx, s.key.recordKey(), rev) == nil { // of all nodes one does it
			n.fleet.broadcastEnd(ctx, s.key, &rec, true)
			s.endSession()
		}
		s.endWithoutRecord()
		return err
	case err != nil:
		return err
	}
	if v := (&view{rec: rec, rev: rev}); late {
		s.adoptFound(v)
	} else {
		n.sessions.adoptView(s, v)
	}
	if s.asOf.Swap(int64(at)) < n.fleet.lettersLost.Load() { // that they are not right any more may have been lost, too
		s.forgetAnswer()
	}
	return nil
}

// rereadBeside reads the record again without a request, beside the actor's turn. It reports false if too many do so.
func (s *sessionActor) rereadBeside() bool {
	places := s.node.fleet.looking
	select {
	case places <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-places }()
		if err := s.rereadRecord(nil, true, false); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.node.log.Debug("session not looked at", "session", s.key.ID, "error", err)
		}
	}()
	return true
}

// untilLook is how long the session's timer may run that would run for left. The record of a session with calls or
// connections is read again when that is due: nobody else does it if no requests come. It belongs to the actor's turn.
func (s *sessionActor) untilLook(active bool, left time.Duration) time.Duration {
	if !s.shared {
		return left
	}
	age := s.node.clock.sinceStart() - time.Duration(s.asOf.Load())
	switch early := recordAge - lookSpread; {
	case age < early && !s.viewOutdated():
		return min(left, early-age+rand.N(lookSpread))
	case active:
		s.rereadBeside()
		return min(left, lookPause/2+rand.N(lookPause))
	}
	return min(left, recordAge)
}

// adoptFound makes the session serve from a record that was found changed, perhaps long after the client was told of the
// change. Updates of the resources that it subscribes to since then may not have reached it.
func (s *sessionActor) adoptFound(v *view) {
	before := s.view.Load()
	s.node.sessions.adoptView(s, v)
	if !s.shared || v.rev <= before.rev || !s.writesStandalone() {
		return
	}
	for _, uri := range v.rec.Subscribed {
		if _, old := slices.BinarySearch(before.rec.Subscribed, uri); !old && s.Hears(uri) {
			s.peer.PushUpdate(uri)
		}
	}
}

// noteRevision notes that the record has had a revision. A session with calls or connections here reads it now, any other one
// before its next request.
func (s *sessionActor) noteRevision(rev uint64) {
	for {
		old := s.behind.Load()
		if rev <= max(old, s.view.Load().rev) {
			return
		}
		if s.behind.CompareAndSwap(old, rev) {
			_ = s.Post(idleTick{})
			return
		}
	}
}

// catchUpTo reads the record again until it has at least a revision that was written before.
func (s *sessionActor) catchUpTo(rev uint64) error {
	for anew := false; s.view.Load().rev < rev; anew = true {
		if err := s.rereadRecord(nil, false, anew); err != nil {
			return err
		}
		if anew && s.view.Load().rev < rev {
			return store.ErrUnavailable
		}
	}
	return nil
}

// writesStandalone reports whether this node writes the session's standalone stream.
func (s *sessionActor) writesStandalone() bool {
	return s.node.streams.writesHere(StreamKey{s.key, s.view.Load().rec.Standalone})
}

// endWithoutRecord ends the session on this node, whose record is no more. Only the node that has ended a session of a fleet tells
// the program.
func (s *sessionActor) endWithoutRecord() {
	if h, ok := s.home.(storedHome); ok && s.shared {
		h.endQuietly(false)
		return
	}
	s.endSession()
}

// forgetAnswer drops the kept answer, if there is one.
func (s *sessionActor) forgetAnswer() {
	if k := s.keeps.Load(); k != nil {
		k.forgetAnswer(0)
	}
}
