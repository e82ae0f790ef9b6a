package sim

import (
	"context"
	"sync"
	"time"

	leases "github.com/troupe-run/troupe/internal/lease"
)

// process is the process at the end of a Link: whether it runs, reaches the store and has its
// lease.
type process struct {
	store *Store
	lease time.Duration

	mu      sync.Mutex // guards the rest
	phase   phase
	ice     chan struct{} // closed when the process goes on that stands still; nil: it runs
	since   time.Time     // since when the lease is renewed, or is not
	long    bool          // before that it was not renewed for longer than it lasts
	steady  time.Time     // from when on it knows of others, if it is renewed until then
	later   bool          // another boot of the node has begun, and has the lease
	old     *Store        // what the server had that the process reads, when both were cut off
	notices time.Time     // when that server finds out that others have gone on
	left    bool          // the process has given its entry back
	changed chan struct{} // closed with the next change of the phase
}

type phase uint8

const (
	up phase = iota
	behind
	down
	dead
)

// Down cuts the process off from the store until Up.
func (p *process) Down() { p.become(func() { p.phase = down }) }

// Behind is Down together with a server that led and does not know yet that others have gone on
// without it: for a while, reads find what it had.
func (p *process) Behind() {
	old := p.store.fork()
	p.become(func() {
		if p.phase != behind {
			p.phase, p.old, p.notices = behind, old, time.Now().Add(noticesAfter)
		}
	})
}

// noticesAfter is after what time, at most, a leader that is alone stops answering.
const noticesAfter = 20 * time.Second

// Up ends an outage.
func (p *process) Up() { p.become(func() { p.phase = up }) }

// Kill ends the link: the process is dead. Whatever of it a test leaves running fails with
// ErrUnavailable from then on; an append fails with ErrFenced, so that it ends.
func (p *process) Kill() {
	p.become(func() { p.phase = dead })
	p.Thaw()
}

// Freeze has the process stand still until Thaw: it neither begins an operation nor learns the
// outcome of one, and does not renew its lease. What is on its way to the store arrives.
func (p *process) Freeze() {
	p.become(func() {
		if p.ice == nil && p.phase != dead {
			p.ice = make(chan struct{})
		}
	})
}

// Thaw has the process go on.
func (p *process) Thaw() {
	p.become(func() {
		if p.ice != nil {
			close(p.ice)
			p.ice = nil
		}
	})
}

// Leave gives the process's entry back, as one does that ends by itself.
func (p *process) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
}

// renews reports whether the process renews its lease. The caller holds mu.
func (p *process) renews() bool { return p.phase == up && p.ice == nil }

// become carries out a change, unless the process is dead and would live.
func (p *process) become(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	renewed, was := p.renews(), p.phase
	if change(); was == dead {
		p.phase = dead
	}
	if now := p.renews(); now != renewed {
		gap := time.Since(p.since)
		p.long = now && gap > p.lease
		if now && gap > leases.Late(p.lease) {
			p.steady = time.Now().Add(p.lease + leases.Reconnect)
		}
		p.since = time.Now()
	}
	if p.phase != was {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

func (p *process) now() (phase, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.phase, p.changed
}

// stands returns what is closed when the process goes on; nil if it runs.
func (p *process) stands() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ice
}

// runs waits until the process does not stand still. It returns false if ctx ends first.
func (p *process) runs(ctx context.Context) bool {
	for ice := p.stands(); ice != nil; ice = p.stands() {
		select {
		case <-ctx.Done():
			return false
		case <-ice:
		}
	}
	return true
}

// Suspended reports that the process cannot be certain of its lease.
func (p *process) Suspended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.renews() && !p.later {
		return p.long && time.Since(p.since) < renewal
	}
	return p.later || time.Since(p.since) > p.lease
}

// Lapsed reports that the process has not been certain of its lease for as long as that lasts, or
// that another one has its name.
func (p *process) Lapsed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.later || !p.renews() && time.Since(p.since) > 2*p.lease
}

// renewal is after what time a process whose lease is over has another one, once it reaches
// the store again.
const renewal = time.Second

// entered reports whether the store has an entry of the process.
func (p *process) entered() bool {
	p.mu.Lock()
	left := p.left
	p.mu.Unlock()
	return !left && !p.Suspended()
}

// over reports whether the process has ended for certain.
func (p *process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left || p.later
}

// knows reports whether an entry that is not there says to the process that another one is dead.
func (p *process) knows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renews() && !time.Now().Before(p.steady)
}

// Supersede tells the link that another boot of its node has begun. That boot has the lease
// from now on, and this process is suspended for good.
func (p *process) Supersede() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.later = true
}

// source is what reads find now.
func (p *process) source() *Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase == behind && time.Now().Before(p.notices) {
		return p.old
	}
	return p.store
}
