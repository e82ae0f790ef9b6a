// Package remoteclock follows the clock of servers by the times that they say with their answers. A process counts the lifetimes of what they store by
// it, whatever its own machine takes the time for.
package remoteclock

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is the clock of servers, as far as this process knows it. The zero value has heard nothing, and is the machine's own. Its methods may be
// called from any goroutine; Now is cheap.
type Clock struct {
	last    atomic.Pointer[reading]
	hearing sync.Mutex // held while one reading replaces another
}

// reading is what is known of the clock.
type reading struct {
	then  time.Time       // by the servers
	here  time.Time       // the same moment by the machine, whose monotonic clock is counted on from it
	ahead []time.Duration // by how much the machine's clock was ahead, of this answer and the ones before it
}

// believed is how many answers in a row must say that the machine's clock is wrong, once there were so many: one may come from a server that is.
const believed = 3

// counted is the time by the servers as it is counted on from the reading.
func (r *reading) counted(now time.Time) time.Time { return r.then.Add(now.Sub(r.here)) }

// Hear takes the time that a server said with an answer. The question was sent and the answer came at these times by the machine's clock.
func (c *Clock) Hear(sent, received, server time.Time) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	// The server said it between the two.
	took := max(received.Sub(sent), 0)
	next := &reading{then: server.Add(took / 2), here: time.Now(), ahead: []time.Duration{ahead(sent, received, server)}}
	if last := c.last.Load(); last != nil {
		next.ahead = append(next.ahead, last.ahead[:min(len(last.ahead), believed-1)]...)
		switch now, most := last.counted(next.here), server.Add(took); {
		case now.Before(server):
			next.then = server
		case now.After(most):
			next.then = most
		default: // as far as it can be known, nothing has changed
			next.then = now
		}
	}
	c.last.Store(next)
}

// ahead is by how much the machine's clock is ahead at least of a server that said its time between two of the machine, and below 0 behind.
func ahead(sent, received, server time.Time) time.Duration {
	return nearest(sent.Round(0).Sub(server), received.Round(0).Sub(server))
}

// nearest is what is nearest to 0 of all that lies between low and high.
func nearest(low, high time.Duration) time.Duration { return max(low, min(high, 0)) }

// Now is the time by the clock of the servers, without a monotonic reading. It does not follow when the machine's clock is set.
func (c *Clock) Now() time.Time {
	now := time.Now()
	if last := c.last.Load(); last != nil {
		now = last.counted(now)
	}
	return now.Round(0)
}

// Surely is what the last three answers agree on, or all where there were fewer: by how much the machine's clock is ahead at least, or below 0 behind.
func (c *Clock) Surely() time.Duration {
	if last := c.last.Load(); last != nil {
		return nearest(slices.Min(last.ahead), slices.Max(last.ahead))
	}
	return 0
}

// Ahead is by how much the machine's clock was ahead of that of the servers at least when they were last heard, and below 0 by how much it was behind. 0 is also what
// the time that the answer took does not let tell.
func (c *Clock) Ahead() time.Duration {
	if last := c.last.Load(); last != nil {
		return last.ahead[0]
	}
	return 0
}
