package histories

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// History is what came of a plan.
type History struct {
	Faults []string       // that the judge found
	Tale   []string       // what happened
	Sums   map[string]int // how often each thing has happened
}

// Tape is what a judge notes of a history.
type Tape struct {
	Begin time.Time // of the history

	mu     sync.Mutex // guards the rest
	notes  []note
	faults []string
	sums   map[string]int
}

// note is a line of a tale. It is written when somebody reads it, as most are not.
type note struct {
	at   time.Time
	text string
	args []any
}

// NewTape returns the tape of a history that begins now.
func NewTape() *Tape { return &Tape{Begin: time.Now(), sums: map[string]int{}} }

// Note notes what happens.
func (t *Tape) Note(text string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, note{time.Now(), text, args})
}

// Fault notes what must not be.
func (t *Tape) Fault(text string, args ...any) {
	t.Note("FAULT: "+text, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.faults) < 20 {
		t.faults = append(t.faults, fmt.Sprintf(text, args...))
	}
}

// Count counts one thing.
func (t *Tape) Count(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sums[what]++
}

// History returns what is on the tape.
func (t *Tape) History() History {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := History{Faults: slices.Clone(t.faults), Sums: maps.Clone(t.sums)}
	for _, n := range t.notes {
		h.Tale = append(h.Tale, fmt.Sprintf("%12.3fs  "+n.text, append([]any{n.at.Sub(t.Begin).Seconds()}, n.args...)...))
	}
	return h
}

// Position is where an event stands in its stream.
type Position struct{ Num, K uint64 }

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool { return p.Num < q.Num || p.Num == q.Num && p.K < q.K }

// PositionOf returns the position in an event id, zero for any other text.
func PositionOf(id string) Position {
	parts := strings.Split(id, ".")
	if len(parts) != 3 {
		return Position{}
	}
	num, _ := strconv.ParseUint(parts[1], 10, 64)
	k, _ := strconv.ParseUint(parts[2], 10, 64)
	return Position{num, k}
}

// Short is an event id for people.
func Short(id string) string {
	if i := strings.IndexByte(id, '.'); i > 4 {
		return id[:4] + id[i:]
	}
	return id
}

// Closed reports whether c is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
