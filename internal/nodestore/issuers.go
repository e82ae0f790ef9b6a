package nodestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// issuerTTL is how long the keys of an issuer are kept after they were last fetched: longer than they may serve, and no record of an
	// issuer that is not configured any more stays.
	issuerTTL = 48 * time.Hour
	// maxIssuer is the size limit of what is kept of an issuer: it lies beside the keys of the fleet.
	maxIssuer = 256 << 10
)

// Issuers keeps the public keys of issuers of access tokens in the store, for all its processes. Use is called before anything else.
type Issuers struct{ n *cluster.Node }

// Use says which node's store it is.
func (i *Issuers) Use(n *cluster.Node) { i.n = n }

func issuerKey(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return "keys.issuer-" + hex.EncodeToString(sum[:])
}

// Load returns what was stored last for an issuer, and nil if there is nothing.
func (i *Issuers) Load(ctx context.Context, issuer string) ([]byte, error) {
	data, _, err := i.n.Peek(ctx, issuerKey(issuer))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return data, err
}

// Store replaces it. If other processes are storing theirs at the same time, one of them wins.
func (i *Issuers) Store(ctx context.Context, issuer string, data []byte) error {
	if len(data) > maxIssuer {
		return fmt.Errorf("nodestore: the keys and the metadata of %s have %d bytes, at most %d are kept", issuer, len(data), maxIssuer)
	}
	key := issuerKey(issuer)
	_, rev, err := i.n.Peek(ctx, key)
	switch {
	case err == nil:
		_, err = i.n.Update(ctx, key, data, rev, issuerTTL)
	case errors.Is(err, store.ErrNotFound):
		_, err = i.n.Create(ctx, key, data, issuerTTL)
	}
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
