package troupe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
)

// store joins the actors to the cluster's node: it speaks the actors' errors.
type store struct{ n *cluster.Node }

var _ actors.Store = store{}

var storeErrors = []struct{ from, to error }{
	{cluster.ErrFenced, actors.ErrFenced},
	{cluster.ErrNotFound, actors.ErrNotFound},
	{cluster.ErrConflict, actors.ErrConflict},
	{cluster.ErrRetry, actors.ErrAgain},
	{cluster.ErrFull, actors.ErrFull},
	{cluster.ErrUnavailable, actors.ErrUnavailable},
	// A node of the newer release can read it.
	{cluster.ErrNewer, actors.ErrUnavailable},
	{context.DeadlineExceeded, actors.ErrUnavailable},
}

func storeError(err error) error {
	if err == nil {
		return nil
	}
	for _, e := range storeErrors {
		if errors.Is(err, e.from) {
			return fmt.Errorf("%w: %w", e.to, err)
		}
	}
	return err
}

func (s store) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	data, rev, err := s.n.Get(ctx, key)
	return data, rev, storeError(err)
}

func (s store) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (uint64, error) {
	rev, err := s.n.Create(ctx, key, data, ttl)
	return rev, storeError(err)
}

func (s store) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	rev, err := s.n.Update(ctx, key, data, rev, ttl)
	return rev, storeError(err)
}

func (s store) Delete(ctx context.Context, key string, rev uint64) error {
	return storeError(s.n.Delete(ctx, key, rev))
}

func (s store) OpenStream(ctx context.Context, stream string, rec, body []byte, ttl time.Duration) (uint64, error) {
	rev, err := s.n.OpenStream(ctx, stream, rec, body, ttl)
	return rev, storeError(err)
}

func (s store) Writer(ctx context.Context, stream string) ([]byte, uint64, error) {
	rec, rev, err := s.n.Writer(ctx, stream)
	return rec, rev, storeError(err)
}

func (s store) Body(ctx context.Context, stream string) ([]byte, error) {
	body, err := s.n.Body(ctx, stream)
	return body, storeError(err)
}

func (s store) KeepBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error {
	return storeError(s.n.KeepBody(ctx, stream, body, rev, ttl))
}

func (s store) Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	rev, err := s.n.Rewrite(ctx, stream, rec, rev, ttl)
	return rev, storeError(err)
}

func (s store) Append(stream string, rev, num uint64, data []byte, done func(error)) {
	s.n.Append(stream, rev, num, data, func(err error) { done(storeError(err)) })
}

func (s store) Read(ctx context.Context, stream string, from, to uint64, f func(uint64, []byte)) error {
	all, err := s.n.Read(ctx, stream, from, to)
	for _, a := range all {
		f(a.Num, a.Data)
	}
	return storeError(err)
}

func (s store) Tail(ctx context.Context, stream string, hint uint64) (uint64, error) {
	tail, err := s.n.Tail(ctx, stream, hint)
	return tail, storeError(err)
}

func (s store) EndStream(ctx context.Context, stream string) error {
	return storeError(s.n.EndStream(ctx, stream))
}

// keys joins the actors to the cluster's key ring. Of all errors one alone says that what
// is to be opened is not good: after any other nobody knows.
type keys struct{ r *cluster.Keyring }

var _ actors.Keys = keys{}

func (k keys) Seal(plain, aad []byte) ([]byte, error) {
	sealed, err := k.r.Seal(plain, aad)
	return sealed, unreadable(err)
}

func (k keys) Open(sealed, aad []byte) ([]byte, error) {
	plain, err := k.r.Open(sealed, aad)
	return plain, unreadable(err)
}

func unreadable(err error) error {
	if err == nil || errors.Is(err, cluster.ErrSealed) {
		return err
	}
	return fmt.Errorf("%w: %w", actors.ErrUnavailable, err)
}

// Now is this machine's clock, which is that of the embedded store.
func (s store) Now() time.Time { return time.Now().Round(0) }

func (s store) Use(b actors.Budget) (used, limit int64) {
	return s.n.Use([...]cluster.Budget{actors.SessionBudget: cluster.SessionBudget, actors.EventBudget: cluster.EventBudget}[b])
}

func (s store) Suspended() bool { return s.n.Suspended() }
