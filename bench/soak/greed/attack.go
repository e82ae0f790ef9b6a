package greed

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// attack is one way to take more than one's share.
type attack struct {
	name string // which says what its principals do, with about
	// about says more where the name does not tell it.
	about string

	// limits are outcomes by which a limit shows. At least one of them must occur, unless there are
	// none: then only turns and the processor bound the attack.
	limits []string

	apart   bool // it uses up what its principals need for others, so that it needs principals of its own
	rated   bool // the limit is a rate of each principal: several together may not get there, for want of processors
	workers int  // goroutines of each principal

	// begin makes ready what one goroutine needs and returns what it repeats until the end, or nil
	// if it was refused and must begin again.
	begin func(p *principal, worker int) (step func())
}

// refused are the outcomes of requests that a limit refuses.
var refused = []string{"429", "503", "429 -32600", "503 -32603", "200 -32600", "200 -32603"}

// isLimited reports whether the attack of so many principals has met a limit, or has none that they
// must meet.
func (a *attack) isLimited(o Outcomes, clients int) bool {
	return len(a.limits) == 0 || a.rated && clients > 1 || slices.ContainsFunc(a.limits, func(limit string) bool { return o[limit] > 0 })
}

// work is one goroutine of an attack. It calls begun when it is ready, or was refused for the first
// time.
func (a *attack) work(p *principal, worker int, begun func()) {
	step := a.begin(p, worker)
	begun()
	for p.ctx.Err() == nil {
		if step == nil {
			p.sleepFor(100 * time.Millisecond)
			step = a.begin(p, worker)
			continue
		}
		step()
	}
}

// repeat is the begin of an attack that needs nothing. step gets how often it was called.
func repeat(step func(p *principal, n int)) func(*principal, int) func() {
	return func(p *principal, _ int) func() {
		n := -1
		return func() { n++; step(p, n) }
	}
}

// inSession is the begin of an attack whose goroutines each have a session. step gets the header of
// its requests, and how often it was called.
func inSession(revision string, step func(p *principal, h http.Header, n int)) func(*principal, int) func() {
	return func(p *principal, worker int) func() {
		h := p.beginSession(revision)
		if h == nil {
			return nil
		}
		return repeat(func(p *principal, n int) { step(p, h, n) })(p, worker)
	}
}

// posting is inSession for what posts a message over and over.
func posting(message func(n int) string) func(*principal, int) func() {
	return inSession(revision, func(p *principal, h http.Header, n int) { p.postMessage(h, message(n)) })
}

// always makes a message once, as a large one takes time.
func always(message func() string) func(int) string {
	once := sync.OnceValue(message)
	return func(int) string { return once() }
}

// sending is the begin of an attack that sends the same request of 2026-07-28 over and over, which
// is made once.
func sending(request func() (string, http.Header)) func(*principal, int) func() {
	once := sync.OnceValues(request)
	return repeat(func(p *principal, _ int) {
		body, h := once()
		p.postMessage(h, body)
	})
}
