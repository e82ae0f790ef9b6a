package apikey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/store"
)

// Records keeps records by their ids. Errors other than ErrNotFound and ErrConflict say nothing about a record.
type Records interface {
	// Peek reads a record. ErrNotFound, also for one that was made a moment ago.
	Peek(ctx context.Context, id string) (data []byte, rev uint64, err error)
	// Create stores a new record for a time; 0 has no end. ErrConflict.
	Create(ctx context.Context, id string, data []byte, ttl time.Duration) error
	// Update replaces the record with a revision. ErrConflict.
	Update(ctx context.Context, id string, data []byte, rev uint64, ttl time.Duration) error
	// List calls f for every record.
	List(ctx context.Context, f func(data []byte, rev uint64)) error
	// Room reports whether another record may be made.
	Room(ctx context.Context) (bool, error)
	// Now is the time by the clock that the times of all nodes are compared with.
	Now() time.Time
}

// Errors of what an operator asks for. Nothing was done.
var (
	ErrUnknown   = errors.New("there is no such API key")
	ErrAmbiguous = errors.New("several API keys have this name")
	ErrTaken     = errors.New("there is an API key of this name")
	ErrEnded     = errors.New("the API key has ended")
	ErrFull      = errors.New("there are too many API keys")
	ErrBad       = errors.New("the API key cannot be made so")
)

const (
	maxKeys    = 10_000 // in a store
	maxSecrets = 8      // of a key, that count at once
	maxName    = 64     // characters
	maxList    = 100    // scopes, and servers
	maxText    = 256    // bytes of each
	attempts   = 5      // to change a record that others change, too
)

// Store is the API keys of a store.
type Store struct{ records Records }

// New returns the keys in records.
func New(r Records) *Store { return &Store{r} }

var (
	_ auth.KeyStore = (*Store)(nil)
	_ auth.KeyUses  = (*Store)(nil)
)

// Find implements auth.KeyStore.
func (s *Store) Find(ctx context.Context, d auth.KeyDigest) (*auth.APIKey, error) {
	r, _, err := s.findRecord(ctx, d)
	if err != nil {
		return nil, err
	}
	of, ok := r.findSecret(d)
	if !ok {
		return nil, auth.ErrNoKey
	}
	k := r.key()
	k.Created, k.Expires = of.Created, soonerEnd(r.Expires, of.Ends)
	return &k, nil
}

// findRecord reads the record of the key that a secret belongs to. auth.ErrNoKey: there is none.
func (s *Store) findRecord(ctx context.Context, d auth.KeyDigest) (r *record, rev uint64, err error) {
	if r, rev, err = s.readRecord(ctx, idOf(d)); err == nil && r.OfKey != "" {
		r, rev, err = s.readRecord(ctx, r.OfKey)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = auth.ErrNoKey
	case err == nil && r.OfKey != "":
		err = errForm
	}
	if err != nil {
		return nil, 0, fmt.Errorf("apikey: find: %w", err)
	}
	return r, rev, nil
}

func (s *Store) readRecord(ctx context.Context, id string) (*record, uint64, error) {
	data, rev, err := s.records.Peek(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	r, err := decodeRecord(data)
	return r, rev, err
}

// Used implements auth.KeyUses.
func (s *Store) Used(ctx context.Context, d auth.KeyDigest, day time.Time) error {
	var err error
	for range attempts {
		var r *record
		var rev uint64
		if r, rev, err = s.findRecord(ctx, d); err != nil || !r.Used.Before(day) {
			break
		}
		r.Used = day
		if err = s.updateRecord(ctx, r, rev); !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("apikey: note a use: %w", err)
	}
	return nil
}

func (s *Store) updateRecord(ctx context.Context, r *record, rev uint64) error {
	data, err := r.encode()
	if err != nil {
		return err
	}
	return s.records.Update(ctx, r.ID, data, rev, r.ttl(s.records.Now()))
}

func (s *Store) createRecord(ctx context.Context, id string, r *record, ttl time.Duration) error {
	data, err := r.encode()
	if err != nil {
		return err
	}
	return s.records.Create(ctx, id, data, ttl)
}

// now is the time as records have it.
func (s *Store) now() time.Time { return s.records.Now().UTC().Truncate(time.Millisecond) }

// Create makes a key with the name, the scopes, the servers and the end of want, and returns it with its secret, which is not kept. ErrBad, ErrTaken, ErrFull.
func (s *Store) Create(ctx context.Context, want auth.APIKey) (k auth.APIKey, key string, err error) {
	now := s.now()
	r := &record{Name: want.Name, Scopes: distinct(want.Scopes), Servers: distinct(want.Servers), Created: now, Expires: want.Expires.UTC()}
	if want.Expires.IsZero() {
		r.Expires = time.Time{}
	}
	if err = r.check(now); err == nil {
		err = s.admitKey(ctx, want.Name, now)
	}
	var d auth.KeyDigest
	if err == nil {
		key, d, err = newSecret()
	}
	if err == nil {
		r.ID, r.Secrets = idOf(d), []secret{{Digest: d[:], Created: now}}
		err = s.createRecord(ctx, r.ID, r, r.ttl(now))
	}
	if err != nil {
		return auth.APIKey{}, "", err
	}
	return r.key(), key, nil
}

// distinct returns the texts without those that come twice.
func distinct(all []string) (some []string) {
	for _, s := range all {
		if !slices.Contains(some, s) {
			some = append(some, s)
		}
	}
	return some
}

func newSecret() (key string, d auth.KeyDigest, err error) {
	if key, err = auth.NewAPIKey(nil); err != nil {
		return "", d, err
	}
	d, _ = auth.DigestAPIKey(key)
	return key, d, nil
}

// admitKey refuses a key for which there is no room, and one of a name that another has.
func (s *Store) admitKey(ctx context.Context, name string, now time.Time) error {
	all, err := s.listRecords(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Name == name && !r.hasEnded(now) {
			return fmt.Errorf("%w: %q has the id %s", ErrTaken, name, r.ID)
		}
	}
	if len(all) >= maxKeys {
		return fmt.Errorf("%w: %d", ErrFull, len(all))
	}
	room, err := s.records.Room(ctx)
	if err == nil && !room {
		err = fmt.Errorf("%w for the part of the store that is theirs", ErrFull)
	}
	return err
}

// listed is a record of a key with its revision.
type listed struct {
	*record
	rev uint64
}

// listRecords returns the keys, the oldest first. Records that this release cannot read are left out.
func (s *Store) listRecords(ctx context.Context) (all []listed, err error) {
	err = s.records.List(ctx, func(data []byte, rev uint64) {
		if r, err := decodeRecord(data); err == nil && r.OfKey == "" {
			all = append(all, listed{r, rev})
		}
	})
	slices.SortFunc(all, func(a, b listed) int { return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID)) })
	return all, err
}

// List returns all keys that are kept, the oldest first.
func (s *Store) List(ctx context.Context) ([]auth.APIKey, error) {
	all, err := s.listRecords(ctx)
	if err != nil {
		return nil, err
	}
	keys := make([]auth.APIKey, len(all))
	for i, r := range all {
		keys[i] = r.key()
	}
	return keys, nil
}

// Rotate gives a key another secret, and returns that. Those that it has count for overlap from now. expires is the new end of the key, which the zero time leaves as it is; what it
// has counts no longer than before. ErrUnknown, ErrAmbiguous, ErrEnded, ErrFull.
func (s *Store) Rotate(ctx context.Context, idOrName string, overlap time.Duration, expires time.Time) (k auth.APIKey, key string, err error) {
	overlap = min(overlap, farthest)
	key, d, err := newSecret()
	var old []secret
	var r *record
	if err == nil {
		r, err = s.changeKey(ctx, idOrName, func(r *record, now time.Time) error {
			if r.hasEnded(now) {
				return fmt.Errorf("%w: make another one", ErrEnded)
			}
			old = slices.Clone(r.Secrets)
			count := 0
			for i := range r.Secrets {
				one := &r.Secrets[i]
				if one.Ends = soonerEnd(soonerEnd(one.Ends, r.Expires), now.Add(overlap)); now.Before(one.Ends) {
					count++
				}
			}
			if count >= maxSecrets {
				return fmt.Errorf("%w: %d secrets of it count still: rotate it without an overlap, or later", ErrFull, count)
			}
			// One that has ended is kept for a while, so that it is refused as such.
			r.Secrets = slices.DeleteFunc(r.Secrets, func(one secret) bool { return now.Sub(one.Ends) > keepExpired })
			if n := len(r.Secrets) - 2*maxSecrets; n > 0 {
				r.Secrets = slices.Delete(r.Secrets, 0, n)
			}
			if !expires.IsZero() {
				r.Expires = expires.UTC()
			}
			if err := r.check(now); err != nil {
				return err
			}
			r.Secrets = append(r.Secrets, secret{Digest: d[:], Created: now})
			// The record that names the key comes first: nobody has the secret before both are there.
			if err := s.createRecord(ctx, idOf(d), &record{OfKey: r.ID}, r.ttl(now)); !errors.Is(err, store.ErrConflict) {
				return err
			}
			return nil // made in the attempt before
		})
	}
	if err != nil {
		return auth.APIKey{}, "", err
	}
	s.expireSecretRecords(ctx, r.ID, old, overlap+keepExpired)
	return r.key(), key, nil
}

// Revoke ends a key. ErrUnknown, ErrAmbiguous. To revoke it again changes nothing.
func (s *Store) Revoke(ctx context.Context, idOrName string) (auth.APIKey, error) {
	r, err := s.changeKey(ctx, idOrName, func(r *record, now time.Time) error {
		if !r.Revoked.IsZero() {
			return errSame
		}
		r.Revoked = now
		return nil
	})
	if err != nil {
		return auth.APIKey{}, err
	}
	s.expireSecretRecords(ctx, r.ID, r.Secrets, r.ttl(s.records.Now()))
	return r.key(), nil
}

// errSame says that a record needs no change.
var errSame = errors.New("as it is")

// changeKey changes the record of a key.
func (s *Store) changeKey(ctx context.Context, idOrName string, f func(r *record, now time.Time) error) (*record, error) {
	var err error
	for range attempts {
		r, rev, found := s.resolveKey(ctx, idOrName)
		if found != nil {
			return nil, found
		}
		if err = f(r, s.now()); errors.Is(err, errSame) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		if err = s.updateRecord(ctx, r, rev); !errors.Is(err, store.ErrConflict) {
			return r, err
		}
	}
	return nil, err
}

// resolveKey finds a key by its id, or by its name: that of one that counts, or else of the only one.
func (s *Store) resolveKey(ctx context.Context, idOrName string) (*record, uint64, error) {
	if _, err := idEncoding.DecodeString(idOrName); err == nil && len(idOrName) == idLength {
		switch r, rev, err := s.readRecord(ctx, idOrName); {
		case err == nil && r.OfKey == "":
			return r, rev, nil
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, 0, err
		}
	}
	all, err := s.listRecords(ctx)
	if err != nil {
		return nil, 0, err
	}
	all = slices.DeleteFunc(all, func(l listed) bool { return l.Name != idOrName })
	now := s.now()
	if counts := slices.DeleteFunc(slices.Clone(all), func(l listed) bool { return l.hasEnded(now) }); len(counts) > 0 {
		all = counts
	}
	switch len(all) {
	case 0:
		return nil, 0, fmt.Errorf("%w: %.80q", ErrUnknown, idOrName)
	case 1:
		return all[0].record, all[0].rev, nil
	}
	return nil, 0, fmt.Errorf("%w: %.80q: use the id", ErrAmbiguous, idOrName)
}

// expireSecretRecords has the records that name a key for its secrets go after a time; 0 leaves them. If that fails they stay for longer, and say nothing.
func (s *Store) expireSecretRecords(ctx context.Context, id string, of []secret, ttl time.Duration) {
	for _, one := range of {
		at := idOf(auth.KeyDigest(one.Digest))
		if at == id || ttl == 0 {
			continue
		}
		if data, rev, err := s.records.Peek(ctx, at); err == nil {
			_ = s.records.Update(ctx, at, data, rev, ttl)
		}
	}
}
