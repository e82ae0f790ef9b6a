package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

// randomStep makes the step to the next epoch: see takeover.NextEpoch.
func randomStep() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return binary.BigEndian.Uint64(b[:])
}

// maxKeptBody is the largest body of calls that a stream keeps in memory, so that the calls
// may run again even if the store has lost the body.
var maxKeptBody = limits.KeptBody.Value()

func (s *streamActor) keepBody(body []byte) {
	if len(body) <= maxKeptBody {
		s.body = body
	}
}

type (
	// adoptBody gives a stream that was taken over the body of its calls.
	adoptBody []byte
	// writerChecked reports whose the writer record is; if err is ErrNotFound, it is gone.
	writerChecked struct {
		rev uint64
		err error
	}
	// recordCreated reports the outcome of storing a record again.
	recordCreated struct {
		rev uint64
		err error
	}
)

// mayRetry reports whether a write was not done for now, or has an unknown outcome: it may be
// tried again.
func mayRetry(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrRetry) || errors.Is(err, store.ErrFull)
}

// errTaken reports that another writer has the stream.
var errTaken = fmt.Errorf("%w: the writer record is another's", store.ErrFenced)

// checkWriter finds out whose the writer record is, after a write was refused for its guard.
func (s *streamActor) checkWriter() {
	epoch := s.m.Epoch()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
		defer cancel()
		rev, err := s.node.streams.ownRevision(ctx, s.key, epoch, len(s.rec.Calls) == 0)
		_ = s.Post(writerChecked{rev, err})
	}()
}

// errMaybeTaken reports that a writer record is gone, and that another writer may have had the stream meanwhile.
var errMaybeTaken = fmt.Errorf("%w: other nodes have taken streams of this one over", store.ErrNotFound)

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

func (s *streamActor) onWriterChecked(m writerChecked) {
	switch {
	case m.err == nil:
		s.noteWritten()
		s.applyEvent(stream.Event{Op: stream.Ours, Rev: m.rev})
		if s.renew { // a record was created whose body may be missing
			s.applyEvent(stream.Event{Op: stream.Refresh})
		}
	case errors.Is(m.err, store.ErrNotFound):
		e := stream.Event{Op: stream.Absent, Epoch: takeover.NextEpoch(s.m.Epoch(), randomStep())}
		if errors.Is(m.err, errMaybeTaken) {
			s.endCalls(&e)
		}
		s.node.log.Info("the store forgot a stream that is written here: it is stored again", "stream", s.key.ID, "ends", e.Last)
		s.applyEvent(e)
	case errors.Is(m.err, store.ErrUnavailable), errors.Is(m.err, store.ErrRetry):
		s.applyEvent(stream.Event{Op: stream.Again})
	default:
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: m.err})
	}
}

// endCalls has a stream that is stored again end the calls that have no response yet: their clients may have been told that the outcome is
// unknown, and whoever was not learns it now.
func (s *streamActor) endCalls(e *stream.Event) {
	if s.silent { // its client has cancelled, and nothing more is sent
		return
	}
	answered := s.past.Digest.Answered(s.rec.Calls)
	for i := range s.muted {
		answered[string(s.rec.Calls[i].ID)] = true
	}
	if e.Entries = lostCalls(s.rec.Calls, answered); len(e.Entries) == 0 {
		return
	}
	e.Last, e.Err = true, errTaken
	s.live.Safe, s.body = false, nil // none of them runs again
	for _, r := range s.reqs {
		_ = r.Post(streamGone{errTaken})
	}
}

// createRecord stores the writer record again, which covers all up to append tail. Without their
// body the calls may not run again.
func (s *streamActor) createRecord(tail uint64) {
	body := s.body
	if body == nil && s.live.Safe {
		s.live.Safe = false
		s.node.refusals.Refused(limits.Recall.Row)
	}
	s.renew = true // until record and body are certainly stored
	s.noteWriting()
	data, err := s.nextRecord(tail)
	go func() {
		rev, err := s.openRecord(data, body, err)
		_ = s.Post(recordCreated{rev, err})
	}()
}

func (s *streamActor) onRecordCreated(m recordCreated) {
	switch {
	case m.err == nil:
		s.noteWritten()
		s.noteRenewed()
		s.applyEvent(stream.Event{Op: stream.Created, Rev: m.rev})
	case errors.Is(m.err, store.ErrConflict): // an attempt with an unknown outcome stored it, or another writer did
		s.applyEvent(stream.Event{Op: stream.Guarded})
	case mayRetry(m.err):
		s.applyEvent(stream.Event{Op: stream.Again})
	default:
		s.node.log.Error("writer record refused", "stream", s.key.ID, "error", m.err)
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: m.err})
	}
}

// rewriteRecord renews the writer record, which outlives the events that it guards and covers all
// up to append tail.
func (s *streamActor) rewriteRecord(tail uint64) {
	// The body beside it is renewed when that is due, and not with each rewrite for the
	// log.
	rev, renews, ttl := s.m.Rev(), s.renew, s.svc.recordTTL()
	body, keeps := s.body, renews && s.live.Safe
	s.noteWriting()
	data, err := s.nextRecord(tail)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
		defer cancel()
		var next uint64
		if err == nil {
			next, err = s.node.store.Rewrite(ctx, s.path, data, rev, ttl)
		}
		if err == nil && keeps {
			renews = s.node.streams.renewBody(ctx, s.key, body, next, ttl)
		}
		_ = s.Post(recordRefreshed{next, err, renews})
	}()
}

// bodyRetryPart is the part of a record's lifetime between attempts to renew the body beside
// it: each attempt delays the stream's appends.
const bodyRetryPart = 16

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

func (s *streamActor) onRecordRefreshed(m recordRefreshed) {
	switch {
	case m.err == nil:
		s.noteWritten()
		if m.renewed {
			s.noteRenewed()
		} else if s.renew {
			s.due.Store(s.node.clock.dueIn(s.svc.recordTTL() / bodyRetryPart))
		}
		s.applyEvent(stream.Event{Op: stream.Refreshed, Rev: m.rev})
	case errors.Is(m.err, store.ErrConflict), errors.Is(m.err, store.ErrNotFound):
		s.applyEvent(stream.Event{Op: stream.Guarded})
	case mayRetry(m.err):
		s.applyEvent(stream.Event{Op: stream.Again})
	default:
		s.node.log.Error("writer record refused", "stream", s.key.ID, "error", m.err)
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: m.err})
	}
}

// noteRenewed notes that record and body have their full lifetime again.
func (s *streamActor) noteRenewed() {
	s.renew = false
	s.due.Store(s.node.clock.dueIn(s.svc.recordTTL() / 4))
}

// nextRecord makes the next record to store.
func (s *streamActor) nextRecord(tail uint64) ([]byte, error) {
	s.live.Epoch = s.m.Epoch()
	s.live.Low, s.live.Bytes = s.m.Kept()
	s.countRecalls(s.live.Tell(tail, &s.past))
	return s.live.Encode()
}

// outlivesRecord reports whether the stored writer record would outlive an append that is stored
// now.
func (s *streamActor) outlivesRecord() bool { return s.life.Outlives(s.node.clock.aheadBy()) }

// noteWriting notes that the record is about to be stored.
func (s *streamActor) noteWriting() { s.life.Writing(s.node.clock.aheadBy()) }

// noteWritten notes that the record is stored.
func (s *streamActor) noteWritten() { s.life.Wrote(s.node.clock.aheadBy()) }

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

// takenOver begins a stream that another writer has left.
type takenOver struct {
	rev uint64
	log *takeover.Log
}

// onRecordStored begins the stream: headers and priming may go out.
func (s *streamActor) onRecordStored(m recordStored) {
	if m.err != nil {
		switch {
		case s.att == nil:
			s.node.refusals.refusalFor(m.err) // counts the refusal
		case errors.Is(m.err, store.ErrNotFound): // the session's record
			unknownSession(s.conn, s.callID())
		default:
			s.refuseStart(m.err)
		}
		s.att = nil
		s.unstored.Store(true)
		s.markReady()
		s.applyEvent(stream.Event{Op: stream.OpenFailed, Err: m.err})
		return
	}
	s.life.Stored(s.node.clock.aheadBy())
	s.due.Store(s.node.clock.dueIn(s.svc.recordTTL() / 4))
	if s.att != nil {
		if att := s.att.(*attached); att.Open(true) { // a new stream's connection is here
			s.att = nil
			s.attachReader(att)
			if s.closeEarly != nil {
				s.closeEarly.closeReader(att)
				s.att = nil
			}
		} else {
			s.att = nil
		}
	}
	s.connected.Store(s.att != nil)
	s.markReady()
	s.applyEvent(stream.Event{Op: stream.Opened, Rev: m.rev, Epoch: s.rec.Epoch})
}

// storeRecord stores the record of a new stream that newRecord has made and, beside it, the body of calls
// that may run again. A refusal, err, comes as a message, too: the caller has not finished with the stream.
func (s *streamActor) storeRecord(data, body []byte, stored storeCharge, err error) {
	go func() {
		rev, failed := s.openRecord(data, body, err)
		if err == nil {
			s.node.accounts.settleCharge(stored, failed)
		}
		_ = s.Post(recordStored{rev, failed})
	}()
}

// openRecord stores a record where there is none, and beside it the body, unless err says why the
// record could not be made. It blocks: goroutines beside the actor's turn call it.
func (s *streamActor) openRecord(data, body []byte, err error) (rev uint64, _ error) {
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
	defer cancel()
	return s.node.store.OpenStream(ctx, s.path, data, body, s.svc.recordTTL())
}

// newRecord returns the record of a new stream as it is stored, and what is charged for it and its body, if there is
// room for both. Otherwise the error is a refusal.
func (s *streamActor) newRecord(body []byte) (data []byte, c storeCharge, err error) {
	if data, err = s.live.Encode(); err != nil {
		return nil, c, err
	}
	c = storeCharge{of: s.sess.billedAccount(), usage: int(store.EventBudget), in: store.EventBudget, bytes: int64(len(data) + len(body)), life: s.svc.recordTTL()}
	if no := s.node.accounts.chargeStore(c); no != nil {
		return nil, c, refusal.Of(no)
	}
	return data, c, nil
}

// recordTTL is the lifetime of a writer record. It is rewritten every quarter of that, so
// that never less than ReplayAge remains.
func (svc *Service) recordTTL() time.Duration { return RecordTTL(svc.Limits.ReplayAge) }

// callLifetime is for how long a process may have something to say of a call: it runs, and then its record lives.
func (svc *Service) callLifetime() time.Duration { return svc.Limits.MaxCall + svc.recordTTL() }

// RecordTTL is the lifetime of the record of a stream whose events can be replayed for
// replayAge. Stores must keep events longer than that.
func RecordTTL(replayAge time.Duration) time.Duration { return replayAge * 4 / 3 }
