package loadgen

import (
	"strings"
	"testing"
	"time"
)

// TestSlow: a server that takes three times as long for all while somebody reads slowly is found
// out.
func TestSlow(t *testing.T) {
	for _, revision := range []string{DefaultRevision, Stateless} {
		t.Run(revision, func(t *testing.T) {
			s := new(manyServer)
			s.pace = func(string) (time.Duration, bool) {
				s.mu.Lock()
				defer s.mu.Unlock()
				return time.Duration(20+40*min(1, s.slow)) * time.Millisecond, true
			}
			s.serve(t, func(t *testing.T, o Options) {
				o.Scenario, o.Revision, o.Clients, o.Duration = "slow", revision, 4, 3*time.Second
				r, err := Run(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				judge(t, r, err, r.Operations, map[string]int64{})
				b := r.Beside
				if b == nil || b.P50 < 2.9 || b.P50 > 3.1 || b.Streams != 1 || b.Bytes == 0 || b.Bytes > 64*50 {
					t.Errorf("it is %+v", b)
				}
			})
		})
	}
}

// TestCompareMany: figures of scenarios that are no loop are compared, too.
func TestCompareMany(t *testing.T) {
	a := &Report{Scenario: "slow", Count: 1, Held: &Held{Each: 2}, Beside: &Beside{P50: 2, P99: 4}, First: &Latency{P50: 1, P99: 1}}
	b := &Report{Scenario: "slow", Count: 2, Held: &Held{Each: 3}, Beside: &Beside{P50: 1, P99: 1}, First: &Latency{P50: 5, P99: 6}}
	var text strings.Builder
	if err := Compare(&text, a, b); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{"count 1 2 differs", "x 0.50", "x 0.25", "x 1.50", "x 5.00", "x 6.00"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, text.String())
		}
	}
}
