package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/subscription"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// sessions finds the sessions that a node serves now, by key, and loads others from their
// records. Bound sessions are not among them: only their connections find them.
type sessions struct {
	*kernel.Directory[SessionKey, *sessionActor]
	*site
	streams *streams
	calls   *requestPool
	pending *pendingRequests
	subs    *subscription.Table
	writers entryWriter
	anchors anchorage
	lookups chan struct{} // one for each request that reads its session from the store
	guesses chan struct{} // the same for ids without the right tag
	late    lateCancels
}

// lateCancels are cancels of calls that may come here from other nodes.
type lateCancels struct {
	mu sync.Mutex
	session.Cancels[SessionKey]
}

// keepCancel keeps the cancel of a call for when that begins to run here, and reports whether the oldest one has given way to it.
func (l *lateCancels) keepCancel(key SessionKey, id, reason string) (full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Keep(key, id, reason, time.Now())
}

// takeCancel returns the cancel of a call that is about to run, if one is kept.
func (l *lateCancels) takeCancel(key SessionKey, id string) (reason string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Take(key, id, time.Now())
}

// anchorage knows where sessions are anchored: see anchors.
type anchorage interface {
	// leave says that a service has nothing of a session here any more, if it had something by the anchor in the session's record.
	leave(key SessionKey, was session.Anchor, moved bool)
	// anchorHere anchors a session at this node, for what is to begin here. ErrElsewhere: it is anchored at another node, which may live.
	anchorHere(ctx context.Context, s *sessionActor, what string) error
}

// entryWriter has the writer of a stream, wherever that is, store an entry.
type entryWriter interface {
	// sendOn pushes an entry to the stream id of s and waits until it is stored. After an error the
	// entry was not stored, unless the error is the cause of ctx or ErrUnavailable: then the
	// outcome is unknown. It fails with ErrNoStream if the stream does not exist or has ended.
	sendOn(ctx context.Context, s *sessionActor, id string, e stream.Entry) error
	// hasMessage reports whether the stream id of s has the message that is called name, which was first sent at a time when the
	// stream's record told of append after. After an error, which is always ErrUnavailable, that is unknown.
	hasMessage(ctx context.Context, s *sessionActor, id string, name []byte, sent time.Time, after uint64) (bool, error)
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

// cancelLate cancels a call that has begun to run here, or that does so soon.
func (d *sessions) cancelLate(key SessionKey, id, reason string) {
	if d.late.keepCancel(key, id, reason) { // first: what begins to run meanwhile looks there once it can be found
		d.refusals.Refused(limits.LateCancels.Row)
	}
	if s, ok := d.Get(key); ok {
		_ = s.Post(&cancelCall{id: id, reason: reason, acked: func(error) {}})
	}
}

// findSession finds the session that a message or a GET belongs to, or refuses it. id is that of a
// request, else nil.
func (d *sessions) findSession(svc *Service, in *Input, id []byte) *sessionActor {
	s, err := d.lookUp(svc, in)
	return d.useFound(in, id, s, err)
}

// useFound is checkFound for whoever uses the session: it does not expire for its time without use.
func (d *sessions) useFound(in *Input, id []byte, s *sessionActor, err error) *sessionActor {
	switch s = d.checkFound(in, id, s, err); {
	case s == nil:
	case !s.view.Load().rec.Fresh:
		s.home.keepAlive()
	case !(storedHome{s}).noteFirstMessage(in):
		unknownSession(in.Conn, id)
		return nil
	}
	return s
}

// checkFound returns the session that lookUp found, or refuses the request.
func (d *sessions) checkFound(in *Input, id []byte, s *sessionActor, err error) *sessionActor {
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
			d.refusals.refuseInSession(in.Conn, err, id)
		} else {
			d.refusals.refuseRequest(in.Conn, err, nil)
		}
		return nil
	default:
		d.log.Warn("session not readable", "session", in.Session, "error", err)
		if id != nil {
			d.refusals.refuseInSession(in.Conn, refusal.Unavailable, id)
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

// lookUp is loadSession for the session that a request names. It waits while too many others read
// the store.
func (d *sessions) lookUp(svc *Service, in *Input) (*sessionActor, error) {
	switch {
	case in.Session == "":
		return nil, errNoSession
	case d.drain.closing.Load():
		return nil, ErrClosing // the sessions in memory stop, and no others may begin
	}
	key, ok := sessionKey(in.Tenant, svc.ID, in.Session)
	if !ok {
		return nil, store.ErrNotFound
	}
	if s, ok := d.Get(key); ok && s.svc == svc {
		switch expired, err := (sessionView{s}).refreshView(d.lookups); {
		case err != nil:
			return nil, err
		case !expired:
			return s, nil
		}
	}
	lookups := d.lookups
	if !key.hasTag(in.Session, d.keys) { // it may be a guess, and must not hold up the others
		lookups = d.guesses
	}
	patience := time.NewTimer(svc.Limits.StoreWait)
	defer patience.Stop()
	select {
	case lookups <- struct{}{}:
		defer func() { <-lookups }()
	case <-patience.C:
		return nil, fmt.Errorf("actors: read session: too many requests read theirs: %w", store.ErrUnavailable)
	}
	return d.loadSession(svc, key, in)
}

// loadSession finds the actor of a session in memory, or makes it from the session's record. in is
// the request that pays for the memory; nil is none, and then the session's tenant pays.
func (d *sessions) loadSession(svc *Service, key SessionKey, in *Input) (*sessionActor, error) {
	for {
		if d.drain.closing.Load() { // the node's sessions stop, and no others may begin
			return nil, ErrClosing
		}
		s, err := d.Obtain(key, func() (*sessionActor, error) {
			get := d.store.Get
			if in != nil && !key.hasTag(in.Session, d.keys) { // it may be a guess, on which no write is spent
				get = d.store.Peek
			}
			ctx, cancel := context.WithTimeout(d.base, svc.Limits.StoreWait) // whoever else wants the session waits for this read, too
			defer cancel()
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
				d.subs.Follow(subscriber{s}, uri)
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
		expired, err := sessionView{s}.refreshView(nil)
		if expired {
			sessionEnd{s}.endSession()
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
		d.accounts.reserveAnyway(held, nil, &Input{Tenant: key.Tenant}, quota.Sessions, recordMemory(rec))
		return held, nil
	}
	return held, d.accounts.reserveMemory(held, nil, in, quota.Sessions, recordMemory(rec))
}

// recordMemory is what a session with this record holds in memory.
func recordMemory(rec *session.Record) int64 {
	return sessionBytes + rec.Size() + uriBytes*int64(len(rec.Subscribed))
}

// errNewer reports a record of a newer release. That release may be about to take this
// process's place, and waiting here does not help.
var errNewer = fmt.Errorf("written by a newer release: %w", store.ErrUnavailable)

// createSession stores a new session and serves it here.
func (d *sessions) createSession(ctx context.Context, svc *Service, in *Input, set Settled) (*sessionActor, error) {
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	rec := session.New(d.store.Now(), svc.Limits.Session)
	rec.Revision, rec.Client, rec.Capabilities, rec.Announced = set.Revision, set.Client, set.Capabilities, set.Announced
	data, err := rec.Encode()
	if err != nil {
		return nil, fmt.Errorf("actors: create session: %w", err)
	}
	held, no := d.reserveMemory(&rec, key, in)
	if no != nil {
		return nil, no
	}
	stored := d.accounts.sessionCharge(in, &rec, &svc.Limits.Session, len(data))
	if no := d.accounts.chargeStore(stored); no != nil {
		held.Free()
		return nil, refusal.Of(no)
	}
	rev, err := d.store.Create(ctx, key.recordKey(), data, rec.Expires.Sub(d.store.Now()))
	d.accounts.settleCharge(stored, err)
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
	s.memory.TakeFrom(held)
	s.peer.name = key.taggedID(d.keys)
	s.home = storedHome{s}
	s.shared = d.fleet.mail != nil
	s.startSession()
	return s
}

// buildActor makes the actor of a session without its home; startSession starts it.
func (d *sessions) buildActor(svc *Service, key SessionKey, rec session.Record, rev uint64) *sessionActor {
	s := &sessionActor{sessions: d, svc: svc, key: key, via: OverHTTP, last: time.Now()}
	s.view.Store(&view{rec: rec, rev: rev})
	s.asOf.Store(int64(d.clock.sinceStart()))
	s.peer = &Peer{sessions: d, svc: svc, key: key}
	s.peer.who = ofSession{s.peer}
	s.peer.last.Store(s)
	return s
}

// adoptView makes s, and the actor that serves the session in its place by now, serve from a record
// that was written. An actor that begins later reads the record itself.
func (d *sessions) adoptView(s *sessionActor, v *view) {
	before := s.view.Load().rec.Standalone
	defer standalone{s}.endReplacedStandalone(before)
	sessionView{s}.adoptView(v)
	if now, ok := d.Current(s.key); ok && now != s {
		sessionView{now}.adoptView(v)
	}
}

// removeSession ends a session on all nodes; it reports whether that was its first end here.
func (d *sessions) removeSession(ctx context.Context, s *sessionActor) (first bool, err error) {
	if err := d.store.Delete(ctx, s.key.recordKey(), 0); err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	if first = (sessionEnd{s}).endSession(); first && s.svc.Over != nil {
		s.svc.Over(s.peer, Via{HTTP: OverHTTP}, d.store.Now().Sub(s.view.Load().rec.Created))
	}
	d.fleet.broadcastEnd(ctx, s.key, &s.view.Load().rec, false)
	return first, nil
}

// initializeSession begins a session, or refuses to.
func (d *sessions) initializeSession(svc *Service, in *Input, m *codec.Message, size int) {
	if in.Session != "" {
		refusal.SessionAgain.Tell(in.Conn, m.ID)
		return
	}
	if !d.accounts.admitSession(in, m.ID) {
		return
	}
	if !d.accounts.admitMessage(nil, in, m, size) {
		d.accounts.refundSessionTokens(in, perSession)
		return
	}
	var set Settled
	var result []byte
	var rerr *mcp.Error
	observed := svc.observed(nil, in, m)
	defer func() { observed(revisionOf(set.Revision), rerr) }()
	set, result, rerr = svc.Handler.Initialize(withOwner(d.base, in.Principal), m.Params)
	if rerr != nil {
		d.accounts.refundSessionTokens(in, perSession)
		in.Conn.Answer(protocol.HTTPStatus(rerr, 0), codec.AppendError(nil, m.ID, rerr.Code, rerr.Message, rerr.Data))
		return
	}
	ctx, cancel := context.WithTimeout(d.base, svc.Limits.StoreWait)
	defer cancel()
	s, err := d.createSession(ctx, svc, in, set)
	if no, limited := errors.AsType[*refusal.Refusal](err); limited {
		rerr = no.MCP()
		d.accounts.refundSessionTokens(in, perSession)
		d.refusals.refuseRequest(in.Conn, no, m.ID)
		return
	}
	if err != nil {
		rerr = Unavailable
		d.accounts.refundSessionTokens(in, perSession)
		d.log.Warn("session not created", "error", err)
		refusal.Unavailable.Tell(in.Conn, m.ID)
		return
	}
	s.peer.noteOwner(in)
	if s.beginStay() == nil {
		defer s.endStay()
	}
	sessionEnd{s}.tellBegan(ctx)
	in.Conn.SetSession(s.peer.Session())
	in.Conn.Answer(200, codec.AppendResult(nil, m.ID, result))
}

// findToStay returns the session that find finds, or nil if find has refused the request. It stays
// in memory until endStay is called: if it left before its stream is open, it would miss
// notifications.
func (d *sessions) findToStay(in *Input, find func(*Input) *sessionActor) *sessionActor {
	for {
		s := find(in)
		if s == nil {
			return nil
		}
		switch err := s.beginStay(); {
		case err == nil:
			return s
		case !errors.Is(err, kernel.ErrStopped): // a stopped session has just left memory: activate it anew
			refusal.Unavailable.Tell(in.Conn, nil)
			return nil
		}
	}
}

// readRecord reads the record of a session. With ErrNotFound and a revision, the record has expired
// and is still stored.
func (d *sessions) readRecord(ctx context.Context, key SessionKey) (session.Record, uint64, error) {
	return d.readRecordBy(ctx, key, d.store.Get)
}

func (d *sessions) readRecordBy(ctx context.Context, key SessionKey, get func(ctx context.Context, key string) ([]byte, uint64, error)) (session.Record, uint64, error) {
	var rec session.Record
	data, rev, err := get(ctx, key.recordKey())
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read session: %w", err)
	}
	if v := session.NewerVersion(data); v != 0 {
		return rec, 0, fmt.Errorf("actors: session record of version %d, this release reads %d: %w", v, session.RecordVersion, errNewer)
	}
	if rec, err = session.Decode(data); err != nil {
		return rec, 0, fmt.Errorf("actors: read session: %w", err)
	}
	if rec.Expired(d.store.Now()) {
		return rec, rev, store.ErrNotFound
	}
	return rec, rev, nil
}
