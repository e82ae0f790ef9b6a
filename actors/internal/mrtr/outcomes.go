package mrtr

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Outcome is the response that followed the answers of a round.
type Outcome struct {
	Round  int
	Digest Digest    // of the answers
	Ended  bool      // it follows whatever is answered: the call was ended while it waited; see PutEnded
	Rest   []byte    // the response, from its id on
	Until  time.Time // when it is dropped
	Free   func()    // called when it is dropped, unless it is nil; it must not use the Outcomes
}

var (
	maxOutcomes     = limits.Outcomes.Value()
	maxOutcomeBytes = limits.OutcomeBytes.Value()
)

// Outcomes are the outcomes of calls that have ended, by park key, for clients that lost
// the response. The zero value is empty; the methods are safe for concurrent use.
type Outcomes struct {
	mu    sync.Mutex // guards the rest
	all   map[string]Outcome
	order []string // oldest first
	bytes int

	ended      map[string]Outcome
	endedOrder []string // oldest first
}

// Put keeps x as the outcome of the call with the given park key, in place of an earlier one.
// Beyond the limits it drops the oldest outcomes.
func (o *Outcomes) Put(park string, x Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dropOutcome(park)
	if o.all == nil {
		o.all = make(map[string]Outcome)
	}
	o.all[park] = x
	o.order = append(o.order, park)
	o.bytes += len(x.Rest)
	for len(o.order) > maxOutcomes || o.bytes > maxOutcomeBytes {
		o.dropOutcome(o.order[0])
	}
}

// PutEnded keeps x as the outcome of a call that was ended while it waited for its client. Outcomes of
// other calls do not take its place; beyond the limit it drops the oldest of its kind.
func (o *Outcomes) PutEnded(park string, x Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended == nil {
		o.ended = make(map[string]Outcome)
	}
	x.Ended = true
	o.ended[park] = x
	if o.endedOrder = append(o.endedOrder, park); len(o.endedOrder) > maxOutcomes {
		delete(o.ended, o.endedOrder[0])
		o.endedOrder = o.endedOrder[1:]
	}
}

// dropOutcome forgets an outcome. The caller holds mu.
func (o *Outcomes) dropOutcome(park string) {
	x, ok := o.all[park]
	if !ok {
		return
	}
	delete(o.all, park)
	o.bytes -= len(x.Rest)
	if x.Free != nil {
		x.Free()
	}
	if i := slices.Index(o.order, park); i >= 0 {
		o.order = slices.Delete(o.order, i, i+1)
	}
}

// Get returns the outcome of the call with the given park key, if it is kept.
func (o *Outcomes) Get(park string) (Outcome, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x, ok := o.ended[park]; ok {
		return x, true
	}
	x, ok := o.all[park]
	return x, ok
}

// Expire drops the outcomes that no state can name any more.
func (o *Outcomes) Expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.order) > 0 && now.After(o.all[o.order[0]].Until) {
		o.dropOutcome(o.order[0])
	}
	o.endedOrder = slices.DeleteFunc(o.endedOrder, func(park string) bool {
		over := now.After(o.ended[park].Until)
		if over {
			delete(o.ended, park)
		}
		return over
	})
}
