package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// A session's record is what all nodes share of it, and each node that serves the session caches
// it. Whoever changes the record tells the others. What repairs the loss of that is the age of what
// is cached:
//
//	known ──recordAge old, or a word that it has changed──▶ outdated ──read again──▶ known
//	                                                            └──gone──▶ the session ends here
//
// What a client's next request must find, wherever it goes, all nodes say that they know before the
// client hears of it.

const (
	// recordAge is for how long a session is served from what was read of its record.
	recordAge = 30 * time.Second
	// lookSpread is by how much the looks of sessions are spread that have calls or connections,
	// but no requests.
	lookSpread = 10 * time.Second
	// lookPause is how long a look that failed, or that found no place, waits before the next.
	lookPause = 2 * time.Second
)

// KeepClient returns what a session keeps of its client's clientInfo and capabilities, in most
// bytes together. It reports false if name and version alone do not fit.
func KeepClient(p *mcp.InitializeParams, most int) (info, caps []byte, ok bool) {
	return session.KeepClient(p, most)
}

// DecodeSession reads a stored session for an operator. It reports false for a record that this
// release cannot read.
func DecodeSession(data []byte) (r session.Record, ok bool) {
	r, err := session.Decode(data)
	return r, err == nil && session.NewerVersion(data) == 0
}

// DecodeStream reads a stored writer record for an operator. Of one of another release it has what
// this one knows.
func DecodeStream(data []byte) record.Stream {
	r, _ := record.Decode(data)
	return r
}

// view is a session record with its revision, as last read or written.
type view struct {
	rec session.Record
	rev uint64
}

// viewState is what a session knows of its record.
type viewState struct {
	// view is the cached record. A newer one replaces it, and none is changed: its revision only
	// rises. The first is set before the actor starts.
	view atomic.Pointer[view]

	// touching is set while the record is being rewritten because the session is in use.
	touching atomic.Bool

	// spoken is the revision of the protocol, 0 until it is first read from the record, which
	// settles it once.
	spoken atomic.Uint32

	// shared says that other nodes may change the record; it never changes. The fields below mean
	// nothing without it.
	shared bool

	// asOf is when the view was right, by clock.sinceStart: a read that began then has found it.
	// behind is a revision that the record has had. The view must be read again once it is older
	// than recordAge, has a lower revision than behind, or is older than the last loss of letters.
	asOf   atomic.Int64
	behind atomic.Uint64

	// reading is the read that is under way, nil for none: there is one at a time.
	reading atomic.Pointer[recordRead]
}

// recordRead is a read of a record under way, for all that wait for it.
type recordRead struct {
	done chan struct{}
	err  error
}

// doubted is asOf of a view that must be read again whatever its age.
const doubted = -1 << 62

// sessionView is a session as far as it knows its record.
type sessionView struct{ *sessionActor }

// adoptView makes the session serve from v unless it has a newer record. It does not wait for the
// actor's turn: a response to the client holds from then on.
func (s sessionView) adoptView(v *view) {
	for old := s.view.Load(); v.rev > old.rev; old = s.view.Load() {
		if s.view.CompareAndSwap(old, v) {
			s.memory.Set(recordMemory(&v.rec))
			s.followSubscribed(old.rec.Subscribed, v.rec.Subscribed)
			if old.rec.Anchor != v.rec.Anchor {
				s.sessions.anchors.leave(s.key, old.rec.Anchor, true)
			}
			return
		}
	}
}

// newestView returns the record as it is in the store.
func (s sessionView) newestView() (*view, error) {
	if s.shared {
		if err := s.rereadRecord(s.sessions.lookups, true, true); err != nil {
			return nil, err
		}
	}
	return s.view.Load(), nil
}

// followSubscribed updates the subscriptions after the record's list of resources changed.
func (s sessionView) followSubscribed(old, now []string) {
	for len(old) > 0 && len(now) > 0 && old[0] == now[0] {
		old, now = old[1:], now[1:]
	}
	for len(old) > 0 && len(now) > 0 && old[len(old)-1] == now[len(now)-1] {
		old, now = old[:len(old)-1], now[:len(now)-1]
	}
	for _, uri := range old { // for those that are also in now, nothing changes
		s.sessions.subs.Follow(subscriber(s), uri)
	}
	for _, uri := range now {
		s.sessions.subs.Follow(subscriber(s), uri)
	}
}

// viewOutdated reports whether the record must be read again before the session is served from it.
func (s sessionView) viewOutdated() bool {
	if !s.shared {
		return false
	}
	d := s.sessions
	d.fleet.pulse.Feel()
	at := s.asOf.Load()
	return at < d.fleet.lettersLost.Load() || int64(d.clock.sinceStart())-at > int64(recordAge) || s.view.Load().rev < s.behind.Load()
}

// refreshView reads the record again if it is outdated, or has expired as far as is known: another
// node may have kept the session alive. It reports whether the session has expired, as far as this
// node can decide that; ErrNotFound: it has ended. slots bounds the reads, nil for a caller that
// has a place.
func (s sessionView) refreshView(slots chan struct{}) (expired bool, err error) {
	expired = s.view.Load().rec.Expired(s.sessions.store.Now())
	if !s.shared || !expired && !s.viewOutdated() {
		return expired, nil
	}
	if err = s.rereadRecord(slots, true, false); err == nil && s.viewOutdated() { // by what has come since that read began
		err = s.rereadRecord(slots, true, true)
	}
	return false, err // it was not just now
}

// rereadRecord reads the record again. Those who want it at once share one read. late says that the
// session's client may have been told of what is found; anew, that the read must not have begun
// before the call.
func (s sessionView) rereadRecord(slots chan struct{}, late, anew bool) error {
	r := &recordRead{done: make(chan struct{}), err: errInternal}
	for !s.reading.CompareAndSwap(nil, r) {
		if other := s.reading.Load(); other != nil {
			if <-other.done; !anew {
				return other.err
			}
			anew = false // whatever begins after that one does
		}
	}
	defer func() {
		s.reading.Store(nil)
		close(r.done)
	}()
	r.err = s.readRecord(slots, late)
	return r.err
}

func (s sessionView) readRecord(slots chan struct{}, late bool) error {
	d := s.sessions
	ctx, cancel := context.WithTimeout(d.base, s.svc.Limits.StoreWait)
	defer cancel()
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return fmt.Errorf("actors: read session: too many requests read theirs: %w", store.ErrUnavailable)
		}
	}
	at := d.clock.sinceStart()
	rec, rev, err := d.readRecord(ctx, s.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if rev != 0 && d.store.Delete(ctx, s.key.recordKey(), rev) == nil { // of all nodes one does it
			d.fleet.broadcastEnd(ctx, s.key, &rec, true)
			sessionEnd(s).endSession()
		}
		sessionEnd(s).endWithoutRecord()
		return err
	case err != nil:
		return err
	}
	if v := (&view{rec: rec, rev: rev}); late {
		s.adoptFound(v)
	} else {
		d.adoptView(s.sessionActor, v)
	}
	if s.asOf.Swap(int64(at)) < d.fleet.lettersLost.Load() { // that they are not right any more may have been lost, too
		s.forgetAnswer()
	}
	return nil
}

// rereadBeside reads the record again without a request, beside the actor's turn. It reports false
// if too many do so.
func (s sessionView) rereadBeside() bool {
	places := s.sessions.fleet.looking
	select {
	case places <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-places }()
		if err := s.rereadRecord(nil, true, false); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.sessions.log.Debug("session not looked at", "session", s.key.ID, "error", err)
		}
	}()
	return true
}

// untilLook is how long the session's timer may run that would run for left. The record of a
// session with calls or connections is read again when that is due: nobody else does it if no
// requests come. It belongs to the actor's turn.
func (s sessionView) untilLook(active bool, left time.Duration) time.Duration {
	if !s.shared {
		return left
	}
	age := s.sessions.clock.sinceStart() - time.Duration(s.asOf.Load())
	switch early := recordAge - lookSpread; {
	case age < early && !s.viewOutdated():
		return min(left, early-age+rand.N(lookSpread))
	case active:
		s.rereadBeside()
		return min(left, lookPause/2+rand.N(lookPause))
	}
	return min(left, recordAge)
}

// adoptFound makes the session serve from a record that was found changed, perhaps long after the
// client was told of the change. Updates of the resources that it subscribes to since then may not
// have reached it.
func (s sessionView) adoptFound(v *view) {
	before := s.view.Load()
	s.sessions.adoptView(s.sessionActor, v)
	if !s.shared || v.rev <= before.rev || !standalone(s).writesStandalone() {
		return
	}
	for _, uri := range v.rec.Subscribed {
		if _, old := slices.BinarySearch(before.rec.Subscribed, uri); !old && subscriber(s).Hears(uri) {
			s.peer.PushUpdate(uri)
		}
	}
}

// noteRevision notes that the record has had a revision. A session with calls or connections here
// reads it now, any other one before its next request.
func (s sessionView) noteRevision(rev uint64) {
	for {
		old := s.behind.Load()
		if rev <= max(old, s.view.Load().rev) {
			return
		}
		if s.behind.CompareAndSwap(old, rev) {
			_ = s.Post(idleTick{})
			return
		}
	}
}

// catchUpTo reads the record again until it has at least a revision that was written before.
func (s sessionView) catchUpTo(rev uint64) error {
	for anew := false; s.view.Load().rev < rev; anew = true {
		if err := s.rereadRecord(nil, false, anew); err != nil {
			return err
		}
		if anew && s.view.Load().rev < rev {
			return store.ErrUnavailable
		}
	}
	return nil
}
