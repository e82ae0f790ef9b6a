package backend

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/backend/journal"
	"github.com/troupe-run/troupe/internal/quota"
)

// stderr logs what processes write to their standard error, as much of it as a rate allows, and keeps all of it in journals.
type stderr struct {
	log      *slog.Logger
	journals *journal.Journals
	now      func() time.Time
	mu       sync.Mutex // guards of
	of       map[string]*complainer
}

// complainer is a process that writes to its standard error.
type complainer struct {
	of      *Backend
	process *journal.Process
	rate    quota.Bucket
	dropped int // lines that were not logged since the last one that was
}

// watch begins to log a process, whose number is to be told to what it returns.
func (s *stderr) watch(id string, of *Backend) *journal.Process {
	c := &complainer{of: of, process: new(journal.Process)}
	if rate := of.Options.StderrRate; rate > 0 {
		c.rate = quota.NewBucket(quota.Rate{PerSecond: rate, Burst: int(2*rate + 1)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[id] = c
	return c.process
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
	now := s.now()
	logged := c.of.Options.StderrRate <= 0 || c.rate.Take(now) <= 0
	unlogged := c.dropped + dropped
	if c.dropped = 0; !logged {
		c.dropped = unlogged + 1
	}
	s.mu.Unlock()
	text := c.of.mask(string(line))
	if dropped > 0 {
		s.journals.Add(c.of.Name, journal.Line{At: now, Of: c.process, Text: fmt.Sprintf("%d lines of standard error came too fast, and are lost", dropped)})
	}
	s.journals.Add(c.of.Name, journal.Line{At: now, Of: c.process, Stderr: true, Text: text})
	if !logged {
		return
	}
	attrs := []any{"backend", c.of.Name, "line", text}
	if unlogged > 0 {
		attrs = append(attrs, "unlogged", unlogged)
	}
	s.log.Info("a backend has written to its standard error", attrs...)
}
