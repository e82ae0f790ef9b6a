package mrtr

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Outcome is what the answers of a round led to.
type Outcome struct {
	Round  int
	Digest Digest    // of the answers
	Rest   []byte    // the response, from its id on
	Until  time.Time // it is kept
}

var (
	maxOutcomes     = limits.Outcomes.Value()
	maxOutcomeBytes = limits.OutcomeBytes.Value()
)

// Outcomes are those of calls that have ended, by the names in their states, for clients
// that lost the response. The zero value has none; the methods are safe for concurrent use.
type Outcomes struct {
	mu    sync.Mutex // guards the rest
	all   map[string]Outcome
	order []string // oldest first
	bytes int
}

func (o *Outcomes) Put(park string, x Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(park)
	if o.all == nil {
		o.all = make(map[string]Outcome)
	}
	o.all[park] = x
	o.order = append(o.order, park)
	o.bytes += len(x.Rest)
	for len(o.order) > maxOutcomes || o.bytes > maxOutcomeBytes {
		o.drop(o.order[0])
	}
}

// drop forgets an outcome. The caller holds mu.
func (o *Outcomes) drop(park string) {
	x, ok := o.all[park]
	if !ok {
		return
	}
	delete(o.all, park)
	o.bytes -= len(x.Rest)
	if i := slices.Index(o.order, park); i >= 0 {
		o.order = slices.Delete(o.order, i, i+1)
	}
}

func (o *Outcomes) Get(park string) (Outcome, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x, ok := o.all[park]
	return x, ok
}

// Expire forgets what no state can ask for any more.
func (o *Outcomes) Expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.order) > 0 && now.After(o.all[o.order[0]].Until) {
		o.drop(o.order[0])
	}
}
