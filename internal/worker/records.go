package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
)

// records reads and writes the records of tasks.
type records struct {
	store   Store
	tag     func(data []byte) []byte
	changed func(key Key, rev uint64, r *task.Record) // is called after each change of this process
}

// retryWait is the first wait before something is tried again that the store did not do, and
// maxRetryWait the longest.
const (
	retryWait    = 50 * time.Millisecond
	maxRetryWait = 2 * time.Second
)

// backoff is how long to wait before something is tried again: retryWait, and twice as long each
// time up to maxRetryWait. The zero value is ready to use.
type backoff struct{ last time.Duration }

// sleep waits, and reports whether ctx is still wanted.
func (b *backoff) sleep(ctx context.Context) bool {
	b.last = min(max(2*b.last, retryWait), maxRetryWait)
	t := time.NewTimer(b.last)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// readRecord reads a task's record. ErrNotFound is certain.
func (rs *records) readRecord(ctx context.Context, key Key) (r task.Record, rev uint64, err error) {
	return rs.readBy(ctx, key, rs.store.Get)
}

// readForClient is read for a key that a client names, and may have made up.
func (rs *records) readForClient(ctx context.Context, key Key) (r task.Record, rev uint64, err error) {
	if key.hasTag(rs.tag) {
		return rs.readRecord(ctx, key)
	}
	return rs.readBy(ctx, key, rs.store.Peek)
}

func (rs *records) readBy(ctx context.Context, key Key, get func(ctx context.Context, key string) ([]byte, uint64, error)) (r task.Record, rev uint64, err error) {
	data, rev, err := get(ctx, key.recordKey())
	if err != nil {
		return r, 0, err
	}
	if r, err = task.Decode(data); err != nil {
		return r, 0, fmt.Errorf("worker: record of a task: %w", err)
	}
	if r.TimeLeft(rs.store.Now()) == 0 {
		return r, 0, store.ErrNotFound
	}
	return r, rev, nil
}

// putRecord stores a record for as long as the task is kept. It reports store.ErrConflict if the
// record has changed, and finds out what became of a write without an answer. While the store is
// full or away it tries again until ctx ends.
func (rs *records) putRecord(ctx context.Context, key Key, r *task.Record, rev uint64) (uint64, error) {
	data, err := r.Encode()
	if err != nil {
		return 0, fmt.Errorf("worker: record of a task: %w", err)
	}
	if len(data) > maxRecord {
		return 0, fmt.Errorf("%w: %d bytes, at most %d are stored", errTooBig, len(data), maxRecord)
	}
	unknown := false
	for b := (backoff{}); ; {
		left := r.TimeLeft(rs.store.Now())
		if left == 0 {
			return 0, store.ErrNotFound
		}
		next, err := rs.store.Update(ctx, key.recordKey(), data, rev, left)
		if errors.Is(err, store.ErrConflict) && unknown {
			stored, now, gone := rs.store.Get(ctx, key.recordKey())
			switch {
			case gone == nil && bytes.Equal(stored, data):
				next, err = now, nil // it was done after all
			case gone != nil && !errors.Is(gone, store.ErrNotFound):
				err = gone
			}
		}
		switch {
		case err == nil:
			rs.changed(key, next, r)
			return next, nil
		case errors.Is(err, store.ErrUnavailable):
			unknown = true
		case !errors.Is(err, store.ErrRetry) && !errors.Is(err, store.ErrFull):
			return 0, err
		}
		if !b.sleep(ctx) {
			return 0, fmt.Errorf("worker: %w: %w", context.Cause(ctx), err)
		}
	}
}

// errTooBig reports that a record is larger than what is stored of one. Nothing was stored.
var errTooBig = errors.New("worker: the record of a task is too large")

const (
	// maxRecord is the most bytes of a record as it is stored.
	maxRecord = 512 << 10
	// reserved are those that what comes later may take: an outcome, the runs, who has the task,
	// and what it says.
	reserved = inRecord + 32<<10
)

// inRecord is the largest outcome that is stored in the record, in bytes.
const inRecord = 64 << 10

// leavesRoom reports whether a record with its questions and answers leaves room for what comes
// later.
func leavesRoom(r *task.Record) bool {
	data, err := r.Encode()
	return err == nil && len(data) <= maxRecord-reserved
}

// questionsSize is about how many bytes questions and their answers have.
func questionsSize(qs []task.Question) (n int) {
	for _, q := range qs {
		n += len(q.Key) + len(q.Request) + len(q.Answer)
	}
	return n
}
