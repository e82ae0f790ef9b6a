package recovery

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/test/sim"
)

// letters says what happens to messages between nodes.
type letters struct {
	Lost int  `json:",omitempty"` // of 1,000 letters
	Slow int  `json:",omitempty"` // of 1,000 letters and replies
	Late span `json:",omitempty"` // by how much, at most
}

// newLetters draws what happens to letters. In most histories all arrive soon, and at most three of ten are lost: an attempt takes 5 s then, and where half of
// them are lost, bad luck alone keeps a client from its stream for longer than events can be replayed.
func newLetters(r *rand.Rand) (l letters) {
	switch pick(r, 60, 15, 15, 10) {
	case 1:
		l.Lost = []int{10, 100, 300}[r.IntN(3)]
	case 2:
		l.Slow, l.Late = []int{10, 100}[r.IntN(2)], span(between(r, 10*time.Millisecond, 8*time.Second))
	case 3:
		l = letters{Lost: 50, Slow: 50, Late: span(between(r, 10*time.Millisecond, 3*time.Second))}
	}
	return l
}

// sure reports whether every letter arrives soon, unless a node is in trouble.
func (l *letters) sure() bool { return l.Lost == 0 && l.Slow == 0 }

// letters returns the fate of letters.
func (w *world) letters() func(kind string) sim.Fate {
	l, r := w.plan.Letters, w.plan.rng("letters")
	var mu sync.Mutex // guards r
	way := func() time.Duration {
		d := between(r, 20*time.Microsecond, 2*time.Millisecond)
		if r.IntN(1000) < l.Slow {
			d += between(r, 0, time.Duration(l.Late))
		}
		return d
	}
	return func(kind string) sim.Fate {
		w.judge.Count("letters " + kind)
		mu.Lock()
		defer mu.Unlock()
		return sim.Fate{There: way(), Back: way(), Lost: r.IntN(1000) < l.Lost}
	}
}
