package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
)

// takeOver makes this node the writer of a stream whose writer is gone: it sets the writer
// record to the next epoch by compare-and-set, then reads the tail. From then on the store
// accepts no append of the old writer. A stream that has ended is not taken over: the
// returned record says where it ended.
func (d *streams) takeOver(ctx context.Context, svc *Service, s *sessionActor, key StreamKey) (*streamActor, record.Stream, error) {
	n := d.node
	rec, rev, err := d.readWriter(ctx, key)
	if err == nil && len(rec.Calls) == 0 {
		err = s.mustName(ctx, key.ID)
	}
	if err != nil {
		return nil, rec, err
	}
	log := newPastLog(&rec)
	if err := d.readOn(ctx, s, key, log); err != nil || log.last {
		rec.End = log.tail
		return nil, rec, err
	}
	if n.store.Suspended() {
		return nil, rec, fmt.Errorf("actors: take over: lease not certain: %w", ErrUnavailable)
	}
	rec.Attempt, rec.Node, rec.Boot, rec.Epoch = rec.Runs()+1, n.name, n.boot, nextEpoch(rec.Epoch)
	rec.Low, rec.Bytes = log.kept()
	rec.Safe = rec.Safe && !log.unknown
	var body []byte
	if rec.Safe {
		// Before the takeover: a store that cannot be read now is no reason to give the
		// calls up.
		if body, err = n.store.Body(ctx, key.path()); errors.Is(err, ErrUnavailable) || errors.Is(err, ErrAgain) {
			return nil, rec, fmt.Errorf("actors: read body: %w", err)
		} else if err != nil {
			n.log.Warn("calls cannot run again", "stream", key.ID, "error", err)
			rec.Safe = false
		}
	}
	_ = rec.Tell(log.whole, &log.Past) // fits: the record had these questions, except the last few
	written := n.clock.ahead()
	rev, err = d.rewriteWriter(ctx, key.path(), rec, rev, svc.recordTTL())
	if err != nil {
		return nil, rec, fmt.Errorf("actors: take over: %w: %w", ErrUnavailable, err)
	}
	written = max(written, n.clock.ahead())
	kept := body == nil || d.keepBody(ctx, key, body, rev, svc.recordTTL())
	// The old writer may have stored appends before the record changed.
	if err := d.readOn(ctx, s, key, log); err != nil || log.last {
		rec.End = log.tail
		return nil, rec, err
	}
	rec.Safe = rec.Safe && !log.unknown
	n.takeover.Add(1)
	w := &streamActor{node: n, svc: svc, sess: s, key: key, path: key.path(), rec: rec, live: rec, m: stream.New(svc.Limits.Stream), written: written, ready: make(chan struct{})}
	w.delivered, w.past = log.tail, log.Past.Clone()
	w.left.Store(time.Now().UnixNano())
	n.k.Start(&w.Actor, KindStream, w.path, w)
	part := time.Duration(4)
	if !kept {
		part = bodyAgain
	}
	w.due.Store(n.clock.in(svc.recordTTL() / part))
	w.commit()
	_ = w.Post(takenOver{rev: rev, log: log})
	if len(rec.Calls) > 0 {
		s.finishCalls(w, log, body)
	}
	return w, rec, nil
}

// lostLogWait is how long a resume waits for its turn to read a log, before it lets others ahead and comes back.
const lostLogWait = 15 * time.Second

// serves reports whether the writer of a stream is here.
func (d *streams) serves(key StreamKey) bool {
	w, here := d.Get(key)
	return here && !w.Stopped()
}

// lostLog waits until a resume may judge a stream without a writer, and take it over; leave ends that. Few do so at a time, by
// turns of their principals: for each part of a log the store loads blocks of many times its size, which it still has for the
// next part if no thousand others come in between.
func (d *streams) lostLog(ctx context.Context, s *sessionActor, f *fare) (leave func(), err error) {
	turns := d.node.accounts.lostLogs
	wait, cancel := context.WithTimeout(ctx, lostLogWait)
	defer cancel()
	if !turns.Take(wait, s.billed()) {
		return nil, fmt.Errorf("actors: too many logs are read: %w", ErrUnavailable)
	}
	f.now = true
	return func() { f.now = false; turns.Leave() }, nil
}

// readOn reads the appends of a stream since the last read.
func (d *streams) readOn(ctx context.Context, s *sessionActor, key StreamKey, log *pastLog) error {
	n := d.node
	from := log.tail + 1
	tail, err := n.store.Tail(ctx, key.path(), log.tail)
	if err != nil {
		return fmt.Errorf("actors: find tail: %w", err)
	}
	if tail < from {
		return nil
	}
	if tail-from >= stream.Ring {
		from = tail - stream.Ring + 1
	}
	f := &fare{n: n, from: s, now: true}
	defer f.held.Free()
	next := log.tail + 1
	var fault error
	read := func(num uint64, data []byte) {
		if num != next || len(data) == 0 { // older appends are gone
			log.lacks(num)
		}
		next = num + 1
		log.sizes = append(log.sizes, len(data))
		a, ok, err := log.reader.Add(num, data)
		if err != nil {
			fault = err
		}
		if ok {
			_ = log.Note(log.rec, a.Num, a.Epoch, a.Entries)
			log.last = a.Last
		}
		if !log.reader.Open() {
			log.whole = num
		}
	}
	for to := tail; from <= tail && err == nil; from, to = to+1, tail {
		if to, err = f.afford(ctx, from, to, 0); err == nil {
			err = n.store.Read(ctx, key.path(), from, to, read)
		}
	}
	if err == nil {
		err = fault
	}
	if err != nil {
		return fmt.Errorf("actors: read log: %w", err)
	}
	if next <= tail {
		log.lacks(tail)
	}
	log.tail = tail
	// The record may list as many appends as the log holds, and as many may have come
	// since: the oldest of them have been overwritten.
	log.sizes = log.sizes[max(0, len(log.sizes)-stream.Ring):]
	return nil
}

// fare is what a client pays for what is read of the log for it: memory for as long as that is held, and tokens. Nobody
// knows how much a read returns. So it pays memory for the most before it, and gets the rest back; tokens are due once it is known.
type fare struct {
	n    *Node
	from *sessionActor // its account pays
	held quota.Holding
	paid int  // bytes that may be read before tokens are due; below 0 some are
	now  bool // it does not wait for memory: others wait for the place in which it reads
}

// appendBytes is what an append takes in memory beside its bytes.
const appendBytes = 512

// mostOf is the most that appends from..to take in memory, of a log that holds about all bytes; 0 means unknown.
func (l *Limits) mostOf(from, to uint64, all int) int {
	n, kept, part := int(to-from)+1, cmp.Or(l.Stream.Bytes, int(limits.ReplayBytes.Value())), cmp.Or(l.Stream.Part, 256<<10)
	return min(n*part, cmp.Or(all, kept+part)) + n*appendBytes
}

// charge counts memory for a read of at most bytes, in place of that of the read before, if there is room.
func (f *fare) charge(bytes int) (ok bool) {
	f.held.Reset()
	for {
		if no, ok := f.held.Charge(f.n.accounts.Accounts, f.from.billed(), quota.Queues, int64(bytes)); ok {
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

// hold is charge that waits for room. ErrUnavailable reports that there was none in time.
func (f *fare) hold(ctx context.Context, bytes int) error {
	for until := time.Now().Add(roomWait); !f.charge(bytes); {
		if f.now || pause(ctx, roomEvery/2+rand.N(roomEvery)) != nil || time.Now().After(until) {
			return fmt.Errorf("actors: no room for what is read of the log: %w", ErrUnavailable)
		}
	}
	return nil
}

// afford is hold for appends from..to of a log with all bytes. If there is little room, it returns a smaller to.
func (f *fare) afford(ctx context.Context, from, to uint64, all int) (uint64, error) {
	l := &f.from.svc.Limits
	for to > from && !f.charge(l.mostOf(from, to, all)) {
		to = from + (to-from)/2
	}
	if to > from {
		return to, nil
	}
	return to, f.hold(ctx, l.mostOf(from, to, all))
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

// due takes the tokens for what has been read, or says how long to wait for them.
func (f *fare) due() (wait time.Duration) {
	if f.paid >= 0 {
		return 0
	}
	tokens := (replayPerToken - 1 - f.paid) / replayPerToken
	if wait = f.from.billed().Buckets[rateOfCalls].TakeN(time.Now(), tokens); wait == 0 {
		f.paid += tokens * replayPerToken
	}
	return wait
}

// read notes that a read has returned some bytes, which are held from now on.
func (f *fare) read(bytes, appends int) {
	f.held.Set(int64(bytes + appends*appendBytes))
	f.paid -= bytes
}

// end gives the memory back, and takes as many of the tokens that are still due as there are: the client may have left
// without them.
func (f *fare) end() {
	f.held.Reset()
	for f.due() > 0 {
		f.paid /= 2
	}
}

// rewriteWriter rewrites a writer record. If the outcome of an attempt was unknown and a
// later attempt finds the record changed, the first one may have changed it.
func (d *streams) rewriteWriter(ctx context.Context, path string, rec record.Stream, rev uint64, ttl time.Duration) (uint64, error) {
	n := d.node
	data, err := codec.Marshal(rec)
	if err != nil {
		return 0, fmt.Errorf("actors: writer record: %w", err)
	}
	next, err := n.store.Rewrite(ctx, path, data, rev, ttl)
	if !errors.Is(err, ErrConflict) {
		return next, err
	}
	stored, cur, err := n.store.Writer(ctx, path)
	if errors.Is(err, ErrNotFound) {
		return 0, ErrFenced
	}
	if err != nil {
		return 0, err
	}
	var other record.Stream
	if codec.Unmarshal(stored, &other) == nil && other.Boot == rec.Boot && other.Epoch == rec.Epoch {
		return cur, nil
	}
	return 0, ErrFenced
}

// finishCalls finishes the calls of a stream whose node was lost: safe ones run again; for
// the others the client learns that the outcome is unknown.
func (s *sessionActor) finishCalls(w *streamActor, log *pastLog, body []byte) {
	answered := make(map[string]bool, len(log.Digest.Done))
	for _, i := range log.Digest.Done {
		answered[string(w.rec.Calls[i].ID)] = true
	}
	_ = w.Post(alreadyAnswered(maps.Clone(answered))) // a copy, as the stream adds to its own
	if log.unknown && len(w.rec.Calls) > 1 {
		// Any of them may have its response, and none may get two.
		var ends []stream.Entry
		for _, c := range w.rec.Calls {
			if !answered[string(c.ID)] {
				ends = append(ends, stream.Entry{Kind: stream.End, Meta: c.ID})
			}
		}
		_ = w.Post(&pushEntries{entries: ends, last: true, silent: true})
		return
	}
	if w.rec.Safe {
		s.rerunCalls(w, log, body, answered)
		return
	}
	_ = w.Post(&pushEntries{entries: lostCalls(w.rec.Calls, answered), last: true})
}

// rerunCalls runs the unanswered calls again that may run again, and ends the others.
func (s *sessionActor) rerunCalls(w *streamActor, log *pastLog, body []byte, answered map[string]bool) {
	_ = w.Post(keepBody(body))
	bodies := requestsOf(body)
	var lost []record.Call
	var begin []func()
	for i, c := range w.rec.Calls {
		switch {
		case answered[string(c.ID)]:
		case !w.rec.May(i) || i >= len(bodies):
			lost = append(lost, c)
		default:
			j := newJournal(&log.Past, i)
			s.node.pending.reopen(w, s.billed(), j)
			begin = append(begin, func() { s.rerun(w, c, bodies[i], j) })
		}
	}
	for _, f := range begin { // last, because a call that ends at once closes its questions
		go f()
	}
	if len(lost) > 0 {
		_ = w.Post(&pushEntries{entries: lostCalls(lost, nil), last: true})
	}
}

// rerun runs a call again from its stored body, on its old stream.
func (s *sessionActor) rerun(w *streamActor, c record.Call, body []byte, j *journal) {
	n := s.node
	defer n.pending.end(j)
	lost := func() {
		_ = w.Post(&pushEntries{entries: lostCalls([]record.Call{c}, nil), last: true})
	}
	var m codec.Message
	if err := codec.Scan(body, &m, codec.Limits{MaxDepth: w.svc.Limits.Depth}); err != nil {
		n.log.Error("stored call not readable", "stream", w.key.ID, "error", err)
		lost()
		return
	}
	r := n.calls.actor(s.readmit())
	r.used = true
	call := &Call{attempt: w.rec.Attempt, journal: j, member: j.member}
	if len(w.rec.Principal) > 0 {
		call.principal = json.RawMessage(w.rec.Principal)
	}
	r.memory.ChargeAnyway(n.accounts.Accounts, r.from, quota.Parked, callHolds(&m, body)) // r.from counts the call, so it is not dropped
	s.begins(r, r.loggedWay(s, nil), &m, body, call)
	r.notified = j.sent.Messages
	if j.sent.Progressed {
		r.progressGate().Raise(j.sent.Progress)
	}
	_ = r.Post(adoptStream{w})
	err := r.run(0) // no limit: it was admitted before
	for errors.Is(err, kernel.ErrStopped) || errors.Is(err, ErrUnavailable) {
		// The session has just left memory.
		if errors.Is(err, ErrUnavailable) {
			select {
			case <-time.After(time.Second):
			case <-n.base.Done():
			}
		}
		ctx, cancel := context.WithTimeout(n.base, w.svc.Limits.StoreWait)
		if s, err = n.sessions.load(ctx, w.svc, w.key.Session, nil); err == nil {
			r.moves(s)
			err = r.run(0)
		}
		cancel()
	}
	if err != nil {
		r.cancel(err)
	}
	if errors.Is(err, ErrUnmounted) || errors.Is(err, ErrClosing) {
		_ = w.Post(handOver{})
		r.release()
		return
	}
	if err != nil {
		// The client has a request with the same id in flight, or the session is gone: the
		// outcome of this call is unknown.
		n.log.Info("call does not run again", "stream", w.key.ID, "error", err)
		lost()
		r.release()
	}
}

// find returns the writer of a stream, and takes the stream over if its writer is gone. A
// stream that has ended has no writer: w is nil then.
func (d *streams) find(ctx context.Context, svc *Service, s *sessionActor, key StreamKey) (w *streamActor, rec record.Stream, err error) {
	if w, ok := d.Get(key); ok {
		if <-w.ready; !w.Stopped() {
			return w, w.rec, nil
		}
		d.Drop(key, w)
	}
	w, err = d.Obtain(key, func() (*streamActor, error) {
		w, r, err := d.takeOver(ctx, svc, s, key)
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
	if err != nil {
		return nil, rec, err
	}
	if w.svc.life.over.Load() {
		w.unmount()
	}
	if svc.life.over.Load() {
		return nil, rec, ErrUnmounted
	}
	if err := d.survives(ctx, s, w); err != nil {
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

// writerOf is find for a stream of session s by its id. It fails with ErrNoStream if the
// stream does not exist or has ended.
func (d *streams) writerOf(ctx context.Context, svc *Service, s *sessionActor, id string) (*streamActor, error) {
	w, _, err := d.find(ctx, svc, s, StreamKey{s.key, id})
	if errors.Is(err, errBadEvent) || (err == nil && w == nil) {
		return nil, ErrNoStream
	}
	return w, err
}

// readmit counts a call that runs again after its node was lost; it never refuses, as the
// call was admitted before.
func (s *sessionActor) readmit() *quota.Account {
	n := s.node
	for {
		if a := n.accounts.Of(s.key.Tenant, ""); n.accounts.Enter(a) {
			return a
		}
	}
}
