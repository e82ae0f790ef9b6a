package actors

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/session"
)

// told is which state of the catalogues a session was told on its standalone stream.
// The record takes it over when the connection has outlived that by so long that one
// broken by then would have been noticed, which takes up to two comments: until then
// the next stream tells it again.
type told struct {
	stream string
	digest string
	since  string // what the session had been told when the stream began
}

// Told is the digest of the catalogues that the client was last told.
func (p *Peer) Told() string {
	rec := p.who.record()
	if t := p.last.Load().told.Load(); t != nil && t.stream == rec.Standalone {
		return t.digest
	}
	return rec.Told
}

// listens notes that the stream id takes the place of another one. What was told on
// one whose connection seemed to be there is told again: its client has given it up.
func (s *sessionActor) listens(id, old string, live bool) {
	base := s.view.Load().rec.Told
	if t := s.told.Load(); live && t != nil && t.stream == old {
		base = t.since
	}
	s.told.Store(&told{stream: id, digest: base, since: base})
}

// Announce sends notifications without params on the session's standalone stream, if
// that is written here, and notes that they told the state of the catalogues with that
// digest. It never waits.
func (p *Peer) Announce(methods []string, digest string) {
	s := p.last.Load()
	id := s.view.Load().rec.Standalone
	for _, m := range methods {
		if !p.node.sessions.push(p.key, codec.AppendNotification(nil, m, nil)) {
			return // its next stream begins with what differs
		}
	}
	if s.link != nil {
		_ = s.changeLinked(func(r *session.Record) bool { r.Told = digest; return true })
		return
	}
	before := s.told.Load()
	now := &told{stream: id, digest: digest}
	if now.since = s.view.Load().rec.Told; before != nil && before.stream == id {
		now.since = before.since
	}
	if s.view.Load().rec.Standalone == id && s.told.CompareAndSwap(before, now) {
		time.AfterFunc(3*s.svc.Limits.KeepAlive, func() { p.confirm(s, now) })
	}
}

// confirm stores what a session was told, if its client still listens.
func (p *Peer) confirm(s *sessionActor, t *told) {
	n := p.node
	st, ok := n.streams.Get(StreamKey{s.key, t.stream})
	if !ok || !st.heard.Load() || s.told.Load() != t || s.view.Load().rec.Standalone != t.stream {
		return
	}
	ctx, cancel := context.WithTimeout(n.base, s.svc.Limits.StoreWait)
	defer cancel()
	err := p.change(ctx, func(r *session.Record) bool {
		changed := r.Told != t.digest
		r.Told = t.digest
		return changed
	})
	// When this fails the session is told again, which is legal.
	if err != nil && !errors.Is(err, ErrNotFound) {
		n.log.Debug("catalogue digest not stored", "error", err)
	}
}
