package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/session"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/store"
)

// takeovers makes this node the writer of streams whose writers are gone, and has their calls run
// again.
type takeovers struct {
	*site
	streams  *streams
	sessions *sessions
	calls    *requestPool
	pending  *pendingRequests
	readings *readings
	pushes   *pushes
	taken    atomic.Int64 // streams
	nanos    atomic.Int64 // that this took
}

// finishCalls finishes the calls of a stream whose node was lost: safe ones run again; for
// the others the client learns that the outcome is unknown.
func (d *takeovers) finishCalls(s *sessionActor, w *streamActor, log *takeover.Log, body []byte) {
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
			d.pending.reopenQuestions(w, s.billedAccount(), j)
			begin = append(begin, func() { d.rerunCall(s, w, c, bodies[i], j) })
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
func (d *takeovers) rerunCall(s *sessionActor, w *streamActor, c record.Call, body []byte, j *journal) {
	defer d.pending.closeReopened(j)
	lost := func() {
		_ = w.Post(&pushEntries{entries: lostCalls([]record.Call{c}, nil), last: true})
	}
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{MaxDepth: w.svc.Limits.Depth}); err != nil {
		d.log.Error("stored call not readable", "stream", w.key.ID, "error", err)
		lost()
		return
	}
	r := d.calls.takeActor(d.countRerun(s.key.Tenant))
	r.used = true
	call := &Call{callFacts: callFacts{attempt: w.rec.Attempt, trace: Trace{Parent: c.Parent, State: c.State}, via: Via{HTTP: OverHTTP}, earlier: c.Span}, journal: j, member: j.member}
	if len(w.rec.Principal) > 0 {
		call.principal = json.RawMessage(w.rec.Principal)
	}
	r.memory.ChargeAnyway(d.accounts.Accounts, r.from, quota.Parked, callMemory(&m, body)) // r.from counts the call, so it is not dropped
	sessionCalls{s}.beginRequest(r, r.loggedWay(s, nil), &m, body, call)
	r.notified = j.sent.Messages
	if j.sent.Progressed {
		lastingCall{r}.progressGate().Raise(j.sent.Progress)
	}
	_ = r.Post(adoptStream{w})
	err := d.runAgain(s, r)
	for errors.Is(err, kernel.ErrStopped) || errors.Is(err, store.ErrUnavailable) {
		// The session has just left memory.
		if errors.Is(err, store.ErrUnavailable) {
			select {
			case <-time.After(time.Second):
			case <-d.base.Done():
			}
		}
		if s, err = d.sessions.loadSession(serviceOf(w.svc), w.key.Session, nil); err == nil {
			r.moveToSession(s)
			err = d.runAgain(s, r)
		}
	}
	if err != nil {
		r.cancel(err)
	}
	// The run that this process has handed over may not have returned yet: the call runs again in the next one.
	unfinished := errors.Is(err, session.ErrDuplicate) && d.drain.handingOver.Load()
	if unfinished || errors.Is(err, ErrUnmounted) || errors.Is(err, ErrClosing) {
		_ = w.Post(handOver{})
		r.releaseActor()
		return
	}
	if err != nil {
		// The client has a request with the same id in flight, or the session is gone: the
		// outcome of this call is unknown.
		d.log.Info("call does not run again", "stream", w.key.ID, "error", err)
		lost()
		r.releaseActor()
	}
}

// runAgain enters a call in its session, runs the handler on this goroutine and delivers its response.
// The call was admitted before, and its client may have cancelled it on its way here. The errors are
// those of enterTable.
func (d *takeovers) runAgain(s *sessionActor, r *requestActor) error {
	if err := r.enterTable(0); err != nil {
		return err
	}
	if reason, ok := d.sessions.late.takeCancel(s.key, r.idKey()); ok {
		_ = s.cancelHere(string(r.id), reason, time.Now().Add(s.svc.Limits.StoreWait))
	}
	r.serveRequest()
	return nil
}

// countRerun counts a call that runs again after its node was lost; it never refuses, as the
// call was admitted before.
func (d *takeovers) countRerun(tenant string) *quota.Account {
	for {
		if a := d.accounts.Of(tenant, ""); d.accounts.EnterRequest(a) {
			return a
		}
	}
}

// sendOn pushes an entry to the stream id and waits until it is stored. After an error the entry
// was not stored, unless the error is the cause of ctx or ErrUnavailable: then the outcome is
// unknown. It fails with ErrNoStream if the stream does not exist or has ended.
func (d *takeovers) sendOn(ctx context.Context, s *sessionActor, id string, e stream.Entry) error {
	var given takeover.Writer
	var asked time.Time // another node, for the first time
	var after uint64    // append of which that one's record told then
	for began := time.Now(); ; {
		st, rec, err := d.findWriter(ctx, s.svc, s, StreamKey{s.key, id}, given)
		switch remote, ok := errors.AsType[errRemoteWriter](err); {
		case ok:
			p := pushLetter{Stream: remote.key, Kind: e.Kind, Data: e.Data, After: after}
			if asked.IsZero() {
				asked, after, e.Meta = time.Now(), rec.Tail, d.pushes.nameMessage(d.boot, e.Meta)
			} else {
				p.Age = max(1, time.Since(asked))
			}
			p.Meta = e.Meta
			err = remote.pushEntry(ctx, s, p)
			switch {
			case errors.Is(err, errNotHere):
				given = remote.Writer
				continue
			case err != nil && time.Since(asked) < s.svc.Limits.ResumeWait && pause(ctx, silentPause) == nil: // its node may be about to be gone
				continue
			}
			return err
		case errors.Is(err, errBadEvent) || err == nil && st == nil:
			return ErrNoStream
		case errors.Is(err, errGivenUp) && time.Since(began) < s.svc.Limits.ResumeWait && pause(ctx, holdEvery) == nil: // nothing was sent
			continue
		case err != nil:
			return err
		}
		if !asked.IsZero() {
			if known, err := d.hasMessage(ctx, s, id, e.Meta, asked, after); known || err != nil {
				return err
			}
		}
		stored := make(chan error, 1)
		e.Acked = func(err error) { stored <- err }
		if err := st.Post(&pushEntries{entries: []stream.Entry{e}, ofSession: true}); err != nil {
			return err
		}
		select {
		case err := <-stored:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hasMessage reports whether the stream id of s has the message that is called name, which was first sent at a time when the stream's record
// told of append after. After an error, which is always ErrUnavailable, that is unknown: the log could not be read, or has no longer all
// that has come since. s pays for what is read.
func (d *takeovers) hasMessage(ctx context.Context, s *sessionActor, id string, name []byte, sent time.Time, after uint64) (bool, error) {
	log := takeover.NewLog(&record.Stream{Version: record.Version, Tail: after})
	log.Names = make(map[string]bool)
	err := d.readLogOn(ctx, s, StreamKey{s.key, id}, log)
	switch {
	case err != nil:
		return false, fmt.Errorf("actors: look for a message that is sent again: %w: %w", store.ErrUnavailable, err)
	case log.Names[string(name)]:
		return true, nil
	case log.Unknown || time.Since(sent) > s.svc.Limits.ReplayAge: // nobody sees that the last appends have expired
		return false, fmt.Errorf("actors: the log may have forgotten a message that is sent again: %w", store.ErrUnavailable)
	}
	return false, nil
}

// endIfSessionEnded ends the stream w, which has just been entered in the directory, if its session
// ended before: a takeover takes a while. s is the session's actor as the caller knows it.
// ErrSessionEnded reports that the stream is gone.
func (d *takeovers) endIfSessionEnded(s *sessionActor, w *streamActor) error {
	var err error
	if s.Stopped() && !s.ended.Load() { // it has left memory: the actor in its place knows of the end
		s, err = d.sessions.loadSession(s.svc, s.key, nil)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && s.ended.Load() {
		w.endStream()
		return ErrSessionEnded
	}
	return err
}

// takeOver makes this node the writer of a stream whose writer is gone: it sets the writer
// record to the next epoch by compare-and-set, then reads the tail. From then on the store
// accepts no append of the old writer. A stream that has ended is not taken over: the
// returned record says where it ended.
func (d *takeovers) takeOver(ctx context.Context, svc *Service, s *sessionActor, key StreamKey, given takeover.Writer) (*streamActor, record.Stream, error) {
	m := takeover.New(d.selfWriter(), given, d.fleet.mail == nil, randomStep())
	var life takeover.Lifetime
	kept, began := true, time.Now()
	for {
		switch m.Next() {
		case takeover.ReadRecord:
			rec, rev, err := d.streams.readWriter(ctx, key)
			if err == nil && len(rec.Calls) == 0 {
				err = standalone{s}.mustName(ctx, key.ID)
			}
			m.RecordRead(rec, rev, false, err)
		case takeover.AskGone:
			m.WriterGone(d.fleet.writerGone(ctx, m.Writer))
		case takeover.ReadLog:
			m.LogRead(d.readLogOn(ctx, s, key, m.Log))
		case takeover.CheckLease:
			m.LeaseChecked(!d.store.Suspended())
		case takeover.MarkTaken:
			m.WriterMarked(d.fleet.marks.markGone(ctx, d.store, m.Writer.Boot, svc.callLifetime()))
		case takeover.ReadBody:
			body, err := d.store.Body(ctx, key.streamPath())
			passes := errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrRetry)
			if err != nil && !passes {
				d.log.Warn("calls cannot run again", "stream", key.ID, "error", err)
			}
			m.BodyRead(body, passes, err)
		case takeover.Replace:
			life = takeover.NewLifetime(d.clock.aheadBy())
			rev, err := d.replaceRecord(ctx, key.streamPath(), &m.Rec, m.Rev, svc.recordTTL())
			m.RecordReplaced(rev, errors.Is(err, store.ErrConflict), err)
			life.Stored(d.clock.aheadBy())
		case takeover.Reread:
			rec, rev, err := d.streams.readWriter(ctx, key)
			m.RecordRead(rec, rev, errors.Is(err, errBadEvent), err)
			life.Stored(d.clock.aheadBy())
		case takeover.KeepBody:
			kept = d.streams.renewBody(ctx, key, m.Body, m.Rev, svc.recordTTL())
			m.BodyKept()
		case takeover.Elsewhere:
			return nil, m.Rec, errRemoteWriter{&remoteWriter{d.readings, key, m.Writer}, m.Rec}
		case takeover.Ended:
			m.Rec.End = m.Log.Tail
			return nil, m.Rec, nil
		case takeover.Failed:
			return nil, m.Rec, takeoverFailed(m.Err)
		case takeover.Done:
			d.nanos.Add(int64(time.Since(began)))
			return d.startTakenOver(svc, s, key, m, life, kept), m.Rec, nil
		}
	}
}

// startTakenOver starts the actor of a stream that was taken over. kept says that nothing is left
// to do about the body of its calls.
func (d *takeovers) startTakenOver(svc *Service, s *sessionActor, key StreamKey, m *takeover.Machine, life takeover.Lifetime, kept bool) *streamActor {
	log := m.Log
	d.taken.Add(1)
	w := &streamActor{streams: d.streams, svc: &svc.Terms, sess: s, key: key, m: stream.New(svc.Limits.Stream), ready: make(chan struct{}),
		recordState: recordState{path: key.streamPath(), rec: m.Rec, live: m.Rec, life: life}}
	w.delivered, w.past = log.Tail, log.Past.Clone()
	w.steps.Store(int64(len(log.Steps)))
	w.stepBytes.Store(int64(log.Steps.Size()))
	w.left.Store(time.Now().UnixNano())
	if len(m.Rec.Calls) == 0 && !m.Writer.IsOf(d.boot) {
		s.missed.Store(true) // nobody has told its client of what has happened since the writer was lost
	}
	d.cache.DropStream(w.path) // of an earlier time as its writer
	d.k.Start(&w.Actor, KindStream, w.path, w)
	part := time.Duration(4)
	if !kept {
		part = bodyRetryPart
	}
	w.due.Store(d.clock.dueIn(svc.recordTTL() / part))
	w.markReady()
	_ = w.Post(takenOver{rev: m.Rev, log: log})
	if len(w.rec.Calls) > 0 {
		d.finishCalls(s, w, log, m.Body)
	}
	return w
}

// awaitLogTurn waits until a resume may judge a stream without a writer, and take it over; leave
// ends that. Few do so at a time, by turns of their principals: for each part of a log the store
// loads blocks of many times its size, which it still has for the next part if no thousand others
// come in between.
func (d *takeovers) awaitLogTurn(ctx context.Context, s *sessionActor, f *readCharge) (leave func(), err error) {
	turns := d.accounts.lostLogs
	wait, cancel := context.WithTimeout(ctx, lostLogWait)
	defer cancel()
	if !turns.Take(wait, s.billedAccount()) {
		return nil, fmt.Errorf("actors: too many logs are read: %w", store.ErrUnavailable)
	}
	f.noWait = true
	return func() { f.noWait = false; turns.Leave() }, nil
}

// readLogOn reads the appends of a stream since the last read.
func (d *takeovers) readLogOn(ctx context.Context, s *sessionActor, key StreamKey, log *takeover.Log) error {
	tail, err := d.store.Tail(ctx, key.streamPath(), log.Tail)
	if err != nil {
		return fmt.Errorf("actors: find tail: %w", err)
	}
	from := log.FirstUnread(tail)
	if tail < from {
		return nil
	}
	f := &readCharge{accounts: &d.accounts, from: s, noWait: true}
	defer f.held.Free()
	for to := tail; from <= tail && err == nil; from, to = to+1, tail {
		if to, err = f.affordAppends(ctx, from, to, 0); err == nil {
			err = d.store.Read(ctx, key.streamPath(), from, to, log.AddAppend)
		}
	}
	if err == nil {
		err = log.EndReading(tail)
	}
	if err != nil {
		return fmt.Errorf("actors: read log: %w", err)
	}
	return nil
}

// replaceRecord replaces the writer record of a stream that is taken over.
func (d *takeovers) replaceRecord(ctx context.Context, path string, rec *record.Stream, rev uint64, ttl time.Duration) (uint64, error) {
	data, err := rec.Encode()
	if err != nil {
		return 0, fmt.Errorf("actors: writer record: %w", err)
	}
	next, err := d.store.Rewrite(ctx, path, data, rev, ttl)
	if err != nil {
		err = fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, err)
	}
	return next, err
}

// findWriter returns the writer of a stream, and takes the stream over if its writer is gone, or is
// the one that has given it up. A stream that has ended has no writer: w is nil then.
// errRemoteWriter reports that another node writes the stream.
func (d *takeovers) findWriter(ctx context.Context, svc *Service, s *sessionActor, key StreamKey, given takeover.Writer) (w *streamActor, rec record.Stream, err error) {
	if w, ok := d.streams.Get(key); ok {
		if <-w.ready; !w.Stopped() {
			return w, w.rec, nil
		}
		d.streams.Drop(key, w)
	}
	w, err = d.streams.Obtain(key, func() (*streamActor, error) {
		w, r, err := d.takeOver(ctx, svc, s, key, given)
		rec = r
		if err == nil && w == nil {
			err = errEnded
		}
		return w, err
	})
	if errors.Is(err, errEnded) {
		if rec.Version == 0 { // another resume found that the stream has ended
			if rec, _, err = d.streams.readWriter(ctx, key); err != nil {
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
		streamEnd{w}.unmountStream()
	}
	err = d.endIfSessionEnded(s, w)
	stopped := w.Stopped()
	if stopped { // before the directory had it
		d.streams.Drop(key, w)
	}
	switch {
	case svc.life.over.Load():
		return nil, rec, ErrUnmounted
	case err != nil:
		return nil, rec, err
	case stopped:
		return nil, w.rec, w.givenUp()
	}
	return w, w.rec, nil
}

// errGivenUp reports that this node has just left a stream to another one, or to the process after it.
var errGivenUp = fmt.Errorf("actors: the stream was given up: %w", store.ErrUnavailable)

// givenUp returns nil if the stream of an actor that has stopped is complete, and otherwise errGivenUp.
func (s *streamActor) givenUp() error {
	if s.complete {
		return nil
	}
	return errGivenUp
}

// findRemoteWriter returns the node that writes a stream, nil if it may be taken over: its writer
// is this boot, or is gone, or has given it up.
func (d *takeovers) findRemoteWriter(ctx context.Context, key StreamKey, rec *record.Stream, given takeover.Writer) (*remoteWriter, error) {
	f, by := &d.fleet, takeover.WriterOf(rec)
	if f.mail == nil || !by.MustBeGone(d.boot, given) {
		return nil, nil
	}
	if gone, err := f.writerGone(ctx, by); err != nil || gone {
		return nil, err
	}
	return &remoteWriter{d.readings, key, by}, nil
}

// takeoverFailed is why a stream was not taken over. What is a reason only for now is
// ErrUnavailable, too.
func takeoverFailed(err error) error {
	switch {
	case errors.Is(err, takeover.ErrUncertain):
		return fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, err)
	case errors.Is(err, takeover.ErrTaken):
		return fmt.Errorf("actors: take over: %w: %w", store.ErrUnavailable, store.ErrFenced)
	}
	return err
}

// errEnded stands for a stream whose last append is in the log.
var errEnded = errors.New("actors: the stream has ended")

// lostLogWait is how long a resume waits for its turn to read a log, before it lets others ahead
// and comes back.
const lostLogWait = 15 * time.Second

// readCharge is what a client pays for what is read of the log for it: memory for as long as that
// is held, and tokens. Nobody knows how much a read returns. So it pays memory for the most before
// it, and gets the rest back; tokens are due once it is known.
type readCharge struct {
	accounts *accounts
	from     *sessionActor // its account pays
	held     quota.Holding
	paid     int  // bytes that may be read before tokens are due; below 0 some are
	noWait   bool // it does not wait for memory: others wait for the place in which it reads
}

// chargeMemory counts memory for a read of at most bytes, in place of that of the read before, if
// there is room.
func (f *readCharge) chargeMemory(bytes int) (ok bool) {
	f.held.Reset()
	for {
		if no, ok := f.held.Charge(f.accounts.Accounts, f.from.billedAccount(), quota.Queues, int64(bytes)); ok {
			return no == quota.Admitted
		}
	}
}

// awaitMemory is chargeMemory that waits for room. ErrUnavailable reports that there was none in
// time.
func (f *readCharge) awaitMemory(ctx context.Context, bytes int) error {
	for until := time.Now().Add(roomWait); !f.chargeMemory(bytes); {
		if f.noWait || pause(ctx, roomEvery/2+rand.N(roomEvery)) != nil || time.Now().After(until) {
			return fmt.Errorf("actors: no room for what is read of the log: %w", store.ErrUnavailable)
		}
	}
	return nil
}

// affordAppends is awaitMemory for appends from..to of a log with all bytes. If there is little
// room, it returns a smaller to.
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

// settle gives the memory back, and takes as many of the tokens that are still due as there
// are: the client may have left without them.
func (f *readCharge) settle() {
	f.held.Reset()
	for f.takeTokens() > 0 {
		f.paid /= 2
	}
}

const (
	// roomEvery is how often, about, a read looks for room in memory: others hold theirs for
	// milliseconds.
	roomEvery = 20 * time.Millisecond
	// roomWait is how long it looks.
	roomWait = 2 * time.Second
)

// silentPause is the pause before a node that nobody hears is asked again, or its stream is taken
// over.
const silentPause = 250 * time.Millisecond
