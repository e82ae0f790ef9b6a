package revocation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	readEvery   = 500 * time.Millisecond // between two looks at a store that others change, too
	expireEvery = 30 * time.Second       // between two looks for what has ended, where no others change it
	readTime    = 2 * time.Second        // for a look
	longestGap  = 3 * time.Second        // between two looks, of which the second one finds what was removed meanwhile
)

const (
	// DefaultLife is for how long tokens are refused that were issued before: the longest life of a token that is expected.
	DefaultLife = 24 * time.Hour

	attempts = 5 // to change a record that others change, too
)

// Config has what a List works with. All fields are needed.
type Config struct {
	Records Records
	Keys    Keys
	Shared  bool // other processes change the records, too
	// End ends what those hold in this process who were revoked just now. It is called on a goroutine of its own, with a context that ends with Close.
	End func(context.Context, Match)
	// EndStored ends what is stored of whom a revocation is about, and can be found there. It is called in the process that makes the revocation.
	EndStored func(context.Context, *Revocation) error
	Log       *slog.Logger
}

// List is the revocations of a store, as a process knows them. Make it with New.
type List struct {
	Config
	table atomic.Pointer[table] // nil: nobody is revoked

	reading chan struct{} // has an element while the records are read

	mu   sync.Mutex // guards what follows; not held over a read or a write
	all  map[string]*entry
	next uint64    // the first revision that was not read
	read time.Time // when the last good read began, the zero time before the first one
	away bool      // the last look failed

	ctx     context.Context // of what runs in the background
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// change is what has become of a revocation.
type change struct {
	id    string
	rev   uint64
	now   *Revocation // nil: it was removed
	noted time.Time   // see entry
}

// New returns a List that has read nothing.
func New(c Config) *List {
	l := &List{Config: c, reading: make(chan struct{}, 1), all: make(map[string]*entry)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Start reads the revocations, and from then on what other processes change. Until they could be read every token is refused as one that cannot be verified.
func (l *List) Start() {
	l.table.Store(&table{notRead: true})
	l.refreshAndLog()
	l.running.Go(func() {
		for {
			wait := expireEvery
			if l.mustRead() {
				wait = readEvery
			}
			select {
			case <-time.After(wait):
				l.refreshAndLog()
			case <-l.ctx.Done():
				return
			}
		}
	})
}

// Close ends what runs in the background, and waits for it. What is known counts on.
func (l *List) Close() {
	l.mu.Lock() // nothing begins afterwards
	l.cancel()
	l.mu.Unlock()
	l.running.Wait()
}

// Refusal returns how a token is refused whose owner was revoked, nil for one that counts. It costs one atomic load while nobody is revoked.
func (l *List) Refusal(id *auth.Identity) *auth.Refusal {
	t := l.table.Load()
	if t == nil {
		return nil
	}
	if t.notRead {
		return unavailableRefusal()
	}
	if r := t.find(id, l.Records.Now()); r != nil {
		return r.refusal(id)
	}
	return nil
}

// Count is how many revocations this process knows.
func (l *List) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
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
	r.ID = r.deriveID()
	err := store.ErrConflict
	for n := 0; n < attempts && errors.Is(err, store.ErrConflict); n++ {
		var made Revocation
		var rev uint64
		if made, rev, err = l.storeRevocation(ctx, r); err == nil {
			l.applyChanges([]change{{made.ID, rev, &made, time.Now()}}, false, time.Time{})
			if err = l.EndStored(ctx, &made); err != nil {
				err = fmt.Errorf("%w: %w", ErrRest, err)
			}
			return made, err
		}
	}
	return Revocation{}, err
}

// storeRevocation stores a revocation, in the place of the one that there is about the same.
func (l *List) storeRevocation(ctx context.Context, r Revocation) (Revocation, uint64, error) {
	var old *record
	data, rev, err := l.Records.Peek(ctx, r.ID)
	switch {
	case err == nil:
		old, err = decodeRecord(data)
	case errors.Is(err, store.ErrNotFound):
		err = l.checkRoom(ctx)
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

// checkRoom refuses a revocation for which there is no room.
func (l *List) checkRoom(ctx context.Context) error {
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
			r, err = decodeRecord(data)
		}
		if err == nil {
			err = l.Records.Delete(ctx, id, rev)
		}
		if err == nil {
			l.applyChanges([]change{{id: id, rev: rev + 1}}, false, time.Time{})
			return r.Revocation, nil
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		err = fmt.Errorf("%w: %.80q", ErrUnknown, id)
	}
	return Revocation{}, err
}

// mustRead reports whether there may be records that this process does not know.
func (l *List) mustRead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Shared || l.read.IsZero()
}

// refreshAndLog refreshes the list, in a bounded time, and logs when the store does not answer, and when it does again.
func (l *List) refreshAndLog() {
	ctx, cancel := context.WithTimeout(l.ctx, readTime)
	defer cancel()
	err := l.refresh(ctx)
	if l.ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	was := l.away
	l.away = err != nil
	l.mu.Unlock()
	switch {
	case err != nil && !was:
		l.Log.Warn("the store does not say who was revoked: what is known here counts", slog.Any("err", err))
	case err == nil && was:
		l.Log.Info("the store says again who was revoked")
	}
}

// refresh reads what has changed since the last read; or everything, if that is so long ago that nothing is left of what was removed meanwhile. One read runs at a time.
func (l *List) refresh(ctx context.Context) error {
	if !l.mustRead() {
		l.applyChanges(nil, false, time.Time{})
		return nil
	}
	select {
	case l.reading <- struct{}{}:
		defer func() { <-l.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	began := time.Now().Round(0) // by the wall: a machine that sleeps does not count that time otherwise
	l.mu.Lock()
	since, next := began.Sub(l.read), l.next
	whole := l.read.IsZero() || l.away || since < 0 || since > longestGap
	l.mu.Unlock()
	if whole {
		next = 0
	}
	var found []change
	err := l.Records.From(ctx, next, func(id string, rev uint64, data []byte) {
		next = rev + 1
		c := change{id: id, rev: rev}
		if len(data) > 0 {
			r, err := decodeRecord(data)
			if err != nil || r.ID != id {
				l.Log.Error("a revocation does not count here", slog.String("id", id), slog.Any("err", cmp.Or(err, errForm)))
				return
			}
			c.now = &r.Revocation
		}
		found = append(found, c)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.read, l.next = began, next
	l.mu.Unlock()
	l.applyChanges(found, whole, began)
	return nil
}

// applyChanges notes what has changed, and has what those hold ended who are revoked by it. With whole, what was known before a time counts on only if it was found again.
func (l *List) applyChanges(found []change, whole bool, before time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, changed := l.all, whole || len(found) > 0
	if changed {
		l.all = maps.Clone(old)
	}
	if whole {
		maps.DeleteFunc(l.all, func(_ string, e *entry) bool { return e.noted.Before(before) })
	}
	for _, c := range found {
		switch e := l.all[c.id]; {
		case e != nil && e.rev >= c.rev:
		case c.now == nil:
			delete(l.all, c.id)
		default:
			l.all[c.id] = &entry{*c.now, c.rev, c.noted}
		}
	}
	now := l.Records.Now()
	for id, e := range l.all {
		if e.hasEnded(now) {
			delete(l.all, id)
			changed = true
		}
	}
	if !changed {
		return
	}
	if t := l.table.Load(); t == nil || !t.notRead || !l.read.IsZero() {
		l.table.Store(newTable(l.all))
	}
	var news Match
	for id, e := range l.all {
		if was := old[id]; was == nil || was.Created.Before(e.Created) {
			news = append(news, e.Revocation)
		}
	}
	if len(news) > 0 && l.ctx.Err() == nil {
		l.running.Go(func() { l.End(l.ctx, news) })
	}
}
