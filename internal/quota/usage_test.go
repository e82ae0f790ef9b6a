package quota

import (
	"testing"
	"time"
)

func TestUsage(t *testing.T) {
	const life = 10 * time.Minute
	begin := time.Unix(0, 0).Add(1000 * life)
	var u Usage
	if got := u.Amount(begin); got != 0 {
		t.Errorf("nothing used: %d", got)
	}
	u.Add(begin.Add(time.Minute), 600, life)
	u.Add(begin.Add(9*time.Minute), 400, life)
	for _, tt := range []struct {
		after    time.Duration
		from, to int64
	}{
		{9 * time.Minute, 1000, 1000},
		{10 * time.Minute, 1000, 1000},
		{15 * time.Minute, 499, 501},
		{20 * time.Minute, 0, 0},
		{time.Hour, 0, 0},
	} {
		at := begin.Add(tt.after)
		if got := u.Amount(at); got < tt.from || got > tt.to {
			t.Errorf("after %v: %d, want %d to %d", tt.after, got, tt.from, tt.to)
		}
	}
	// A use that ends early is taken from the newest count.
	u.Add(begin.Add(30*time.Minute), 100, life)
	u.Add(begin.Add(40*time.Minute), 50, life)
	for _, tt := range []struct{ back, left int64 }{{20, 130}, {60, 70}, {500, 0}} {
		u.Add(begin.Add(40*time.Minute), -tt.back, life)
		if got := u.Amount(begin.Add(40 * time.Minute)); got != tt.left {
			t.Errorf("%d come back: %d are left, want %d", tt.back, got, tt.left)
		}
	}
	u.Add(begin.Add(2*time.Hour), 7, life)
	if got := u.Amount(begin.Add(time.Hour)); got < 7 {
		t.Errorf("a time that comes out of order: %d, want what was counted since", got)
	}
}

// TestUsageKeepsAnAccount checks that an account with much in use is kept, so that it cannot
// begin anew, and that one with little use is not.
func TestUsageKeepsAnAccount(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		bytes   int64
		dropped bool
	}{"a trifle": {trifle, true}, "much": {trifle + 1, false}} {
		t.Run(name, func(t *testing.T) {
			var a Account
			a.Used[0].Add(now, tt.bytes, time.Hour)
			if got := a.dropIdle(now); got != tt.dropped {
				t.Errorf("dropped %v", got)
			}
			if !a.Dropped() && !a.dropIdle(now.Add(3*time.Hour)) {
				t.Error("kept when all has come back")
			}
		})
	}
}
