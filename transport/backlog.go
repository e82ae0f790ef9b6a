package transport

import "time"

// backlog decides whether an event fits into the queue of a connection. A large event, of more than half of what the queue
// holds, does not count at first, nor does what is before it: a reader that keeps up cannot have read it by the time that
// the next event comes.
type backlog struct {
	large int       // bytes at the front of the queue that do not count
	until time.Time // when they begin to count
}

// mostLarge is how many times the queue's limit large events may have together that do not count. One of them may have
// more.
const mostLarge = 4

// fitsEvent reports whether an event of size bytes fits behind those that are queued. It does as long as less than half of limit
// is queued, so that a large event can be sent at all.
func (b *backlog) fitsEvent(queued, size, limit int) bool {
	if b.large > 0 && time.Now().Before(b.until) {
		queued -= min(b.large, queued)
	}
	return queued+size <= limit || queued < limit/2
}

// noteQueued notes that an event of size bytes is now at the end of the queue. patience is for how long it does not count if it is
// large.
func (b *backlog) noteQueued(queued, size, limit int, patience time.Duration) {
	switch {
	case size <= limit/2:
	case b.large == 0:
		b.large, b.until = queued, time.Now().Add(patience)
	case queued <= mostLarge*limit: // the reader has not got past the first: its time goes on
		b.large = queued
	}
}

// noteWritten notes that n bytes have left the queue, and how many are queued now.
func (b *backlog) noteWritten(n, queued int) { b.large = min(b.large-min(n, b.large), queued) }
