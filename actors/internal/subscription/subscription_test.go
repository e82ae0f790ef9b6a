package subscription

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/kernel"
)

// one is a subscriber to everything. It calls asked, if that is set, when an actor's turn
// asks it.
type one struct {
	asked func()
	calls int

	mu  sync.Mutex // guards got
	got []string
}

// told returns how many updates it got.
func (o *one) told() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.got)
}

func (*one) Server() string { return "s" }
func (*one) Stopped() bool  { return false }

func (o *one) Push(data []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.got = append(o.got, string(data))
	return true
}

func (*one) Hears(string) bool { return true }

func (o *one) Wants(string) bool {
	if o.calls++; o.calls > 1 && o.asked != nil {
		o.asked()
	}
	return true
}

// newTable returns a table over a kernel of its own.
func newTable() *Table {
	return NewTable(kernel.New(kernel.Config{Log: slog.New(slog.DiscardHandler), Kinds: []string{"subscription"}}), 0)
}

// TestPanicsLoseNobody checks that a subscription that ends by panics makes place for
// another one with the same subscribers.
func TestPanicsLoseNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, good := newTable(), &one{}
		table.Follow(good, "x:1")
		first := table.all[key{"s", "x:1"}]
		for range kernel.PanicLimit {
			table.Follow(&one{asked: func() { panic("asked") }}, "x:1")
		}
		if !first.Stopped() {
			t.Fatal("it goes on")
		}
		table.SendUpdate("s", "x:1", false)
		synctest.Wait()
		if good.told() != 1 {
			t.Errorf("told %d times, want once", good.told())
		}
	})
}

// TestUpdatesBelow checks that subscribers to a resource, and to one above it, get its
// updates, and that further updates within the pause become one.
func TestUpdatesBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, above, other := newTable(), &one{}, &one{}
		table.Follow(above, "x://a/b")
		table.Follow(other, "x://b")
		for range 3 {
			table.SendUpdate("s", "x://a/b/c", true)
		}
		time.Sleep(updatePause / 2)
		synctest.Wait()
		if above.told() != 1 {
			t.Errorf("at once: told %d times", above.told())
		}
		time.Sleep(10 * updatePause)
		synctest.Wait()
		if above.told() != 2 || other.told() != 0 {
			t.Errorf("after the pause: told %d times, another %d", above.told(), other.told())
		}
		var live []string
		table.EachResource(func(server, uri string) { live = append(live, server+" "+uri) })
		if len(live) != 2 {
			t.Errorf("live: %q", live)
		}
	})
}

// TestVeryManyUpdatesBelow checks that a subscriber gets an update of its own URI when
// very many resources below it change at once, so that the node remembers a bounded number
// of them.
func TestVeryManyUpdatesBelow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, above := newTable(), &one{}
		table.Follow(above, "x://a")
		for i := range 5 * maxBursts {
			table.SendUpdate("s", fmt.Sprintf("x://a/%d", i), true)
		}
		if n := above.told(); n != maxBursts+1 {
			t.Errorf("told of %d resources at once, want %d", n, maxBursts+1)
		}
		a := table.all[key{"s", "x://a"}]
		if n := len(a.told); n != maxBursts+1 {
			t.Errorf("remembers %d resources, want %d", n, maxBursts+1)
		}
		table.Follow(above, "x://a") // so that the actor's next step comes after that look at it
		above.mu.Lock()
		if last := above.got[maxBursts]; last != string(EncodeUpdate("x://a")) {
			t.Errorf("the last is %s", last)
		}
		above.mu.Unlock()
		time.Sleep(10 * updatePause)
		synctest.Wait()
		if n := above.told(); n != maxBursts+2 || len(a.told) != 0 { // once more for the updates after the first ones
			t.Errorf("after the pause: told %d times, remembers %d resources", n, len(a.told))
		}
	})
}

// TestEndOfASubscriptionThatWasReplaced checks that a subscription that has ended removes
// only itself from the table: one that has replaced it goes on.
func TestEndOfASubscriptionThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, first, second := newTable(), &leaver{}, &one{}
		first.here.Store(true)
		table.Follow(first, "x:1")
		old := table.all[key{"s", "x:1"}]
		first.here.Store(false)
		table.Follow(first, "x:1")
		if !old.Stopped() || len(table.all) != 0 {
			t.Fatalf("it goes on: %v", table.all)
		}
		table.Follow(second, "x:1")
		table.dropSubscription(old) // as a caller does that could not post to it
		table.SendUpdate("s", "x:1", false)
		synctest.Wait()
		if second.told() != 1 {
			t.Errorf("told %d times, want once", second.told())
		}
	})
}

// leaver is a subscriber until it leaves.
type leaver struct {
	one
	here atomic.Bool
}

func (l *leaver) Wants(string) bool { return l.here.Load() }
