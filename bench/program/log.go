package program

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Log keeps the end of what a process writes, and all lines with an alarm in them.
type Log struct {
	Alarms []string // set before the process starts

	mu   sync.Mutex // guards the rest
	buf  []byte
	line []byte   // the beginning of a line
	said []string // lines with an alarm
}

// logKept is how much of it is kept, in bytes.
const logKept = 64 << 10

// Write takes what the process says next.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen(b)
	l.buf = append(l.buf, b...)
	if over := len(l.buf) - logKept; over > 0 {
		l.buf = append(l.buf[:0], l.buf[over:]...)
	}
	return len(b), nil
}

// listen looks for alarms in what comes next.
func (l *Log) listen(b []byte) {
	if l.Alarms == nil {
		return
	}
	l.line = append(l.line, b...)
	for {
		line, rest, whole := bytes.Cut(l.line, []byte("\n"))
		if !whole {
			return
		}
		if text := string(line); slices.ContainsFunc(l.Alarms, func(a string) bool { return strings.Contains(text, a) }) {
			l.said = append(l.said, text)
		}
		l.line = rest
	}
}

// Alarmed returns the lines with an alarm.
func (l *Log) Alarmed() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.said)
}

// LastLines returns the last n lines.
func (l *Log) LastLines(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := bytes.Split(bytes.TrimSpace(l.buf), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-n):], []byte("\n")))
}
