package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

var _ home = storedHome{}

// naming is the outcome of making a stream the session's standalone stream.
type naming struct {
	old      string // the former standalone stream; its successor ends it, so that each is ended once
	replaced bool   // a later GET was quicker: the stream ends before it begins
	err      error
}

// storedHome is the home of a session with a record in the store. Connections come and go, and any
// node can serve the session from its record. Messages outside of calls go out on the standalone
// stream that the record names.
type storedHome struct{ *sessionActor }

// changeRecord rewrites the record by compare-and-set. That edit has nothing to change is only
// believed of a record that was read since: another node may have changed what this one knows.
func (h storedHome) changeRecord(ctx context.Context, edit func(*session.Record) bool) error {
	s, d := h.sessionActor, h.sessions
	v := s.view.Load()
	rec, rev := v.rec, v.rev
	for read := !s.shared; ; read = true {
		was := rec
		if edit(&rec) {
			rec = rec.Touched(d.store.Now(), s.svc.Limits.Session)
			data, err := rec.Encode()
			if err != nil {
				return fmt.Errorf("actors: change session: %w", err)
			}
			next, err := d.store.Update(ctx, s.key.recordKey(), data, rev, h.timeLeft(rec.Expires))
			if err == nil {
				d.adoptView(s, &view{rec: rec, rev: next})
				d.fleet.broadcastChange(ctx, s.key, &was, &rec, next)
				return nil
			}
			if !errors.Is(err, store.ErrConflict) {
				return fmt.Errorf("actors: change session: %w", err)
			}
		} else if read {
			if rev != v.rev { // it may be this node's own change, of which nobody was told
				d.fleet.broadcastChange(ctx, s.key, &v.rec, &was, rev)
			}
			return nil
		}
		var err error
		if rec, rev, err = d.readRecord(ctx, s.key); err != nil {
			return err
		}
		// The record may already be as edit wants it, after a write with an unknown outcome.
		sessionView{s}.adoptFound(&view{rec: rec, rev: rev})
	}
}

// noteFirstMessage notes that the client has sent something since initialize: the session has its
// full time from now on. It waits for the store, once in the life of a session, so that a client
// that has got a response finds its session after a crash. For most clients that is the response to
// notifications/initialized, for which no handler waits. If the store does not answer, the request
// goes on, and the next one tries again. It reports false if the session is gone.
func (s storedHome) noteFirstMessage(in *Input) (there bool) {
	ctx, cancel := context.WithTimeout(s.sessions.base, s.svc.Limits.StoreWait)
	defer cancel()
	before, first := s.view.Load().rec, false
	err := s.home.changeRecord(ctx, func(r *session.Record) bool {
		first = r.NoteHeard() // false if another request was quicker
		return first
	})
	switch {
	case err == nil && first:
		n, now := s.sessions, s.view.Load().rec
		n.accounts.refundSessionBytes(in, &before, &s.svc.Limits.Session)
		if data, err := now.Encode(); err == nil {
			c := n.accounts.sessionCharge(in, &now, &s.svc.Limits.Session, len(data))
			c.addBytes(c.bytes)
		}
	case errors.Is(err, store.ErrNotFound): // deleted elsewhere
		sessionEnd(s).endWithoutRecord()
		return false
	case err != nil:
		s.sessions.log.Warn("session not kept beyond its first minutes", "error", err)
	}
	return true
}

// keepAlive rewrites the record when that is due, so that it does not expire.
func (h storedHome) keepAlive() {
	s := h.sessionActor
	if v := s.view.Load(); !v.rec.RewriteDue(s.sessions.store.Now(), s.svc.Limits.Session) || !s.touching.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.touching.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
		defer cancel()
		err := h.changeRecord(ctx, func(*session.Record) bool { return true })
		switch {
		case err == nil:
		case errors.Is(err, store.ErrNotFound): // deleted elsewhere
			sessionEnd{s}.endWithoutRecord()
		default:
			s.sessions.log.Warn("session not kept alive", "session", s.key.ID, "error", err)
		}
	}()
}

func (h storedHome) timeLeft(expires time.Time) time.Duration {
	return expires.Sub(h.sessions.store.Now())
}

// currentActor loads the session from its record, unless another actor already serves it.
func (h storedHome) currentActor() (*sessionActor, error) {
	if h.sessions.drain.closing.Load() {
		return nil, ErrClosing
	}
	return h.sessions.loadSession(h.svc, h.key, nil)
}

// endForGood ends the calls and streams on this node of a session whose record is gone.
func (h storedHome) endForGood(expired bool) (first bool) {
	s := h.sessionActor
	if first = h.endQuietly(expired); first {
		how := Deleted
		if s.view.Load().rec.Expired(s.sessions.store.Now()) {
			how = Expired
		}
		sessionEnd{s}.reportEnd(how)
	}
	return first
}

// endQuietly is endForGood without a word to the program. The actor may have left memory meanwhile,
// and another may have begun from the record before that went.
func (h storedHome) endQuietly(expired bool) (first bool) {
	s, d := h.sessionActor, h.sessions
	first = sessionEnd{s}.endCalls()
	if !expired { // no other actor can begin from an expired record
		if now, ok := d.Current(s.key); ok && now != s {
			first = sessionEnd{now}.endCalls() && first
		}
	}
	d.streams.endSessionStreams(s.key)
	return first
}

// leaveMemory takes the session out of the directory and stops it. Messages that still wait are
// refused, and their senders activate the session anew.
func (h storedHome) leaveMemory(bool) {
	h.sessions.Drop(h.key, h.sessionActor)
	h.Stop()
}

// deliverMessage sends a message on the standalone stream and waits until it is stored. If another
// stream replaces that one meanwhile, the message goes to the new stream.
func (h storedHome) deliverMessage(ctx context.Context, e stream.Entry) error {
	for s := h.sessionActor; ; {
		id := s.view.Load().rec.Standalone
		if id == "" && s.sessions.fleet.mail != nil { // the client may have opened one by way of another node
			if err := (standalone{s}).mustName(ctx, ""); err != nil && !errors.Is(err, errBadEvent) {
				return clientSession{s.peer}.endedError(err)
			}
			id = s.view.Load().rec.Standalone
		}
		if id == "" {
			return ErrNoStream
		}
		err := s.sessions.writers.sendOn(ctx, s, id, e)
		if err == nil || ctx.Err() != nil || !errors.Is(err, kernel.ErrStopped) && s.view.Load().rec.Standalone == id {
			return err
		}
		if s, err = s.peer.currentActor(); err != nil {
			return err
		}
	}
}

// pushNotification sends data on the standalone stream if this node writes that. It goes to the
// actor that serves the session now. If the stream is replaced later, the new stream does not have
// the data.
func (h storedHome) pushNotification(data []byte) (taken bool) {
	s, ok := h.sessions.Get(h.key)
	if !ok {
		return false
	}
	st, ok := s.sessions.streams.Get(StreamKey{s.key, s.view.Load().rec.Standalone})
	if !ok || st.queued.Load() > int64(s.svc.Limits.Queue) || st.queued.Load() > waitingStep && s.sessions.accounts.IsOutOfRoom(s.billedAccount()) ||
		st.Post(&pushEntries{entries: []stream.Entry{{Kind: stream.Message, Data: data}}, ofSession: true}) != nil {
		s.missed.Store(true) // the session's next stream, or resume, makes this good
		return false
	}
	return true
}

// pushUpdate is pushNotification: a stream that cannot take the update now makes it good later.
func (h storedHome) pushUpdate(data []byte) { h.pushNotification(data) }

// standaloneState is what a session knows of its standalone stream beside the record, which names
// it.
type standaloneState struct {
	// announced is what was announced on the standalone stream, nil if there is none yet.
	announced atomic.Pointer[announcement]

	// missed says that the client may have missed notifications: it is set when one could not be
	// sent, and when the session comes to this node from its record. Whoever makes that good, for a
	// client that listens, clears it first.
	missed atomic.Bool
}

// standalone is a session as far as its standalone stream goes.
type standalone struct{ *sessionActor }

// openStandalone begins a new standalone stream, which replaces the old one.
func (s standalone) openStandalone(svc *Service, in *Input) {
	d := s.sessions
	if d.store.Suspended() {
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	// What the client subscribes to from here on is told by this stream, or noted as missed, unless
	// another node is told of it.
	subscribed := len(s.view.Load().rec.Subscribed) > 0
	rec := record.Stream{Version: record.Version, Node: d.name, Boot: d.boot, Epoch: 1, Revision: s.view.Load().rec.Revision}
	st := d.streams.buildStream(&svc.Terms, s, s.key, s.view.Load().rec.Subscribed, newID(), rec, in.Conn)
	st.order = d.streams.listened.Add(1)
	// The actor starts before the record names it, so that every reader of the record finds it:
	// a message for it waits, and the next stream ends it.
	st.start()
	data, stored, err := writerRecord{st}.newRecord(nil)
	named := make(chan naming, 1)
	go func() { named <- s.storeStandalone(st, data, stored, err) }()
	if <-st.ready; st.unstored.Load() {
		return // the stream ended before it could begin, and the client knows
	}
	of := <-named
	s.noteReplaced(st.key.ID, of.old, s.endStandalone(of.old))
	if svc.life.over.Load() {
		streamEnd{st}.unmountStream()
		return
	}
	subscribed = subscribed || s.shared && len(s.view.Load().rec.Subscribed) > 0
	gap := s.missed.Swap(false) || of.old != "" || subscribed
	svc.Handler.Opened(s.peer, gap)
}

// storeStandalone stores a new standalone stream and then has the session's record name it.
// data is the stream's record, unless err says why the stream may not begin. If the process is
// lost in between, the old stream is still the session's; the new one is unknown and expires.
// The client learns of the stream last: any event id that it has is of a stream that was named.
func (s standalone) storeStandalone(st *streamActor, data []byte, stored storeCharge, err error) (of naming) {
	d := s.sessions
	ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
	defer cancel()
	var rev uint64
	if err == nil {
		rev, err = d.store.OpenStream(ctx, st.path, data, nil, s.svc.recordTTL())
		d.accounts.settleCharge(stored, err)
	}
	if err == nil && !st.Stopped() {
		of = s.nameStandalone(ctx, st)
		err = of.err
	}
	switch {
	case err != nil:
		of.err = err
		s.refuseStandalone(st, err)
	case of.replaced:
		st.endStream()
	case st.Post(recordStored{rev: rev}) != nil: // the stream has ended meanwhile
		go d.streams.forgetRecord(st.path)
		s.endReplacedStandalone(of.old)
	}
	return of
}

// refuseStandalone refuses a stream that could not be stored or named. The old stream goes on.
func (s standalone) refuseStandalone(st *streamActor, err error) {
	d := s.sessions
	if !errors.Is(err, store.ErrNotFound) { // ErrNotFound: the session has just been deleted
		d.log.Warn("stream not opened", "session", s.key.ID, "error", err)
	}
	_ = st.Post(recordStored{err: err})
	// If the outcome is unknown, the record may name the stream, and messages sent to it are
	// lost. No client listens to it, and the next read of the record ends the old stream.
	s.missed.Store(true)
	go d.streams.forgetRecord(st.path)
}

// nameStandalone makes the session's record name the stream as its standalone stream, unless
// the record already names one with a later GET.
func (s standalone) nameStandalone(ctx context.Context, st *streamActor) (of naming) {
	of.err = s.home.changeRecord(ctx, func(r *session.Record) bool {
		of.old = ""
		now, here := s.sessions.streams.Get(StreamKey{s.key, r.Standalone})
		if of.replaced = of.replaced || here && now.order > st.order; of.replaced { // by what this node knew, or by the record
			return false
		}
		if r.Standalone != st.key.ID { // equal if an attempt with an unknown outcome succeeded
			of.old, r.Standalone = r.Standalone, st.key.ID
		}
		return true
	})
	if of.err != nil && s.isCurrent(st.key.ID) {
		of.err = nil // another goroutine has read a record that names the stream
	}
	return of
}

// endStandalone ends a standalone stream, if there is one, for good. It reports whether the
// stream seemed to have a connection.
func (s standalone) endStandalone(id string) (live bool) {
	d := s.sessions
	if id == "" {
		return false
	}
	key := StreamKey{s.key, id}
	if st, ok := d.streams.Get(key); ok {
		live = st.connected.Load()
		_ = st.Post(endStream{})
	} else {
		d.streams.endReplaced(key)
	}
	// A client that comes back after this does not find the stream again, since the session's
	// record names another.
	d.streams.forgetRecord(key.streamPath())
	return live
}

// endReplacedStandalone ends the standalone stream before, which the session's record named
// earlier. It does so if the record now names a stream that is not here: one of another node, or
// one that could not begin though it was named. Otherwise the client would listen to a stream
// without a writer. A new stream that is here ends the old one itself.
func (s standalone) endReplacedStandalone(before string) {
	d := s.sessions
	now := s.view.Load().rec.Standalone
	if before == "" || before == now {
		return
	}
	if _, here := d.streams.Get(StreamKey{s.key, now}); here {
		return
	}
	if _, here := d.streams.Get(StreamKey{s.key, before}); here {
		s.missed.Store(true)
		go s.endStandalone(before)
	}
}

// isCurrent reports whether the session's standalone stream is id, as far as this node knows.
// No other standalone stream has a writer: a client that resumed it would wait forever.
func (s standalone) isCurrent(id string) bool { return s.view.Load().rec.Standalone == id }

// mustName reads the session's record. It fails with errBadEvent unless the record names id as
// the standalone stream.
func (s standalone) mustName(ctx context.Context, id string) error {
	d := s.sessions
	rec, rev, err := d.readRecord(ctx, s.key)
	if errors.Is(err, store.ErrNotFound) {
		return ErrSessionEnded
	}
	if err != nil {
		return err
	}
	d.adoptView(s.sessionActor, &view{rec: rec, rev: rev})
	if !s.isCurrent(id) {
		return errBadEvent
	}
	return nil
}

// noteReplaced notes that stream id replaces stream old. If old seemed to have a connection, its
// announcements are made again: the client has given that connection up.
func (s standalone) noteReplaced(id, old string, live bool) {
	base := s.view.Load().rec.Announced
	if t := s.announced.Load(); live && t != nil && t.stream == old {
		base = t.since
	}
	s.announced.Store(&announcement{stream: id, digest: base, since: base})
}

// writesStandalone reports whether this node writes the session's standalone stream.
func (s standalone) writesStandalone() bool {
	return s.sessions.streams.writesHere(StreamKey{s.key, s.view.Load().rec.Standalone})
}

// sending are messages on their way to the node that writes the session's standalone stream.
type sending struct {
	mu    sync.Mutex // guards the rest
	queue [][]byte
	bytes int // in it
	runs  bool
}

// sendAnywhere sends a message on the session's standalone stream: with push, where that is written here.
func (s *sessionActor) sendAnywhere(data []byte, push func([]byte) bool) {
	if !s.shared || (standalone{s}).writesStandalone() {
		push(data)
		return
	}
	s.sends.mu.Lock()
	defer s.sends.mu.Unlock()
	if s.sends.bytes > s.svc.Limits.Queue {
		s.missed.Store(true)
		return
	}
	s.sends.queue, s.sends.bytes = append(s.sends.queue, data), s.sends.bytes+len(data)
	if !s.sends.runs {
		s.sends.runs = true
		go s.sendQueued()
	}
}

// sendQueued sends what waits.
func (s *sessionActor) sendQueued() {
	for {
		s.sends.mu.Lock()
		if len(s.sends.queue) == 0 {
			s.sends.runs, s.sends.queue = false, nil
			s.sends.mu.Unlock()
			return
		}
		data := s.sends.queue[0]
		s.sends.queue, s.sends.bytes = s.sends.queue[1:], s.sends.bytes-len(data)
		s.sends.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.sessions.base, s.svc.Limits.StoreWait)
		err := clientSession{s.peer}.sendMessage(ctx, stream.Entry{Kind: stream.Message, Data: data})
		if cancel(); err != nil {
			s.sessions.log.Debug("message of a session not sent", "session", s.key.ID, "error", err)
		}
	}
}
