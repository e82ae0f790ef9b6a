package actors

import (
	"time"

	"golang.org/x/time/rate"
)

// bucket is a token bucket. One without a limiter never runs dry.
type bucket struct{ l *rate.Limiter }

// newBucket returns a full bucket of so many tokens that gets perSecond new ones.
// A negative rate makes one that never runs dry.
func newBucket(perSecond float64, burst int) bucket {
	if perSecond < 0 {
		return bucket{}
	}
	return bucket{rate.NewLimiter(rate.Limit(perSecond), burst)}
}

// take takes a token, or says how long it will be until there is one.
func (b bucket) take(now time.Time) (wait time.Duration) {
	if b.l == nil || b.l.AllowN(now, 1) {
		return 0
	}
	seconds := (1 - b.l.TokensAt(now)) / float64(b.l.Limit())
	return max(time.Duration(min(seconds, 1e9)*float64(time.Second)), time.Millisecond)
}

// giveBack returns a token. The limiter takes negative numbers as well, and keeps
// no more than its size.
func (b bucket) giveBack(now time.Time) {
	if b.l != nil {
		b.l.AllowN(now, -1)
	}
}

// full reports that the bucket is as it was made.
func (b bucket) full(now time.Time) bool {
	return b.l == nil || b.l.TokensAt(now) >= float64(b.l.Burst())
}
