package quota

import (
	"testing"
	"time"
)

// TestLasting: what is kept for long counts for long, whatever short or longer is taken before, beside and after it.
func TestLasting(t *testing.T) {
	begin := time.Unix(0, 0).Add(20_000 * 24 * time.Hour)
	for _, life := range []time.Duration{0, time.Second, time.Minute, time.Minute + 1, time.Hour, 24 * time.Hour, 14 * 24 * time.Hour} {
		for _, other := range []time.Duration{time.Second, time.Hour, 24 * time.Hour, 14 * 24 * time.Hour} {
			var l Lasting
			l.Add(begin, 1, other)
			l.Add(begin, 1000, life)
			if got := l.Amount(begin.Add(life / 4)); got < 700 { // the windows begin wherever they do
				t.Errorf("%v after %v: %d are left after a quarter", life, other, got)
			}
			if got := l.Amount(begin.Add(4*life + 2*time.Minute)); got > 1 {
				t.Errorf("%v after %v: %d are left", life, other, got)
			}
		}
	}
	if index, _ := classOf(1 << 62); index != lives-1 {
		t.Errorf("the longest class is %d", index)
	}
}

// TestTakeBack: what is taken back is what was taken, and not what others took since.
func TestTakeBack(t *testing.T) {
	begin := time.Unix(0, 0).Add(20_000 * 24 * time.Hour)
	const life = time.Hour // in a class of 64 minutes
	for _, tt := range []struct {
		after time.Duration // the second taking, and the return of the first
		want  int64
	}{{time.Minute, 300}, {65 * time.Minute, 300}, {3 * time.Hour, 300}} {
		var l Lasting
		l.TakeBack(begin, begin, 5, life) // nothing was taken
		at := begin.Add(tt.after)
		l.Add(begin, 1000, life)
		l.Add(at, 300, life)
		l.TakeBack(at, begin, 1000, life)
		if got := l.Amount(at); got != tt.want {
			t.Errorf("after %v: %d are left, want %d", tt.after, got, tt.want)
		}
	}
}
