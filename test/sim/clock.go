package sim

import "time"

// clock is the clock of a Store, by which what it has expires. The Store's mu guards it.
type clock struct{ skew time.Duration }

func (c *clock) skewed() time.Time { return time.Now().Add(c.skew) }

func (c *clock) lives(expires time.Time) bool { return expires.IsZero() || c.skewed().Before(expires) }

func (c *clock) after(ttl time.Duration) time.Time {
	if ttl <= 0 {
		return time.Time{}
	}
	if rest := ttl % time.Second; rest > 0 {
		ttl += time.Second - rest
	}
	return c.skewed().Add(ttl)
}

// alive returns m, or nothing if it has expired.
func (c *clock) alive(m message) message {
	if m.seq == 0 || !c.lives(m.expires) {
		return message{}
	}
	return m
}
