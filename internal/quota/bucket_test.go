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
