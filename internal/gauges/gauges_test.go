package gauges

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/bubble"
)

// TestStoreIsAskedOnceASecond has many readers read many metrics at once, for three seconds.
func TestStoreIsAskedOnceASecond(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var s storeStats
		var asked atomic.Uint64
		question := func() cluster.Stats {
			time.Sleep(10 * time.Millisecond)
			return cluster.Stats{Reconnects: asked.Add(1)}
		}
		var readers sync.WaitGroup
		for range 30 {
			for range 20 {
				readers.Go(func() {
					if got := s.read(question); got.Reconnects == 0 {
						t.Error("nothing was said")
					}
				})
			}
			readers.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("the store was asked %d times, want 3", n)
		}
	})
}

// TestStoreThatStandsStill has the store not answer for a minute: readers wait for it once, and get what it has said last, without
// another question, until it answers.
func TestStoreThatStandsStill(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var s storeStats
		var asked uint64
		var stands chan struct{} // nil if it answers
		question := func() cluster.Stats {
			if asked++; stands != nil {
				<-stands
			}
			return cluster.Stats{Reconnects: asked}
		}
		read := func(want uint64, within time.Duration) {
			t.Helper()
			began := time.Now()
			if got := s.read(question).Reconnects; got != want || time.Since(began) != within {
				t.Errorf("got %d after %v, want %d after %v", got, time.Since(began), want, within)
			}
		}
		read(1, 0)
		stands = make(chan struct{})
		time.Sleep(time.Second)
		for wait := storePatience; wait >= 0; wait -= storePatience {
			read(1, wait)
		}
		time.Sleep(time.Minute)
		read(1, 0)
		close(stands)
		synctest.Wait()
		if asked != 2 {
			t.Errorf("the store was asked %d times, want 2", asked)
		}
		read(3, 0) // a minute has passed
	})
}
