package operator

import (
	"context"

	"github.com/troupe-run/troupe/internal/admin"
)

// fleet is this node, and the others that share its store, for the operator.
type fleet struct{ p *Process }

var _ admin.Fleet = fleet{}

func (a fleet) Nodes(ctx context.Context) ([]admin.Node, error) {
	members, err := a.p.Store.ListMembers(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]admin.Node, 0, len(members))
	for _, m := range members {
		n := admin.Node{Name: m.Node, Boot: m.Boot, Self: m.Self, Lease: admin.LeaseGone, Servers: m.Servers}
		if m.Self {
			own := a.p.Load()
			m.Load = &own
		}
		if m.Heard >= 0 {
			n.HeardMS = new(m.Heard.Milliseconds())
		}
		if m.Held {
			n.Lease, n.Since = admin.LeaseHeld, &m.Since
		}
		if m.Held && m.Heard >= 0 {
			if n.LeftMS = new(m.Left.Milliseconds()); m.Left <= 0 {
				n.Lease = admin.LeaseLate
			}
		}
		if l := m.Load; l != nil {
			n.Load = &admin.Load{Release: l.Release, Draining: l.Draining, Calls: l.Calls, Streams: l.Streams, Sessions: l.Sessions}
		}
		all = append(all, n)
	}
	return all, nil
}

func (a fleet) Drain(ctx context.Context) (admin.Draining, error) {
	if !a.p.Dismiss() {
		return admin.Draining{}, admin.ErrDraining
	}
	d, err := a.Draining(ctx)
	d.Draining = true
	return d, err
}

func (a fleet) Draining(context.Context) (admin.Draining, error) {
	s := a.p.Node.Stats()
	return admin.Draining{Node: a.p.Store.Name(), Boot: a.p.Store.Boot(), Draining: a.p.Leaving(), Calls: s.InFlight, Streams: s.Streams, Connections: s.Connections}, nil
}
