package quota

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Rate limits how often something may happen. A negative PerSecond means no limit.
type Rate struct {
	PerSecond float64
	Burst     int // at once after an idle time; see [Burst]
}

// Burst is the size of a bucket that gets perSecond tokens a second: n if that is positive,
// otherwise the tokens of two seconds, and at least 1.
func Burst(perSecond float64, n int) int {
	if n > 0 {
		return n
	}
	return max(1, int(math.Ceil(min(2*perSecond, math.MaxInt32))))
}

// Bucket is a token bucket. The zero value never runs dry. Copies share their tokens. The
// methods are safe for concurrent use and allocate nothing; their times may come out of
// order.
type Bucket struct {
	l     *rate.Limiter
	size  int
	taken *atomic.Int64 // what was taken and not given back, for [Accounts.ReportShares]; nil if nobody asks
}

// NewBucket returns a full bucket.
func NewBucket(r Rate) Bucket {
	if r.PerSecond < 0 {
		return Bucket{}
	}
	return Bucket{l: rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst), size: r.Burst}
}

// Take is [Bucket.TakeN] of one token.
func (b Bucket) Take(now time.Time) (wait time.Duration) { return b.TakeN(now, 1) }

// TakeN takes n tokens and returns 0. If there are fewer, it returns how long to wait for
// them, at least a millisecond, and changes nothing. More tokens than the bucket holds
// count as all that it holds: what they stand for has to wait for a full bucket, not for
// ever.
func (b Bucket) TakeN(now time.Time, n int) (wait time.Duration) {
	if b.l == nil || n <= 0 {
		return 0
	}
	n = min(n, b.size)
	if b.l.AllowN(now, n) {
		if b.taken != nil {
			b.taken.Add(int64(n))
		}
		return 0
	}
	seconds := (float64(n) - b.l.TokensAt(now)) / float64(b.l.Limit())
	return max(time.Duration(min(seconds, 1e9)*float64(time.Second)), time.Millisecond)
}

// WaitTime is how long it takes until the bucket has a token; 0 if it has one now. It takes nothing.
func (b Bucket) WaitTime(now time.Time) time.Duration {
	if b.l == nil {
		return 0
	}
	if tokens := b.l.TokensAt(now); tokens < 1 {
		return max(time.Duration((1-tokens)/float64(b.l.Limit())*float64(time.Second)), time.Millisecond)
	}
	return 0
}

// GiveBack is [Bucket.GiveBackN] of one token.
func (b Bucket) GiveBack(now time.Time) { b.GiveBackN(now, 1) }

// GiveBackN returns tokens that TakeN(now, n) took. A full bucket stays as it is.
func (b Bucket) GiveBackN(now time.Time, n int) {
	if b.l != nil && n > 0 {
		n = min(n, b.size)
		b.l.AllowN(now, -n) // the limiter takes negative numbers, and keeps no more than its size
		if b.taken != nil {
			b.taken.Add(-int64(n))
		}
	}
}

// countTaken is the bucket with a count of what is taken from it.
func (b Bucket) countTaken() Bucket {
	if b.l != nil {
		b.taken = new(atomic.Int64)
	}
	return b
}

// Owe takes n tokens that were taken elsewhere already. The bucket may owe some then, but never more than it gets in a second: word of
// what was taken may be late, and come all at once.
func (b Bucket) Owe(now time.Time, n int64) {
	if b.l == nil || n <= 0 {
		return
	}
	most := min(b.l.TokensAt(now)+float64(b.l.Limit()), float64(b.size))
	if most = min(most, float64(n)); most >= 1 {
		b.l.ReserveN(now, int(most))
	}
}

// Debt is how long it takes until the bucket owes nothing; 0 if it does not now.
func (b Bucket) Debt(now time.Time) time.Duration {
	if b.l == nil {
		return 0
	}
	if tokens := b.l.TokensAt(now); tokens < 0 {
		return max(time.Duration(-tokens/float64(b.l.Limit())*float64(time.Second)), time.Millisecond)
	}
	return 0
}

// Full reports whether the bucket has all its tokens, as a new one would.
func (b Bucket) Full(now time.Time) bool {
	return b.l == nil || b.l.TokensAt(now) >= float64(b.l.Burst())
}
