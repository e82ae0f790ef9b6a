package actors

import "time"

// clock compares the store's clock, which may jump as it is that of a machine, with one
// that does not.
type clock struct {
	now         func() time.Time // the store's
	store, here time.Time        // when it was made, on both
	seen        time.Duration    // ahead, when that was last looked at for a jump; the node's turn
}

func newClock(now func() time.Time) clock { return clock{now: now, store: now(), here: time.Now()} }

// ahead is how much further the store's clock has gone than it should have.
func (c *clock) ahead() time.Duration { return c.now().Sub(c.store) - time.Since(c.here) }

// running is how long the clock has run, whatever jumped meanwhile.
func (c *clock) running() time.Duration { return time.Since(c.here) }

// in is when so much time will have passed, by running.
func (c *clock) in(d time.Duration) int64 { return int64(c.running() + d) }

// jumped reports that the store's clock has gone forward since it was last asked: what is
// to be renewed in time may be about to expire. It belongs to the node's turn.
func (c *clock) jumped() bool {
	before := c.seen
	c.seen = c.ahead()
	return c.seen-before > maxBack
}

// maxBack is by how much the store's clock may have gone back since the writer record was
// stored: less than by what events are kept longer than records (RecordTTL).
const maxBack = time.Second
