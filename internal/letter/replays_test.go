package letter

import (
	"fmt"
	"math"
	"testing"
)

// TestReplays: of one sender, each serial is taken once, whatever the order, and what is known of senders is bounded.
func TestReplays(t *testing.T) {
	t.Parallel()
	const most = 100
	r := NewReplays(most)
	take := func(f Form, boot string, serial uint64) bool {
		return r.First(&Head{Form: f, Node: "a", Boot: boot, Serial: serial})
	}
	for _, c := range []struct {
		serial uint64
		first  bool
	}{{100, true}, {100, false}, {99, true}, {99, false}, {102, true}, {101, true}, {101, false}, {36, false}, {39, true}, {39, false}, {300, true}, {102, false}, {237, true}, {236, false}, {math.MaxUint64, true}, {300, false}} {
		if got := take(To, "x", c.serial); got != c.first {
			t.Errorf("serial %d comes for the first time: %v", c.serial, got)
		}
	}
	if !take(All, "x", 100) || take(Heart, "x", 100) || !take(To, "y", 100) {
		t.Error("what is for one node, what is for all, and another boot are told apart wrongly")
	}
	for i := range 3 * most {
		take(Heart, fmt.Sprint("boot", i), 1)
		take(Heart, "busy", uint64(i+1))
	}
	if len(r.boots) > most {
		t.Errorf("%d boots are known", len(r.boots))
	}
	if take(Heart, "busy", 3*most) {
		t.Error("a boot that is heard all the time was forgotten")
	}
}
