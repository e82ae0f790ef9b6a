package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// issuer is an Issuer of the configuration with its keys. It does what its keyring decides.
type issuer struct {
	Issuer
	audiences []string // canonical
	keep      []string // Config.Claims
	client    *http.Client
	cache     KeyCache // nil without
	log       *slog.Logger

	goodUntil atomic.Int64 // keyring.goodUntil as UnixNano, for verdicts

	mu     sync.Mutex // guards what follows; not held over I/O
	ring   keyring
	set    *keySet
	news   chan struct{} // closed at the next news of the keys
	timer  *time.Timer   // of the next fetch in the background; nil before the first
	cancel context.CancelCauseFunc
	closed bool

	fetches sync.WaitGroup

	// Only the fetch under way uses these.
	loaded   bool
	location *location
}

// awaitKeys returns what is known of the issuer, once it satisfies has. A token that was issued at a time asks for it, the zero time for none. The answer is unknown if the issuer has
// nothing that satisfies, and unreachable if nobody knows.
func (i *issuer) awaitKeys(ctx context.Context, issued time.Time, has func(*keySet) bool) (*keySet, answer, time.Duration, error) {
	for came := time.Now(); ; {
		now := time.Now()
		i.mu.Lock()
		set := i.set
		answer, fetch, retry := i.ring.answerFor(now, came, issued, set != nil && has(set))
		switch {
		case fetch && !i.closed:
			i.beginFetch(now)
		case answer == wait && i.closed:
			i.mu.Unlock()
			return nil, unreachable, spacing, errClosed
		}
		news := i.news
		i.mu.Unlock()
		if answer != wait {
			return set, answer, retry, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, unreachable, spacing, context.Cause(ctx)
		}
	}
}

// beginFetch starts a fetch. The caller holds mu.
func (i *issuer) beginFetch(now time.Time) {
	i.ring.beginFetch(now)
	ctx, cancel := context.WithCancelCause(context.Background())
	i.cancel = cancel
	i.fetches.Go(func() {
		ctx, release := context.WithTimeoutCause(ctx, fetchTime+2*cacheTime, errSlow)
		defer release()
		defer cancel(nil)
		i.refreshKeys(ctx)
	})
}

// onTimer is what the timer does.
func (i *issuer) onTimer() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if now := time.Now(); !i.closed && i.ring.isDue(now) {
		i.beginFetch(now)
	}
}

// publishState wakes those who wait, and sets the timer. The caller holds mu.
func (i *issuer) publishState() {
	if i.ring.known {
		i.goodUntil.Store(i.ring.goodUntil().UnixNano())
	}
	close(i.news)
	i.news = make(chan struct{})
	next := i.ring.nextFetch()
	if i.closed || next.IsZero() || i.ring.fetching {
		return
	}
	if i.timer != nil {
		i.timer.Stop()
	}
	i.timer = time.AfterFunc(time.Until(next), i.onTimer)
}

// refreshKeys fetches the keys: those of another process the first time, and when the issuer cannot be reached.
func (i *issuer) refreshKeys(ctx context.Context) {
	if first := !i.loaded; first {
		i.loaded = true
		if i.adoptKeys(ctx, true) {
			return
		}
	}
	set, r, err := i.fetchKeys(ctx)
	if err != nil {
		i.adoptKeys(ctx, false) // before those who wait are woken
		i.noteFailure(err)
		return
	}
	now := time.Now()
	i.mu.Lock()
	failures := i.ring.failures
	i.ring.endFetch(now, r.Interval)
	gone := i.installKeys(set)
	i.mu.Unlock()
	if failures > 0 {
		i.log.Info("the keys of an issuer are fetched again", slog.String("issuer", i.URL))
	}
	i.logGone(gone)
	if i.cache == nil {
		return
	}
	r.Issuer, r.From, r.Fetched = i.URL, i.Keys, now
	data, err := json.Marshal(r)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cacheTime)
		defer cancel()
		err = runGuarded(func() error { return i.cache.Store(ctx, i.URL, data) })
	}
	if err != nil {
		i.log.Warn("the keys of an issuer were not kept for other processes", slog.String("issuer", i.URL), slog.Any("err", err))
	}
}

// installKeys replaces the keys, and returns those that are gone. The caller holds mu.
func (i *issuer) installKeys(set *keySet) []*key {
	gone := set.replaceKeys(i.set)
	i.set = set
	i.publishState()
	return gone
}

func (i *issuer) logGone(gone []*key) {
	for _, k := range gone {
		i.log.Info("a key of an issuer is gone: tokens that it has signed are refused", slog.String("issuer", i.URL), slog.String("kid", k.kid))
	}
}

// noteFailure notes that a fetch has failed.
func (i *issuer) noteFailure(err error) {
	i.mu.Lock()
	i.ring.failFetch()
	known, until, closed := i.ring.known, i.ring.goodUntil(), i.closed
	i.publishState()
	i.mu.Unlock()
	if closed {
		return
	}
	attrs := []any{slog.String("issuer", i.URL), slog.Any("err", err)}
	if known {
		attrs = append(attrs, slog.Time("last_keys_serve_until", until))
	}
	i.log.Warn("the keys of an issuer cannot be fetched", attrs...)
}

// adoptKeys takes the keys that another process has fetched, if they are newer. instead says that they can do in place of the fetch that has begun, and the result that they do.
func (i *issuer) adoptKeys(ctx context.Context, instead bool) bool {
	if i.cache == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTime)
	defer cancel()
	var data []byte
	err := runGuarded(func() (err error) {
		data, err = i.cache.Load(ctx, i.URL)
		return err
	})
	if err != nil {
		i.log.Warn("the keys of an issuer that other processes have fetched cannot be read", slog.String("issuer", i.URL), slog.Any("err", err))
		return false
	}
	r, keys, ok := readRecord(data, i.URL, i.Keys)
	if !ok {
		return false
	}
	now := time.Now()
	i.mu.Lock()
	if !i.ring.adoptKeys(now, r.Fetched, r.Interval) {
		i.mu.Unlock()
		return false
	}
	fresh := instead && now.Before(i.ring.fetched.Add(i.ring.interval))
	if fresh {
		i.ring.skipFetch()
	}
	gone := i.installKeys(&keySet{keys, r.Metadata})
	i.mu.Unlock()
	i.logGone(gone)
	return fresh
}

// fetchKeys gets the issuer's keys.
func (i *issuer) fetchKeys(ctx context.Context) (set *keySet, r record, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTime, errSlow)
	defer cancel()
	err = runGuarded(func() (err error) {
		r.Keys, r.Interval, r.Metadata, err = i.fetchDocuments(ctx)
		return err
	})
	if err != nil {
		if i.location != nil {
			i.location.until = time.Time{} // it may have changed
		}
		return nil, r, err
	}
	keys, err := readKeys(r.Keys)
	if err != nil {
		return nil, r, err
	}
	return &keySet{keys, r.Metadata}, r, nil
}

// fetchDocuments returns the key set, how long the issuer wants it to be kept, and the metadata that names its place.
func (i *issuer) fetchDocuments(ctx context.Context) (keys []byte, asked time.Duration, metadata []byte, err error) {
	switch {
	case i.Keys == "":
		if now := time.Now(); i.location == nil || !now.Before(i.location.until) {
			first := ""
			if i.location != nil {
				first = i.location.metadataURL
			}
			l, err := locateKeys(ctx, i.client, i.URL, first, now)
			if err != nil {
				return nil, 0, nil, err
			}
			i.location = l
		}
		keys, asked, err = getDocument(ctx, i.client, i.location.keys)
		return keys, asked, i.location.metadata, err
	case isFile(i.Keys):
		keys, err = readFile(i.Keys)
		return keys, 0, nil, err
	}
	keys, asked, err = getDocument(ctx, i.client, i.Keys)
	return keys, asked, nil, err
}

// runGuarded runs code of the program, which must not end the process: nobody who called it can have recovered.
func runGuarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// closeIssuer ends the fetch under way, and waits for it.
func (i *issuer) closeIssuer() {
	i.mu.Lock()
	i.closed = true
	if i.timer != nil {
		i.timer.Stop()
	}
	if i.cancel != nil {
		i.cancel(errClosed)
	}
	i.mu.Unlock()
	i.fetches.Wait()
}

// CheckKeyFiles returns an error that names each file of [Issuer].Keys without a key that can be used. New reads none of them: this is for who is about to use the configuration in
// place of another one, whose keys serve as long as they are not replaced.
func (c *Config) CheckKeyFiles() error {
	var faults []error
	for n, i := range c.Issuers {
		if !isFile(i.Keys) {
			continue
		}
		data, err := readFile(i.Keys)
		if err == nil {
			var keys []*key
			if keys, err = readKeys(data); err == nil && len(keys) == 0 {
				err = errors.New("it has no key that can be used")
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", i.Keys, err)
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("Auth.Issuers[%d].Keys: %w", n, err))
		}
	}
	return errors.Join(faults...)
}
