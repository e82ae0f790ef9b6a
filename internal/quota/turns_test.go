package quota

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns has keys wait for places in an order, each place being held for a second: who gets one when is the
// order of the turns, not that of coming.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		places int
		come   string // the keys in the order of their coming
		want   string // those that have places, a second each
	}{
		{"places for all", 3, "abc", "abc"},
		{"one key has them all", 2, "aaaaaa", "aa aa aa"},
		{"one among many of another", 1, "aaaab", "a a b a a"},
		{"the next place is for who came late", 2, "aaaaaab", "aa ab aa a"},
		{"two of one, many of another", 1, "aaaabb", "a a b a b a"},
		{"three keys", 1, "aaabbbccc", "a a b c a b c b c"},
		{"in the order of the line", 1, "abab", "a b a b"},
		{"no places are one", 0, "ab", "a b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := NewTurns[rune](tt.places)
				var mu sync.Mutex
				got := make([]string, len(tt.come)+1)
				start, last := time.Now(), 0
				for _, k := range tt.come {
					go func() {
						if !turns.Take(t.Context(), k) {
							t.Error("no place")
						}
						mu.Lock()
						last = int(time.Since(start) / time.Second)
						got[last] += string(k)
						mu.Unlock()
						time.Sleep(time.Second)
						turns.Leave()
					}()
					synctest.Wait()
				}
				if n := turns.Waiting(); n != max(0, len(tt.come)-max(1, tt.places)) {
					t.Errorf("%d wait", n)
				}
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				for i, at := range got { // in no order
					at := []rune(at)
					slices.Sort(at)
					got[i] = string(at)
				}
				if all := strings.Join(got[:last+1], " "); all != tt.want {
					t.Errorf("got %q, want %q", all, tt.want)
				}
				turns.hasNothing(t)
			})
		})
	}
}

// hasNothing checks that everybody has left.
func (t *Turns[K]) hasNothing(test *testing.T) {
	test.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taken != 0 || len(t.lines) != 0 || len(t.next) != 0 {
		test.Errorf("%d places are taken, %d lines and %d turns are left", t.taken, len(t.lines), len(t.next))
	}
}

// TestTurnsEnd checks that who has waited enough gets no place and leaves none taken.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](1)
		turns.Take(t.Context(), "a")
		for _, k := range []string{"b", "b", "a", "c"} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				if turns.Take(ctx, k) || time.Since(start) != time.Second {
					t.Errorf("a place after %v", time.Since(start))
				}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		late := make(chan bool)
		go func() { late <- turns.Take(t.Context(), "c") }()
		time.Sleep(time.Second)
		if n := turns.Waiting(); n != 1 {
			t.Errorf("%d wait, want the late one", n)
		}
		turns.Leave()
		if !<-late {
			t.Error("no place")
		}
		turns.Leave()
		turns.hasNothing(t)
	})
}

// TestTurnsEndWithAPlace gives a place to one who has just stopped to wait for it: it has the place, and must leave it.
func TestTurnsEndWithAPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[string](1)
		turns.Take(t.Context(), "a")
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan bool)
		go func() { got <- turns.Take(ctx, "b") }()
		synctest.Wait()
		turns.mu.Lock()
		cancel() // from here on it waits for mu alone
		turns.passTurn()
		turns.mu.Unlock()
		if !<-got {
			t.Error("the place is lost")
		}
		turns.Leave()
		turns.hasNothing(t)
	})
}

// TestTurnsAtOnce has places become free while those that wait for them give up.
func TestTurnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns[int](2)
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
				defer cancel()
				if turns.Take(ctx, i%5) {
					time.Sleep(time.Millisecond)
					turns.Leave()
				}
			})
		}
		all.Wait()
		turns.hasNothing(t)
	})
}
