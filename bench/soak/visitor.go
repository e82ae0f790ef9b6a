package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// visitor is what clients of all kinds have.
type visitor struct {
	w    *world
	kind string
	n    int
	rng  *rand.Rand // of whoever starts what it does
	ids  atomic.Int64
	work sync.WaitGroup // what the round has started
}

func (v *visitor) String() string { return fmt.Sprintf("%s %d", v.kind, v.n) }

// newID is the raw id of the next request; every third is a number.
func (v *visitor) newID() string {
	n := v.ids.Add(1)
	if n%3 == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf(`"%c%d-%d"`, v.kind[0], v.n, n)
}

// resource returns the URI of which only this visitor wants updates.
func (v *visitor) resource() string { return fmt.Sprintf("test://template/%c%d/data", v.kind[0], v.n) }

// wants reports whether the run has a kind of visitor.
func (v *visitor) wants(kind string) bool {
	o := &v.w.o
	return o.visitorFits(kind) && (len(o.visitors) == 0 || slices.Contains(o.visitors, kind))
}

// accuse ends the run: what the visitor got, as rec shows, breaks a promise.
func (v *visitor) accuse(rec *client.Record, format string, args ...any) {
	v.w.violated(rec, "%s: %s", v, fmt.Sprintf(format, args...))
}

// doWithin does something at a time of the window that is drawn.
func (v *visitor) doWithin(window time.Duration, f func()) {
	after := time.Duration(v.rng.Int64N(int64(window)))
	v.work.Go(func() {
		if v.w.wait(after) {
			f()
		}
	})
}

// isCalm reports whether clients come and go, and nobody harms the nodes.
func (v *visitor) isCalm() bool { return v.w.kept > 0 }

// answerTime is when a question is answered.
type answerTime int

const (
	atOnce    answerTime = iota
	soon                 // within a second, be the server up or not
	afterHarm            // only by the next start
	inRounds             // some rounds later
	never
)

// drawTime draws when a question is answered, and the round from which on its call must be.
func (v *visitor) drawTime(rng *rand.Rand) (when answerTime, round int64) {
	if when = answerTime(rng.IntN(int(never))); v.isCalm() {
		when = []answerTime{atOnce, soon, never}[rng.IntN(3)]
	}
	round = v.w.round.Load() + 1
	if when == inRounds {
		round += int64(rng.IntN(3))
	}
	return when, round
}

// awaitTime waits until it is time to answer a question that came in a start.
func (v *visitor) awaitTime(when answerTime, boot, round int64, pause time.Duration) {
	w := v.w
	isLate := func() bool { return w.round.Load() >= round }
	switch when {
	case soon:
		w.wait(pause)
	case afterHarm:
		for w.boot.Load() == boot && !isLate() && w.wait(time.Millisecond) {
		}
	case inRounds:
		for !isLate() && w.wait(5*time.Millisecond) {
		}
	}
}

// longText is at least n bytes that come but once.
func longText(rng *rand.Rand, n int) string {
	word := fmt.Sprintf("%016x ", rng.Uint64())
	return strings.Repeat(word, n/len(word)+1)
}

// drawSize is how many bytes an echo has: hardly any as a rule.
func drawSize(rng *rand.Rand) int {
	switch n := rng.IntN(200); {
	case n == 0:
		return 1 << 20
	case n < 30:
		return 10 << 10
	}
	return 20
}
