// Package pulse notices that the process stood still: it was stopped, or its machine slept, or there was no processor for it. Meanwhile
// others may have given up telling it something, and have gone on without it.
package pulse

import (
	"sync/atomic"
	"time"
)

const (
	// Every is how often a pulse beats.
	Every = 200 * time.Millisecond
	// Still is how much later the next beat may be before the process counts as one that stood still. One that stood still for Every+Still
	// has been noticed.
	Still = 500 * time.Millisecond
)

// Pulse is the pulse of the process. Its methods may be called from any goroutine.
type Pulse struct {
	last  atomic.Pointer[time.Time]
	stood func()
	timer *time.Timer
	over  atomic.Bool
}

// New returns a pulse that beats until Stop. It calls stood when the process stood still, before Feel returns to whoever asks after that: more than
// once if several ask at the same time.
func New(stood func()) *Pulse {
	p := &Pulse{stood: stood}
	now := time.Now()
	p.last.Store(&now)
	p.timer = time.AfterFunc(time.Hour, p.beat)
	p.timer.Reset(Every) // after the assignment, since beat uses the field
	return p
}

func (p *Pulse) beat() {
	if p.over.Load() {
		return
	}
	now := p.feel()
	p.last.Store(&now)
	p.timer.Reset(Every)
}

// Feel calls stood if the process stood still until now.
func (p *Pulse) Feel() { p.feel() }

// feel returns the time. Of a machine that slept only the clock on the wall shows it.
func (p *Pulse) feel() time.Time {
	now, last := time.Now(), *p.last.Load()
	if max(now.Sub(last), now.Round(0).Sub(last.Round(0))) > Every+Still {
		p.stood()
		noted := now
		p.last.Store(&noted) // last, as others look only at this
	}
	return now
}

// Skip is as if the process had stood still for d.
func (p *Pulse) Skip(d time.Duration) {
	past := p.last.Load().Add(-d)
	p.last.Store(&past)
}

// Stop ends the pulse.
func (p *Pulse) Stop() {
	p.over.Store(true)
	p.timer.Stop()
}
