package quota

import (
	"math"
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	b := NewBucket(Rate{10, 3})
	for i := range 3 {
		if wait := b.Take(now); wait != 0 {
			t.Fatalf("token %d: to come in %v", i, wait)
		}
	}
	if wait := b.Take(now); wait != 100*time.Millisecond {
		t.Errorf("an empty bucket: the next token in %v, want 100 ms", wait)
	}
	if wait := b.Take(now.Add(60 * time.Millisecond)); wait != 40*time.Millisecond {
		t.Errorf("60 ms later: in %v, want 40 ms", wait)
	}
	if wait := b.Take(now.Add(100 * time.Millisecond)); wait != 0 {
		t.Errorf("100 ms later: in %v, want at once", wait)
	}
	b.GiveBack(now.Add(100 * time.Millisecond))
	if wait := b.Take(now.Add(100 * time.Millisecond)); wait != 0 {
		t.Errorf("a token given back: in %v, want at once", wait)
	}
	later := now.Add(time.Hour)
	if !b.Full(later) {
		t.Error("not full after an hour")
	}
	for range 10 {
		b.GiveBack(later)
	}
	later = later.Add(time.Nanosecond)
	for range 3 {
		b.Take(later)
	}
	if b.Take(later) == 0 {
		t.Error("a full bucket kept what was given back")
	}
	if b.Full(later) {
		t.Error("full though it is empty")
	}
	if slow := NewBucket(Rate{1e-12, 1}); slow.Take(now) != 0 || slow.Take(now) != 1e9*time.Second {
		t.Error("a bucket that hardly fills does not say so")
	}
	if none := NewBucket(Rate{-1, 0}); none.Take(now) != 0 || !none.Full(now) {
		t.Error("a bucket without a limit has one")
	}
}

// TestBucketTakesMany takes and gives back several tokens at once, also more than there ever are.
func TestBucketTakesMany(t *testing.T) {
	t.Parallel()
	const size = 20
	start := time.Unix(1e9, 0)
	for _, tt := range []struct {
		name   string
		before int           // tokens that are taken first
		back   int           // and given back
		after  time.Duration // that passes then
		n      int
		wait   time.Duration
		left   int // tokens that can be taken one by one
	}{
		{"none", 20, 0, 0, 0, 0, 0},
		{"fewer than there are", 0, 0, 0, 15, 0, 5},
		{"all", 0, 0, 0, 20, 0, 0},
		{"one too many", 6, 0, 0, 15, 100 * time.Millisecond, 14},
		{"many too many", 20, 0, 0, 15, 1500 * time.Millisecond, 0},
		{"in time", 20, 0, 1500 * time.Millisecond, 15, 0, 0},
		{"too early", 20, 0, 1400 * time.Millisecond, 15, 100 * time.Millisecond, 14},
		{"more than there ever are, of a full bucket", 0, 0, 0, 1000, 0, 0},
		{"more than there ever are, one missing", 1, 0, 0, 1000, 100 * time.Millisecond, 19},
		{"given back", 20, 15, 0, 15, 0, 0},
		{"given back more than there ever are", 1000, 1000, 0, 1000, 0, 0},
		{"given back to a full bucket", 0, 15, 0, 20, 0, 0},
	} {
		b := NewBucket(Rate{10, size})
		if wait := b.TakeN(start, tt.before); wait != 0 {
			t.Fatalf("%s: the first %d: to come in %v", tt.name, tt.before, wait)
		}
		b.GiveBackN(start, tt.back)
		now := start.Add(tt.after)
		if wait := b.TakeN(now, tt.n); wait.Round(time.Microsecond) != tt.wait {
			t.Errorf("%s: %d tokens to come in %v, want %v", tt.name, tt.n, wait, tt.wait)
		}
		left := 0
		for b.Take(now) == 0 {
			left++
		}
		if left != tt.left {
			t.Errorf("%s: %d are left, want %d", tt.name, left, tt.left)
		}
	}
	if none := NewBucket(Rate{-1, 0}); none.TakeN(start, math.MaxInt) != 0 {
		t.Error("a bucket without a limit has one")
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate float64
		n    int
		want int
	}{{100, 0, 200}, {100, 7, 7}, {100, -1, 200}, {0.1, 0, 1}, {1.2, 0, 3}, {-1, 0, 1}, {math.MaxFloat64, 0, math.MaxInt32}} {
		if got := Burst(tt.rate, tt.n); got != tt.want {
			t.Errorf("burst of %g, %d: got %d, want %d", tt.rate, tt.n, got, tt.want)
		}
	}
}

// TestDebt has a bucket owe what it has not got, and be paid by time.
func TestDebt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1, 0)
	b := NewBucket(Rate{PerSecond: 10, Burst: 20})
	if b.Debt(now) != 0 || (Bucket{}).Debt(now) != 0 {
		t.Error("a full bucket, or one without a limit, owes something")
	}
	b.Owe(now, 20)
	if b.Debt(now) != 0 || b.Take(now) == 0 {
		t.Error("an empty bucket owes something, or has something")
	}
	b.Owe(now, 5)
	if got := b.Debt(now); got != 500*time.Millisecond {
		t.Errorf("5 tokens take %v at 10 a second", got)
	}
	if got := b.Debt(now.Add(time.Second)); got != 0 {
		t.Errorf("after a second it owes for %v", got)
	}
}

// TestWait says when a bucket has a token again, and takes none.
func TestWait(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := NewBucket(Rate{PerSecond: 2, Burst: 2})
	for range 3 {
		if got := b.WaitTime(now); got != 0 {
			t.Errorf("a full bucket: %v", got)
		}
	}
	b.TakeN(now, 2)
	if got := b.WaitTime(now); got != 500*time.Millisecond {
		t.Errorf("an empty bucket: %v", got)
	}
	b.Owe(now, 2)
	if got := b.WaitTime(now); got != 1500*time.Millisecond {
		t.Errorf("a bucket that owes: %v", got)
	}
	if got := (Bucket{}).WaitTime(now); got != 0 {
		t.Errorf("no bucket: %v", got)
	}
}
