package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

// takeOver makes this node the writer of a stream whose writer is gone: it sets the writer
// record to the next epoch by compare-and-set, then reads the tail. From then on the store
// accepts no append of the old writer. A stream that has ended is not taken over: the
// returned record says where it ended.
func (d *streams) takeOver(ctx context.Context, svc *Service, s *sessionActor, key StreamKey, given takeover.Writer) (*streamActor, record.Stream, error) {
	n := d.node
	m := takeover.New(n.selfWriter(), given, n.fleet.mail == nil, randomStep())
	var life takeover.Lifetime
	kept, began := true, time.Now()
	for {
		switch m.Next() {
		case takeover.ReadRecord:
			rec, rev, err := d.readWriter(ctx, key)
			if err == nil && len(rec.Calls) == 0 {
				err = s.mustName(ctx, key.ID)
			}
			m.Record(rec, rev, false, err)
		case takeover.AskGone:
			m.Gone(n.fleet.writerGone(ctx, m.Writer))
		case takeover.ReadLog:
			m.Read(d.readLogOn(ctx, s, key, m.Log))
		case takeover.CheckLease:
			m.Certain(!n.store.Suspended())
		case takeover.MarkTaken:
			m.Marked(n.fleet.marks.markGone(ctx, n.store, m.Writer.Boot, svc.callLifetime()))
		case takeover.ReadBody:
			body, err := n.store.Body(ctx, key.streamPath())
			passes := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrRetry)
			if err != nil && !passes {
				n.log.Warn("calls cannot run again", "stream", key.ID, "error", err)
			}
			m.BodyRead(body, passes, err)
		case takeover.Replace:
			life = takeover.Began(n.clock.aheadBy())
			rev, err := d.replaceRecord(ctx, key.streamPath(), &m.Rec, m.Rev, svc.recordTTL())
			m.Replaced(rev, errors.Is(err, store.ErrConflict), err)
			life.Stored(n.clock.aheadBy())
		case takeover.Reread:
			rec, rev, err := d.readWriter(ctx, key)
			m.Record(rec, rev, errors.Is(err, errBadEvent), err)
			life.Stored(n.clock.aheadBy())
		case takeover.KeepBody:
			kept = d.renewBody(ctx, key, m.Body, m.Rev, svc.recordTTL())
			m.Kept()
		case takeover.Elsewhere:
			return nil, m.Rec, errRemoteWriter{&remoteWriter{&n.fleet, key, m.Writer}, m.Rec}
		case takeover.Ended:
			m.Rec.End = m.Log.Tail
			return nil, m.Rec, nil
		case takeover.Failed:
			return nil, m.Rec, takeoverFailed(m.Err)
		case takeover.Done:
			n.takings.Add(int64(time.Since(began)))
			return d.startTakenOver(svc, s, key, m, life, kept), m.Rec, nil
		}
	}
}

// takeoverFailed is why a stream was not taken over. What is a reason only for now is ErrUnavailable, too.
func takeoverFailed(err error) error {
	switch {
	case errors.Is(err, takeover.ErrUncertain):
		return fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, err)
	case errors.Is(err, takeover.ErrTaken):
		return fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, store.ErrFenced)
	}
	return err
}

// startTakenOver starts the actor of a stream that was taken over. kept says that nothing is left to do about the body of its calls.
func (d *streams) startTakenOver(svc *Service, s *sessionActor, key StreamKey, m *takeover.Machine, life takeover.Lifetime, kept bool) *streamActor {
	n, log := d.node, m.Log
	n.takeover.Add(1)
	w := &streamActor{node: n, svc: svc, sess: s, key: key, path: key.streamPath(), rec: m.Rec, live: m.Rec, m: stream.New(svc.Limits.Stream), life: life, ready: make(chan struct{})}
	w.delivered, w.past, w.pushed = log.Tail, log.Past.Clone(), log.Pushed
	w.steps.Store(int64(len(log.Steps)))
	w.stepBytes.Store(int64(log.Steps.Size()))
	w.left.Store(time.Now().UnixNano())
	n.cache.Drop(w.path) // of an earlier time as its writer
	n.k.Start(&w.Actor, KindStream, w.path, w)
	part := time.Duration(4)
	if !kept {
		part = bodyRetryPart
	}
	w.due.Store(n.clock.dueIn(svc.recordTTL() / part))
	w.markReady()
	_ = w.Post(takenOver{rev: m.Rev, log: log})
	if len(w.rec.Calls) > 0 {
		s.finishCalls(w, log, m.Body)
	}
	return w
}

// lostLogWait is how long a resume waits for its turn to read a log, before it lets others ahead and comes back.
const lostLogWait = 15 * time.Second

// writesHere reports whether the writer of a stream is here.
func (d *streams) writesHere(key StreamKey) bool {
	w, here := d.Get(key)
	return here && !w.Stopped()
}

// awaitLogTurn waits until a resume may judge a stream without a writer, and take it over; leave ends that. Few do so at a time, by
// turns of their principals: for each part of a log the store loads blocks of many times its size, which it still has for the
// next part if no thousand others come in between.
func (d *streams) awaitLogTurn(ctx context.Context, s *sessionActor, f *readCharge) (leave func(), err error) {
	turns := d.node.accounts.lostLogs
	wait, cancel := context.WithTimeout(ctx, lostLogWait)
	defer cancel()
	if !turns.Take(wait, s.billedAccount()) {
		return nil, fmt.Errorf("actors: too many logs are read: %w", store.ErrUnavailable)
	}
	f.noWait = true
	return func() { f.noWait = false; turns.Leave() }, nil
}

// readLogOn reads the appends of a stream since the last read.
func (d *streams) readLogOn(ctx context.Context, s *sessionActor, key StreamKey, log *takeover.Log) error {
	n := d.node
	tail, err := n.store.Tail(ctx, key.streamPath(), log.Tail)
	if err != nil {
		return fmt.Errorf("actors: find tail: %w", err)
	}
	from := log.From(tail)
	if tail < from {
		return nil
	}
	f := &readCharge{n: n, from: s, noWait: true}
	defer f.held.Free()
	for to := tail; from <= tail && err == nil; from, to = to+1, tail {
		if to, err = f.affordAppends(ctx, from, to, 0); err == nil {
			err = n.store.Read(ctx, key.streamPath(), from, to, log.Add)
		}
	}
	if err == nil {
		err = log.Read(tail)
	}
	if err != nil {
		return fmt.Errorf("actors: read log: %w", err)
	}
	return nil
}

// readCharge is what a client pays for what is read of the log for it: memory for as long as that is held, and tokens. Nobody
// knows how much a read returns. So it pays memory for the most before it, and gets the rest back; tokens are due once it is known.
type readCharge struct {
	n      *Node
	from   *sessionActor // its account pays
	held   quota.Holding
	paid   int  // bytes that may be read before tokens are due; below 0 some are
	noWait bool // it does not wait for memory: others wait for the place in which it reads
}

// appendBytes is what an append takes in memory beside its bytes.
const appendBytes = 512

// mostMemory is the most that appends from..to take in memory, of a log that holds about all bytes; 0 means unknown.
func (l *Limits) mostMemory(from, to uint64, all int) int {
	n, kept, part := int(to-from)+1, cmp.Or(l.Stream.Bytes, int(limits.ReplayBytes.Value())), cmp.Or(l.Stream.Part, 256<<10)
	return min(n*part, cmp.Or(all, kept+part)) + n*appendBytes
}

// chargeMemory counts memory for a read of at most bytes, in place of that of the read before, if there is room.
func (f *readCharge) chargeMemory(bytes int) (ok bool) {
	f.held.Reset()
	for {
		if no, ok := f.held.Charge(f.n.accounts.Accounts, f.from.billedAccount(), quota.Queues, int64(bytes)); ok {
			return no == quota.Admitted
		}
	}
}

const (
	// roomEvery is how often, about, a read looks for room in memory: others hold theirs for milliseconds.
	roomEvery = 20 * time.Millisecond
	// roomWait is how long it looks.
	roomWait = 2 * time.Second
)

// awaitMemory is chargeMemory that waits for room. ErrUnavailable reports that there was none in time.
func (f *readCharge) awaitMemory(ctx context.Context, bytes int) error {
	for until := time.Now().Add(roomWait); !f.chargeMemory(bytes); {
		if f.noWait || pause(ctx, roomEvery/2+rand.N(roomEvery)) != nil || time.Now().After(until) {
			return fmt.Errorf("actors: no room for what is read of the log: %w", store.ErrUnavailable)
		}
	}
	return nil
}

// affordAppends is awaitMemory for appends from..to of a log with all bytes. If there is little room, it returns a smaller to.
func (f *readCharge) affordAppends(ctx context.Context, from, to uint64, all int) (uint64, error) {
	l := &f.from.svc.Limits
	for to > from && !f.chargeMemory(l.mostMemory(from, to, all)) {
		to = from + (to-from)/2
	}
	if to > from {
		return to, nil
	}
	return to, f.awaitMemory(ctx, l.mostMemory(from, to, all))
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeTokens takes the tokens for what has been read, or says how long to wait for them.
func (f *readCharge) takeTokens() (wait time.Duration) {
	if f.paid >= 0 {
		return 0
	}
	tokens := (replayPerToken - 1 - f.paid) / replayPerToken
	if wait = f.from.billedAccount().Buckets[rateOfCalls].TakeN(time.Now(), tokens); wait == 0 {
		f.paid += tokens * replayPerToken
	}
	return wait
}

// noteRead notes that a read has returned some bytes, which are held from now on.
func (f *readCharge) noteRead(bytes, appends int) {
	f.held.Set(int64(bytes + appends*appendBytes))
	f.paid -= bytes
}

// settleTokens gives the memory back, and takes as many of the tokens that are still due as there are: the client may have left
// without them.
func (f *readCharge) settleTokens() {
	f.held.Reset()
	for f.takeTokens() > 0 {
		f.paid /= 2
	}
}

// replaceRecord replaces the writer record of a stream that is taken over.
func (d *streams) replaceRecord(ctx context.Context, path string, rec *record.Stream, rev uint64, ttl time.Duration) (uint64, error) {
	data, err := rec.Encode()
	if err != nil {
		return 0, fmt.Errorf("actors: writer record: %w", err)
	}
	next, err := d.node.store.Rewrite(ctx, path, data, rev, ttl)
	if err != nil {
		err = fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, err)
	}
	return next, err
}

// finishCalls finishes the calls of a stream whose node was lost: safe ones run again; for
// the others the client learns that the outcome is unknown.
func (s *sessionActor) finishCalls(w *streamActor, log *takeover.Log, body []byte) {
	var bodies [][]byte
	if w.rec.Safe {
		_ = w.Post(adoptBody(body))
		bodies = requestsOf(body)
	}
	fates, all := takeover.Fates(&w.rec, log, len(bodies))
	answered := make(map[string]bool, len(fates))
	var lost []record.Call
	var begin []func()
	for i, c := range w.rec.Calls {
		switch fates[i] {
		case takeover.Answered:
			answered[string(c.ID)] = true
		case takeover.Over:
			lost = append(lost, c)
		case takeover.Again:
			j := newJournal(&log.Past, i)
			s.node.pending.reopenQuestions(w, s.billedAccount(), j)
			begin = append(begin, func() { s.rerunCall(w, c, bodies[i], j) })
		}
	}
	_ = w.Post(alreadyAnswered(answered))
	for _, f := range begin { // last, because a call that ends at once closes its questions
		go f()
	}
	switch {
	case all: // any of them may have its response, and none may get two
		var ends []stream.Entry
		for _, c := range lost {
			ends = append(ends, stream.Entry{Kind: stream.End, Meta: c.ID})
		}
		_ = w.Post(&pushEntries{entries: ends, last: true, silent: true})
	case len(lost) > 0 || !w.rec.Safe:
		_ = w.Post(&pushEntries{entries: lostCalls(lost, nil), last: true})
	}
}

// rerunCall runs a call again from its stored body, on its old stream.
func (s *sessionActor) rerunCall(w *streamActor, c record.Call, body []byte, j *journal) {
	n := s.node
	defer n.pending.closeReopened(j)
	lost := func() {
		_ = w.Post(&pushEntries{entries: lostCalls([]record.Call{c}, nil), last: true})
	}
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{MaxDepth: w.svc.Limits.Depth}); err != nil {
		n.log.Error("stored call not readable", "stream", w.key.ID, "error", err)
		lost()
		return
	}
	r := n.calls.takeActor(s.countRerun())
	r.used = true
	call := &Call{attempt: w.rec.Attempt, journal: j, member: j.member}
	if len(w.rec.Principal) > 0 {
		call.principal = json.RawMessage(w.rec.Principal)
	}
	r.memory.ChargeAnyway(n.accounts.Accounts, r.from, quota.Parked, callMemory(&m, body)) // r.from counts the call, so it is not dropped
	s.beginRequest(r, r.loggedWay(s, nil), &m, body, call)
	r.notified = j.sent.Messages
	if j.sent.Progressed {
		r.progressGate().Raise(j.sent.Progress)
	}
	_ = r.Post(adoptStream{w})
	err := r.runRequest(0) // no limit: it was admitted before
	for errors.Is(err, kernel.ErrStopped) || errors.Is(err, store.ErrUnavailable) {
		// The session has just left memory.
		if errors.Is(err, store.ErrUnavailable) {
			select {
			case <-time.After(time.Second):
			case <-n.base.Done():
			}
		}
		ctx, cancel := context.WithTimeout(n.base, w.svc.Limits.StoreWait)
		if s, err = n.sessions.loadSession(ctx, w.svc, w.key.Session, nil); err == nil {
			r.moveToSession(s)
			err = r.runRequest(0)
		}
		cancel()
	}
	if err != nil {
		r.cancel(err)
	}
	if errors.Is(err, ErrUnmounted) || errors.Is(err, ErrClosing) {
		_ = w.Post(handOver{})
		r.releaseActor()
		return
	}
	if err != nil {
		// The client has a request with the same id in flight, or the session is gone: the
		// outcome of this call is unknown.
		n.log.Info("call does not run again", "stream", w.key.ID, "error", err)
		lost()
		r.releaseActor()
	}
}

// findWriter returns the writer of a stream, and takes the stream over if its writer is gone, or is the one that has given it up. A
// stream that has ended has no writer: w is nil then. errRemoteWriter reports that another node writes the stream.
func (d *streams) findWriter(ctx context.Context, svc *Service, s *sessionActor, key StreamKey, given takeover.Writer) (w *streamActor, rec record.Stream, err error) {
	if w, ok := d.Get(key); ok {
		if <-w.ready; !w.Stopped() {
			return w, w.rec, nil
		}
		d.Drop(key, w)
	}
	w, err = d.Obtain(key, func() (*streamActor, error) {
		w, r, err := d.takeOver(ctx, svc, s, key, given)
		rec = r
		if err == nil && w == nil {
			err = errEnded
		}
		return w, err
	})
	if errors.Is(err, errEnded) {
		if rec.Version == 0 { // another resume found that the stream has ended
			if rec, _, err = d.readWriter(ctx, key); err != nil {
				return nil, rec, err
			}
		}
		return nil, rec, nil
	}
	if e, ok := errors.AsType[errRemoteWriter](err); ok { // another resume may have found it
		return nil, e.rec, err
	}
	if err != nil {
		return nil, rec, err
	}
	if w.svc.life.over.Load() {
		w.unmountStream()
	}
	if svc.life.over.Load() {
		return nil, rec, ErrUnmounted
	}
	if err := d.endIfSessionEnded(ctx, s, w); err != nil {
		return nil, rec, err
	}
	if w.Stopped() { // the stream ended before the directory had it
		d.Drop(key, w)
		return nil, w.rec, nil
	}
	return w, w.rec, nil
}

// errEnded stands for a stream whose last append is in the log.
var errEnded = errors.New("actors: the stream has ended")

// countRerun counts a call that runs again after its node was lost; it never refuses, as the
// call was admitted before.
func (s *sessionActor) countRerun() *quota.Account {
	n := s.node
	for {
		if a := n.accounts.Of(s.key.Tenant, ""); n.accounts.Enter(a) {
			return a
		}
	}
}

// selfWriter is this boot as the writer in a record, without an epoch.
func (n *Node) selfWriter() takeover.Writer { return takeover.Writer{Node: n.name, Boot: n.boot} }

// findRemoteWriter returns the node that writes a stream, nil if it may be taken over: its writer is this boot, or is gone, or has given it up.
func (d *streams) findRemoteWriter(ctx context.Context, key StreamKey, rec *record.Stream, given takeover.Writer) (*remoteWriter, error) {
	f, by := &d.node.fleet, takeover.WriterOf(rec)
	if f.mail == nil || !by.MustBeGone(d.node.boot, given) {
		return nil, nil
	}
	if gone, err := f.writerGone(ctx, by); err != nil || gone {
		return nil, err
	}
	return &remoteWriter{f, key, by}, nil
}
