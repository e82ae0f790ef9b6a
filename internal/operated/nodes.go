package operated

import (
	"context"

	"github.com/troupe-run/troupe/operator"
)

// Nodes implements [operator.Operator].
func (p *Process) Nodes(ctx context.Context) ([]operator.Node, error) {
	members, err := p.Store.ListMembers(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]operator.Node, 0, len(members))
	for _, m := range members {
		n := operator.Node{Name: m.Node, Boot: m.Boot, Self: m.Self, Lease: operator.LeaseGone, Servers: m.Servers}
		if m.Self {
			own := p.Load()
			m.Load = &own
		}
		if m.Heard >= 0 {
			n.HeardMS = new(m.Heard.Milliseconds())
		}
		if m.Held {
			n.Lease, n.Since = operator.LeaseHeld, &m.Since
		}
		if m.Held && m.Heard >= 0 {
			if n.LeftMS = new(m.Left.Milliseconds()); m.Left <= 0 {
				n.Lease = operator.LeaseLate
			}
		}
		if l := m.Load; l != nil {
			n.Load = &operator.Load{Release: l.Release, Draining: l.Draining, Calls: l.Calls, Streams: l.Streams, Sessions: l.Sessions}
		}
		all = append(all, n)
	}
	return all, nil
}

// Drain implements [operator.Operator].
func (p *Process) Drain(ctx context.Context) (operator.Draining, error) {
	if !p.Dismiss() {
		return operator.Draining{}, operator.ErrDraining
	}
	d, err := p.Draining(ctx)
	d.Draining = true
	return d, err
}

// Draining implements [operator.Operator].
func (p *Process) Draining(context.Context) (operator.Draining, error) {
	s := p.Node.Stats()
	return operator.Draining{Node: p.Store.Name(), Boot: p.Store.Boot(), Draining: p.Leaving(), Calls: s.InFlight, Streams: s.Streams, Connections: s.Connections}, nil
}
