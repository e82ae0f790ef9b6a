package greed

import (
	"slices"
	"time"
)

// Attack is one way to take more than one's share.
type Attack struct {
	Name string
	What string // what its principals do

	// Limits are outcomes by which a limit shows. At least one of them must occur, unless there are
	// none: then only turns and the processor bound the attack.
	Limits []string

	// Apart says that the attack uses up what its principals need for others, so that it needs principals of its own.
	Apart bool

	// Rated says that the limit is a rate of each principal. Several of them together may not get there, for want of processors.
	Rated bool

	workers  int  // goroutines of each principal
	together bool // none begins before all are ready
	// begin makes ready what one goroutine needs and returns what it repeats until the end, or nil
	// if it was refused and must begin again.
	begin func(p *Principal, worker int) (step func())
}

// refused are the outcomes of requests that a limit refuses.
var refused = []string{"429", "503", "429 -32600", "503 -32603", "200 -32600", "200 -32603"}

// Limited reports whether the attack of so many principals has met a limit, or has none that they must meet.
func (a *Attack) Limited(o Outcomes, greedy int) bool {
	return len(a.Limits) == 0 || a.Rated && greedy > 1 || slices.ContainsFunc(a.Limits, func(limit string) bool { return o[limit] > 0 })
}

// work is one goroutine of an attack. It calls begun when it is ready, or was refused for the first time, and waits for
// start if all have to be ready.
func (a *Attack) work(p *Principal, worker int, begun func(), start <-chan struct{}) {
	step := a.begin(p, worker)
	for a.together && step == nil && p.ctx.Err() == nil {
		p.pause(time.Second)
		step = a.begin(p, worker)
	}
	if begun(); a.together {
		<-start
	}
	for p.ctx.Err() == nil {
		if step == nil {
			p.pause(100 * time.Millisecond)
			step = a.begin(p, worker)
			continue
		}
		step()
	}
}

// stateful is the begin of an attack whose goroutines each have a session. step gets the header of its requests, and
// how often it was called.
func stateful(revision string, step func(p *Principal, h map[string][]string, n int)) func(*Principal, int) func() {
	return func(p *Principal, _ int) func() {
		h := p.session(revision)
		if h == nil {
			return nil
		}
		n := 0
		return func() {
			step(p, h, n)
			n++
		}
	}
}

// free is the begin of an attack that needs nothing. step gets how often it was called.
func free(step func(p *Principal, n int)) func(*Principal, int) func() {
	return func(p *Principal, _ int) func() {
		n := 0
		return func() {
			step(p, n)
			n++
		}
	}
}
