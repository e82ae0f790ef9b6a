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
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
)

// sessions are the sessions that a node serves now, by their keys, and the way to those
// that have only a record.
type sessions struct {
	*kernel.Directory[SessionKey, *sessionActor]
	node  *Node
	turns chan struct{} // of requests for whose sessions the store is asked
}

// lookupsAtOnce is for how many requests at a time the store is asked for a session; others
// wait for their turn. An id costs nothing to make up.
var lookupsAtOnce = limits.SessionReads.Value()

// lookups is that for a node which takes so many requests at once; -1 is any number.
func lookups(calls int) int {
	if calls < 0 {
		return lookupsAtOnce
	}
	return max(1, min(lookupsAtOnce, calls))
}

// of finds the session that a message or a GET belongs to, or answers why there is none. id is that of a request.
func (d *sessions) of(svc *Service, in *Input, id []byte) *sessionActor {
	s, err := d.lookUp(svc, in)
	return d.found(in, id, s, err)
}

// found returns what lookUp has, or answers why that is not the request's session.
func (d *sessions) found(in *Input, id []byte, s *sessionActor, err error) *sessionActor {
	n := d.node
	switch {
	case err == nil:
	case errors.Is(err, errNoSession):
		faults.NoSession.Tell(in.Conn, id)
		return nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrRetired):
		unknownSession(in.Conn, id)
		return nil
	case errors.Is(err, ErrClosing):
		n.refusals.unavailable(in.Conn, id)
		return nil
	default:
		n.log.Warn("session not readable", "session", in.Session, "error", err)
		if id != nil {
			n.refusals.turnAway(in.Conn, errUnavailable, id)
		} else {
			n.refusals.unavailable(in.Conn, nil)
		}
		return nil
	}
	s.peer.madeBy(in)
	// The transport's revision and the protocol's are independent, but a client
	// that names one names what was negotiated.
	if v := s.view.Load(); in.Version != "" && in.Version != v.rec.Revision {
		faults.SessionRevision.TellMore(in.Conn, v.rec.Revision, id)
		return nil
	}
	return s
}

func unknownSession(c Conn, id []byte) {
	faults.UnknownSession.Tell(c, id)
}

// errNoSession stands for a request that names no session.
var errNoSession = errors.New("actors: no session id")

// lookUp is load for the session that a request names, in its turn.
func (d *sessions) lookUp(svc *Service, in *Input) (*sessionActor, error) {
	n := d.node
	switch {
	case in.Session == "":
		return nil, errNoSession
	case n.drain.closing.Load():
		return nil, ErrClosing // those in memory have stopped, and no others are to come
	}
	if !stream.ValidID(in.Session) {
		return nil, ErrNotFound
	}
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: in.Session}
	if s, ok := d.Get(key); ok && s.svc == svc && !s.view.Load().rec.Expired(time.Now()) {
		if s.link != nil {
			return nil, ErrNotFound // it is found by its connection alone
		}
		return s, nil
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("actors: look for a session: too many are looked for: %w", ErrUnavailable)
	}
	return d.load(ctx, svc, key)
}

// load finds the actor of a session in memory, or makes it from the session's record.
func (d *sessions) load(ctx context.Context, svc *Service, key SessionKey) (*sessionActor, error) {
	n := d.node
	for {
		if n.drain.closing.Load() { // its sessions stop, and none is to come in their place
			return nil, ErrClosing
		}
		s, err := d.Obtain(key, func() (*sessionActor, error) {
			rec, rev, err := d.read(ctx, key)
			if err != nil {
				return nil, err
			}
			s := d.activate(svc, key, rec, rev)
			s.away.Store(true)
			for _, uri := range rec.Subscribed {
				n.subs.follow(s, uri)
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

// read reads the record of a session.
func (d *sessions) read(ctx context.Context, key SessionKey) (session.Record, uint64, error) {
	var rec session.Record
	data, rev, err := d.node.store.Get(ctx, key.record())
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read session: %w", err)
	}
	if v := session.Newer(data); v != 0 {
		return rec, 0, fmt.Errorf("actors: session record of version %d, this release reads %d: %w", v, session.RecordVersion, errNewer)
	}
	if err := codec.Unmarshal(data, &rec); err != nil {
		return rec, 0, fmt.Errorf("actors: read session: %w", err)
	}
	if rec.Expired(time.Now()) {
		return rec, 0, ErrNotFound
	}
	return rec, rev, nil
}

// errNewer stands for what a newer release has written: one that reads it may be about to
// take this one's place, and waiting here does not help.
var errNewer = fmt.Errorf("written by a newer release: %w", ErrUnavailable)

// create stores a new session and serves it here.
func (d *sessions) create(ctx context.Context, svc *Service, in *Input, set Settled) (*sessionActor, error) {
	n := d.node
	key := SessionKey{Tenant: in.Tenant, Server: svc.ID, ID: newID()}
	rec := session.New(time.Now(), svc.Limits.Session)
	rec.Revision, rec.Client, rec.Capabilities, rec.Told = set.Revision, set.Client, set.Capabilities, set.Told
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

// build makes the actor of a session, which startSession starts.
func (d *sessions) build(svc *Service, key SessionKey, rec session.Record, rev uint64) *sessionActor {
	n := d.node
	s := &sessionActor{node: n, svc: svc, key: key, last: time.Now()}
	s.view.Store(&view{rec: rec, rev: rev})
	s.peer = &Peer{node: n, svc: svc, key: key}
	s.peer.who = ofSession{s.peer}
	s.peer.last.Store(s)
	return s
}

// adopt makes s, and whoever serves the session in its place by now, serve from a
// record that has been written. One that comes to memory after this reads it.
func (d *sessions) adopt(s *sessionActor, v *view) {
	before := s.view.Load().rec.Standalone
	defer s.disown(before)
	s.adopt(v)
	if now, ok := d.Current(s.key); ok && now != s {
		now.adopt(v)
	}
}
