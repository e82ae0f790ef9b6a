// Package nodestore connects package actors to a node of package cluster: it implements actors.Store, actors.Keys and actors.Mail, keeps the keys of issuers for package auth, and wraps the
// node's errors in those of package actors.
package nodestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
)

// Store keeps the records and event logs of a node in a cluster. Its errors wrap those of package actors.
type Store struct{ n *cluster.Node }

// New returns the store of a node.
func New(n *cluster.Node) Store { return Store{n} }

var _ actors.Store = Store{}

// renamed are errors of the node, each with that of a room that wants another one in its place.
type renamed []struct{ from, to error }

// of returns an error of the node as the room has it; the first one that fits counts.
func (all renamed) of(err error) error {
	if err == nil {
		return nil
	}
	for _, e := range all {
		if errors.Is(err, e.from) {
			return fmt.Errorf("%w: %w", e.to, err)
		}
	}
	return err
}

var storeErrors = renamed{
	{cluster.ErrFenced, actors.ErrFenced},
	{cluster.ErrNotFound, actors.ErrNotFound},
	{cluster.ErrConflict, actors.ErrConflict},
	{cluster.ErrRetry, actors.ErrAgain},
	{cluster.ErrFull, actors.ErrFull},
	{cluster.ErrUnavailable, actors.ErrUnavailable},
	// A node of the newer release can read the record.
	{cluster.ErrNewer, actors.ErrUnavailable},
	{context.DeadlineExceeded, actors.ErrUnavailable},
}

func storeError(err error) error { return storeErrors.of(err) }

func (s Store) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	data, rev, err := s.n.Get(ctx, key)
	return data, rev, storeError(err)
}

func (s Store) Peek(ctx context.Context, key string) ([]byte, uint64, error) {
	data, rev, err := s.n.Peek(ctx, key)
	return data, rev, storeError(err)
}

func (s Store) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (uint64, error) {
	rev, err := s.n.Create(ctx, key, data, ttl)
	return rev, storeError(err)
}

func (s Store) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	rev, err := s.n.Update(ctx, key, data, rev, ttl)
	return rev, storeError(err)
}

func (s Store) Delete(ctx context.Context, key string, rev uint64) error {
	return storeError(s.n.Delete(ctx, key, rev))
}

func (s Store) OpenStream(ctx context.Context, stream string, rec, body []byte, ttl time.Duration) (uint64, error) {
	rev, err := s.n.OpenStream(ctx, stream, rec, body, ttl)
	return rev, storeError(err)
}

func (s Store) Writer(ctx context.Context, stream string) ([]byte, uint64, error) {
	rec, rev, err := s.n.Writer(ctx, stream)
	return rec, rev, storeError(err)
}

func (s Store) Holds(ctx context.Context, stream string, rev uint64) error {
	return storeError(s.n.Holds(ctx, stream, rev))
}

func (s Store) Body(ctx context.Context, stream string) ([]byte, error) {
	body, err := s.n.Body(ctx, stream)
	return body, storeError(err)
}

func (s Store) KeepBody(ctx context.Context, stream string, body []byte, rev uint64, ttl time.Duration) error {
	return storeError(s.n.KeepBody(ctx, stream, body, rev, ttl))
}

func (s Store) Rewrite(ctx context.Context, stream string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	rev, err := s.n.Rewrite(ctx, stream, rec, rev, ttl)
	return rev, storeError(err)
}

func (s Store) Append(stream string, rev, num uint64, data []byte, done func(error)) {
	s.n.Append(stream, rev, num, data, func(err error) { done(storeError(err)) })
}

func (s Store) Read(ctx context.Context, stream string, from, to uint64, f func(uint64, []byte)) error {
	all, err := s.n.Read(ctx, stream, from, to)
	for _, a := range all {
		f(a.Num, a.Data)
	}
	return storeError(err)
}

func (s Store) Tail(ctx context.Context, stream string, hint uint64) (uint64, error) {
	tail, err := s.n.Tail(ctx, stream, hint)
	return tail, storeError(err)
}

func (s Store) EndStream(ctx context.Context, stream string) error {
	return storeError(s.n.EndStream(ctx, stream))
}

// Keys seals and opens with the key ring of a cluster. Only the error cluster.ErrSealed says that the sealed
// data are not good; after any other error that is unknown.
type Keys struct{ r *cluster.Keyring }

// NewKeys returns the keys of a ring.
func NewKeys(r *cluster.Keyring) Keys { return Keys{r} }

var _ actors.Keys = Keys{}

func (k Keys) Seal(plain, aad []byte) ([]byte, error) {
	sealed, err := k.r.Seal(plain, aad)
	return sealed, Unreadable(err)
}

func (k Keys) Open(sealed, aad []byte) ([]byte, error) {
	plain, err := k.r.Open(sealed, aad)
	return plain, Unreadable(err)
}

// Tag is the ring's; it reads no store.
func (k Keys) Tag(data []byte) []byte { return k.r.Tag(data) }

// Unreadable returns an error of the key ring as one of package actors: cluster.ErrSealed as it is, and any other as actors.ErrUnavailable.
func Unreadable(err error) error {
	if err == nil || errors.Is(err, cluster.ErrSealed) {
		return err
	}
	return fmt.Errorf("%w: %w", actors.ErrUnavailable, err)
}

// Now returns the time of the store's clock: that of remote servers, or this machine's, which the embedded store uses, too.
func (s Store) Now() time.Time { return s.n.Now() }

func (s Store) Use(b actors.Budget) (used, limit int64) {
	return s.n.Use([...]cluster.Budget{actors.SessionBudget: cluster.SessionBudget, actors.EventBudget: cluster.EventBudget, actors.TaskBudget: cluster.TaskBudget}[b])
}

func (s Store) Suspended() bool { return s.n.Suspended() }

func (s Store) Lapsed() bool { return s.n.Lapsed() }

// MarkTaken implements actors.Store.
func (s Store) MarkTaken(ctx context.Context, boot string, ttl time.Duration) error {
	return storeError(s.n.MarkTaken(ctx, boot, ttl))
}

// Taken implements actors.Store.
func (s Store) Taken(ctx context.Context) (bool, error) {
	taken, err := s.n.Taken(ctx)
	return taken, storeError(err)
}
