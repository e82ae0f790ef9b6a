package actors

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/test/sim"
)

// TestUsageElsewhere: a client that calls two nodes for all it can get has about the rate of one, and the requests in flight of one; another
// client has what it asks for. Once the other node is dead, what it last said counts for a few seconds.
func TestUsageElsewhere(t *testing.T) {
	inFleet(t, 2, nil, func(t *testing.T, all []*member) {
		const seconds, rate, each = 30, 1000, 1024
		greedy, modest := &Input{Tenant: "anon", Address: "192.0.2.1"}, &Input{Tenant: "anon", Address: "192.0.2.2"}
		passed, l := 0, Limits{}
		for range seconds * 100 {
			time.Sleep(10 * time.Millisecond)
			for _, m := range all {
				for range 50 {
					a, no := m.accounts.admitRequest(nil, &l, greedy, 1)
					if no != nil {
						break
					}
					passed++
					m.accounts.LeavePlace(a)
				}
				a, no := m.accounts.admitRequest(nil, &l, modest, 1)
				if no != nil {
					t.Fatalf("another client is refused: %v", no)
				}
				m.accounts.LeavePlace(a)
			}
		}
		// Each node has a burst, and hears of the other after a second.
		if least, most := seconds*rate, seconds*rate+2*2*rate+2*rate; passed < least || passed > most {
			t.Errorf("%d calls were admitted in %d s, want %d to %d", passed, seconds, least, most)
		}
		time.Sleep(10 * time.Second)
		places := func(m *member) (n int) {
			for {
				if _, no := m.accounts.enterRequest(nil, greedy); no != nil {
					return n
				}
				n++
			}
		}
		leave := func(m *member, n int) {
			for range n {
				m.accounts.LeavePlace(m.accounts.Of(greedy.Tenant, greedy.Address))
			}
		}
		here := places(all[0])
		time.Sleep(2 * time.Second)
		there := places(all[1])
		if here != each || there != 0 {
			t.Errorf("%d and then %d requests may be in flight on the two nodes, want %d in all", here, there, each)
		}
		all[0].kill()
		time.Sleep(5 * time.Second)
		there = places(all[1])
		if there != each {
			t.Errorf("after the death of a node %d requests may be in flight on the other, want %d", there, each)
		}
		leave(all[0], here)
		leave(all[1], there)
	})
}

// TestUsageIsToldOnceMore: when nothing is worth mention any more, the others hear that once.
func TestUsageIsToldOnceMore(t *testing.T) {
	var letters atomic.Int64
	told := func() int { return int(letters.Load()) }
	inFleet(t, 2, func(kind string) sim.Fate {
		if kind == letterUsage {
			letters.Add(1)
		}
		return sim.Fate{}
	}, func(t *testing.T, all []*member) {
		time.Sleep(10 * time.Second)
		if told() != 0 {
			t.Errorf("%d letters of nothing", told())
		}
		a := all[0].accounts.Of("anon", "192.0.2.1")
		for range 100 {
			all[0].accounts.EnterRequest(a)
		}
		time.Sleep(5 * time.Second)
		if n := told(); n < 4 || n > 6 {
			t.Errorf("%d letters in 5 s", n)
		}
		for range 100 {
			all[0].accounts.LeavePlace(a)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := all[1].accounts.SharesHeard(); n != 0 {
			t.Errorf("%d shares count after the client has ended its requests", n)
		}
		before := told()
		time.Sleep(10 * time.Second)
		if told() != before || all[1].accounts.SharesHeard() != 0 {
			t.Errorf("%d letters after the last one; %d shares count", told()-before, all[1].accounts.SharesHeard())
		}
	})
}
