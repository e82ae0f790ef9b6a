package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/sim"
)

// store returns the actors' errors, as the adapter of internal/nodestore does for the
// real store.
type store struct {
	link *sim.Link
	boot string
}

var _ actors.Store = store{}

func translated(err error) error {
	for from, to := range map[error]error{
		sim.ErrNotFound: actors.ErrNotFound, sim.ErrConflict: actors.ErrConflict, sim.ErrFenced: actors.ErrFenced,
		sim.ErrRetry: actors.ErrAgain, sim.ErrFull: actors.ErrFull, sim.ErrUnavailable: actors.ErrUnavailable,
	} {
		if err != nil && errors.Is(err, from) {
			return fmt.Errorf("%w: %w", to, err)
		}
	}
	return err
}

func (s store) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	data, rev, err := s.link.Get(ctx, key)
	return data, rev, translated(err)
}

func (s store) Peek(ctx context.Context, key string) ([]byte, uint64, error) {
	data, rev, err := s.link.Peek(ctx, key)
	return data, rev, translated(err)
}

func (s store) Create(ctx context.Context, key string, data []byte, ttl time.Duration) (uint64, error) {
	rev, err := s.link.Create(ctx, key, data, ttl)
	return rev, translated(err)
}

func (s store) Update(ctx context.Context, key string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	next, err := s.link.Update(ctx, key, data, rev, ttl)
	return next, translated(err)
}

func (s store) Delete(ctx context.Context, key string, rev uint64) error {
	return translated(s.link.Delete(ctx, key, rev))
}

func (s store) OpenStream(ctx context.Context, path string, rec, body []byte, ttl time.Duration) (uint64, error) {
	rev, err := s.link.OpenStream(ctx, path, rec, body, ttl)
	return rev, translated(err)
}

func (s store) Writer(ctx context.Context, path string) ([]byte, uint64, error) {
	rec, rev, err := s.link.Writer(ctx, path)
	return rec, rev, translated(err)
}

func (s store) Holds(ctx context.Context, path string, rev uint64) error {
	return translated(s.link.Holds(ctx, path, rev))
}

func (s store) Body(ctx context.Context, path string) ([]byte, error) {
	body, err := s.link.Body(ctx, path)
	return body, translated(err)
}

func (s store) KeepBody(ctx context.Context, path string, body []byte, rev uint64, ttl time.Duration) error {
	return translated(s.link.KeepBody(ctx, path, body, rev, ttl))
}

func (s store) Rewrite(ctx context.Context, path string, rec []byte, rev uint64, ttl time.Duration) (uint64, error) {
	next, err := s.link.Rewrite(ctx, path, rec, rev, ttl)
	return next, translated(err)
}

func (s store) Append(path string, rev, num uint64, data []byte, done func(error)) {
	s.link.Append(path, rev, num, data, func(err error) { done(translated(err)) })
}

func (s store) Read(ctx context.Context, path string, from, to uint64, f func(uint64, []byte)) error {
	return translated(s.link.Read(ctx, path, from, to, f))
}

func (s store) Tail(ctx context.Context, path string, hint uint64) (uint64, error) {
	tail, err := s.link.Tail(ctx, path, hint)
	return tail, translated(err)
}

func (s store) EndStream(ctx context.Context, path string) error {
	return translated(s.link.EndStream(ctx, path))
}

func (s store) Now() time.Time                        { return s.link.Now() }
func (s store) Use(actors.Budget) (used, limit int64) { return 0, 0 }
func (s store) Lapsed() bool                          { return s.link.Lapsed() }

func (s store) Suspended() bool { return s.link.Suspended() }

func (s store) MarkTaken(ctx context.Context, boot string, ttl time.Duration) error {
	_, err := s.Create(ctx, "taken."+boot, []byte{1}, ttl)
	if errors.Is(err, actors.ErrConflict) {
		return nil
	}
	return err
}

// notes has it noted that a boot has left, or was replaced.
func (s store) notes(boot string) {
	for range 10 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := s.MarkTaken(ctx, boot, time.Hour)
		cancel()
		if err == nil {
			return
		}
	}
}

func (s store) Taken(ctx context.Context) (bool, error) {
	_, _, err := s.Get(ctx, "taken."+s.boot)
	if errors.Is(err, actors.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
