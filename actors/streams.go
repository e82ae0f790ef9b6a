package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/store"
)

// streams finds the streams that this node writes, by key, and reads the records of others.
type streams struct {
	*kernel.Directory[StreamKey, *streamActor]
	node *Node
}

// buildStream makes the actor of a stream; startActor starts it. conn is its live connection, nil for none.
func (d *streams) buildStream(svc *Service, sess *sessionActor, id string, rec record.Stream, conn Conn) *streamActor {
	n := d.node
	s := &streamActor{node: n, svc: svc, sess: sess, key: StreamKey{sess.key, id}, rec: rec, live: rec, m: stream.New(svc.Limits.Stream), life: takeover.Began(n.clock.aheadBy()), ready: make(chan struct{})}
	s.path = s.key.streamPath()
	if conn != nil {
		s.att = sess.newAttachment(svc, s.key, &rec, conn, stream.Position{Stream: id}, 1, 0, true, nil)
		s.conn = conn
	}
	return s
}

// ownRevision returns the revision of a stream's writer record if it is that of this boot and
// epoch. ErrNotFound reports that it is gone: it may be stored again. It is errMaybeTaken if what answered the stream's calls may have been
// another node. ErrFenced reports another writer's record, ErrSessionEnded that the session does not want the stream any more.
func (d *streams) ownRevision(ctx context.Context, key StreamKey, epoch uint64, standalone bool) (rev uint64, err error) {
	n := d.node
	rec, rev, err := d.readWriter(ctx, key)
	stored := &rec
	if errors.Is(err, errBadEvent) {
		stored = nil
	} else if err != nil {
		return 0, err
	}
	switch takeover.Whose(stored, n.boot, epoch, !n.store.Suspended()) {
	case takeover.Own:
		return rev, nil
	case takeover.Taken:
		return 0, errTaken
	case takeover.Doubt: // the node waits until it has the lease again
		return 0, fmt.Errorf("actors: store a record again: lease not certain: %w", store.ErrUnavailable)
	}
	// A stream that was ended has no record either: then its session is gone, or has
	// another standalone stream.
	sess, _, err := n.sessions.readRecord(ctx, key.Session)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && standalone && sess.Standalone != key.ID:
		return 0, ErrSessionEnded
	case err != nil:
		return 0, err
	case n.fleet.mail == nil:
		return 0, store.ErrNotFound
	}
	switch taken, err := n.store.Taken(ctx); {
	case err != nil:
		return 0, err
	case taken:
		return 0, errMaybeTaken
	}
	return 0, store.ErrNotFound
}

// stillWrites reports whether the stream of w, which seems to be written here, is. A node that stood still or was cut off
// learns only with its next write that another one has taken a stream over: then that write is now.
func (d *streams) stillWrites(ctx context.Context, w *streamActor) (bool, error) {
	if d.node.fleet.mail == nil {
		return true, nil
	}
	for refused := uint64(0); ; {
		rec, rev, err := d.readWriter(ctx, w.key)
		switch {
		case errors.Is(err, errBadEvent): // the store forgot it, or it has ended
			return true, nil
		case err != nil:
			return false, err
		case rec.Boot != d.node.boot || rev == refused: // or a leader that was replaced still says that it is this node's
			_ = w.Post(refresh{})
			return false, nil
		}
		if err = d.node.store.Holds(ctx, w.path, rev); !errors.Is(err, store.ErrFenced) {
			return err == nil, err
		}
		refused = rev // or the stream itself has just written its record again
	}
}

// confirmBadEvent returns err, by which the log of a stream refuses an event id, if its record certainly has revision rev: then the log was not that of a
// leader that was replaced. Otherwise it returns ErrUnavailable.
func (d *streams) confirmBadEvent(ctx context.Context, key StreamKey, rev uint64, err error) error {
	if d.node.fleet.mail == nil || !errors.Is(err, errBadEvent) {
		return err
	}
	if failed := d.node.store.Holds(ctx, key.streamPath(), rev); failed != nil {
		return fmt.Errorf("actors: resume: what was read is old: %w: %w", store.ErrUnavailable, failed)
	}
	return err
}

// renewBody gives the body of a stream's calls the lifetime of its record. It reports
// whether nothing is left to do: a body that is gone does not come back.
func (d *streams) renewBody(ctx context.Context, key StreamKey, body []byte, rev uint64, ttl time.Duration) bool {
	n := d.node
	err := n.store.KeepBody(ctx, key.streamPath(), body, rev, ttl)
	if err != nil {
		n.log.Warn("body of calls not renewed", "stream", key.ID, "error", err)
	}
	return !mayRetry(err)
}

// readWriter reads the writer record of a stream, with its revision. It fails with errBadEvent if
// there is none.
func (d *streams) readWriter(ctx context.Context, key StreamKey) (rec record.Stream, rev uint64, err error) {
	data, rev, err := d.node.store.Writer(ctx, key.streamPath())
	if errors.Is(err, store.ErrNotFound) {
		return rec, 0, errBadEvent
	}
	if err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec, err = record.Decode(data); err != nil {
		return rec, 0, fmt.Errorf("actors: read writer record: %w", err)
	}
	if rec.Version > record.Version {
		return rec, 0, fmt.Errorf("actors: writer record of version %d, of a newer release; this one reads %d", rec.Version, record.Version)
	}
	return rec, rev, nil
}

// endIfSessionEnded ends the stream w, which has just been entered in the directory, if its session
// ended before: a takeover takes a while. s is the session's actor as the caller knows it.
// ErrSessionEnded reports that the stream is gone.
func (d *streams) endIfSessionEnded(ctx context.Context, s *sessionActor, w *streamActor) error {
	var err error
	if s.Stopped() && !s.ended.Load() { // it has left memory: the actor in its place knows of the end
		s, err = d.node.sessions.loadSession(ctx, s.svc, s.key, nil)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && s.ended.Load() {
		w.endStream()
		return ErrSessionEnded
	}
	return err
}

// endSessionStreams ends the streams that this node writes for a session that is gone.
func (d *streams) endSessionStreams(key SessionKey) {
	d.Each(func(st *streamActor) {
		if st.key.Session == key {
			st.endStream()
		}
	})
}

// forgetRecord removes a stream's record from the store; its events expire.
func (d *streams) forgetRecord(path string) {
	n := d.node
	ctx, cancel := context.WithTimeout(n.base, 30*time.Second)
	defer cancel()
	if err := n.store.EndStream(ctx, path); err != nil && !errors.Is(err, store.ErrNotFound) {
		n.log.Debug("events left to expire", "stream", path, "error", err)
	}
}

// takeOver makes this node the writer of a stream whose writer is gone: it sets the writer
// record to the next epoch by compare-and-set, then reads the tail. From then on the store
// accepts no append of the old writer. A stream that has ended is not taken over: the
// returned record says where it ended.
func (d *streams) takeOver(ctx context.Context, svc *Service, s *sessionActor, key StreamKey, given takeover.Writer) (*streamActor, record.Stream, error) {
	n := d.node
	m := takeover.New(n.selfWriter(), given, n.fleet.mail == nil, randomStep())
	var life takeover.Lifetime
	kept, began := true, time.Now()
	for {
		switch m.Next() {
		case takeover.ReadRecord:
			rec, rev, err := d.readWriter(ctx, key)
			if err == nil && len(rec.Calls) == 0 {
				err = s.mustName(ctx, key.ID)
			}
			m.Record(rec, rev, false, err)
		case takeover.AskGone:
			m.Gone(n.fleet.writerGone(ctx, m.Writer))
		case takeover.ReadLog:
			m.Read(d.readLogOn(ctx, s, key, m.Log))
		case takeover.CheckLease:
			m.Certain(!n.store.Suspended())
		case takeover.MarkTaken:
			m.Marked(n.fleet.marks.markGone(ctx, n.store, m.Writer.Boot, svc.callLifetime()))
		case takeover.ReadBody:
			body, err := n.store.Body(ctx, key.streamPath())
			passes := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrRetry)
			if err != nil && !passes {
				n.log.Warn("calls cannot run again", "stream", key.ID, "error", err)
			}
			m.BodyRead(body, passes, err)
		case takeover.Replace:
			life = takeover.Began(n.clock.aheadBy())
			rev, err := d.replaceRecord(ctx, key.streamPath(), &m.Rec, m.Rev, svc.recordTTL())
			m.Replaced(rev, errors.Is(err, store.ErrConflict), err)
			life.Stored(n.clock.aheadBy())
		case takeover.Reread:
			rec, rev, err := d.readWriter(ctx, key)
			m.Record(rec, rev, errors.Is(err, errBadEvent), err)
			life.Stored(n.clock.aheadBy())
		case takeover.KeepBody:
			kept = d.renewBody(ctx, key, m.Body, m.Rev, svc.recordTTL())
			m.Kept()
		case takeover.Elsewhere:
			return nil, m.Rec, errRemoteWriter{&remoteWriter{&n.fleet, key, m.Writer}, m.Rec}
		case takeover.Ended:
			m.Rec.End = m.Log.Tail
			return nil, m.Rec, nil
		case takeover.Failed:
			return nil, m.Rec, takeoverFailed(m.Err)
		case takeover.Done:
			n.takings.Add(int64(time.Since(began)))
			return d.startTakenOver(svc, s, key, m, life, kept), m.Rec, nil
		}
	}
}

// takeoverFailed is why a stream was not taken over. What is a reason only for now is ErrUnavailable, too.
func takeoverFailed(err error) error {
	switch {
	case errors.Is(err, takeover.ErrUncertain):
		return fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, err)
	case errors.Is(err, takeover.ErrTaken):
		return fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, store.ErrFenced)
	}
	return err
}

// startTakenOver starts the actor of a stream that was taken over. kept says that nothing is left to do about the body of its calls.
func (d *streams) startTakenOver(svc *Service, s *sessionActor, key StreamKey, m *takeover.Machine, life takeover.Lifetime, kept bool) *streamActor {
	n, log := d.node, m.Log
	n.takeover.Add(1)
	w := &streamActor{node: n, svc: svc, sess: s, key: key, path: key.streamPath(), rec: m.Rec, live: m.Rec, m: stream.New(svc.Limits.Stream), life: life, ready: make(chan struct{})}
	w.delivered, w.past, w.pushed = log.Tail, log.Past.Clone(), log.Pushed
	w.steps.Store(int64(len(log.Steps)))
	w.stepBytes.Store(int64(log.Steps.Size()))
	w.left.Store(time.Now().UnixNano())
	n.cache.Drop(w.path) // of an earlier time as its writer
	n.k.Start(&w.Actor, KindStream, w.path, w)
	part := time.Duration(4)
	if !kept {
		part = bodyRetryPart
	}
	w.due.Store(n.clock.dueIn(svc.recordTTL() / part))
	w.markReady()
	_ = w.Post(takenOver{rev: m.Rev, log: log})
	if len(w.rec.Calls) > 0 {
		s.finishCalls(w, log, m.Body)
	}
	return w
}

// writesHere reports whether the writer of a stream is here.
func (d *streams) writesHere(key StreamKey) bool {
	w, here := d.Get(key)
	return here && !w.Stopped()
}

// awaitLogTurn waits until a resume may judge a stream without a writer, and take it over; leave ends that. Few do so at a time, by
// turns of their principals: for each part of a log the store loads blocks of many times its size, which it still has for the
// next part if no thousand others come in between.
func (d *streams) awaitLogTurn(ctx context.Context, s *sessionActor, f *readCharge) (leave func(), err error) {
	turns := d.node.accounts.lostLogs
	wait, cancel := context.WithTimeout(ctx, lostLogWait)
	defer cancel()
	if !turns.Take(wait, s.billedAccount()) {
		return nil, fmt.Errorf("actors: too many logs are read: %w", store.ErrUnavailable)
	}
	f.noWait = true
	return func() { f.noWait = false; turns.Leave() }, nil
}

// readLogOn reads the appends of a stream since the last read.
func (d *streams) readLogOn(ctx context.Context, s *sessionActor, key StreamKey, log *takeover.Log) error {
	n := d.node
	tail, err := n.store.Tail(ctx, key.streamPath(), log.Tail)
	if err != nil {
		return fmt.Errorf("actors: find tail: %w", err)
	}
	from := log.From(tail)
	if tail < from {
		return nil
	}
	f := &readCharge{n: n, from: s, noWait: true}
	defer f.held.Free()
	for to := tail; from <= tail && err == nil; from, to = to+1, tail {
		if to, err = f.affordAppends(ctx, from, to, 0); err == nil {
			err = n.store.Read(ctx, key.streamPath(), from, to, log.Add)
		}
	}
	if err == nil {
		err = log.Read(tail)
	}
	if err != nil {
		return fmt.Errorf("actors: read log: %w", err)
	}
	return nil
}

// replaceRecord replaces the writer record of a stream that is taken over.
func (d *streams) replaceRecord(ctx context.Context, path string, rec *record.Stream, rev uint64, ttl time.Duration) (uint64, error) {
	data, err := rec.Encode()
	if err != nil {
		return 0, fmt.Errorf("actors: writer record: %w", err)
	}
	next, err := d.node.store.Rewrite(ctx, path, data, rev, ttl)
	if err != nil {
		err = fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, err)
	}
	return next, err
}

// findWriter returns the writer of a stream, and takes the stream over if its writer is gone, or is the one that has given it up. A
// stream that has ended has no writer: w is nil then. errRemoteWriter reports that another node writes the stream.
func (d *streams) findWriter(ctx context.Context, svc *Service, s *sessionActor, key StreamKey, given takeover.Writer) (w *streamActor, rec record.Stream, err error) {
	if w, ok := d.Get(key); ok {
		if <-w.ready; !w.Stopped() {
			return w, w.rec, nil
		}
		d.Drop(key, w)
	}
	w, err = d.Obtain(key, func() (*streamActor, error) {
		w, r, err := d.takeOver(ctx, svc, s, key, given)
		rec = r
		if err == nil && w == nil {
			err = errEnded
		}
		return w, err
	})
	if errors.Is(err, errEnded) {
		if rec.Version == 0 { // another resume found that the stream has ended
			if rec, _, err = d.readWriter(ctx, key); err != nil {
				return nil, rec, err
			}
		}
		return nil, rec, nil
	}
	if e, ok := errors.AsType[errRemoteWriter](err); ok { // another resume may have found it
		return nil, e.rec, err
	}
	if err != nil {
		return nil, rec, err
	}
	if w.svc.life.over.Load() {
		w.unmountStream()
	}
	if svc.life.over.Load() {
		return nil, rec, ErrUnmounted
	}
	if err := d.endIfSessionEnded(ctx, s, w); err != nil {
		return nil, rec, err
	}
	if w.Stopped() { // the stream ended before the directory had it
		d.Drop(key, w)
		return nil, w.rec, nil
	}
	return w, w.rec, nil
}

// errEnded stands for a stream whose last append is in the log.
var errEnded = errors.New("actors: the stream has ended")

// findRemoteWriter returns the node that writes a stream, nil if it may be taken over: its writer is this boot, or is gone, or has given it up.
func (d *streams) findRemoteWriter(ctx context.Context, key StreamKey, rec *record.Stream, given takeover.Writer) (*remoteWriter, error) {
	f, by := &d.node.fleet, takeover.WriterOf(rec)
	if f.mail == nil || !by.MustBeGone(d.node.boot, given) {
		return nil, nil
	}
	if gone, err := f.writerGone(ctx, by); err != nil || gone {
		return nil, err
	}
	return &remoteWriter{f, key, by}, nil
}

// lostLogWait is how long a resume waits for its turn to read a log, before it lets others ahead and comes back.
const lostLogWait = 15 * time.Second
