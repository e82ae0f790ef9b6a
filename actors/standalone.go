package actors

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/session"
)

// listen begins a new standalone stream, which replaces the one before.
func (s *sessionActor) listen(svc *Service, in *Input) {
	n := s.node
	if n.store.Suspended() {
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	rec := record.Stream{Version: record.Version, Node: n.name, Boot: n.boot, Epoch: 1, Revision: s.view.Load().rec.Revision}
	st := n.streams.build(svc, s, newID(), rec, in.Conn)
	st.order = n.listened.Add(1)
	// The actor is there before the record names it, so that whoever reads the record
	// finds it: a message for it waits, and the stream that comes next ends it.
	st.start()
	data, err := st.newRecord(nil)
	named := make(chan naming, 1)
	go func() { named <- s.storeStandalone(st, data, err) }()
	if <-st.ready; st.unstored.Load() {
		return // it has ended before it could begin, and the client knows
	}
	of := <-named
	s.listens(st.key.ID, of.old, s.endStandalone(of.old))
	if svc.life.over.Load() {
		st.retire()
		return
	}
	gap := s.away.Swap(false) || of.old != "" || len(s.view.Load().rec.Subscribed) > 0
	svc.Handler.Opened(s.peer, gap)
}

// naming is what became of making a stream the session's standalone stream.
type naming struct {
	old      string // the one before, which its successor has to end: so each is ended once
	replaced bool   // a GET that came later was quicker: the stream ends before it begins
	err      error
}

// storeStandalone stores a new standalone stream, whose record is data unless err tells
// why it may not be, and then has the session's record name it. If the process is lost
// in between, the stream before is still the session's, and nobody knows the new one,
// which expires. Its client gets to know it last: what it comes back with has been named.
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
	case st.Post(recordStored{rev: rev}) != nil: // it has ended meanwhile
		go n.streams.forget(st.path)
		s.disown(of.old)
	}
	return of
}

// unopened refuses a stream that could not be stored or named. The one before goes on.
func (s *sessionActor) unopened(st *streamActor, err error) {
	n := s.node
	if !errors.Is(err, ErrNotFound) { // it has just been deleted
		n.log.Warn("stream not opened", "session", s.key.ID, "error", err)
	}
	_ = st.Post(recordStored{err: err})
	// When nobody knows whether the record names the stream, it may, and what was told it
	// is lost. Nobody listens to it, and the next look at the record ends the one before.
	s.away.Store(true)
	go n.streams.forget(st.path)
}

// nameStandalone makes the stream the session's standalone stream in its record, unless
// that names one already whose GET came later.
func (s *sessionActor) nameStandalone(ctx context.Context, st *streamActor) (of naming) {
	of.err = s.change(ctx, func(r *session.Record) bool {
		if now, ok := s.node.streams.Get(StreamKey{s.key, r.Standalone}); ok && now.order > st.order {
			of.replaced = true
			return false
		}
		if r.Standalone != st.key.ID { // else an attempt whose outcome was unknown has done it
			of.old, r.Standalone = r.Standalone, st.key.ID
		}
		return true
	})
	if of.err != nil && s.isCurrent(st.key.ID) {
		of.err = nil // somebody else has seen that it was done
	}
	return of
}

// endStandalone ends a standalone stream, if there is one, for good. It reports
// whether a connection seemed to be there.
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
	// Who sees the connection end and comes back does not find the stream again, since
	// the session's record names another.
	n.streams.forget(key.path())
	return live
}

// disown ends the standalone stream before, which the session's record has named, when it
// now names one that is not here: of another node, or one that could not begin though it
// was named. Nobody would write the stream any more to which the client listens. One that
// is here ends the one before itself.
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
		s.away.Store(true)
		go s.endStandalone(before)
	}
}

// isCurrent reports whether the session's standalone stream is id, as far as is known
// here. Nobody writes any other: who resumes it would hear nothing for ever.
func (s *sessionActor) isCurrent(id string) bool { return s.view.Load().rec.Standalone == id }

// mustName reads whether the session's record names id as its standalone stream: if not,
// the error is errBadEvent.
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
