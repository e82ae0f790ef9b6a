package memory

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		live, spare int64
		want        int
	}{
		{0, 64 << 20, mostPercent},
		{4 << 20, 64 << 20, mostPercent},
		{16 << 20, 64 << 20, 400},
		{32 << 20, 64 << 20, 200},
		{1 << 30, 64 << 20, 200},
		{16 << 20, 8 << 20, 200},
	} {
		if got := percentOf(tt.live, tt.spare); got != tt.want {
			t.Errorf("%d live, %d to spare: %d %%, want %d", tt.live, tt.spare, got, tt.want)
		}
	}
}

// TestPaceOfGrowth checks that garbage is not let grow while what is live does, and is soon after.
func TestPaceOfGrowth(t *testing.T) {
	t.Parallel()
	var size int64
	p := &pacer{spare: 64 << 20, live: func() int64 { return size }, set: func(int) int { return 0 }}
	collect := func(live int64, want int) {
		t.Helper()
		size = live << 20
		if p.adjust(); p.percent != want {
			t.Errorf("%d MiB live: %d %%, want %d", live, p.percent, want)
		}
	}
	p.calm = growingFor
	collect(6, mostPercent) // before clients come
	collect(8, 800)
	for _, live := range []int64{14, 20, 26, 32} {
		collect(live, growingPercent)
	}
	for range growingFor - 1 {
		collect(30, growingPercent)
	}
	for range 10 { // what is under way comes and goes
		collect(30, 213)
		collect(32, 213)
		collect(34, 213)
	}
	collect(39, growingPercent)
	for range growingFor - 1 {
		collect(4, growingPercent)
	}
	for range 100 {
		collect(4, mostPercent)
	}
	collect(13, growingPercent) // what was live long ago does not count
	collect(spareMost>>20, leastPercent)
}

// TestPace checks that the pace follows the heap, and that nothing is set without need.
func TestPace(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	sizes, sets := make(chan int64), make(chan int, 10)
	var last int64
	p := &pacer{ctx: ctx, spare: 64 << 20, set: func(percent int) int { sets <- percent; return 0 }, live: func() int64 {
		select {
		case last = <-sizes:
		case <-ctx.Done():
		}
		return last
	}}
	p.most, p.calm = 64<<20, growingFor
	go func() { sizes <- 16 << 20 }()
	p.adjust()
	if got := <-sets; got != 400 {
		t.Errorf("it begins with %d", got)
	}
	p.arm()
	tell := func(size int64) {
		t.Helper()
		for end := time.After(10 * time.Second); ; {
			runtime.GC()
			select {
			case sizes <- size:
				return
			case <-end:
				t.Fatal("no collection is noticed")
			case <-time.After(time.Millisecond):
			}
		}
	}
	tell(17 << 20) // about the same
	tell(64 << 20)
	tell(64 << 20)
	if got := <-sets; got != 200 {
		t.Errorf("with a large heap it is %d", got)
	}
	cancel()
	if len(sets) > 0 {
		t.Errorf("it was set %d times more", len(sets))
	}
}
