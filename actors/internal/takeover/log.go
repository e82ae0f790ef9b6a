package takeover

import (
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
)

// Log is what is known of a stream's log: what its record says, and what came after
// that.
type Log struct {
	record.Past
	Tail  uint64 // last append
	Whole uint64 // last append with all its parts
	Last  bool   // it ends the stream
	// Unknown is set when an append is missing that the record does not cover. Then it is
	// unknown which answers the earlier run of the calls got, and which calls have their
	// responses.
	Unknown bool
	Sizes   []int           // of the appends that the log keeps, oldest first
	Names   map[string]bool // if not nil, those of the messages to the session are added

	rec    *record.Stream
	reader stream.Reader
	next   uint64 // the append that is read next
	fault  error
}

// NewLog begins with what the record says. A record of an earlier release says too
// little: then all of the log is read, if it is still there.
func NewLog(rec *record.Stream) *Log {
	log := &Log{Past: rec.Past(), rec: rec}
	if rec.Version < 2 {
		return log
	}
	log.Tail, log.Whole = rec.Tail, rec.Tail
	if rec.Low > 0 && rec.Low <= rec.Tail {
		// The record has only the sum. Once these appends are gone, the rest is exact.
		n := int(rec.Tail - rec.Low + 1)
		log.Sizes = make([]int, n)
		for i := range log.Sizes {
			log.Sizes[i] = rec.Bytes / n
		}
		log.Sizes[n-1] += rec.Bytes % n
	}
	return log
}

// FirstUnread returns the first append that must be read of a log whose last append is tail. If that is after tail, there is nothing
// to read.
func (l *Log) FirstUnread(tail uint64) (from uint64) {
	l.next = l.Tail + 1
	if from = l.next; tail >= from && tail-from >= stream.Ring {
		from = tail - stream.Ring + 1
	}
	return from
}

// AddAppend takes an append that was read. Those that are missing have been overwritten, or have expired.
func (l *Log) AddAppend(num uint64, data []byte) {
	if num != l.next || len(data) == 0 { // older appends are gone
		l.noteGap(num)
	}
	l.next = num + 1
	l.Sizes = append(l.Sizes, len(data))
	a, ok, err := l.reader.Add(num, data)
	if err != nil {
		l.fault = err
	}
	if ok {
		_ = l.NoteAppend(l.rec, a.Num, a.Epoch, a.Entries)
		l.keepNames(a.Entries)
		l.Last = a.Last
	}
	if !l.reader.Open() {
		l.Whole = num
	}
}

// EndReading ends a reading up to append tail. It fails if an append was unreadable.
func (l *Log) EndReading(tail uint64) error {
	if err := l.fault; err != nil {
		l.fault = nil
		return err
	}
	if l.next <= tail {
		l.noteGap(tail)
	}
	l.Tail = tail
	// The record may list as many appends as the log holds, and as many may have come
	// since: the oldest of them have been overwritten.
	l.Sizes = l.Sizes[max(0, len(l.Sizes)-stream.Ring):]
	return nil
}

// Kept returns the first append that the log holds, and the bytes from there.
func (l *Log) Kept() (low uint64, bytes int) {
	for _, n := range l.Sizes {
		bytes += n
	}
	return l.Tail - uint64(len(l.Sizes)) + 1, bytes
}

// noteGap notes that an append before num is missing. What clients saw in it is unknown.
func (l *Log) noteGap(num uint64) {
	l.Unknown, l.Sizes, l.reader = true, nil, stream.Reader{}
	l.Digest.Seen = record.UnknownSeen(num)
}

// keepNames keeps the names of messages to the session, and of its questions.
func (l *Log) keepNames(entries []stream.Entry) {
	for i := range entries {
		if meta := entries[i].Meta; l.Names != nil && len(meta) > 0 {
			l.Names[string(meta)] = true
		}
	}
}
