package actors

import (
	"context"
	"errors"
	"time"
)

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
	if s.endSession() { // else another DELETE was as quick
		n.accounts.forgive(in)
		n.accounts.gone(in, &s.view.Load().rec, svc.Limits.Session.Idle)
	}
	in.Conn.Answer(200, nil)
}

// endSession ends the calls and streams of a session whose record is gone, wherever they
// are on this node. The actor s of it may have left memory meanwhile, and another have
// come up from the record before that went. It reports whether nobody had ended one
// of these before. An actor of a session that has a record must not call it in its turn,
// since it waits for an activation under way.
func (s *sessionActor) endSession() (first bool) {
	n := s.node
	first = s.end()
	if s.link != nil {
		s.over(first)
		return first // it has no streams, and its actor is found by its connection alone
	}
	if now, ok := n.sessions.Current(s.key); ok && now != s {
		first = now.end() && first
	}
	n.streams.endOf(s.key)
	s.over(first)
	return first
}

// over tells who wants to know that the session has ended, if nobody had ended it before.
func (s *sessionActor) over(first bool) {
	rec := &s.view.Load().rec
	if tell := s.svc.Ended; tell != nil && first && rec.Revision != "" {
		how := Deleted
		switch {
		case s.link != nil:
			how = Disconnected
		case rec.Expired(time.Now()):
			how = Expired
		}
		go tell(s.peer, how)
	}
}

// end ends what the session's actor serves; it reports whether nobody had before.
func (s *sessionActor) end() (first bool) {
	first = !s.ended.Swap(true)
	_ = s.Post(closeSession{cause: ErrSessionEnded})
	return first
}

func (s *streamActor) endStream() {
	_ = s.Post(endStream{})
	go s.node.streams.forget(s.path)
}

// survives ends the stream w, which has just come to the directory, if its session ended
// before it was there to be found: who takes a stream over takes a while. s is the
// session's actor as whoever wants the stream knows it. ErrSessionEnded: it is gone.
func (d *streams) survives(ctx context.Context, s *sessionActor, w *streamActor) error {
	var err error
	if s.Stopped() && !s.ended.Load() { // it has left memory: whoever came in its place was told
		s, err = d.node.sessions.load(ctx, s.svc, s.key)
	}
	if errors.Is(err, ErrNotFound) || err == nil && s.ended.Load() {
		w.endStream()
		return ErrSessionEnded
	}
	return err
}
