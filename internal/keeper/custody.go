package keeper

import (
	"errors"
	"slices"
	"time"
)

// errNotOwner says that a connection has been replaced by a newer one.
var errNotOwner = errors.New("keeper: another process has taken over")

// A ward is a process by who has it.
type ward struct {
	held  bool      // the owner of the keeper has it
	until time.Time // nobody has it, and it is kept until then; zero says that its time is over
}

// custody decides for whom processes are kept. One connection owns the keeper, the newest; each process is held by it, or is kept for a while until somebody adopts it.
type custody struct {
	keep       time.Duration // how long a process is kept that nobody holds
	stay       bool          // whether the keeper itself stays without anybody
	last       uint64        // the number of the newest connection
	lastClient string        // the client that has made it
	tries      uint64        // how many that client had made until then, 0 if it has not said so
	owner      uint64        // the connection that owns the keeper, 0 for none
	until      time.Time     // when the keeper ends without an owner and processes: for how long it waits for the first one
	wards      map[uint64]ward
}

func newCustody(keep time.Duration, stay bool, now time.Time) custody {
	return custody{keep: keep, stay: stay, until: now.Add(max(keep, helloTime)), wards: map[uint64]ward{}} // who starts it has time to connect
}

// connect gives the keeper to a new connection. It returns its number, and that of the one it replaces. A client that comes again after another one has been there does not get it: that it was
// replaced may have been lost with its connection, and the two would take the keeper from each other for ever. Nor does a connection that the client has
// given up for a newer one, and that was read after that. tries counts them.
func (c *custody) connect(client string, tries uint64, again bool, now time.Time) (number, replaced uint64, err error) {
	if again && (client != c.lastClient || tries != 0 && tries <= c.tries) {
		return 0, 0, errNotOwner
	}
	replaced, c.lastClient, c.tries = c.owner, client, tries
	c.leave(c.owner, c.keep, now)
	c.last++
	c.owner, c.until = c.last, now
	return c.owner, replaced, nil
}

// leave says that a connection is gone, and how long what it holds is kept.
func (c *custody) leave(number uint64, keep time.Duration, now time.Time) {
	if number == 0 || number != c.owner {
		return
	}
	c.owner = 0
	for handle, w := range c.wards {
		if w.held {
			c.wards[handle] = ward{until: now.Add(keep)}
		}
	}
}

// bye says that the owner ends in order, and how long all that there is is kept, also what it has not held.
func (c *custody) bye(number uint64, keep time.Duration, now time.Time) {
	if number == 0 || number != c.owner {
		return
	}
	c.leave(number, keep, now)
	for handle, w := range c.wards {
		if !w.until.IsZero() {
			c.wards[handle] = ward{until: now.Add(keep)}
		}
	}
}

// hold has a process held by a connection.
func (c *custody) hold(number, handle uint64) error {
	if number == 0 || number != c.owner {
		return errNotOwner
	}
	c.wards[handle] = ward{held: true}
	return nil
}

// abandon keeps a process that nobody holds, for whoever comes.
func (c *custody) abandon(handle uint64, now time.Time) {
	c.wards[handle] = ward{until: now.Add(c.keep)}
}

// drop forgets a process that is gone.
func (c *custody) drop(handle uint64) { delete(c.wards, handle) }

// takeExpired returns the processes whose time is over, each once, and whether the keeper's own is: nobody has it, it has nothing, and somebody has had it, or comes no more.
func (c *custody) takeExpired(now time.Time) (over []uint64, end bool) {
	for handle, w := range c.wards {
		if !w.held && !w.until.IsZero() && !now.Before(w.until) {
			c.wards[handle] = ward{}
			over = append(over, handle)
		}
	}
	slices.Sort(over)
	return over, c.owner == 0 && !c.stay && !now.Before(c.until) && len(c.wards) == 0
}

// nextExpiry returns when takeExpired has to be asked again at the latest, if time alone changes its answer.
func (c *custody) nextExpiry() (time.Time, bool) {
	var at time.Time
	for _, w := range c.wards {
		if !w.held && !w.until.IsZero() && (at.IsZero() || w.until.Before(at)) {
			at = w.until
		}
	}
	if c.owner == 0 && !c.stay && len(c.wards) == 0 {
		at = c.until
	}
	return at, !at.IsZero()
}
