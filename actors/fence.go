package actors

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/internal/limits"
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

// takenOver begins a stream that another writer has left.
type takenOver struct {
	rev uint64
	log *takeover.Log
}

// RecordTTL is the lifetime of the record of a stream whose events can be replayed for
// replayAge. Stores must keep events longer than that.
func RecordTTL(replayAge time.Duration) time.Duration { return replayAge * 4 / 3 }
