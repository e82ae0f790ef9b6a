package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/store"
)

// Member is what is known of a boot of a node.
type Member struct {
	store.Address
	Self    bool
	Heard   time.Duration // how long ago; below 0: not at all, or not for long
	Held    bool          // it has its entry in the store
	Left    time.Duration // of its lease, if Held and heard: at most 0 for one that is late
	Since   time.Time     // when it registered, if Held
	Servers []string      // the ids of what it serves, if Held; of more than 64 there are none
	Load    *Load         // nil: it did not say
}

// memberSilence is after which silence a boot without an entry is a member no more.
const memberSilence = 10 * time.Minute

// Members lists the boots that have an entry in the store, and those that had one and were heard within ten minutes, by their
// names. Only an entry says that a node is there, and nodes that do not share their servers hear nobody.
//
// How much is left of a lease is reckoned from what the node said with its last heart, so that no two clocks are compared.
func (n *Node) Members(ctx context.Context) ([]Member, error) {
	entries, err := n.readEntries(ctx)
	if err != nil {
		return nil, err
	}
	var heard map[store.Address]known
	if n.mail != nil {
		heard = n.mail.hearts.heardWithin(memberSilence, time.Now())
	}
	all := make(map[store.Address]Member)
	for name, e := range entries {
		m := Member{Address: store.Address{Node: name, Boot: e.Boot}, Heard: -1, Held: true, Since: e.Since, Servers: e.Servers}
		if m.Self = m.Address == (store.Address{Node: n.name, Boot: n.boot}); m.Self {
			m.Heard, m.Left = 0, n.opts.Lease-n.lease.renewalAge()
		}
		all[m.Address] = m
	}
	for p, k := range heard {
		m, held := all[p]
		if _, other := entries[p.Node]; other && !held {
			continue // A later boot has taken its place.
		}
		m.Address, m.Heard, m.Load = p, k.ago, k.beat.load
		if held {
			m.Left = n.opts.Lease - time.Duration(k.beat.age)*time.Millisecond - k.ago
		}
		all[p] = m
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Member) int { return strings.Compare(a.Node+" "+a.Boot, b.Node+" "+b.Boot) }), nil
}
