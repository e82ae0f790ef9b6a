package cluster

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// TestUse checks that the node knows the use of each budget, sessions apart from
// events, and counts a write before it is measured.
func TestUse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := open(t, Options{MaxStore: 256 << 20})
		time.Sleep(2 * limits.Lease.Value())
		sessions, limit := n.Use(SessionBudget)
		if sessions != 0 || limit != 48<<20 {
			t.Errorf("sessions: %d of %d bytes, want 0 of 48 MiB", sessions, limit)
		}
		must[uint64](t)(n.OpenStream(t.Context(), testStream, []byte("w"), make([]byte, 1<<20), time.Hour))
		events, limit := n.Use(EventBudget)
		if events < 1<<20 || limit != 156<<20 {
			t.Errorf("events: %d of %d bytes at once, want 1 MiB and more of 156 MiB", events, limit)
		}
		if sessions, _ = n.Use(SessionBudget); sessions != 0 {
			t.Errorf("a call takes %d bytes of what sessions have", sessions)
		}
		must[uint64](t)(n.Create(t.Context(), "session.anon.demo.s1", make([]byte, 1000), time.Hour))
		if sessions, _ = n.Use(SessionBudget); sessions < 1000 {
			t.Errorf("a session takes %d bytes, want 1,000 and more", sessions)
		}
		time.Sleep(2 * limits.Lease.Value())
		if now, _ := n.Use(EventBudget); now < 1<<20 || now > 1<<20+10_000 {
			t.Errorf("events: %d bytes once they are measured", now)
		}
	})
}
