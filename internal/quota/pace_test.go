package quota

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPaceIsFreeUntilMuchIsTaken: up to the amount nobody waits; beyond it only who took little goes on, and after the time of
// the amount everybody does.
func TestPaceIsFreeUntilMuchIsTaken(t *testing.T) {
	t.Parallel()
	const amount, life = 3200, 10 * time.Second
	p := NewPace[string](amount, life)
	var greedy, modest Usage
	at := time.Unix(0, 0)
	for range 32 {
		if !p.Take(at, &greedy, 100) {
			t.Fatalf("the amount is not taken, but %d, and it has to wait", p.Taken(at))
		}
	}
	if p.Take(at, &greedy, 1) {
		t.Error("all is taken, and it does not wait")
	}
	if n := p.Taken(at); n != amount {
		t.Errorf("%d are taken, want %d: who waits has taken nothing", n, amount)
	}
	if !p.Take(at, &modest, amount/paceLeast) {
		t.Error("who took little has to wait")
	}
	if p.Take(at, &modest, 1) {
		t.Error("who took its least part does not wait")
	}
	if at = at.Add(2 * life); !p.Take(at, &greedy, amount) {
		t.Errorf("all came back, and it has to wait: %d are taken", p.Taken(at))
	}
	if p := NewPace[string](0, life); !p.Take(at, &greedy, 1<<40) {
		t.Error("without an amount it has to wait")
	}
}

// TestPaceGoesByTurns: who waits goes on as fast as the amount comes back, by turns of the keys.
func TestPaceGoesByTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPace[rune](1000, 10*time.Second) // 100 a second
		var mu sync.Mutex
		var got string
		var own [3]Usage
		for _, k := range "aaaabbc" {
			go func() {
				if !p.TakeInTurn(t.Context(), k, &own[k-'a'], 100) {
					t.Error("it did not wait")
				}
				mu.Lock()
				defer mu.Unlock()
				got += string(k)
			}()
			synctest.Wait()
		}
		if n := p.Waiting(); n != 7 {
			t.Errorf("%d wait, want 7", n)
		}
		for i, want := range []string{"", "a", "aa", "aab", "aabc", "aabca", "aabcab", "aabcaba"} {
			mu.Lock()
			if got != want {
				t.Errorf("after %d s %q had their turns, want %q", i, got, want)
			}
			mu.Unlock()
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if n := own[0].Amount(time.Now()); n != 400 {
			t.Errorf("the first one took %d, want 400", n)
		}
	})
}

// TestPaceEndsWithItsContext: who is called off does not wait on, in line or in its turn, and has taken its bytes.
func TestPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPace[rune](1000, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		var own Usage
		for range 2 {
			go func() {
				if p.TakeInTurn(ctx, 'a', &own, 500) || time.Since(start) != time.Second {
					t.Errorf("it waited for %v", time.Since(start))
				}
			}()
		}
		time.Sleep(2 * time.Second)
		if n := p.Taken(time.Now()); n != 1000 || p.Waiting() != 0 {
			t.Errorf("%d are taken, want 1000; %d wait", n, p.Waiting())
		}
		if !p.TakeInTurn(t.Context(), 'a', &own, 1) {
			t.Error("its turn was not given back")
		}
	})
}
