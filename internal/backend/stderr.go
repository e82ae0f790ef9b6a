package backend

import (
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
)

// stderr logs what processes write to their standard error.
type stderr struct {
	log *slog.Logger
	now func() time.Time
	mu  sync.Mutex // guards of
	of  map[string]*complainer
}

// complainer is a process that writes to its standard error.
type complainer struct {
	of      *Backend
	rate    quota.Bucket
	dropped int // lines that were not logged since the last one that was
}

func (s *stderr) watch(id string, of *Backend) {
	c := &complainer{of: of}
	if rate := of.Options.StderrRate; rate > 0 {
		c.rate = quota.NewBucket(quota.Rate{PerSecond: rate, Burst: int(2*rate + 1)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[id] = c
}

func (s *stderr) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, id)
}

// write logs a line, behind a number of lines that the keeper has left out.
func (s *stderr) write(id string, line []byte, dropped int) {
	s.mu.Lock()
	c := s.of[id]
	if c == nil {
		s.mu.Unlock()
		return
	}
	c.dropped += dropped
	if c.of.Options.StderrRate > 0 && c.rate.Take(s.now()) > 0 {
		c.dropped++
		s.mu.Unlock()
		return
	}
	dropped, c.dropped = c.dropped, 0
	s.mu.Unlock()
	attrs := []any{"backend", c.of.Name, "line", c.of.mask(string(line))}
	if dropped > 0 {
		attrs = append(attrs, "unlogged", dropped)
	}
	s.log.Info("a backend has written to its standard error", attrs...)
}
