package host

import (
	"strings"
	"sync"
)

// Lines is a log, for the handlers of package slog, that several goroutines write.
type Lines struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write appends p.
func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all that was written.
func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
