package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

// TestUse checks that the node knows the use of each budget, sessions apart from
// events, and counts a write before it is measured.
func TestUse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{MaxStore: 256 << 20})
		time.Sleep(2 * limits.Lease.Value())
		sessions, limit := n.Use(store.SessionBudget)
		if sessions != 0 || limit != 48<<20 {
			t.Errorf("sessions: %d of %d bytes, want 0 of 48 MiB", sessions, limit)
		}
		must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), make([]byte, 1<<20), time.Hour))
		events, limit := n.Use(store.EventBudget)
		if events < 1<<20 || limit != 156<<20 {
			t.Errorf("events: %d of %d bytes at once, want 1 MiB and more of 156 MiB", events, limit)
		}
		if sessions, _ = n.Use(store.SessionBudget); sessions != 0 {
			t.Errorf("a call takes %d bytes of what sessions have", sessions)
		}
		must[uint64](t)(n.Create(t.Context(), "session.anon.demo.s1", make([]byte, 1000), time.Hour))
		if sessions, _ = n.Use(store.SessionBudget); sessions < 1000 {
			t.Errorf("a session takes %d bytes, want 1,000 and more", sessions)
		}
		time.Sleep(2 * limits.Lease.Value())
		if now, _ := n.Use(store.EventBudget); now < 1<<20 || now > 1<<20+10_000 {
			t.Errorf("events: %d bytes once they are measured", now)
		}
	})
}

// TestUseOfRecordsThatGrow checks that a record counts at once as much as an update has made it longer, and no more however often it is updated:
// answers of tasks and their results go into records.
func TestUseOfRecordsThatGrow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := open(t, Options{MaxStore: 256 << 20})
		measured := func() {
			time.Sleep(2*limits.Lease.Value() + 50*time.Millisecond) // not at a tick: what is written while it measures counts twice for a moment
			synctest.Wait()
		}
		for key, b := range map[string]store.Budget{"task.anon.demo.t1": store.TaskBudget, "session.anon.demo.s1": store.SessionBudget} {
			measured()
			before, _ := n.Use(b)
			is := func(what string, least, most int64) {
				t.Helper()
				if used, _ := n.Use(b); used < before+least || used > before+most {
					t.Errorf("%s takes %d bytes, want %d to %d", what, used-before, least, most)
				}
			}
			rev := must[uint64](t)(n.Create(t.Context(), key, make([]byte, 1000), time.Hour))
			is(key, 1000, 1100)
			for range 20 {
				rev = must[uint64](t)(n.Update(t.Context(), key, make([]byte, 200_000), rev, time.Hour))
			}
			is("what has grown", 200_000, 201_000)
			rev = must[uint64](t)(n.Update(t.Context(), key, make([]byte, 500), rev, time.Hour))
			rev = must[uint64](t)(n.Update(t.Context(), key, make([]byte, 100_000), rev, time.Hour))
			is("what has shrunk, and grown again, before it is measured", 200_000, 300_000)
			measured()
			is("what was measured", 100_000, 101_000)

			// An update of what another process has written, by what was read of it.
			n.fills[b].sizes = recordSizes{}
			if _, _, err := n.Get(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			rev = must[uint64](t)(n.Update(t.Context(), key, make([]byte, 150_000), rev, time.Hour))
			is("what was read before", 150_000, 151_000)
			// Of what is not known, all counts.
			n.fills[b].sizes = recordSizes{}
			rev = must[uint64](t)(n.Update(t.Context(), key, make([]byte, 150_000), rev, time.Hour))
			is("what was not read before", 300_000, 301_000)
			if _, err := n.Update(t.Context(), key, make([]byte, 400_000), rev-1, time.Hour); err == nil {
				t.Error("an update of an old revision succeeds")
			}
			is("what was refused", 300_000, 301_000)
		}
	})
}
