package request

import (
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Gate lets progress of one token through. Values must rise; above Rate a second they are
// coalesced, and the newest one wins. The zero value has let nothing through. The caller
// passes the time.
type Gate struct {
	seen  bool
	last  float64
	start time.Time
	count int
}

// Rate is the number of notifications a second above which progress of one
// token is coalesced.
var Rate = limits.Progress.Value()

// Verdict is the fate of a progress value.
type Verdict uint8

// The verdicts.
const (
	Stale Verdict = iota // not above the last one: dropped
	Hold                 // too many in this second: the newest is sent at its end
	Pass                 // sent
)

// Raise makes the gate refuse values that are not above v: those of a re-run up to the last
// one logged.
func (g *Gate) Raise(v float64) {
	if !g.seen || v > g.last {
		g.seen, g.last = true, v
	}
}

// Offer judges value v at now. After Hold the caller offers the newest value
// again once Wait has passed.
func (g *Gate) Offer(v float64, now time.Time) Verdict {
	if g.seen && !(v > g.last) {
		return Stale
	}
	if now.Sub(g.start) >= time.Second {
		g.start, g.count = now, 0
	}
	if g.count >= Rate {
		return Hold
	}
	g.count++
	g.seen, g.last = true, v
	return Pass
}

// Wait is how long after now the current second ends.
func (g *Gate) Wait(now time.Time) time.Duration { return g.start.Add(time.Second).Sub(now) }
