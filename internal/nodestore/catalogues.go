package nodestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// catalogueTTL is how long it is kept what a backend has listed last. One that has not changed for longer is asked again.
	catalogueTTL = 90 * 24 * time.Hour
	// maxCatalogue is the size limit of what is kept of a backend: it lies beside the keys of the fleet.
	maxCatalogue = 256 << 10
)

// Catalogues keep what backends list in the store, by the digests of their configurations.
type Catalogues struct{ n *cluster.Node }

// NewCatalogues returns those in the store of n.
func NewCatalogues(n *cluster.Node) Catalogues { return Catalogues{n} }

const catalogueKey = "keys.catalogue."

// Load returns what was stored for the digest of a configuration, nil if nothing was.
func (s Catalogues) Load(ctx context.Context, digest string) ([]byte, error) {
	data, _, err := s.n.Peek(ctx, catalogueKey+digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return data, err
}

// Store stores it in place of what was there. Of several nodes that store at the same time one does.
func (s Catalogues) Store(ctx context.Context, digest string, data []byte) error {
	if len(data) > maxCatalogue {
		return fmt.Errorf("nodestore: what a backend lists has %d bytes, at most %d are kept", len(data), maxCatalogue)
	}
	_, rev, err := s.n.Peek(ctx, catalogueKey+digest)
	switch {
	case err == nil:
		_, err = s.n.Update(ctx, catalogueKey+digest, data, rev, catalogueTTL)
	case errors.Is(err, store.ErrNotFound):
		_, err = s.n.Create(ctx, catalogueKey+digest, data, catalogueTTL)
	}
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
