package actors

import "context"

// Owner is what Input.Principal was in the newest request of the session that this node
// has had with one; nil if there was none.
func (p *Peer) Owner() any { return p.owner.Load() }

// madeBy notes who makes a request of the session.
func (p *Peer) madeBy(in *Input) {
	if in.Principal != nil {
		p.owner.Store(in.Principal)
	}
}

type ownerKey struct{}

// Owner is Peer.Owner of the session that a Handler's Initialize is about.
func Owner(ctx context.Context) any { return ctx.Value(ownerKey{}) }

func withOwner(ctx context.Context, owner any) context.Context {
	if owner == nil {
		return ctx
	}
	return context.WithValue(ctx, ownerKey{}, owner)
}
