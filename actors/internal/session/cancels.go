package session

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Cancels are the client's cancels of calls that did not run here when they came: such a call may be on its way here from another
// node, which has not stored that it is cancelled. They are kept for CancelsKept, and no more than limits.LateCancels of them: then the
// oldest gives way, and its call runs. The zero value is empty.
type Cancels[K comparable] struct {
	kept []keptCancel[K] // oldest first
}

// CancelsKept is for how long: clients come back for a stream within seconds after its node is gone.
const CancelsKept = time.Minute

var mostCancels = limits.LateCancels.Value()

type keptCancel[K comparable] struct {
	session    K
	id, reason string
	at         time.Time
}

// Keep keeps the cancel of the call with that id, and reports whether the oldest one has given way to it.
func (c *Cancels[K]) Keep(session K, id, reason string, now time.Time) (full bool) {
	c.expire(now)
	if full = len(c.kept) == mostCancels; full {
		c.kept = slices.Delete(c.kept, 0, 1)
	}
	c.kept = append(c.kept, keptCancel[K]{session, id, reason, now})
	return full
}

// Take returns the reason of the cancel of a call that is about to run, if one is kept, and forgets it.
func (c *Cancels[K]) Take(session K, id string, now time.Time) (reason string, ok bool) {
	c.expire(now)
	for i := range c.kept {
		if k := &c.kept[i]; k.session == session && k.id == id {
			reason, ok = k.reason, true
			break
		}
	}
	c.kept = slices.DeleteFunc(c.kept, func(k keptCancel[K]) bool { return k.session == session && k.id == id })
	return reason, ok
}

func (c *Cancels[K]) expire(now time.Time) {
	fresh := slices.IndexFunc(c.kept, func(k keptCancel[K]) bool { return now.Sub(k.at) < CancelsKept })
	if fresh < 0 {
		fresh = len(c.kept)
	}
	c.kept = slices.Delete(c.kept, 0, fresh)
}
