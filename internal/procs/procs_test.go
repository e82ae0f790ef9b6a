package procs

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSpreader gives waits to the decision, and looks when there are more processors, and when few again.
func TestSpreader(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		waits []time.Duration
		want  int // the processors that it sets with the last of these waits, and with no other
	}{
		{"short waits", []time.Duration{0, 5 * ms, 5 * ms, 5 * ms, 5 * ms}, 0},
		{"one long wait", []time.Duration{0, 19 * ms, 0, 0}, 0},
		{"two", []time.Duration{6 * ms, 0, 0, 0, 0, 0, 0, 0, 6 * ms}, 4},
		{"two far from each other", []time.Duration{6 * ms, 0, 0, 0, 0, 0, 0, 0, 0, 6 * ms}, 0},
		{"one that is too long", []time.Duration{20 * ms}, 4},
	} {
		s := newSpreader(2)
		for i, wait := range tt.waits {
			want := 0
			if i == len(tt.waits)-1 {
				want = tt.want
			}
			if got := s.waited(wait); got != want {
				t.Errorf("%s: after wait %d: %d processors, want %d", tt.name, i, got, want)
			}
		}
	}
}

// TestSpreaderCalms checks that there are few processors again a minute after the last long waits.
func TestSpreaderCalms(t *testing.T) {
	t.Parallel()
	s := newSpreader(6)
	if got := s.waited(time.Second); got != many {
		t.Errorf("%d processors, want %d", got, many)
	}
	for range calmFor / 2 {
		s.waited(0)
	}
	if got := s.waited(time.Second); got != 0 {
		t.Errorf("set to %d again", got)
	}
	for i := range calmFor - 1 {
		if got := s.waited(0); got != 0 {
			t.Fatalf("%d processors after %d short waits", got, i+1)
		}
	}
	if got := s.waited(0); got != 6 {
		t.Errorf("%d processors after a minute, want 6", got)
	}
	if got := s.waited(tooLong); got != many {
		t.Errorf("%d processors when there are long waits again, want %d", got, many)
	}
}

// TestLookNoticesBusyProcessors keeps all processors busy.
func TestLookNoticesBusyProcessors(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var over atomic.Bool
	var busy sync.WaitGroup
	for range 8 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for !over.Load() {
				continue
			}
		})
	}
	set, ended := make(chan int, 1), make(chan struct{})
	go func() {
		defer close(ended)
		look(ctx, newSpreader(2), func(n int) int { set <- n; return 0 })
	}()
	select {
	case n := <-set:
		if n != 4 {
			t.Errorf("%d processors, want 4", n)
		}
	case <-time.After(time.Minute):
		t.Error("all processors are busy, and nothing has noticed it")
	}
	over.Store(true)
	busy.Wait()
	cancel()
	<-ended
}
