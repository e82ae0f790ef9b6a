package histories

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/test/histories"
)

// plan is a history before it happens: what clients ask for, what handlers do, and which faults happen when. What clients do meanwhile is
// drawn from Seed as well, and depends on what they see.
type plan struct {
	Seed    uint64
	Nodes   int
	Replay  span         // how long events can be replayed
	Appends int          // and how many of a stream
	Clients []clientPlan `shrink:"one"`
	Changes []change     `json:",omitempty" shrink:"any"`
	Faults  []fault      `json:",omitempty" shrink:"any"`
}

// The language of plans.
type span = histories.Span

var between, pick = histories.Between, histories.Pick

// clientPlan is what one client does. A session has a standalone stream if it listens; a modern client a subscriptions/listen.
type clientPlan struct {
	Kind   string // session, modern or sse
	Posts  []post `shrink:"one"`
	Listen bool   `json:",omitempty" shrink:"zero"`
	Breaks []span `json:",omitempty" shrink:"any"`  // when the connection on which it listens breaks
	Delete span   `json:",omitempty" shrink:"zero"` // when it ends its session; 0 is never
}

// post is one call, and what the client does with its response.
type post struct {
	At     span
	Safe   bool   `json:",omitempty"` // it may run again
	Task   bool   `json:",omitempty"`
	Steps  []step `json:",omitempty" shrink:"any"`
	Breaks []span `json:",omitempty" shrink:"any"`  // times after which the client's connection breaks, one after the other
	Cancel span   `json:",omitempty" shrink:"zero"` // time after the POST; 0 is never
}

// step is one thing that a handler does.
type step struct {
	Do  string // sleep, log, progress, ask, close, tell, step
	For span   `json:",omitempty"` // sleep, step: how long; log, progress, tell: time between two
	N   int    `json:",omitempty"` // log, progress, tell, step: how many; ask: how many questions at once
	// Twice has the client answer twice, or send the retried request twice.
	Twice bool `json:",omitempty"`
	After span `json:",omitempty"` // ask: after what time the client answers
}

// change is a change of what clients listen to.
type change struct {
	At   span
	Do   string // resource, lists
	Node int    // where it happens; lists change at the others within 2 s
}

// fault is one fault.
type fault struct {
	At   span
	Do   string // kill, drain, cut, refuse, island, lose, outage, stop, power
	Node int    `json:",omitempty"` // whose process it happens to
	For  span   `json:",omitempty"`
	Lose span   `json:",omitempty"` // power: time since the last flush
	Rate int    `json:",omitempty"` // lose: how many of eight messages
}

// rng returns the random numbers of one part of a history.
func (p *plan) rng(part string) *rand.Rand { return histories.Rand(p.Seed, part) }

// newPlan draws a history.
func newPlan(seed uint64) plan {
	p := plan{Seed: seed}
	r := p.rng("plan")
	p.Nodes, p.Replay, p.Appends = 2+pick(r, 35, 65), span(time.Minute), 12+r.IntN(30)
	if r.IntN(4) == 0 { // the default of appends
		p.Appends = 1000
	}
	longest := time.Duration(0)
	for range 1 + pick(r, 20, 40, 40) {
		c := clientPlan{Kind: []string{"session", "modern", "sse"}[pick(r, 55, 33, 12)]}
		for range 1 + pick(r, 35, 40, 25) {
			po := p.newPost(r, c.Kind)
			longest = max(longest, time.Duration(po.At)+po.lasts())
			c.Posts = append(c.Posts, po)
		}
		if c.Kind != "sse" && r.IntN(2) == 0 {
			c.Listen = true
			for range pick(r, 50, 30, 20) {
				c.Breaks = append(c.Breaks, span(p.silence(r)))
			}
		}
		if c.Kind == "session" && r.IntN(8) == 0 {
			c.Delete = span(between(r, time.Second, longest+time.Second))
		}
		p.Clients = append(p.Clients, c)
	}
	for range pick(r, 25, 25, 25, 25) {
		p.Changes = append(p.Changes, change{At: span(between(r, 0, longest+20*time.Second)), Do: []string{"resource", "resource", "lists"}[r.IntN(3)], Node: r.IntN(p.Nodes)})
	}
	moments := p.moments()
	for range pick(r, 12, 48, 28, 12) {
		f := p.newFault(r)
		if f.At = span(between(r, 0, longest+5*time.Second)); len(moments) > 0 && r.IntN(5) < 4 {
			f.At = span(moments[r.IntN(len(moments))] + between(r, 0, 3*time.Second))
		}
		p.Faults = append(p.Faults, f)
	}
	return p
}

// moments returns about when handlers begin a step, if nothing delays them: faults do most where something happens.
func (p *plan) moments() (all []time.Duration) {
	for _, c := range p.Clients {
		for _, po := range c.Posts {
			for i := range po.Steps {
				begun := post{Steps: po.Steps[:i]}
				all = append(all, time.Duration(po.At)+begun.lasts())
			}
		}
	}
	for _, c := range p.Changes {
		all = append(all, time.Duration(c.At))
	}
	return all
}

func (p *plan) newPost(r *rand.Rand, kind string) post {
	po := post{At: span(between(r, 0, 3*time.Second)), Safe: r.IntN(10) < 7, Task: kind != "sse" && r.IntN(8) == 0}
	for range pick(r, 10, 20, 25, 25, 20) {
		po.Steps = append(po.Steps, p.newStep(r, &po, kind))
	}
	for range pick(r, 25, 40, 25, 10) {
		po.Breaks = append(po.Breaks, span(p.silence(r)))
	}
	if kind != "modern" && r.IntN(10) == 0 {
		po.Cancel = span(p.silence(r))
	}
	return po
}

// silence draws a time in which nothing happens: mostly short, and sometimes longer than the store keeps anything.
func (p *plan) silence(r *rand.Rand) time.Duration {
	replay := time.Duration(p.Replay)
	switch pick(r, 50, 44, 6) {
	case 0:
		return between(r, 10*time.Millisecond, 2*time.Second)
	case 1:
		return between(r, time.Second, 20*time.Second)
	}
	return between(r, replay, 2*replay)
}

func (p *plan) newStep(r *rand.Rand, po *post, kind string) step {
	ask, tell, task, steps := 30, 10, 0, 10
	if po.Task { // the answers of tasks have tests of their own
		ask, task = 0, 10
	}
	if kind != "session" {
		tell = 0
	} else if po.Safe { // it has second runs that find them
		steps = 40
	}
	switch pick(r, 30+task, 14, 8, 8, ask, 5, tell, steps) {
	case 0:
		return step{Do: "sleep", For: span(p.silence(r))}
	case 1:
		return step{Do: "log", N: 1 + r.IntN(6), For: span(between(r, 0, 500*time.Millisecond))}
	case 2: // more appends than the log keeps
		n := min(p.Appends, 60)
		return step{Do: "log", N: n + r.IntN(n/2+1), For: span(between(r, 8*time.Millisecond, 20*time.Millisecond))}
	case 3:
		return step{Do: "progress", N: 1 + r.IntN(5), For: span(between(r, 20*time.Millisecond, 600*time.Millisecond))}
	case 4:
		return step{Do: "ask", N: 1 + pick(r, 80, 20), Twice: r.IntN(4) == 0, After: span(min(p.silence(r), 90*time.Second))}
	case 6:
		return step{Do: "tell", N: 1 + r.IntN(3), For: span(between(r, 0, 2*time.Second))}
	case 7:
		return step{Do: "step", N: 1 + r.IntN(4), For: span(min(p.silence(r), 20*time.Second))}
	}
	return step{Do: "close"}
}

func (p *plan) newFault(r *rand.Rand) fault {
	kinds := []string{"kill", "drain", "cut", "refuse", "island", "lose", "outage", "stop", "power"}
	f := fault{Do: kinds[pick(r, 32, 11, 11, 10, 12, 10, 6, 4, 4)], Node: r.IntN(p.Nodes)}
	switch pick(r, 30, 50, 20) {
	case 0:
		f.For = span(between(r, 10*time.Millisecond, 3*time.Second))
	case 1: // about a lease
		f.For = span(between(r, lease/2, 4*lease))
	case 2:
		f.For = span(between(r, 0, 2*time.Duration(p.Replay)))
	}
	if (f.Do == "outage" || f.Do == "stop") && r.IntN(3) == 0 { // longer than records live
		f.For = span(between(r, 3*time.Duration(p.Replay)/2, 3*time.Duration(p.Replay)))
	}
	if f.Do == "lose" {
		f.Rate = []int{1, 2, 4, 8}[r.IntN(4)]
	}
	if f.Do == "lose" && r.IntN(3) > 0 {
		f.For = span(between(r, time.Second, 20*time.Second))
	}
	if f.Do == "power" {
		f.For, f.Lose = min(f.For, span(10*time.Second)), span(between(r, 0, 8*time.Second))
	}
	return f
}

// lasts returns how long a call takes if nothing delays it.
func (po *post) lasts() (d time.Duration) {
	for _, s := range po.Steps {
		switch s.Do {
		case "sleep":
			d += time.Duration(s.For)
		case "ask":
			d += time.Duration(s.After)
		default:
			d += time.Duration(s.N) * time.Duration(s.For)
		}
	}
	return d
}

// calmed is when the last fault is over.
func (p *plan) calmed() (at time.Duration) {
	for _, f := range p.Faults {
		at = max(at, time.Duration(f.At)+time.Duration(f.For))
	}
	return at
}

// worst returns a bound on the time that the calls of the plan can take, if each of them runs again after each fault.
func (p *plan) worst() (d time.Duration) {
	for _, c := range p.Clients {
		for _, po := range c.Posts {
			d = max(d, time.Duration(po.At)+po.lasts())
		}
	}
	return d*time.Duration(len(p.Faults)+1) + p.calmed()
}

func callName(client, post int) string { return fmt.Sprintf("%d.%d", client, post) }
