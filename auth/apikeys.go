package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxAPIKeys  = 32 << 10        // that are remembered
	maxUnknown  = 4 << 10         // digests that are remembered as nobody's, or are looked up for the first time
	maxFirst    = 1024            // first look-ups that run, or wait for their turn
	findsAtOnce = 32              // look-ups of a kind: first ones do not hold up those of known keys
	keyFresh    = time.Second     // for which nothing is asked again
	keyStale    = 2 * time.Second // for which a known key counts while that is done
	keyAgain    = time.Second     // the longest look-up of a known key
	keyFirst    = 3 * time.Second // the longest look-up of another one
	usedTime    = 5 * time.Second // for a note of when a key was used
	usedAgain   = time.Minute     // after one that failed
	never       = 1 << 40         // in Unix seconds: the end of a key that has none
)

// apiKeys are the keys of a KeyStore, as far as they have come.
type apiKeys struct {
	store  KeyStore
	uses   KeyUses // nil if the store notes nothing
	log    *slog.Logger
	ctx    context.Context // of what runs in the background
	cancel context.CancelCauseFunc

	firsts, agains chan struct{} // each has an element for each look-up under way

	mu      sync.Mutex // guards what follows, and the entries
	known   halves[KeyDigest, *keyEntry]
	unknown halves[KeyDigest, *keyEntry] // apart, so that digests that somebody makes up displace no key
	waiting int                          // first look-ups
	away    bool                         // the store returned an error last; for the log
	closed  bool

	running sync.WaitGroup
}

// keyEntry is what is known about a digest.
type keyEntry struct {
	digest KeyDigest
	found  atomic.Pointer[foundKey] // nil: nothing yet

	looking chan struct{} // closed when the look-up under way is over; nil without one
	failed  time.Time     // when the last look-up ended, if that failed
	err     error         // of that
	tried   time.Time     // when it was last tried to note that the key was used, if that failed or is under way
	noted   time.Time     // the day that was noted
}

// foundKey is what a look-up has found. It does not change.
type foundKey struct {
	key     *APIKey // nil: there is none
	verdict *Verdict
	read    time.Time // when the look-up began
}

// isFresh reports whether a verdict is the last one, and nothing must be asked.
func (e *keyEntry) isFresh(v *Verdict, now time.Time) bool {
	f := e.found.Load()
	return f != nil && f.verdict == v && now.Sub(f.read) < keyFresh
}

func newAPIKeys(c *Config) *apiKeys {
	t := &apiKeys{store: c.APIKeys, log: c.Log, firsts: make(chan struct{}, findsAtOnce), agains: make(chan struct{}, findsAtOnce)}
	t.known, t.unknown = newHalves[KeyDigest, *keyEntry](maxAPIKeys), newHalves[KeyDigest, *keyEntry](maxUnknown)
	t.uses, _ = c.APIKeys.(KeyUses)
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// closeLookups ends the look-ups under way, and waits for them.
func (t *apiKeys) closeLookups() {
	t.mu.Lock()
	t.closed = true
	t.cancel(errClosed)
	t.mu.Unlock()
	t.running.Wait()
}

// verifyKey returns the verdict about an API key.
func (t *apiKeys) verifyKey(ctx context.Context, token string) (*Verdict, *Refusal) {
	digest, ok := DigestAPIKey(token)
	if !ok {
		return nil, invalidToken(ReasonMalformed, slog.String("fault", "no API key has this form and checksum"), slog.Int("bytes", len(token)))
	}
	e, look := t.findOrAddEntry(digest, time.Now())
	if look != nil {
		select {
		case <-look:
		case <-ctx.Done():
			return nil, refuseUnavailable(ReasonUnavailable, spacing, context.Cause(ctx))
		}
	}
	if e == nil {
		return nil, refuseUnavailable(ReasonUnavailable, spacing, errManyKeys)
	}
	f := e.found.Load()
	switch {
	case f == nil:
		return nil, refuseUnavailable(ReasonUnavailable, spacing, t.lookupFault(e))
	case f.verdict.refused != nil:
		return nil, f.verdict.refused
	case !time.Now().Before(f.verdict.ends):
		return nil, refuseKey(ReasonExpired, f.key.ID, f.key.Name, slog.Time("expired", f.key.Expires))
	}
	return f.verdict, nil
}

// recallKey is verifyKey for a key that counted when it came last, nil for another one. It waits for the store for a second at most.
func (t *apiKeys) recallKey(token string) *Verdict {
	digest, ok := DigestAPIKey(token)
	if !ok {
		return nil
	}
	t.mu.Lock()
	e, ok := t.known.useValue(digest)
	t.mu.Unlock()
	if !ok {
		return nil
	}
	if f := e.found.Load(); f == nil || f.verdict.refused != nil {
		return nil
	}
	v, _ := t.verifyKey(t.ctx, token)
	return v
}

// lookupFault is why nothing is known about a digest.
func (t *apiKeys) lookupFault(e *keyEntry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.err
}

var errManyKeys = errors.New("too many API keys are looked up that nobody knows here")

// findOrAddEntry returns the entry of a digest, and what to wait for before it is used; without an entry there is no room for one.
func (t *apiKeys) findOrAddEntry(digest KeyDigest, now time.Time) (e *keyEntry, look <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, known := t.known.useValue(digest)
	if !known {
		if e, _ = t.unknown.useValue(digest); e == nil {
			e = &keyEntry{digest: digest}
		}
	}
	f := e.found.Load()
	stale := keyStale
	if f == nil || f.key == nil {
		stale = keyFresh // a key that was just made counts soon
	}
	failing := !e.failed.IsZero() && now.Sub(e.failed) < keyStale // nobody waits again for a store that does not answer
	if e.looking == nil && (f == nil || now.Sub(f.read) >= keyFresh) && now.Sub(e.failed) >= keyFresh {
		if !t.beginLookup(e, !known) {
			return nil, nil
		}
	}
	if f != nil && (now.Sub(f.read) < stale || failing && f.key != nil) {
		return e, nil
	}
	return e, e.looking
}

// beginLookup begins a look-up. The caller holds mu. It is false if there is no room for it.
func (t *apiKeys) beginLookup(e *keyEntry, first bool) bool {
	places, longest := t.agains, keyAgain
	if first {
		if t.waiting == maxFirst {
			return false
		}
		t.waiting++
		t.unknown.putValue(e.digest, e)
		places, longest = t.firsts, keyFirst
	}
	if t.closed {
		e.failed, e.err = time.Now(), errClosed
		return true
	}
	done := make(chan struct{})
	e.looking = done
	t.running.Go(func() {
		key, began, err := t.findKey(e.digest, places, longest)
		t.mu.Lock()
		if first {
			t.waiting--
		}
		t.settleLookup(e, key, began, err)
		e.looking = nil
		note := t.uses != nil && err == nil && e.found.Load().verdict.refused == nil && key.Used.Before(utcDay(began)) && e.noted.Before(utcDay(began)) && began.Sub(e.tried) >= usedAgain
		if note {
			e.tried = began
		}
		t.mu.Unlock()
		close(done)
		if note {
			t.noteUse(e, utcDay(began))
		}
	})
	return true
}

// utcDay is the day of a time in UTC.
func utcDay(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// findKey asks the store once there is a place.
func (t *apiKeys) findKey(digest KeyDigest, places chan struct{}, longest time.Duration) (key *APIKey, began time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(t.ctx, longest, errSlowKeys)
	defer cancel()
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return nil, began, context.Cause(ctx)
	}
	began = time.Now()
	err = runGuarded(func() (err error) {
		key, err = t.store.Find(ctx, digest)
		return err
	})
	if err == nil && (key == nil || !isName(key.ID)) {
		err = errors.New("the store of API keys returned a key without an id")
	}
	return key, began, err
}

var errSlowKeys = errors.New("the store of API keys took too long")

// settleLookup notes what a look-up has found. The caller holds mu.
func (t *apiKeys) settleLookup(e *keyEntry, key *APIKey, began time.Time, err error) {
	last := e.found.Load()
	unknown := errors.Is(err, ErrNoKey)
	if err != nil && !unknown {
		e.failed, e.err = time.Now(), err
		if last != nil && last.key == nil {
			e.found.Store(nil) // somebody may have made it meanwhile
		}
		if !t.away && !t.closed {
			t.away = true
			t.log.Warn("the store of API keys does not answer: those that are known here count as they did", slog.Any("err", err))
		}
		return
	}
	if t.away {
		t.away = false
		t.log.Info("the store of API keys answers again")
	}
	e.failed, e.err = time.Time{}, nil
	if unknown {
		key = nil
	}
	f := &foundKey{key: key, read: began}
	switch {
	case last != nil && sameKey(last.key, key):
		f.verdict = last.verdict
	case key == nil:
		f.verdict = &Verdict{refused: invalidToken(ReasonKeyUnknown, slog.String("digest", fmt.Sprintf("%x", e.digest[:4])))}
	default:
		f.verdict = e.judgeKey(key)
	}
	e.found.Store(f)
	if key != nil {
		t.unknown.dropValue(e.digest)
		t.known.putValue(e.digest, e)
	}
}

// judgeKey is the verdict about a key that there is.
func (e *keyEntry) judgeKey(key *APIKey) *Verdict {
	if !key.Revoked.IsZero() {
		return &Verdict{refused: refuseKey(ReasonRevoked, key.ID, key.Name, slog.Time("revoked", key.Revoked))}
	}
	v := &Verdict{ends: key.Expires, found: e, name: key.Name, Identity: Identity{Issuer: KeyIssuer, Subject: key.ID, Client: key.ID, Machine: true, Issued: key.Created, Expires: key.Expires}}
	v.Scopes, v.Servers = slices.Clone(key.Scopes), slices.Clone(key.Servers)
	if v.ends.IsZero() {
		v.ends = time.Unix(never, 0)
	}
	return v
}

// sameKey reports whether two keys have the same verdict.
func sameKey(a, b *APIKey) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.Revoked.Equal(b.Revoked) && a.Expires.Equal(b.Expires) && a.Created.Equal(b.Created) && slices.Equal(a.Scopes, b.Scopes) && slices.Equal(a.Servers, b.Servers)
}

// noteUse has the store note when a key was used.
func (t *apiKeys) noteUse(e *keyEntry, day time.Time) {
	ctx, cancel := context.WithTimeoutCause(t.ctx, usedTime, errSlowKeys)
	defer cancel()
	if err := runGuarded(func() error { return t.uses.Used(ctx, e.digest, day) }); err != nil {
		t.log.Warn("it was not noted when an API key was used", slog.Any("err", err))
		return
	}
	t.mu.Lock()
	e.tried, e.noted = time.Time{}, day
	t.mu.Unlock()
}
