package quota

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Lasting counts what a client has taken for times that differ, such as the bytes of tasks, whose clients say how long they are kept. The zero
// value is zero, and small. The methods are safe for concurrent use.
type Lasting struct {
	of atomic.Pointer[[lives]Usage] // nil until something is taken
}

// A Usage has one time for all that it counts, so there is one for each class of times: a minute, and each twice the one before, up to
// three weeks.
const (
	lives    = 16
	leastOne = time.Minute
)

// classOf is the first class that lasts for life, or the last.
func classOf(life time.Duration) (index int, lasts time.Duration) {
	index = min(bits.Len64(uint64(max(0, life-1)/leastOne)), lives-1)
	return index, leastOne << index
}

// Add counts n more, which come back after life; a negative n returns that many at once.
func (l *Lasting) Add(at time.Time, n int64, life time.Duration) {
	index, lasts := classOf(life)
	l.allClasses()[index].Add(at, n, lasts)
}

// TakeBack returns n early that were taken at since, for life.
func (l *Lasting) TakeBack(at, since time.Time, n int64, life time.Duration) {
	index, _ := classOf(life)
	l.allClasses()[index].takeBack(at, since, n)
}

// Amount is about how much has not come back yet.
func (l *Lasting) Amount(at time.Time) (n int64) {
	all := l.of.Load()
	if all == nil {
		return 0
	}
	for i := range all {
		n += all[i].Amount(at)
	}
	return n
}

func (l *Lasting) allClasses() *[lives]Usage {
	if all := l.of.Load(); all != nil {
		return all
	}
	l.of.CompareAndSwap(nil, new([lives]Usage))
	return l.of.Load()
}
