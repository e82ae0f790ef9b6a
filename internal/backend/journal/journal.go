// Package journal keeps what backends have written to their standard error lately, and what has become of their
// instances, for whoever operates them. It lies in memory alone, and is bounded for each backend: the oldest lines go
// first. Its users mask secrets before they add anything.
//
// Any goroutine may call the methods.
package journal

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Process is one that lines are of. Its number is known once it has started, which may be after its first line has come.
type Process struct{ pid atomic.Int64 }

// Started says which number the process has.
func (p *Process) Started(pid int) { p.pid.Store(int64(pid)) }

// PID returns that number, 0 as long as it is not known, and for nil.
func (p *Process) PID() int {
	if p == nil {
		return 0
	}
	return int(p.pid.Load())
}

// A Line is one of a journal.
type Line struct {
	At     time.Time
	Of     *Process // nil for none
	Stderr bool     // the process has written it to its standard error
	Text   string
}

// An End is that of an instance.
type End struct {
	At     time.Time
	PID    int // 0 for what is no process
	Reason string
	Lived  time.Duration
	Status string // how it ended, with the last lines of its standard error; "" where nothing is known
	Failed string // what went wrong, "" for an instance that was ended in order
}

// Journals are those of the backends of a node. Make them with New.
type Journals struct {
	most int
	born string // tells them from those of another process

	mu sync.Mutex // guards of, and what is in it
	of map[string]*journal
}

// journal is that of one backend.
type journal struct {
	lines  []Line // the oldest first
	first  int    // the number of the first of them
	bytes  int
	ends   []End // the oldest first
	failed End   // the last one that has Failed; zero for none
}

// lineCost is what a line costs beside its text, so that empty ones have a bound, too.
const lineCost = 64

// mostEnds is how many ends of instances are kept for each backend, and mostStatus how many bytes of the status of each.
const (
	mostEnds   = 5
	mostStatus = 4 << 10
)

// New returns journals without backends, which keep so many bytes for each. now tells them from those of another process.
func New(most int, now time.Time) *Journals {
	return &Journals{most: most, born: strconv.FormatInt(now.UnixNano(), 36), of: make(map[string]*journal)}
}

// Configure has journals of exactly these backends. What comes of others is dropped.
func (j *Journals) Configure(backends []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next := make(map[string]*journal, len(backends))
	for _, name := range backends {
		if next[name] = j.of[name]; next[name] == nil {
			next[name] = new(journal)
		}
	}
	j.of = next
}

// Add adds a line to the journal of a backend.
func (j *Journals) Add(backend string, l Line) {
	j.mu.Lock()
	defer j.mu.Unlock()
	of := j.of[backend]
	if of == nil {
		return
	}
	of.lines = append(of.lines, l)
	of.bytes += len(l.Text) + lineCost
	for of.bytes > j.most {
		of.bytes -= len(of.lines[0].Text) + lineCost
		of.lines[0] = Line{} // the list may be long-lived, and its text need not be
		of.lines = of.lines[1:]
		of.first++
	}
}

// AddEnd notes the end of an instance.
func (j *Journals) AddEnd(backend string, e End) {
	e.Status, e.Failed = cut(e.Status), cut(e.Failed)
	j.mu.Lock()
	defer j.mu.Unlock()
	of := j.of[backend]
	if of == nil {
		return
	}
	of.ends = append(of.ends, e)
	of.ends = of.ends[max(0, len(of.ends)-mostEnds):]
	if e.Failed != "" {
		of.failed = e
	}
}

// cut returns what is kept of a text.
func cut(text string) string {
	if len(text) <= mostStatus {
		return text
	}
	return strings.ToValidUTF8(text[:mostStatus], "") + "…"
}

// Ends returns how the last instances of a backend have ended, the oldest first, and the last one that has failed; zero if none has.
func (j *Journals) Ends(backend string) (ends []End, failed End) {
	j.mu.Lock()
	defer j.mu.Unlock()
	of := j.of[backend]
	if of == nil {
		return nil, End{}
	}
	return append(ends, of.ends...), of.failed
}

// A Page is a part of a journal.
type Page struct {
	Lines  []Line
	Missed int    // lines behind those of the page before that were dropped meanwhile
	Next   string // where the next page begins
}

// Read returns the lines of a backend from where a page ended, or all for "" and for the place in a journal of another process.
func (j *Journals) Read(backend, from string) Page {
	j.mu.Lock()
	defer j.mu.Unlock()
	of := j.of[backend]
	if of == nil {
		of = new(journal)
	}
	end := of.first + len(of.lines)
	p := Page{Next: j.born + "." + strconv.Itoa(end)}
	number, known := j.place(from)
	switch {
	case !known || number > end: // of another process, or of a backend that was away meanwhile
		number = of.first
	case number < of.first:
		p.Missed, number = of.first-number, of.first
	}
	p.Lines = append(p.Lines, of.lines[number-of.first:]...)
	return p
}

// place reads the Next of a page.
func (j *Journals) place(from string) (number int, known bool) {
	digits, ours := strings.CutPrefix(from, j.born+".")
	if !ours {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil && number >= 0
}
