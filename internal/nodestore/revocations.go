package nodestore

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/revocation"
)

// Revocations keeps the records of revocations in a cluster.
type Revocations struct{ n *cluster.Node }

// NewRevocations returns the records of a node.
func NewRevocations(n *cluster.Node) Revocations { return Revocations{n} }

var _ revocation.Records = Revocations{}

// revocationKey begins the keys of the records.
const revocationKey = "keys.revoked."

// Peek implements revocation.Records.
func (s Revocations) Peek(ctx context.Context, id string) ([]byte, uint64, error) {
	return s.n.Peek(ctx, revocationKey+id)
}

// Create implements revocation.Records.
func (s Revocations) Create(ctx context.Context, id string, data []byte, ttl time.Duration) (uint64, error) {
	return s.n.Create(ctx, revocationKey+id, data, ttl)
}

// Update implements revocation.Records.
func (s Revocations) Update(ctx context.Context, id string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return s.n.Update(ctx, revocationKey+id, data, rev, ttl)
}

// Delete implements revocation.Records.
func (s Revocations) Delete(ctx context.Context, id string, rev uint64) error {
	return s.n.Delete(ctx, revocationKey+id, rev)
}

// From implements revocation.Records.
func (s Revocations) From(ctx context.Context, rev uint64, f func(id string, rev uint64, data []byte)) error {
	return s.n.Revocations(ctx, rev, f)
}

// Room implements revocation.Records.
func (s Revocations) Room(ctx context.Context) (bool, error) { return s.n.RevocationRoom(ctx) }

// Now implements revocation.Records.
func (s Revocations) Now() time.Time { return s.n.Now() }
