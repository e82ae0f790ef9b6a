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
	"strings"
	"sync"
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

// askOthers tells all other nodes what they must know of a session before its client hears of it, and returns when each has
// said that it does, or after knownWait. Who has not heard of it by then stands still, and notices that when it goes on (internal/pulse); or letters to it
// are lost, and the number of one to all shows it: there must be one beside these, after them where what they make known is to be known first.
func (f *fleet) askOthers(ctx context.Context, kind string, m *sessionLetter) {
	if f.mail == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, knownWait)
	defer cancel()
	var all sync.WaitGroup
	for _, to := range f.mail.Others() {
		all.Go(func() { _, _ = f.askNode(ctx, to, kind, m) })
	}
	all.Wait()
}

// broadcastChange makes a change of a session's record known. A change of its level or its subscriptions holds at all nodes when it
// returns, as askOthers says: who writes the standalone stream has read it then. Values are asked for where they are wanted.
func (f *fleet) broadcastChange(ctx context.Context, key SessionKey, was, now *session.Record, rev uint64) {
	if f.mail == nil || !needsBroadcast(was, now) {
		return
	}
	m := &sessionLetter{Session: key, Rev: rev}
	if was.Level != now.Level || !slices.Equal(was.Subscribed, now.Subscribed) {
		f.askOthers(ctx, letterSessionChanged, m)
	}
	f.broadcastLetter(letterSessionChanged, m)
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

// broadcastForget has the other nodes forget what the calls of a session share. The two letters may come in any order.
func (f *fleet) broadcastForget(ctx context.Context, key SessionKey) {
	m := &sessionLetter{Session: key, Forget: true, Change: rand.Uint64()}
	f.broadcastLetter(letterSessionChanged, m)
	f.askOthers(ctx, letterSessionChanged, m)
}

// endReplaced has the node that writes a standalone stream end it: another one is the session's now. It must be called before
// the stream's record is removed, which says which node that is.
func (f *fleet) endReplaced(key StreamKey) {
	if f.mail == nil {
		return
	}
	ctx, cancel := context.WithTimeout(f.node.base, knownWait)
	defer cancel()
	rec, _, err := f.node.streams.readWriter(ctx, key)
	if writer := (store.Address{Node: rec.Node, Boot: rec.Boot}); err == nil && writer != f.selfAddress() {
		f.sendLetter(writer, letterSessionChanged, sessionLetter{Session: key.Session, Old: key.ID})
	}
}

// receiveChanged takes the news that a session has changed. Who asks waits until it holds here.
func (f *fleet) receiveChanged(l *store.Letter) {
	n := f.node
	var m sessionLetter
	if !readLetter(l, n, &m) {
		return
	}
	key := m.Session
	if st, ok := n.streams.Get(StreamKey{key, m.Old}); ok && len(st.rec.Calls) == 0 {
		_ = st.Post(endStream{})
	}
	begins := n.sessions.Begins(key) // first: what begins later reads the new record
	s, here := n.sessions.Get(key)
	if here && m.Forget {
		s.sharedAnswer().forgetAnswer(m.Change)
	}
	// An update of a resource may come next, which the client has subscribed to by then: who writes its stream must have read that.
	reads := here && l.Reply != nil && s.view.Load().rev < m.Rev && s.writesStandalone()
	if !begins && !reads {
		if here {
			s.noteRevision(m.Rev)
		}
		replyTo(l, done, nil)
		return
	}
	f.runAside(l, func() {
		s, ok := n.sessions.Current(key)
		switch {
		case !ok:
		case !reads:
			s.noteRevision(m.Rev)
		default:
			if err := s.catchUpTo(m.Rev); err != nil && !errors.Is(err, store.ErrNotFound) {
				s.noteRevision(m.Rev)
				replyTo(l, tryAgain, nil)
				return
			}
		}
		replyTo(l, done, nil)
	})
}

// forgetAnswer drops the kept answer, if there is one.
func (s *sessionActor) forgetAnswer() {
	if k := s.keeps.Load(); k != nil {
		k.forgetAnswer(0)
	}
}

// broadcastEnd tells the other nodes that a session has ended, which had the record. They know it when it returns, as askOthers says, unless it
// has expired: each finds that out by itself.
func (f *fleet) broadcastEnd(ctx context.Context, key SessionKey, rec *session.Record, expired bool) {
	m := &sessionLetter{Session: key, Old: rec.Standalone, Expired: expired}
	if f.broadcastLetter(letterSessionEnded, m); !expired {
		f.askOthers(ctx, letterSessionEnded, m)
	}
}

// receiveEnded takes the news that a session has ended. Clocks differ: a node judges by itself whether a session has
// expired.
func (f *fleet) receiveEnded(l *store.Letter) {
	n := f.node
	var m sessionLetter
	if !readLetter(l, n, &m) {
		return
	}
	key := m.Session
	if st, ok := n.streams.Get(StreamKey{key, m.Old}); ok && !m.Expired { // its session may not be in memory
		st.endStream()
	}
	begins := n.sessions.Begins(key) // first, as in receiveChanged
	s, here := n.sessions.Get(key)
	if !here && !begins {
		replyTo(l, done, nil)
		return
	}
	if here {
		s.asOf.Store(doubted) // should there be no place to end it now
	}
	f.runAside(l, func() { // it goes through all streams
		switch s, ok := n.sessions.Current(key); {
		case ok && m.Expired:
			_ = s.Post(idleTick{})
		case ok:
			s.endWithoutRecord()
		}
		replyTo(l, done, nil)
	})
}

// cancelLetter says that a client has cancelled a call that does not run where the cancel arrived.
type cancelLetter struct {
	Session SessionKey
	Request string // its id, raw
	Reason  string `json:",omitempty"`
}

func (cancelLetter) short() {}

// broadcastCancel tells the other nodes that a client has cancelled a call.
func (f *fleet) broadcastCancel(key SessionKey, id, reason string) {
	if len(id) > maxToken { // no call has such an id
		return
	}
	if len(reason) > mostReason {
		reason = strings.ToValidUTF8(reason[:mostReason], "")
	}
	f.broadcastLetter(letterCancel, cancelLetter{key, id, reason})
}

// receiveCancel cancels a call that runs here.
func (f *fleet) receiveCancel(l *store.Letter) {
	var m cancelLetter
	if !readLetter(l, f.node, &m) {
		return
	}
	if s, ok := f.node.sessions.Get(m.Session); ok {
		_ = s.Post(&cancelCall{id: m.Request, reason: m.Reason, acked: func(error) {}})
	}
}
