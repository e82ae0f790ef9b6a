package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/store"
)

// A session's record is what all nodes share of it, and each node that serves the session caches it. Whoever changes the
// record tells the others. What repairs the loss of that is the age of what is cached:
//
//	known ──recordAge old, or a word that it has changed──▶ outdated ──read again──▶ known
//	                                                            └──gone──▶ the session ends here
//
// What a client's next request must find, wherever it goes, all nodes say that they know before the client hears of it.

const (
	// recordAge is for how long a session is served from what was read of its record.
	recordAge = 30 * time.Second
	// lookSpread is by how much the looks of sessions are spread that have calls or connections, but no requests.
	lookSpread = 10 * time.Second
	// lookPause is how long a look that failed, or that found no place, waits before the next.
	lookPause = 2 * time.Second
	// knownWait is how long a client waits at most until the other nodes know of a change of its session.
	knownWait = time.Second
	// mostReason bounds the reason of a cancel that other nodes are told.
	mostReason = 1 << 10
)

// The letters about sessions.
const (
	letterSessionChanged = "session.changed"
	letterSessionEnded   = "session.ended"
	letterCancel         = "cancel"
)

func init() {
	receivers[letterSessionChanged] = (*fleet).receiveChanged
	receivers[letterSessionEnded] = (*fleet).receiveEnded
	receivers[letterCancel] = (*fleet).receiveCancel
}

// sessionLetter is what a letter says of a session.
type sessionLetter struct {
	Session SessionKey
	Rev     uint64 `json:",omitempty"` // of the record that was written
	Old     string `json:",omitempty"` // a stream that is the standalone stream no more
	Expired bool   `json:",omitempty"` // the session has ended by its own clock
	Forget  bool   `json:",omitempty"` // the answers that calls share are not right any more
	Change  uint64 `json:",omitempty"` // what makes them wrong; 0 if nothing says it
}

func (sessionLetter) short() {}

// viewAge is how old what a node knows of a record is. The zero value is that of a session whose record is nobody else's.
type viewAge struct {
	shared  bool                       // other nodes may change the record; never changes
	asOf    atomic.Int64               // the view was right then, by clock.sinceStart
	behind  atomic.Uint64              // the record has had this revision
	reading atomic.Pointer[recordRead] // nil if nobody reads it
}

// recordRead is a read of a record under way, for all that wait for it.
type recordRead struct {
	done chan struct{}
	err  error
}

// doubted is asOf of a view that must be read again whatever its age.
const doubted = -1 << 62

// viewOutdated reports whether the record must be read again before the session is served from it.
func (s *sessionActor) viewOutdated() bool {
	if !s.shared {
		return false
	}
	n := s.node
	n.fleet.pulse.Feel()
	at := s.asOf.Load()
	return at < n.fleet.lettersLost.Load() || int64(n.clock.sinceStart())-at > int64(recordAge) || s.view.Load().rev < s.behind.Load()
}

// refreshView reads the record again if it is outdated, or has expired as far as is known: another node may have kept the
// session alive. It reports whether the session has expired, as far as this node can decide that; ErrNotFound: it has ended.
// slots bounds the reads, nil for a caller that has a place.
func (s *sessionActor) refreshView(slots chan struct{}) (expired bool, err error) {
	expired = s.view.Load().rec.Expired(s.node.store.Now())
	if !s.shared || !expired && !s.viewOutdated() {
		return expired, nil
	}
	if err = s.rereadRecord(slots, true, false); err == nil && s.viewOutdated() { // by what has come since that read began
		err = s.rereadRecord(slots, true, true)
	}
	return false, err // it was not just now
}

// rereadRecord reads the record again. Those who want it at once share one read. late says that the session's client may have
// been told of what is found; anew, that the read must not have begun before the call.
func (s *sessionActor) rereadRecord(slots chan struct{}, late, anew bool) error {
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

func (s *sessionActor) readRecord(slots chan struct{}, late bool) error {
	n := s.node
	ctx, cancel := context.WithTimeout(n.base, s.svc.Limits.StoreWait)
	defer cancel()
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return fmt.Errorf("actors: read session: too many requests read theirs: %w", store.ErrUnavailable)
		}
	}
	at := n.clock.sinceStart()
	rec, rev, err := n.sessions.readRecord(ctx, s.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if rev != 0 && n.store.Delete(ctx, s.key.recordKey(), rev) == nil { // of all nodes one does it
			n.fleet.broadcastEnd(ctx, s.key, &rec, true)
			s.endSession()
		}
		s.endWithoutRecord()
		return err
	case err != nil:
		return err
	}
	if v := (&view{rec: rec, rev: rev}); late {
		s.adoptFound(v)
	} else {
		n.sessions.adoptView(s, v)
	}
	if s.asOf.Swap(int64(at)) < n.fleet.lettersLost.Load() { // that they are not right any more may have been lost, too
		s.forgetAnswer()
	}
	return nil
}

// adoptFound makes the session serve from a record that was found changed, perhaps long after the client was told of the
// change. Updates of the resources that it subscribes to since then may not have reached it.
func (s *sessionActor) adoptFound(v *view) {
	before := s.view.Load()
	s.node.sessions.adoptView(s, v)
	if !s.shared || v.rev <= before.rev || !s.writesStandalone() {
		return
	}
	for _, uri := range v.rec.Subscribed {
		if _, old := slices.BinarySearch(before.rec.Subscribed, uri); !old && s.Hears(uri) {
			s.peer.PushUpdate(uri)
		}
	}
}

// writesStandalone reports whether this node writes the session's standalone stream.
func (s *sessionActor) writesStandalone() bool {
	return s.node.streams.writesHere(StreamKey{s.key, s.view.Load().rec.Standalone})
}

// endWithoutRecord ends the session on this node, whose record is no more. Only the node that has ended a session of a fleet tells
// the program.
func (s *sessionActor) endWithoutRecord() {
	if h, ok := s.home.(storedHome); ok && s.shared {
		h.endQuietly(false)
		return
	}
	s.endSession()
}

// rereadBeside reads the record again without a request, beside the actor's turn. It reports false if too many do so.
func (s *sessionActor) rereadBeside() bool {
	places := s.node.fleet.looking
	select {
	case places <- struct{}{}:
	default:
		return false
	}
	go func() {
		defer func() { <-places }()
		if err := s.rereadRecord(nil, true, false); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.node.log.Debug("session not looked at", "session", s.key.ID, "error", err)
		}
	}()
	return true
}

// untilLook is how long the session's timer may run that would run for left. The record of a session with calls or
// connections is read again when that is due: nobody else does it if no requests come. It belongs to the actor's turn.
func (s *sessionActor) untilLook(active bool, left time.Duration) time.Duration {
	if !s.shared {
		return left
	}
	age := s.node.clock.sinceStart() - time.Duration(s.asOf.Load())
	switch early := recordAge - lookSpread; {
	case age < early && !s.viewOutdated():
		return min(left, early-age+rand.N(lookSpread))
	case active:
		s.rereadBeside()
		return min(left, lookPause/2+rand.N(lookPause))
	}
	return min(left, recordAge)
}

// noteRevision notes that the record has had a revision. A session with calls or connections here reads it now, any other one
// before its next request.
func (s *sessionActor) noteRevision(rev uint64) {
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
func (s *sessionActor) catchUpTo(rev uint64) error {
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

// needsBroadcast reports whether a change of a record is of interest elsewhere. A confirmed digest is not: whoever begins the next
// standalone stream has the newest record then.
func needsBroadcast(was, now *session.Record) bool {
	return was.Level != now.Level || was.Standalone != now.Standalone || !slices.Equal(was.Subscribed, now.Subscribed) ||
		!maps.EqualFunc(was.Values, now.Values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// Forget drops the kept answer, on all nodes: the next question with Keep is sent to the client.
func (p *Peer) Forget() {
	s, err := p.who.currentSession()
	if err != nil {
		return
	}
	s.forgetAnswer()
	if s.shared {
		p.node.fleet.broadcastForget(p.node.base, p.key)
	}
}

// forgetAnswer drops the kept answer, if there is one.
func (s *sessionActor) forgetAnswer() {
	if k := s.keeps.Load(); k != nil {
		k.forgetAnswer(0)
	}
}

// cancelLetter says that a client has cancelled a call that does not run where the cancel arrived.
type cancelLetter struct {
	Session SessionKey
	Request string // its id, raw
	Reason  string `json:",omitempty"`
}

func (cancelLetter) short() {}
