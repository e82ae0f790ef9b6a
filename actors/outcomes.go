package actors

import (
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// outcome is what the answers of a round led to.
type outcome struct {
	round   int
	digest  digest
	outcome []byte
	until   time.Time
}

var (
	maxOutcomes     = limits.Outcomes.Value()
	maxOutcomeBytes = limits.OutcomeBytes.Value()
)

// outcomes are those of calls that have ended, for clients that lost the answer.
type outcomes struct {
	mu    sync.Mutex // guards the rest
	all   map[string]outcome
	order []string // oldest first
	bytes int
}

func (o *outcomes) put(park string, x outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(park)
	o.all[park] = x
	o.order = append(o.order, park)
	o.bytes += len(x.outcome)
	for len(o.order) > maxOutcomes || o.bytes > maxOutcomeBytes {
		o.drop(o.order[0])
	}
}

// drop forgets an outcome. The caller holds mu.
func (o *outcomes) drop(park string) {
	x, ok := o.all[park]
	if !ok {
		return
	}
	delete(o.all, park)
	o.bytes -= len(x.outcome)
	if i := slices.Index(o.order, park); i >= 0 {
		o.order = slices.Delete(o.order, i, i+1)
	}
}

func (o *outcomes) get(park string) (outcome, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	x, ok := o.all[park]
	return x, ok
}

// expire forgets what no state can ask for any more.
func (o *outcomes) expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.order) > 0 && now.After(o.all[o.order[0]].until) {
		o.drop(o.order[0])
	}
}
