package procs

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const ms = time.Millisecond

// TestSpreader gives waits to the decision, one each 20 ms, and looks when there are more processors.
func TestSpreader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		waits []time.Duration
		want  bool // after the last of these waits; before it there are no more
	}{
		{"short waits", []time.Duration{0, 5 * ms, 5 * ms, 5 * ms, 5 * ms}, false},
		{"one long wait", []time.Duration{6 * ms}, false},
		{"one long wait among short ones", []time.Duration{0, 19 * ms, 0, 0}, false},
		{"two", []time.Duration{6 * ms, 0, 0, 0, 0, 0, 0, 0, 6 * ms}, true},
		{"two far from each other", []time.Duration{6 * ms, 0, 0, 0, 0, 0, 0, 0, 0, 6 * ms}, false},
		{"one that is too long", []time.Duration{20 * ms}, true},
	} {
		s := newSpreader()
		for i, wait := range tt.waits {
			s.waited(time.Duration(i+1)*20*ms, wait)
			if want := tt.want && i == len(tt.waits)-1; s.spread != want {
				t.Errorf("%s: after wait %d: more %v, want %v", tt.name, i, s.spread, want)
			}
		}
	}
}

// TestSpreaderCalms checks that there are few processors again a minute after the last long waits.
func TestSpreaderCalms(t *testing.T) {
	t.Parallel()
	s := newSpreader()
	for _, tt := range []struct {
		now, wait time.Duration
		want      bool
	}{
		{time.Second, time.Second, true},
		{30 * time.Second, tooLong, true},
		{90*time.Second - 1, 0, true},
		{90 * time.Second, 0, false},
		{91 * time.Second, 0, false},
		{92 * time.Second, tooLong, true},
	} {
		if s.waited(tt.now, tt.wait); s.spread != tt.want {
			t.Errorf("after %v: more %v, want %v", tt.now, s.spread, tt.want)
		}
	}
}

// TestSpreaderLooksSeldom checks that it looks less often while nothing waits, and often as soon as something does.
func TestSpreaderLooksSeldom(t *testing.T) {
	t.Parallel()
	s := newSpreader()
	for i, want := range []time.Duration{40 * ms, 80 * ms, 160 * ms, 160 * ms} {
		if s.waited(time.Duration(i)*time.Second, short-1); s.every != want {
			t.Errorf("after %d looks: %v, want %v", i+1, s.every, want)
		}
	}
	if s.waited(time.Minute, short); s.every != lookOften {
		t.Errorf("after a wait: %v", s.every)
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
	more, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		look(ctx, sync.OnceFunc(func() { close(more) }), func() {})
	}()
	select {
	case <-more:
	case <-time.After(time.Minute):
		t.Error("all processors are busy, and nothing has noticed it")
	}
	over.Store(true)
	busy.Wait()
	cancel()
	<-ended
}
