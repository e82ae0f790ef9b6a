package limits

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A Log tells the operator which limits are hit, each at most once a minute. Make it with
// NewLog.
type Log struct {
	to *slog.Logger

	mu   sync.Mutex // guards hits
	hits map[*Row]*hits
}

// hits are those of a limit since they were last logged.
type hits struct {
	n      int
	logged time.Time
}

// logEvery is the least time between two records about the same limit.
const logEvery = time.Minute

// NewLog returns a Log that writes to the logger.
func NewLog(to *slog.Logger) *Log { return &Log{to: to, hits: make(map[*Row]*hits)} }

// Hit notes that a limit was hit. The record names the limit, its flag, how often it was hit
// since the last record, and attrs, which are of this hit.
func (l *Log) Hit(r *Row, attrs ...slog.Attr) {
	n := l.count(r, time.Now())
	if n == 0 {
		return
	}
	all := append([]slog.Attr{slog.String("limit", r.Name), slog.Int("times", n)}, attrs...)
	if r.Option != "" {
		all = append(all, slog.String("flag", "--"+r.Flag()), slog.String("option", "Options."+r.Option))
	}
	l.to.LogAttrs(context.Background(), slog.LevelWarn, "a limit is hit", all...)
}

// count adds a hit, and returns how many the next record counts, 0 for no record now.
func (l *Log) count(r *Row, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.hits[r]
	if h == nil {
		h = &hits{}
		l.hits[r] = h
	}
	h.n++
	if !h.logged.IsZero() && now.Sub(h.logged) < logEvery {
		return 0
	}
	n := h.n
	h.n, h.logged = 0, now
	return n
}
