package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/sim"
)

// linked is the store as a boot has it by a link.
type linked struct {
	*sim.Link
	boot string
}

var _ store.Store = linked{}

func (s linked) Use(store.Budget) (used, limit int64) { return 0, 0 }

func (s linked) MarkTaken(ctx context.Context, boot string, ttl time.Duration) error {
	_, err := s.Create(ctx, "taken."+boot, []byte{1}, ttl)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}

// notes has it noted that a boot has left, or was replaced.
func (s linked) notes(boot string) {
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := s.MarkTaken(ctx, boot, time.Hour)
		cancel()
		if err == nil {
			return
		}
	}
}

func (s linked) Taken(ctx context.Context) (bool, error) {
	_, _, err := s.Get(ctx, "taken."+s.boot)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
