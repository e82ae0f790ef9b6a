package quota

import (
	"sync"
	"time"
)

// trifle is the use of an account that does not keep it from being dropped: clients that
// use little, of which there may be many, need no account of their own for as long as
// what they use lasts.
const trifle = 1 << 20

// Usage counts what a client has taken of something that comes back after a while, as
// the room that stored bytes need until they expire. The zero value is none. The methods
// are safe for concurrent use and allocate nothing.
type Usage struct {
	mu     sync.Mutex // guards the rest
	life   time.Duration
	window int64 // which stretch of life now is of
	now    int64 // taken in that window
	before int64 // and in the one before
}

// Add counts n more that come back after life, which is greater than zero, or, where n is
// negative, that so many have come back before that. That of the
// first time counts for all.
func (u *Usage) Add(at time.Time, n int64, life time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.life == 0 {
		u.life = life
	}
	u.roll(at)
	if u.now += n; u.now < 0 {
		u.before = max(0, u.before+u.now)
		u.now = 0
	}
}

// Amount is about how much has not come back: what was taken in the window before comes
// back evenly over this one.
func (u *Usage) Amount(at time.Time) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.life <= 0 {
		return 0
	}
	u.roll(at)
	passed := float64(at.UnixNano()%int64(u.life)) / float64(u.life)
	return u.now + int64(float64(u.before)*(1-passed))
}

// roll goes on to the window that at lies in. A time before the current window counts as
// within it.
func (u *Usage) roll(at time.Time) {
	window := at.UnixNano() / int64(u.life)
	switch {
	case window <= u.window:
		return
	case window == u.window+1:
		u.before = u.now
	default:
		u.before = 0
	}
	u.window, u.now = window, 0
}
