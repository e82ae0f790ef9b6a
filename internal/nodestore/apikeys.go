package nodestore

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/apikey"
)

// APIKeys keeps the records of API keys in a cluster.
type APIKeys struct{ n *cluster.Node }

// NewAPIKeys returns the records of a node.
func NewAPIKeys(n *cluster.Node) *APIKeys { return &APIKeys{n} }

// Use says which node's store it is, where that is not known from the beginning. It is called before anything else.
func (s *APIKeys) Use(n *cluster.Node) { s.n = n }

var _ apikey.Records = (*APIKeys)(nil)

// apiKey begins the keys of the records.
const apiKey = "keys.api."

// Peek implements apikey.Records.
func (s *APIKeys) Peek(ctx context.Context, id string) ([]byte, uint64, error) {
	return s.n.Peek(ctx, apiKey+id)
}

// Create implements apikey.Records.
func (s *APIKeys) Create(ctx context.Context, id string, data []byte, ttl time.Duration) error {
	_, err := s.n.Create(ctx, apiKey+id, data, ttl)
	return err
}

// Update implements apikey.Records.
func (s *APIKeys) Update(ctx context.Context, id string, data []byte, rev uint64, ttl time.Duration) error {
	_, err := s.n.Update(ctx, apiKey+id, data, rev, ttl)
	return err
}

// List implements apikey.Records.
func (s *APIKeys) List(ctx context.Context, f func([]byte, uint64)) error {
	return s.n.EachAPIKey(ctx, f)
}

// Room implements apikey.Records.
func (s *APIKeys) Room(ctx context.Context) (bool, error) { return s.n.APIKeyRoom(ctx) }

// Now implements apikey.Records.
func (s *APIKeys) Now() time.Time { return s.n.Now() }
