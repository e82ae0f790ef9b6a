package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// randomStep makes the step to the next epoch: see takeover.NextEpoch.
func randomStep() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return binary.BigEndian.Uint64(b[:])
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

// errMaybeTaken reports that a writer record is gone, and that another writer may have had the
// stream meanwhile.
var errMaybeTaken = fmt.Errorf("%w: other nodes have taken streams of this one over", store.ErrNotFound)

// bodyRetryPart is the part of a record's lifetime between attempts to renew the body beside
// it: each attempt delays the stream's appends.
const bodyRetryPart = 16

// takenOver begins a stream that another writer has left.
type takenOver struct {
	rev uint64
	log *takeover.Log
}

// maxKeptBody is the largest body of calls that a stream keeps in memory, so that the calls
// may run again even if the store has lost the body.
var maxKeptBody = limits.KeptBody.Value()

// recordState is the writer record of a stream.
type recordState struct {
	path string        // of the record and the log; never changes
	rec  record.Stream // as the stream began here; never changed
	live record.Stream // the next record to store
	past record.Past   // what later readers can no longer find in the log

	// due is when the record must be rewritten, by clock.sinceStart; 0 before it is stored. life is
	// for how long it is certainly there: no append is written that could outlive it.
	due  atomic.Int64
	life takeover.Lifetime

	// body is that of calls that may run again, if it is small: the store may lose it with the
	// record, see createRecord.
	body []byte

	// renew says that the next rewrite renews the lifetime of record and body. It is set until both
	// are certainly stored.
	renew bool
}

// writerRecord is a stream as far as its writer record goes: who may write, and what outlives the
// log.
type writerRecord struct{ *streamActor }

// checkWriter finds out whose the writer record is, after a write was refused for its guard.
func (s writerRecord) checkWriter() {
	epoch := s.m.Epoch()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
		defer cancel()
		rev, err := s.streams.ownRevision(ctx, s.key, epoch, len(s.rec.Calls) == 0)
		_ = s.Post(writerChecked{rev, err})
	}()
}

func (s writerRecord) onWriterChecked(m writerChecked) {
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
		s.streams.log.Info("the store forgot a stream that is written here: it is stored again", "stream", s.key.ID, "ends", e.Last)
		s.applyEvent(e)
	case errors.Is(m.err, store.ErrUnavailable), errors.Is(m.err, store.ErrRetry):
		s.applyEvent(stream.Event{Op: stream.Again})
	default:
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: m.err})
	}
}

// endCalls has a stream that is stored again end the calls that have no response yet: their clients
// may have been told that the outcome is unknown, and whoever was not learns it now.
func (s writerRecord) endCalls(e *stream.Event) {
	if s.silent { // its client has cancelled, and nothing more is sent
		return
	}
	answered := s.past.Digest.AnsweredIDs(s.rec.Calls)
	for i := range s.muted {
		answered[string(s.rec.Calls[i].ID)] = true
	}
	if e.Entries = lostCalls(s.rec.Calls, answered); len(e.Entries) == 0 {
		return
	}
	e.Last, e.Err = true, errTaken
	s.live.Safe, s.body = false, nil // none of them runs again
	for _, r := range s.calls {
		_ = r.Post(streamGone{errTaken})
	}
}

// createRecord stores the writer record again, which covers all up to append tail. Without their
// body the calls may not run again.
func (s writerRecord) createRecord(tail uint64) {
	body := s.body
	if body == nil && s.live.Safe {
		s.live.Safe = false
		s.streams.refusals.Refused(limits.Recall.Row)
	}
	s.renew = true // until record and body are certainly stored
	s.noteWriting()
	data, err := s.nextRecord(tail)
	go func() {
		rev, err := s.openRecord(data, body, err)
		_ = s.Post(recordCreated{rev, err})
	}()
}

func (s writerRecord) onRecordCreated(m recordCreated) {
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
		s.streams.log.Error("writer record refused", "stream", s.key.ID, "error", m.err)
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: m.err})
	}
}

// rewriteRecord renews the writer record, which outlives the events that it guards and covers all
// up to append tail.
func (s writerRecord) rewriteRecord(tail uint64) {
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
			next, err = s.streams.store.Rewrite(ctx, s.path, data, rev, ttl)
		}
		if err == nil && keeps {
			renews = s.streams.renewBody(ctx, s.key, body, next, ttl)
		}
		_ = s.Post(recordRefreshed{next, err, renews})
	}()
}

func (s writerRecord) onRecordRefreshed(m recordRefreshed) {
	switch {
	case m.err == nil:
		s.noteWritten()
		if m.renewed {
			s.noteRenewed()
		} else if s.renew {
			s.due.Store(s.streams.clock.dueIn(s.svc.recordTTL() / bodyRetryPart))
		}
		s.applyEvent(stream.Event{Op: stream.Refreshed, Rev: m.rev})
	case errors.Is(m.err, store.ErrConflict), errors.Is(m.err, store.ErrNotFound):
		s.applyEvent(stream.Event{Op: stream.Guarded})
	case mayRetry(m.err):
		s.applyEvent(stream.Event{Op: stream.Again})
	default:
		s.streams.log.Error("writer record refused", "stream", s.key.ID, "error", m.err)
		s.applyEvent(stream.Event{Op: stream.Fenced, Err: m.err})
	}
}

// onRecordStored begins the stream: headers and priming may go out.
func (s writerRecord) onRecordStored(m recordStored) {
	if m.err != nil {
		switch {
		case s.att == nil:
			s.streams.refusals.refusalFor(m.err) // counts the refusal
		case errors.Is(m.err, store.ErrNotFound): // the session's record
			unknownSession(s.conn, s.callID())
		default:
			streamEnd(s).refuseStart(m.err)
		}
		s.att = nil
		s.unstored.Store(true)
		s.markReady()
		s.applyEvent(stream.Event{Op: stream.OpenFailed, Err: m.err})
		return
	}
	s.life.Stored(s.streams.clock.aheadBy())
	s.due.Store(s.streams.clock.dueIn(s.svc.recordTTL() / 4))
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

// storeRecord stores the record of a new stream that newRecord has made and, beside it, the body of
// calls that may run again. A refusal, err, comes as a message, too: the caller has not finished
// with the stream.
func (s writerRecord) storeRecord(data, body []byte, stored storeCharge, err error) {
	go func() {
		rev, failed := s.openRecord(data, body, err)
		if err == nil {
			s.streams.accounts.settleCharge(stored, failed)
		}
		_ = s.Post(recordStored{rev, failed})
	}()
}

// openRecord stores a record where there is none, and beside it the body, unless err says why the
// record could not be made. It blocks: goroutines beside the actor's turn call it.
//
// A node that was cut off for longer than its lease may reach the store before it has a lease
// again, and others take what it has begun by then. So nobody hears of the record before the lease
// is certain.
func (s writerRecord) openRecord(data, body []byte, err error) (rev uint64, _ error) {
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
	defer cancel()
	if rev, err = s.streams.store.OpenStream(ctx, s.path, data, body, s.svc.recordTTL()); err != nil {
		return 0, err
	}
	if !s.streams.awaitLease(s.svc.Limits.StoreWait) {
		return 0, fmt.Errorf("actors: begin stream: lease not certain: %w", store.ErrUnavailable)
	}
	return rev, nil
}

// newRecord returns the record of a new stream as it is stored, and what is charged for it and its
// body, if there is room for both. Otherwise the error is a refusal.
func (s writerRecord) newRecord(body []byte) (data []byte, c storeCharge, err error) {
	if data, err = s.live.Encode(); err != nil {
		return nil, c, err
	}
	c = storeCharge{of: s.sess.billedAccount(), usage: int(store.EventBudget), in: store.EventBudget, bytes: int64(len(data) + len(body)), life: s.svc.recordTTL()}
	if no := s.streams.accounts.chargeStore(c); no != nil {
		return nil, c, refusal.Of(no)
	}
	return data, c, nil
}

// nextRecord makes the next record to store.
func (s writerRecord) nextRecord(tail uint64) ([]byte, error) {
	s.live.Epoch = s.m.Epoch()
	s.live.Low, s.live.Bytes = s.m.Kept()
	s.countRecalls(s.live.TakePast(tail, &s.past))
	return s.live.Encode()
}

// outlivesRecord reports whether the stored writer record would outlive an append that is stored
// now.
func (s writerRecord) outlivesRecord() bool { return s.life.Outlives(s.streams.clock.aheadBy()) }

// noteWriting notes that the record is about to be stored.
func (s writerRecord) noteWriting() { s.life.Writing(s.streams.clock.aheadBy()) }

// noteWritten notes that the record is stored.
func (s writerRecord) noteWritten() { s.life.Wrote(s.streams.clock.aheadBy()) }

// noteRenewed notes that record and body have their full lifetime again.
func (s writerRecord) noteRenewed() {
	s.renew = false
	s.due.Store(s.streams.clock.dueIn(s.svc.recordTTL() / 4))
}

func (s writerRecord) keepBody(body []byte) {
	if len(body) <= maxKeptBody {
		s.body = body
	}
}
