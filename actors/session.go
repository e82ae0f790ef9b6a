package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/mcp"
)

// SessionKey names a session: no look-up, subject or cache goes by less.
type SessionKey struct{ Tenant, Server, ID string }

func (k SessionKey) record() string { return "session." + k.path() }
func (k SessionKey) path() string   { return k.Tenant + "." + k.Server + "." + k.ID }

// sessionActor serves one session on this node. It owns nothing: it caches the
// record, and holds the table of calls that run here.
type sessionActor struct {
	kernel.Actor
	node *Node
	svc  *Service
	key  SessionKey
	peer *Peer

	// link is the connection that the session lives on, nil for a session with a
	// record in the store.
	bound      *boundConn
	inputEnded <-chan struct{} // closed when its client can answer nothing any more; nil is never

	// view is the cached record; it is replaced by newer ones, never changed.
	view atomic.Pointer[view]

	// spoken is the revision of the record, 0 until somebody asked.
	spoken atomic.Uint32

	account quota.Memo                   // that its last request counted on
	calling atomic.Pointer[quota.Bucket] // of calls; made by the first

	// touching is set while the record is being rewritten for activity.
	touching atomic.Bool

	// away is set when the session came to this node from its record, until its
	// client listens: it may have missed something meanwhile.
	away atomic.Bool

	// logged is the account of log messages, nil before the first one.
	logged atomic.Pointer[logs]

	// told is what was announced on the standalone stream, nil if there is none yet.
	announced atomic.Pointer[announcement]

	// keeps is what the client has answered for all calls, nil before the first such
	// question.
	keeps atomic.Pointer[kept]

	calls   session.Calls[*requestActor]
	ended   atomic.Bool  // the record is gone
	held    int          // streams with a live connection
	opening int          // GETs that are being handled, which may become such
	streams atomic.Int64 // held, for those who ask from outside
	gets    atomic.Int64 // GETs that are being handled
	last    time.Time
	timer   *time.Timer
	closing bool
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
		limit int // of calls in flight, 0 is none
		err   error
	}
	// endCall removes it: nothing of the session's comes to the request
	// afterwards, and its id may be used again.
	endCall struct {
		kernel.Reply
		req *requestActor
		id  string // "" is the request's own
	}
	// cancelCall is a client's notifications/cancelled.
	cancelCall struct {
		id     string
		reason string
		acked  func(error)
	}
	// holdStream counts connections that keep the session in memory.
	holdStream struct{ by int }
	// stay keeps the session in memory until stayed: see sessions.staying.
	stay struct {
		kernel.Reply
		err error
	}
	stayed struct{}
	// closeSession ends every call: the session is gone.
	closeSession struct{ cause error }
	idleTick     struct{}
	// giveUpCalls ends every call: the node stops.
	giveUpCalls struct{}
	// endIdle ends a session that lives on a connection and has no calls.
	endIdle struct{}
)

func (b *beginCall) Refused(err error) { b.err = err; b.Done() }
func (m *stay) Refused(err error)      { m.err = err; m.Done() }
func (c *cancelCall) Refused(error)    { c.acked(nil) }
func (e *endCall) Refused(error)       { e.Done() }

// enter enters a request in the session's table.
func (s *sessionActor) enter(r *requestActor, limit int) error {
	r.begin.Init()
	r.begin.req, r.begin.limit = r, limit
	if err := s.Post(&r.begin); err != nil {
		return err
	}
	r.begin.Wait()
	return r.begin.err
}

// leave removes a request from the session's table.
func (s *sessionActor) remove(r *requestActor) {
	r.end.Init()
	r.end.req = r
	if s.Post(&r.end) == nil {
		r.end.Wait()
	}
}

func (s *sessionActor) parked(r *requestActor, id string) { _ = s.Post(&endCall{req: r, id: id}) }
func (s *sessionActor) resumed(r *requestActor)           { _ = s.Post(&beginCall{req: r}) }

func (s *sessionActor) Receive(m any) {
	switch m := m.(type) {
	case *beginCall:
		s.last = m.req.started
		if s.closing {
			m.err = kernel.ErrStopped
		} else {
			m.err = s.calls.Begin(m.req.idKey(), m.req, m.limit)
		}
		m.Done()
	case *endCall:
		id := m.id
		if id == "" {
			id = m.req.idKey()
		}
		if r, ok := s.calls.Find(id); ok && r == m.req { // another may have the id by now
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
			m.acked(nil)
		}
	case *edit:
		v := s.view.Load()
		if rec := v.rec; m.f(&rec) {
			s.view.Store(&view{rec: rec, rev: v.rev + 1})
			s.subscribed(v.rec.Subscribed, rec.Subscribed)
		}
		m.Done()
	case holdStream:
		s.held += m.by
		s.streams.Store(int64(s.held))
		s.last = time.Now()
	case *stay:
		if s.closing {
			m.err = kernel.ErrStopped
		} else {
			s.opening++
		}
		m.Done()
	case stayed:
		s.opening--
		s.last = time.Now()
	case closeSession:
		s.closing = true
		s.calls.Each(func(r *requestActor) { _ = r.Post(abandon(m)) })
		s.unload()
	case endIdle:
		if s.calls.Len() == 0 && !s.closing {
			s.closing = true
			s.unload()
		}
	case *tally:
		s.calls.Each(m.count)
		m.Done()
	case hastenCalls:
		s.calls.Each(func(r *requestActor) { r.hasten(m.begun) })
	case giveUpCalls:
		s.calls.Each(func(r *requestActor) { _ = r.Post(giveUp{ErrClosing}) })
	case retireSession:
		s.retire()
	case idleTick:
		s.idle()
	}
}

func (s *sessionActor) Failed(m any, last bool) {
	if m, ok := m.(kernel.Refusable); ok {
		defer m.Refused(errInternal)
	}
	if _, ok := m.(idleTick); ok {
		s.timer.Reset(s.svc.Limits.SessionDrop)
	}
	// One that was about to end, and takes no more calls, must not stay half there.
	if last || s.closing {
		s.calls.Each(func(r *requestActor) { _ = r.Post(abandon{cause: errInternal}) })
		if s.bound != nil {
			s.Contain(s.bound.conn.Cut)
		}
		s.Contain(s.unload)
	}
}

// idle leaves memory when nothing has kept the session here for a while; the
// timer is armed anew only when it fires, not with each message.
func (s *sessionActor) idle() {
	if s.closing {
		return
	}
	now := time.Now()
	expires := s.view.Load().rec.Expires
	if !now.Before(expires) {
		s.over(s.end()) // nobody can come up in its place from a record that has expired
		s.node.streams.endOf(s.key)
		return
	}
	left := s.svc.Limits.SessionDrop - now.Sub(s.last)
	if s.calls.Len() > 0 || s.held > 0 || s.opening > 0 || s.bound != nil {
		// Whoever waits for an answer or listens is active.
		s.keepAlive(now)
		left = s.svc.Limits.SessionDrop
	}
	if b := s.calling.Load(); left <= 0 && b != nil && !b.Full(now) {
		left = s.svc.Limits.SessionDrop // who comes back would find it full
	}
	if left = min(left, expires.Sub(now)); left > 0 {
		s.timer.Reset(left)
		return
	}
	s.closing = true
	s.unload()
}

// rate is the session's bucket of calls per second.
func (s *sessionActor) rate() quota.Bucket {
	if b := s.calling.Load(); b != nil {
		return *b
	}
	b := quota.NewBucket(quota.Rate{PerSecond: s.svc.Limits.Rate, Burst: s.svc.Limits.Burst})
	s.calling.CompareAndSwap(nil, &b)
	return *s.calling.Load()
}

// unload takes the session out of the directory and stops it. Messages that
// still wait are refused, and their senders activate the session anew.
func (s *sessionActor) unload() {
	s.timer.Stop()
	s.node.sessions.Drop(s.key, s)
	s.Actor.Stop()
	if s.bound != nil {
		s.node.bound.drop(s)
		s.bound.endInput()
		s.bound.conn.Finish()
		// Only now that the session has stopped: one that begins meanwhile sees that.
		s.node.listeners.end("", func(l *listenActor) bool { return l.sess == s })
	}
	for _, uri := range s.view.Load().rec.Subscribed {
		s.node.subs.Follow(s, uri)
	}
	s.svc.Handler.Closed(s.peer)
}

// revision is what initialize has settled, which never changes; 0 before that.
func (s *sessionActor) revision() mcp.Revision {
	if r := s.spoken.Load(); r != 0 {
		return mcp.Revision(r)
	}
	r, _ := mcp.ParseRevision(s.view.Load().rec.Revision)
	s.spoken.Store(uint32(r))
	return r
}

func (s *sessionActor) startSession() {
	s.node.k.Start(&s.Actor, KindSession, s.key.path(), s)
	s.timer = time.AfterFunc(time.Hour, func() { _ = s.Post(idleTick{}) })
	s.timer.Reset(s.svc.Limits.SessionDrop) // only now, since the tick uses the field
}

// adopt makes the session serve from v unless it knows a newer record. It does not
// wait for the actor's turn: what a client has been answered holds from then on.
func (s *sessionActor) adopt(v *view) {
	for old := s.view.Load(); v.rev > old.rev; old = s.view.Load() {
		if s.view.CompareAndSwap(old, v) {
			s.subscribed(old.rec.Subscribed, v.rec.Subscribed)
			return
		}
	}
}

// subscribed tells the subscriptions of a change of those that the record names.
func (s *sessionActor) subscribed(old, now []string) {
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	for _, uri := range old { // some may be among the new ones, too: then nothing changes
		s.node.subs.Follow(s, uri)
	}
	for _, uri := range now {
		s.node.subs.Follow(s, uri)
	}
}

func (s *sessionActor) Server() string { return s.key.Server }

// Push sends an update to whoever serves the session now.
func (s *sessionActor) Push(data []byte) bool { return s.node.sessions.push(s.key, data) }

// wants is what the newest record says that is known here.
func (s *sessionActor) Wants(uri string) bool {
	_, found := slices.BinarySearch(s.view.Load().rec.Subscribed, uri)
	return found && !s.Stopped()
}

func (s *sessionActor) Hears(uri string) bool { return s.svc.Hears == nil || s.svc.Hears(s.peer, uri) }

// change rewrites the session's record by compare-and-set. edit returns false
// when there is nothing to change.
func (s *sessionActor) change(ctx context.Context, edit func(*session.Record) bool) error {
	n := s.node
	if s.bound != nil {
		return s.changeBound(edit)
	}
	v := s.view.Load()
	rec, rev := v.rec, v.rev
	for {
		if !edit(&rec) {
			return nil
		}
		rec = rec.Touched(time.Now(), s.svc.Limits.Session)
		data, err := codec.Marshal(rec)
		if err != nil {
			return fmt.Errorf("actors: change session: %w", err)
		}
		next, err := n.store.Update(ctx, s.key.record(), data, rev, time.Until(rec.Expires))
		if err == nil {
			n.sessions.adopt(s, &view{rec: rec, rev: next})
			return nil
		}
		if !errors.Is(err, ErrConflict) {
			return fmt.Errorf("actors: change session: %w", err)
		}
		if rec, rev, err = n.sessions.read(ctx, s.key); err != nil {
			return err
		}
		// It may be as edit wants it, by a write whose outcome nobody knew.
		n.sessions.adopt(s, &view{rec: rec, rev: rev})
	}
}

// keepAlive rewrites the record when activity is due to be noted; the request
// that caused it does not wait.
func (s *sessionActor) keepAlive(now time.Time) {
	if v := s.view.Load(); s.bound != nil || !v.rec.Due(now, s.svc.Limits.Session) || !s.touching.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.touching.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
		defer cancel()
		err := s.change(ctx, func(*session.Record) bool { return true })
		switch {
		case err == nil:
		case errors.Is(err, ErrNotFound): // deleted elsewhere
			s.endSession()
		default:
			s.node.log.Warn("session not kept alive", "session", s.key.ID, "error", err)
		}
	}()
}
