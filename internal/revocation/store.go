package revocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// DefaultLife is for how long tokens are refused that were issued before: the longest life of a token that is expected.
	DefaultLife = 24 * time.Hour

	attempts = 5 // to change a record that others change, too
)

// Revoke refuses the tokens of a subject or a client that were issued before now, or with Ban all of them, and ends what these principals hold. It does so until Expires, and without that for
// [DefaultLife]. ErrBad, ErrFull, ErrRest.
func (l *List) Revoke(ctx context.Context, want Revocation) (Revocation, error) {
	now := l.Records.Now().UTC()
	r := Revocation{Subject: want.Subject, Client: want.Client, Issuer: want.Issuer, Ban: want.Ban, Created: now}
	switch {
	case r.Ban && !want.Expires.IsZero():
		return Revocation{}, fmt.Errorf("%w: a ban has no end", ErrBad)
	case r.Ban:
	case want.Expires.IsZero():
		r.Expires = now.Add(DefaultLife)
	case !now.Before(want.Expires):
		return Revocation{}, fmt.Errorf("%w: it would have ended at %s", ErrBad, want.Expires.Format(time.RFC3339))
	default:
		r.Expires = want.Expires.UTC()
	}
	if err := r.check(); err != nil {
		return Revocation{}, err
	}
	r.ID = r.id()
	err := store.ErrConflict
	for n := 0; n < attempts && errors.Is(err, store.ErrConflict); n++ {
		var made Revocation
		var rev uint64
		if made, rev, err = l.put(ctx, r); err == nil {
			l.apply([]change{{made.ID, rev, &made, time.Now()}}, false, time.Time{})
			if err = l.EndStored(ctx, &made); err != nil {
				err = fmt.Errorf("%w: %w", ErrRest, err)
			}
			return made, err
		}
	}
	return Revocation{}, err
}

// put stores a revocation, in the place of the one that there is about the same.
func (l *List) put(ctx context.Context, r Revocation) (Revocation, uint64, error) {
	var old *record
	data, rev, err := l.Records.Peek(ctx, r.ID)
	switch {
	case err == nil:
		old, err = decode(data)
	case errors.Is(err, store.ErrNotFound):
		err = l.admit(ctx)
	}
	if err != nil {
		return r, 0, err
	}
	stored := recordOf(r, old)
	if data, err = stored.encode(); err != nil {
		return r, 0, err
	}
	ttl := time.Duration(0)
	if !stored.Ban {
		ttl = max(stored.Expires.Sub(l.Records.Now()), time.Second)
	}
	if old == nil {
		rev, err = l.Records.Create(ctx, r.ID, data, ttl)
	} else {
		rev, err = l.Records.Update(ctx, r.ID, data, rev, ttl)
	}
	return stored.Revocation, rev, err
}

// admit refuses a revocation for which there is no room.
func (l *List) admit(ctx context.Context) error {
	if err := l.refresh(ctx); err != nil {
		return err
	}
	if n := l.Count(); n >= limits.Revocations.Value() {
		return fmt.Errorf("%w: %d", ErrFull, n)
	}
	room, err := l.Records.Room(ctx)
	if err == nil && !room {
		err = fmt.Errorf("%w for the part of the store that is theirs", ErrFull)
	}
	return err
}

// RevokeKey ends an API key, which is named by its id or by its name, and what its principal holds. ErrRest: the key has ended, and not all of that.
func (l *List) RevokeKey(ctx context.Context, idOrName string) (Revocation, error) {
	k, err := l.Keys.Revoke(ctx, idOrName)
	if err != nil {
		return Revocation{}, err
	}
	return l.EndKey(ctx, k.ID)
}

// EndKey ends what the principal of a revoked API key holds. Any of its errors wraps ErrRest.
func (l *List) EndKey(ctx context.Context, id string) (Revocation, error) {
	r, err := l.Revoke(ctx, Revocation{Subject: id, Issuer: auth.KeyIssuer})
	if err != nil && !errors.Is(err, ErrRest) {
		return r, fmt.Errorf("%w: %v", ErrRest, err) //nolint:errorlint // not one of those after which nothing was done: the key is refused
	}
	return r, err
}

// List returns the revocations of the store, the oldest first.
func (l *List) List(ctx context.Context) ([]Revocation, error) {
	if err := l.refresh(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Revocation, 0, len(l.all))
	for _, e := range l.all {
		all = append(all, e.Revocation)
	}
	slices.SortFunc(all, func(a, b Revocation) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Remove takes a revocation back, and returns it: tokens count again as if it had not been. What was ended stays so. ErrUnknown.
func (l *List) Remove(ctx context.Context, id string) (Revocation, error) {
	if !isID(id) {
		return Revocation{}, fmt.Errorf("%w: %.80q", ErrUnknown, id)
	}
	err := store.ErrConflict
	for n := 0; n < attempts && errors.Is(err, store.ErrConflict); n++ {
		var data []byte
		var rev uint64
		var r *record
		if data, rev, err = l.Records.Peek(ctx, id); err == nil {
			r, err = decode(data)
		}
		if err == nil {
			err = l.Records.Delete(ctx, id, rev)
		}
		if err == nil {
			l.apply([]change{{id: id, rev: rev + 1}}, false, time.Time{})
			return r.Revocation, nil
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %.80q", ErrUnknown, id)
	}
	return Revocation{}, err
}
