package recovery

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/test/histories"
	"github.com/troupe-run/troupe/test/sim"
)

// plan is a history before it happens: what clients ask for, what handlers do, and
// which faults happen when. Everything else is drawn from Seed while the history runs.
type plan struct {
	Seed    uint64
	Nodes   int     `json:",omitempty"` // of a fleet; 0 is one node that is alone
	Letters letters `json:",omitzero"`
	Clocks  span    `json:",omitempty"` // of the processes and the store differ by so much at most
	Limits  limits
	Faults  []fault      `json:",omitempty" shrink:"any"`
	Clients []clientPlan `shrink:"one"`
}

// The language of plans.
type span = histories.Span

var between, pick = histories.Between, histories.Pick

// limits are the limits of the service that matter here. Most histories have small
// ones, so that a log forgets soon.
type limits struct {
	Replay, MaxAsk, MaxCall     span
	Appends, Bytes, Part, Queue int
}

type clientPlan struct {
	Revision string
	Posts    []post  `shrink:"one"`
	Listen   *listen `json:",omitempty" shrink:"zero"`
	Delete   span    `json:",omitempty" shrink:"zero"` // when it ends its session; 0 is never
}

// post is one POST, and what the client does with its response.
type post struct {
	At     span
	Calls  []call `shrink:"one"`                   // several are a batch
	Breaks []span `json:",omitempty" shrink:"any"` // times after which the client's connection breaks, one after the other
}

type call struct {
	Safe   bool   `json:",omitempty"`
	Steps  []step `json:",omitempty" shrink:"any"`
	Cancel span   `json:",omitempty" shrink:"zero"` // time after the POST; 0 is never
}

// step is one thing that a handler does.
type step struct {
	Do   string // sleep, notify, progress, ask, close, tell
	For  span   `json:",omitempty"` // sleep: how long; notify, tell: time between two
	N    int    `json:",omitempty"` // notify, tell: how many
	Size int    `json:",omitempty"` // notify: bytes of each; ask: bytes of the answer
	Asks []ask  `json:",omitempty"` // all at once
}

// ask is one question of a handler, and how the client answers it.
type ask struct {
	Key   string
	Reply string // once, twice, error or never
	After span   `json:",omitempty"`
}

// fault is one fault.
type fault struct {
	At   span
	Do   string // kill, power, outage, jump, full, split; in a fleet storeless, unheard, island, behind, freeze, drain, too
	Node int    `json:",omitempty"` // whose process it happens to
	For  span   `json:",omitempty"` // kill, power, drain: until the next process starts; jump: how far
	Lose span   `json:",omitempty"` // power: time since the last flush

	// power: which of the store's streams were flushed then, and not now; see sim.Snapshot.Apart. 0: all
	Apart uint8 `json:",omitempty"`
}

func (p *plan) recordTTL() time.Duration { return time.Duration(p.Limits.Replay) * 4 / 3 }

// rng returns the random numbers of one part of a history.
func (p *plan) rng(part string) *rand.Rand { return histories.Rand(p.Seed, part) }

// newPlan draws a history.
func newPlan(seed uint64) plan {
	p := plan{Seed: seed}
	p.draw(p.rng("plan"))
	return p
}

// draw draws what happens.
func (p *plan) draw(r *rand.Rand) {
	p.Limits = limits{
		Replay: span(time.Minute), MaxCall: span(6 * time.Hour), MaxAsk: span(between(r, 20*time.Second, 4*time.Minute)),
		Appends: 12 + r.IntN(30), Bytes: 8<<10 + r.IntN(24<<10), Part: 2 << 10, Queue: 16 << 10,
	}
	if r.IntN(40) == 0 { // the defaults
		p.Limits = limits{
			Replay: span(10 * time.Minute), MaxCall: span(6 * time.Hour), MaxAsk: span(30 * time.Minute),
			Appends: 1000, Bytes: 4 << 20, Part: 256 << 10, Queue: 1 << 20,
		}
	}
	longest := time.Duration(0)
	clients, posts := []int{70, 30}, []int{75, 25}
	if p.Nodes > 0 {
		clients, posts = []int{50, 35, 15}, []int{50, 35, 15}
	}
	for range 1 + pick(r, clients...) {
		c := clientPlan{Revision: []string{"2025-11-25", "2025-06-18", "2025-03-26"}[pick(r, 40, 20, 40)]}
		for range 1 + pick(r, posts...) {
			po := p.newPost(r, c.Revision)
			longest = max(longest, time.Duration(po.At)+po.lasts(time.Duration(p.Limits.MaxAsk)))
			c.Posts = append(c.Posts, po)
		}
		if p.Nodes > 0 {
			p.more(r, &c, longest)
		}
		p.Clients = append(p.Clients, c)
	}
	moments := p.moments()
	for range pick(r, 10, 45, 30, 15) {
		f := p.newFault(r)
		if f.At = span(between(r, 0, longest+5*time.Second)); len(moments) > 0 && r.IntN(5) < 3 {
			f.At = span(moments[r.IntN(len(moments))] + between(r, 0, 3*time.Second))
		}
		p.Faults = append(p.Faults, f)
	}
	p.part(p.rng("parts"))
}

// part draws what of the store goes its own way: streams that a power cut takes back differently, and clocks.
func (p *plan) part(r *rand.Rand) {
	for i := range p.Faults {
		if f := &p.Faults[i]; f.Do == "power" && r.IntN(2) == 0 {
			f.Apart = uint8(1 + r.IntN(1<<(1+sim.Shards)-2)) // neither none nor all
		}
	}
	if p.Nodes > 0 && r.IntN(2) == 0 {
		p.Clocks = span(2 * time.Second) // a process whose clock is off by more does not serve
	}
}

// moments returns about when handlers begin a step, if nothing delays them: faults do
// most where something happens.
func (p *plan) moments() (all []time.Duration) {
	for _, c := range p.Clients {
		for _, po := range c.Posts {
			for _, k := range po.Calls {
				for i := range k.Steps {
					begun := call{Steps: k.Steps[:i]}
					all = append(all, time.Duration(po.At)+begun.lasts(time.Duration(p.Limits.MaxAsk)))
				}
			}
		}
	}
	return all
}

func (p *plan) newPost(r *rand.Rand, revision string) post {
	po := post{At: span(between(r, 0, 2*time.Second))}
	n := 1
	if revision == "2025-03-26" && r.IntN(4) > 0 {
		n = 2 + r.IntN(2)
	}
	for range n {
		po.Calls = append(po.Calls, p.newCall(r))
	}
	breaks := []int{50, 30, 15, 5}
	if p.Nodes > 0 { // so that streams are read by way of other nodes
		breaks = []int{10, 35, 35, 20}
	}
	for range pick(r, breaks...) {
		po.Breaks = append(po.Breaks, span(p.silence(r)))
	}
	return po
}

// silence draws a time in which nothing happens: mostly short, and often longer than
// the store keeps anything.
func (p *plan) silence(r *rand.Rand) time.Duration {
	replay := time.Duration(p.Limits.Replay)
	kinds := []int{50, 20, 30}
	if p.Nodes > 0 { // more happens at one time
		kinds = []int{45, 47, 8}
	}
	switch pick(r, kinds...) {
	case 0:
		return between(r, 10*time.Millisecond, 2*time.Second)
	case 1:
		return between(r, time.Second, replay)
	}
	return between(r, replay, 3*replay)
}

func (p *plan) newCall(r *rand.Rand) call {
	c := call{Safe: r.IntN(10) < 7}
	for range pick(r, 10, 20, 20, 20, 20, 10) {
		c.Steps = append(c.Steps, p.newStep(r))
	}
	if r.IntN(8) == 0 {
		c.Cancel = span(p.silence(r))
	}
	return c
}

func (p *plan) newStep(r *rand.Rand) step {
	tell := 0
	if p.Nodes > 0 {
		tell = 10
	}
	switch pick(r, 30, 12, 12, 6, 8, 28, 4, tell) {
	case 0:
		return step{Do: "sleep", For: span(p.silence(r))}
	case 1:
		return step{Do: "notify", N: 1 + r.IntN(4), For: span(between(r, 0, 300*time.Millisecond))}
	case 2: // more appends than the log keeps
		n := p.Limits.Appends
		return step{Do: "notify", N: n + r.IntN(n/2+1), For: span(between(r, 8*time.Millisecond, 12*time.Millisecond))}
	case 3: // more bytes than the log keeps
		return step{Do: "notify", N: 5, Size: p.Limits.Bytes / 4, For: span(between(r, 0, 300*time.Millisecond))}
	case 4:
		return step{Do: "progress", N: 1 + r.IntN(5), For: span(between(r, 0, 400*time.Millisecond))}
	case 5:
		s := step{Do: "ask", Size: 10}
		if r.IntN(12) == 0 {
			s.Size = 20 << 10
		}
		for range 1 + pick(r, 80, 20) {
			s.Asks = append(s.Asks, p.newAsk(r))
		}
		return s
	case 7:
		return step{Do: "tell", N: 1 + r.IntN(3), For: span(between(r, 0, 2*time.Second))}
	}
	return step{Do: "close"}
}

func (p *plan) newAsk(r *rand.Rand) ask {
	a := ask{Key: []string{"same", "same", "other"}[r.IntN(3)], Reply: []string{"once", "twice", "error", "never"}[pick(r, 70, 15, 8, 7)]}
	if r.IntN(2) == 0 {
		a.After = span(between(r, 0, time.Second))
	} else {
		a.After = span(p.silence(r))
	}
	return a
}

func (p *plan) newFault(r *rand.Rand) fault {
	if p.Nodes > 0 {
		return p.newFleetFault(r)
	}
	f := fault{Do: []string{"kill", "power", "outage", "jump", "full", "split"}[pick(r, 38, 24, 13, 13, 5, 6)]}
	replay := time.Duration(p.Limits.Replay)
	switch f.Do {
	case "kill", "power", "split":
		f.For = span(between(r, 50*time.Millisecond, 3*time.Second))
		if r.IntN(5) == 0 {
			f.For = span(between(r, 0, 2*replay))
		}
		if f.Do == "power" {
			f.Lose = span(between(r, 0, []time.Duration{2 * time.Second, 30 * time.Second, 2 * time.Minute}[pick(r, 60, 32, 8)]))
		}
	case "outage", "full":
		f.For = span(between(r, 0, []time.Duration{10 * time.Second, 2 * replay, time.Hour}[pick(r, 30, 40, 30)]))
	case "jump":
		f.For = span(between(r, 0, []time.Duration{replay, 3 * replay, 2 * time.Hour}[pick(r, 20, 60, 20)]))
		if r.IntN(6) == 0 {
			f.For = -f.For
		}
	}
	return f
}

// lasts returns how long the longest call takes if nothing delays it.
func (po *post) lasts(maxAsk time.Duration) (longest time.Duration) {
	for _, c := range po.Calls {
		longest = max(longest, c.lasts(maxAsk))
	}
	return longest
}

func (c *call) lasts(maxAsk time.Duration) (d time.Duration) {
	for _, s := range c.Steps {
		switch s.Do {
		case "sleep":
			d += time.Duration(s.For)
		case "ask":
			var slowest time.Duration
			for _, a := range s.Asks {
				if a.Reply == "never" {
					slowest = maxAsk
				}
				slowest = max(slowest, time.Duration(a.After))
			}
			d += min(slowest, maxAsk)
		default:
			d += time.Duration(s.N) * time.Duration(s.For)
		}
	}
	return d
}

// worst returns a bound on the time that the calls of the plan can take, if each of
// them runs again after each fault.
func (p *plan) worst() (d time.Duration) {
	for _, c := range p.Clients {
		for _, po := range c.Posts {
			for _, k := range po.Calls {
				var asks time.Duration
				for _, s := range k.Steps {
					if s.Do == "ask" {
						asks += time.Duration(p.Limits.MaxAsk)
					}
				}
				d = max(d, time.Duration(po.At)+k.lasts(0)+asks)
			}
		}
	}
	if p.Nodes > 0 { // each of them may have its node lose a call, and the next one, too
		return d * time.Duration(2*len(p.Faults)+1)
	}
	return d * time.Duration(len(p.Faults)+1)
}

func callName(client, post, call int) string { return fmt.Sprintf("%d.%d.%d", client, post, call) }
