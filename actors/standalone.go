package actors

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/internal/session"
)

// listen begins a new standalone stream, which replaces the one before.
func (n *Node) listen(svc *Service, s *sessionActor, in *Input) {
	if n.store.Suspended() {
		n.unavailable(in.Conn, nil)
		return
	}
	rec := streamRecord{Version: streamRecordVersion, Node: n.name, Boot: n.boot, Epoch: 1, Revision: s.view.Load().rec.Revision}
	st := n.makeStream(svc, s, n.newID(), rec, in.Conn)
	// The actor is there before the record names it, so that whoever reads the
	// record finds it: a message for it waits, and the stream that comes next ends
	// it. The record names it before it is stored: one that the record does not
	// know would never be ended.
	n.startStream(st)
	old, err := n.nameStandalone(s, st.key.ID)
	if err != nil {
		if !errors.Is(err, ErrNotFound) { // it has just been deleted
			n.log.Warn("stream not opened", "session", s.key.ID, "error", err)
		}
		_ = st.post(recordStored{err: err})
		<-st.ready
		return
	}
	n.storeStream(st, nil)
	<-st.ready
	if st.unstored.Load() {
		n.withdrawStandalone(s, st.key.ID, old)
		return
	}
	s.listens(st.key.ID, old, n.endStandalone(s, old))
	if svc.life.over.Load() {
		st.retire()
		return
	}
	gap := s.away.Swap(false) || old != "" || len(s.view.Load().rec.Subscribed) > 0
	svc.Handler.Opened(s.peer, gap)
}

// nameStandalone makes id the session's standalone stream in its record. It
// returns the one before, which the caller has to end: so each is ended once, by
// the one that came after it.
func (n *Node) nameStandalone(s *sessionActor, id string) (old string, err error) {
	ctx, cancel := context.WithTimeout(n.base, s.svc.Limits.StoreWait)
	defer cancel()
	err = n.change(ctx, s, func(r *session.Record) bool {
		old, r.Standalone = r.Standalone, id
		return true
	})
	return old, err
}

// withdrawStandalone takes a stream that could not begin out of the record, and
// the one before goes on. That one ends when the record names another by now.
func (n *Node) withdrawStandalone(s *sessionActor, id, old string) {
	s.away.Store(true) // what was told it is lost
	ctx, cancel := context.WithTimeout(n.base, s.svc.Limits.StoreWait)
	defer cancel()
	mine := false
	err := n.change(ctx, s, func(r *session.Record) bool {
		if mine = r.Standalone == id; mine {
			r.Standalone = old
		}
		return mine
	})
	if err != nil || !mine {
		n.endStandalone(s, old)
	}
}

// endStandalone ends a standalone stream, if there is one, for good. It reports
// whether a connection seemed to be there.
func (n *Node) endStandalone(s *sessionActor, id string) (live bool) {
	if id == "" {
		return false
	}
	// The record goes first: who sees the connection end must not find the stream
	// again.
	key := StreamKey{s.key, id}
	n.forgetStream(key.path())
	if st, ok := n.streams.get(key); ok {
		live = st.heard.Load()
		_ = st.post(endStream{})
	}
	return live
}
