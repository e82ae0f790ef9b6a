package limits

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A Log tells the operator what clients can cause over and over: which limits are hit, and what
// else happens in the same way. Each has at most one record a minute. It counts what limits
// refuse. Make it with NewLog; nil discards everything; [Log.LogUpTo] has more. Its methods are safe
// for concurrent use.
type Log struct {
	to      *slog.Logger
	refused map[string]*atomic.Int64 // by label; never changed

	mu   sync.Mutex // guards hits
	hits map[any]*hits
}

// hits are those of a limit, or of another subject, since they were last logged.
type hits struct {
	n      int
	logged time.Time // when the first record of a minute was written
	more   int       // records of that minute after the first
}

// logEvery is the least time between two records about the same subject.
const logEvery = time.Minute

// NewLog returns a Log that writes to the logger.
func NewLog(to *slog.Logger) *Log {
	l := &Log{to: to, refused: make(map[string]*atomic.Int64), hits: make(map[any]*hits)}
	for _, r := range table {
		if r.By == Refusals || r.Within {
			l.refused[r.Counted] = new(atomic.Int64)
		}
	}
	delete(l.refused, "")
	return l
}

// Refused counts a refusal by a limit in troupe.refusals, and notes it as Hit does.
func (l *Log) Refused(r *Row) {
	if l == nil {
		return
	}
	if n := l.refused[r.Counted]; n != nil {
		n.Add(1)
	}
	l.Hit(r)
}

// ObserveRefusals calls observe with each label of troupe.refusals and its count.
func (l *Log) ObserveRefusals(observe func(label string, n int64)) {
	for label, n := range l.refused {
		observe(label, n.Load())
	}
}

// Hit notes that a limit was hit. The record names the limit, its setting, how often it was hit
// since the last record, and attrs, which are of this hit. A nil row, and one that is Usual, has
// no record.
func (l *Log) Hit(r *Row, attrs ...slog.Attr) {
	if r == nil || r.Usual {
		return
	}
	n := l.countHit(r, 1, time.Now())
	if n == 0 {
		return
	}
	all := append([]slog.Attr{slog.String("limit", r.Name), slog.Int("times", n)}, attrs...)
	if option, setting := r.setBy(); option != "" {
		all = append(all, slog.String("setting", setting), slog.String("option", "Options."+option))
	}
	l.to.LogAttrs(context.Background(), slog.LevelWarn, "a limit is hit", all...)
}

// LogRarely writes a record with a text, which must be one of few, and how often there was one since
// the last record with this text. attrs are of this time.
func (l *Log) LogRarely(level slog.Level, text string, attrs ...slog.Attr) {
	l.LogUpTo(1, level, text, attrs...)
}

// LogUpTo is LogRarely with up to most records a minute.
func (l *Log) LogUpTo(most int, level slog.Level, text string, attrs ...slog.Attr) {
	if n := l.countHit(text, most, time.Now()); n > 0 {
		l.to.LogAttrs(context.Background(), level, text, append([]slog.Attr{slog.Int("times", n)}, attrs...)...)
	}
}

// countHit adds a hit, and returns how many the next record counts, 0 for no record now.
// There are most records a minute.
func (l *Log) countHit(of any, most int, now time.Time) int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hits[of]
	if h == nil {
		h = &hits{}
		l.hits[of] = h
	}
	h.n++
	switch {
	case h.logged.IsZero() || now.Sub(h.logged) >= logEvery:
		h.logged, h.more = now, 0
	case h.more+1 < most:
		h.more++
	default:
		return 0
	}
	n := h.n
	h.n = 0
	return n
}
