package quota

import (
	"sync"
	"time"
)

// trifle is the usage up to which an account may be dropped. There may be many clients that
// use little; they need no account of their own for as long as their usage lasts.
const trifle = 1 << 20

// Usage counts what a client has taken of something that comes back after a while, such as
// the room of stored bytes until they expire. The zero value is zero. The methods are safe
// for concurrent use and allocate nothing.
type Usage struct {
	mu     sync.Mutex // guards the rest
	life   time.Duration
	window int64 // number of the current window, each life long
	now    int64 // taken in the current window
	before int64 // taken in the window before
}

// Add counts n more, which come back after life; a negative n returns that many early. life
// must be greater than zero; that of the first call counts for all.
func (u *Usage) Add(at time.Time, n int64, life time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.life == 0 {
		u.life = life
	}
	u.rollWindow(at)
	if u.now += n; u.now < 0 {
		u.before = max(0, u.before+u.now)
		u.now = 0
	}
}

// Amount is about how much has not come back yet: what was taken in the window before comes
// back evenly over the current one.
func (u *Usage) Amount(at time.Time) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.life <= 0 {
		return 0
	}
	u.rollWindow(at)
	passed := float64(at.UnixNano()%int64(u.life)) / float64(u.life)
	return u.now + int64(float64(u.before)*(1-passed))
}

// takeBack is Add of -n for what was taken at since: of what has come back already, nothing comes back a second time.
func (u *Usage) takeBack(at, since time.Time, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.life == 0 {
		return
	}
	u.rollWindow(at)
	switch since.UnixNano() / int64(u.life) {
	case u.window:
		u.now = max(0, u.now-n)
	case u.window - 1:
		u.before = max(0, u.before-n)
	}
}

// rollWindow moves on to the window of at. A time before the current window counts as within it.
func (u *Usage) rollWindow(at time.Time) {
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
