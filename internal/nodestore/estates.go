package nodestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/store"
)

// Estates keep, sealed, what a process would leave to another one of its sessions at the URLs of backends.
type Estates struct{ n *cluster.Node }

var _ backend.Estates = Estates{}

// NewEstates returns those in the store of n.
func NewEstates(n *cluster.Node) Estates { return Estates{n} }

const estateKey = "session.estate.of.backend."

// Load implements backend.Estates. What nobody can open any more is as if nothing were there.
func (s Estates) Load(ctx context.Context, name string) ([]byte, uint64, error) {
	sealed, rev, err := s.n.Peek(ctx, estateKey+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	data, err := s.n.Keys().Open(sealed, []byte(estateKey+name))
	if errors.Is(err, store.ErrSealed) {
		return nil, rev, nil
	}
	return data, rev, err
}

// Save implements backend.Estates.
func (s Estates) Save(ctx context.Context, name string, data []byte, rev uint64, keep time.Duration) (next uint64, err error) {
	sealed, err := s.n.Keys().Seal(data, []byte(estateKey+name))
	switch {
	case err != nil:
		return 0, err
	case rev == 0:
		next, err = s.n.Create(ctx, estateKey+name, sealed, keep)
	default:
		next, err = s.n.Update(ctx, estateKey+name, sealed, rev, keep)
	}
	return next, asTaken(err)
}

// Drop implements backend.Estates.
func (s Estates) Drop(ctx context.Context, name string, rev uint64) error {
	return asTaken(s.n.Delete(ctx, estateKey+name, rev))
}

func asTaken(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: %w", backend.ErrTaken, err)
	}
	return err
}
