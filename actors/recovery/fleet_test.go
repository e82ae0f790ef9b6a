package recovery

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/kit/when"
)

// TestFleets runs random histories of several nodes on one store. What holds for one node holds for them, and no node
// takes a stream from another one that is there.
func TestFleets(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	if testing.Short() {
		*fleets = min(*fleets, 40)
	}
	h := alone
	h.Flag, h.Kind, h.Draw = "fleets", "fleet-", newFleet
	all := h.Run(t, *fleets, 1)
	if *fleets >= 1000 {
		all.Must(t, "events", "answers", "calls lost", "cancels", "nothing more", "resumes", "second runs", "takeovers")
	}
	all.Write(t)
}

// newFleet draws a history of a fleet.
func newFleet(seed uint64) plan {
	p := plan{Seed: seed}
	r := p.rng("fleet")
	p.Nodes, p.Letters = 1+pick(r, 10, 40, 50), newLetters(r)
	p.draw(r)
	return p
}

// more draws what a client of a fleet does beside its calls, the longest of which takes a while.
func (p *plan) more(r *rand.Rand, c *clientPlan, longest time.Duration) {
	if r.IntN(3) == 0 {
		c.Listen = &listen{At: span(between(r, 0, 2*time.Second))}
		for range pick(r, 20, 30, 30, 20) {
			c.Listen.Breaks = append(c.Listen.Breaks, span(p.silence(r)))
		}
	}
	if r.IntN(8) == 0 {
		c.Delete = span(between(r, time.Second, longest))
	}
}

// calmed is when the last fault is over.
func (p *plan) calmed() (at time.Duration) {
	for _, f := range p.Faults {
		at = max(at, time.Duration(f.At)+time.Duration(f.For))
	}
	return at
}

func (p *plan) newFleetFault(r *rand.Rand) fault {
	kinds := []string{"kill", "storeless", "unheard", "island", "behind", "freeze", "drain", "power", "outage", "full", "split"}
	f := fault{Do: kinds[pick(r, 25, 9, 13, 9, 14, 15, 12, 3, 3, 2, 1)], Node: r.IntN(p.Nodes)}
	replay := time.Duration(p.Limits.Replay)
	switch pick(r, 30, 40, 30) {
	case 0:
		f.For = span(between(r, 10*time.Millisecond, 3*time.Second))
	case 1: // about a lease
		f.For = span(between(r, lease/2, 4*lease))
	case 2:
		f.For = span(between(r, 0, 2*replay))
	}
	if f.Do == "power" {
		f.Lose = span(between(r, 0, 30*time.Second))
	}
	return f
}
