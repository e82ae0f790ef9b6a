package main

import (
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// How lines of requests are gathered: for how long, how many bytes are written together, and how many wait at most for a
// writer that does not take them.
const (
	gatherTime  = 100 * time.Millisecond
	gatherBytes = 64 << 10
	gatherMost  = 1 << 20
)

// logLines is the log of a process that logs its requests. To write a line costs more than to make it, so Write gathers the
// lines of requests, which are written together: when the first of them has waited for gatherTime, or gatherBytes are there.
// Write never waits for the writer: what has no room is dropped and counted. All other lines come by promptLines.
//
// Any goroutine may use it.
type logLines struct {
	to      io.Writer
	dropped atomic.Int64  // lines of requests
	log     *slog.Logger  // writes by promptLines, and learns of dropped lines; nil for none
	turn    chan struct{} // whoever fills it writes

	mu       sync.Mutex // guards the rest
	gathered []byte     // the lines that wait
	spare    []byte     // memory of lines that were written
	due      *time.Timer
	armed    bool  // due will write the lines that wait
	told     int64 // how many of the dropped lines were logged
}

func newLogLines(to io.Writer) *logLines { return &logLines{to: to, turn: make(chan struct{}, 1)} }

// Write gathers the line of a request. It always succeeds.
func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := len(l.gathered)
	if before+len(line) > gatherMost {
		l.dropped.Add(1)
		return len(line), nil
	}
	l.gathered = append(l.gathered, line...)
	switch {
	case before < gatherBytes && len(l.gathered) >= gatherBytes:
		l.arm(0)
	case !l.armed:
		l.arm(gatherTime)
	}
	return len(line), nil
}

// arm has the lines that wait be written after a time. The lock is held.
func (l *logLines) arm(after time.Duration) {
	l.armed = true
	if l.due == nil {
		l.due = time.AfterFunc(after, l.flushAndTell)
		return
	}
	l.due.Reset(after)
}

// flushAndTell writes the lines that wait, and then says in the log how many were dropped since it said so last.
func (l *logLines) flushAndTell() {
	_ = l.flush() // there is no other log
	l.mu.Lock()
	lost := l.dropped.Load() - l.told
	l.told += lost
	l.mu.Unlock()
	if lost > 0 && l.log != nil {
		l.log.Warn("lines of requests were dropped, because the log is not read as fast as it is written", "lines", lost)
	}
}

// flush writes the lines that wait. When it returns all that came before it are written. It does not log: whoever logs may
// be what calls it.
func (l *logLines) flush() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	lines := l.take()
	defer l.keep(lines)
	if len(lines) == 0 {
		return nil
	}
	_, err := l.to.Write(lines)
	return err
}

// take returns the lines that wait; nothing waits then.
func (l *logLines) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.gathered
	l.gathered, l.spare, l.armed = l.spare, nil, false
	return lines
}

// keep keeps the memory of lines that were written, unless it is much.
func (l *logLines) keep(lines []byte) {
	if cap(lines) > 2*gatherBytes {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare = lines[:0]
}

// flushWithin is flushAndTell, but for a writer that takes longer: then the lines are lost.
func (l *logLines) flushWithin(d time.Duration) {
	done := make(chan struct{})
	go func() { l.flushAndTell(); close(done) }()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// promptLines writes a line before it returns, after all that was gathered before, so that the log has its lines in their order.
type promptLines struct{ *logLines }

func (l promptLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	l.gathered = append(l.gathered, line...)
	l.mu.Unlock()
	return len(line), l.flush()
}
