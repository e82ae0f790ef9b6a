package history

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// reader is the one live connection of a stream.
type reader interface {
	Frame(attachment.Frame)
	Finish()
	Cut()
}

// extent is how far a stream has got.
type extent struct {
	tail  uint64
	marks []record.Watermark
}

// writer is a stream that a node writes: what the stream's actor does around its machine.
type writer struct {
	n         *node
	id        string
	m         *stream.Machine
	live      record.Stream
	past      record.Past
	life      takeover.Lifetime
	delivered uint64
	due       time.Duration
	renew     bool
	opened    bool
	stopped   bool
	att       reader
	run       *run
}

func (s *writer) step(e stream.Event) { s.perform(s.m.Step(e, nil)) }

// perform carries effects out in order. What they cause happens later.
func (s *writer) perform(fx []stream.Effect) {
	n, w := s.n, s.n.w
	for i := range fx {
		switch e := &fx[i]; e.Do {
		case stream.DoAppend:
			if s.life.Outlives(n.skew()) {
				n.after(0, func() { s.step(stream.Event{Op: stream.Outlived}) })
				break
			}
			rev, num, data := s.m.Rev(), e.Num, append([]byte(nil), e.Data...)
			n.op(func(st *store) error { return st.append(s.id, rev, num, data) }, s.appended)
		case stream.DoDeliver:
			from := s.delivered + 1
			s.delivered = e.Num
			_ = s.past.Note(&s.live, e.Num, e.Epoch, e.Entries)
			entries := e.Entries
			n.after(0, func() { drop(entries, nil) })
			if s.att != nil {
				shown := slices.Clone(e.Entries)
				s.att.Frame(attachment.Frame{From: from, Append: stream.Append{Num: e.Num, Epoch: e.Epoch, Entries: shown, Last: e.Last}})
			}
			if e.Last {
				s.remove()
			}
		case stream.DoRefresh:
			rev, rec, renews := s.m.Rev(), s.tell(e.Num), s.renew
			s.life.Writing(n.skew())
			var next uint64
			n.op(func(st *store) (err error) { next, err = st.rewrite(s.id, rec, rev); return err }, func(err error) {
				if err == nil && renews && rec.Safe {
					n.op(func(st *store) error { return st.keepBody(s.id, next) }, func(kept error) { s.refreshed(next, nil, !passes(kept)) })
					return
				}
				s.refreshed(next, err, renews)
			})
		case stream.DoLook:
			s.look()
		case stream.DoCreate:
			rec := s.tell(e.Num)
			s.renew = true
			s.life.Writing(n.skew())
			var rev uint64
			n.op(func(st *store) (err error) { rev, err = st.open(s.id, rec, rec.Safe); return err }, func(err error) { s.created(rev, err) })
		case stream.DoRetry:
			n.after(e.After, func() { s.perform(s.m.Resend(nil)) })
		case stream.DoDrop:
			entries, err := e.Entries, e.Err
			n.after(0, func() { drop(entries, err) })
		case stream.DoLost:
			w.note("%s loses %s: %v", n.boot, s.id, e.Err)
			w.judge.lost(s, e.Err)
			if s.att != nil {
				s.att.Cut()
			}
			s.remove()
		}
	}
}

func drop(entries []stream.Entry, err error) {
	for i := range entries {
		entries[i].Drop(err)
	}
}

func (s *writer) tell(tail uint64) record.Stream {
	s.live.Epoch = s.m.Epoch()
	s.live.Low, s.live.Bytes = s.m.Kept()
	_ = s.live.Tell(tail, &s.past)
	return s.live
}

func (s *writer) appended(err error) {
	switch {
	case err == nil && s.life.Outlives(s.n.skew()):
		s.step(stream.Event{Op: stream.Outlived})
	case err == nil:
		s.step(stream.Event{Op: stream.Stored})
	case errors.Is(err, errConflict):
		s.step(stream.Event{Op: stream.Guarded})
	default:
		s.step(stream.Event{Op: stream.Again})
	}
}

func (s *writer) refreshed(rev uint64, err error, renewed bool) {
	switch {
	case err == nil:
		s.life.Wrote(s.n.skew())
		if renewed {
			s.renewed()
		}
		s.step(stream.Event{Op: stream.Refreshed, Rev: rev})
	case errors.Is(err, errConflict):
		s.step(stream.Event{Op: stream.Guarded})
	default:
		s.step(stream.Event{Op: stream.Again})
	}
}

func (s *writer) renewed() {
	s.renew = false
	s.due = s.n.w.now + s.n.w.plan.recordTTL()/4
}

// look finds out whose the writer record is, after a write was refused for its guard.
func (s *writer) look() {
	var rec record.Stream
	var rev uint64
	var taken bool
	epoch := s.m.Epoch()
	s.n.op(func(st *store) error {
		l, err := st.record(s.id)
		if err == nil {
			rec, rev = l.rec, l.rev
		}
		taken = st.taken[s.n.boot]
		return err
	}, func(err error) {
		stored := &rec
		if errors.Is(err, errMissing) {
			stored = nil
		} else if err != nil {
			s.step(stream.Event{Op: stream.Again})
			return
		}
		switch takeover.Whose(stored, s.n.boot, epoch, s.n.certain()) {
		case takeover.Own:
			s.life.Wrote(s.n.skew())
			s.step(stream.Event{Op: stream.Ours, Rev: rev})
			if s.renew {
				s.step(stream.Event{Op: stream.Refresh})
			}
		case takeover.Lost:
			s.n.w.judge.count("records stored again")
			e := stream.Event{Op: stream.Absent, Epoch: takeover.NextEpoch(s.m.Epoch(), s.n.w.rnd.Uint64())}
			if taken && len(s.past.Digest.Done) == 0 {
				s.n.w.judge.count("calls ended as their streams were stored again")
				s.n.w.judge.tales[s.id].doubtful = true
				s.run.end()
				s.live.Safe = false
				e.Entries, e.Last, e.Err = []stream.Entry{{Kind: stream.Final, Meta: s.live.Calls[0].ID, Data: lostData}}, true, errTaken
			}
			s.step(e)
		case takeover.Doubt:
			s.step(stream.Event{Op: stream.Again})
		case takeover.Taken:
			s.step(stream.Event{Op: stream.Fenced, Err: errTaken})
		}
	})
}

var (
	errTaken   = errors.New("another writer has the stream")
	errClosing = errors.New("the node leaves")
)

func (s *writer) created(rev uint64, err error) {
	switch {
	case err == nil:
		s.life.Wrote(s.n.skew())
		s.renewed()
		s.step(stream.Event{Op: stream.Created, Rev: rev})
	case errors.Is(err, errConflict):
		s.step(stream.Event{Op: stream.Guarded})
	default:
		s.step(stream.Event{Op: stream.Again})
	}
}

func (s *writer) refresh() {
	s.renew = true
	s.due = s.n.w.now + opWait
	s.step(stream.Event{Op: stream.Refresh})
}

// attach makes att the one live connection, and returns how far the stream is.
func (s *writer) attach(att reader) extent {
	at := extent{s.delivered, append(s.live.Watermarks(), record.Watermark{Seen: s.past.Digest.Seen, Upto: s.delivered})}
	if att != nil {
		if old := s.att; old != nil {
			s.n.after(0, old.Cut)
		}
		s.att = att
	}
	return at
}

func (s *writer) remove() {
	s.stopped = true
	if s.n.streams[s.id] == s {
		delete(s.n.streams, s.id)
	}
	s.run.end()
}

// handOver leaves a stream to its next writer: a call that may run again keeps its record, and any other ends.
func (s *writer) handOver() {
	if !s.opened || s.stopped {
		return
	}
	if !s.live.May(0) {
		s.run.end()
		s.push(stream.Entry{Kind: stream.Final, Meta: s.live.Calls[0].ID, Data: lostData}, true)
		return
	}
	if s.att != nil {
		s.att.Finish()
		s.att = nil
	}
	s.remove()
	s.m.Step(stream.Event{Op: stream.Fenced, Err: errClosing}, nil)
}

// push sends an entry.
func (s *writer) push(e stream.Entry, last bool) {
	s.step(stream.Event{Op: stream.Push, Entries: []stream.Entry{e}, Last: last})
}

// current brings the writer of a stream on this node to f, nil if there is none, but first waits for a takeover under way: before
// that ends, the record may name this node already.
func (n *node) current(id string, f func(*writer)) {
	there := func() {
		s := n.streams[id]
		if s != nil && (s.stopped || !s.opened) {
			s = nil
		}
		f(s)
	}
	if waiting, busy := n.taking[id]; busy {
		n.taking[id] = append(waiting, func(*writer, *takeover.Machine, error) { there() })
		return
	}
	there()
}

// take brings the writer of a stream to f: one of this node, or what the takeover has found.
func (n *node) take(id string, given takeover.Writer, f func(*writer, *takeover.Machine, error)) {
	if s := n.streams[id]; s != nil && !s.stopped {
		f(s, nil, nil)
		return
	}
	if waiting, busy := n.taking[id]; busy {
		n.taking[id] = append(waiting, f)
		return
	}
	n.taking[id] = []func(*writer, *takeover.Machine, error){f}
	m := takeover.New(takeover.Writer{Node: n.name, Boot: n.boot}, given, false, n.w.rnd.Uint64())
	var life takeover.Lifetime
	end := func(s *writer, err error) {
		waiting := n.taking[id]
		delete(n.taking, id)
		for _, f := range waiting {
			f(s, m, err)
		}
	}
	var next func()
	next = func() {
		switch m.Next() {
		case takeover.ReadRecord, takeover.Reread:
			reread := m.Next() == takeover.Reread
			n.writerRecord(id, func(rec record.Stream, rev uint64, err error) {
				m.Record(rec, rev, errors.Is(err, errMissing), err)
				if reread {
					life.Stored(n.skew())
				}
				next()
			})
		case takeover.AskGone:
			n.gone(m.Writer, func(gone bool, err error) { m.Gone(gone, err); next() })
		case takeover.ReadLog:
			n.readOn(id, m.Log, func(err error) { m.Read(err); next() })
		case takeover.CheckLease:
			m.Certain(n.certain())
			next()
		case takeover.MarkTaken:
			n.op(func(st *store) error { st.taken[m.Writer.Boot] = true; return nil }, func(err error) { m.Marked(err); next() })
		case takeover.ReadBody:
			n.op(func(st *store) error {
				if l := st.streams[id]; l == nil || !st.hasBody(l) {
					return errMissing
				}
				return nil
			}, func(err error) { m.BodyRead([]byte("body"), passes(err), err); next() })
		case takeover.Replace:
			life = takeover.Began(n.skew())
			rec, rev := m.Rec, m.Rev
			var now uint64
			n.op(func(st *store) (err error) { now, err = st.rewrite(id, rec, rev); return err }, func(err error) {
				m.Replaced(now, errors.Is(err, errConflict), err)
				life.Stored(n.skew())
				next()
			})
		case takeover.KeepBody:
			rev := m.Rev
			n.op(func(st *store) error { return st.keepBody(id, rev) }, func(error) { m.Kept(); next() })
		case takeover.Done:
			end(n.taken(id, m, life), nil)
		case takeover.Failed:
			end(nil, m.Err)
		default:
			end(nil, nil)
		}
	}
	next()
}

func (n *node) writerRecord(id string, f func(rec record.Stream, rev uint64, err error)) {
	var rec record.Stream
	var rev uint64
	n.op(func(st *store) error {
		l, err := st.record(id)
		if err == nil {
			rec, rev = l.rec, l.rev
		}
		return err
	}, func(err error) { f(rec, rev, err) })
}

// readOn reads the appends of a stream since the last read: where it ends first, and then what is there by then.
func (n *node) readOn(id string, log *takeover.Log, f func(error)) {
	var tail uint64
	n.op(func(st *store) error { tail = st.tail(id, log.Tail); return nil }, func(err error) {
		from := log.From(tail)
		if err != nil || tail < from {
			f(err)
			return
		}
		n.readLog(id, from, tail, log.Add, func(err error) {
			if err == nil {
				err = log.Read(tail)
			}
			f(err)
		})
	})
}

func (n *node) readLog(id string, from, to uint64, add func(num uint64, data []byte), f func(error)) {
	var read []slot
	n.op(func(st *store) error {
		read = nil
		st.read(id, from, to, func(num uint64, data []byte) { read = append(read, slot{num: num, data: data}) })
		return nil
	}, func(err error) {
		if err == nil {
			for _, e := range read {
				add(e.num, e.data)
			}
		}
		f(err)
	})
}

// taken begins to write a stream that was taken over.
func (n *node) taken(id string, m *takeover.Machine, life takeover.Lifetime) *writer {
	n.w.note("%s takes %s over from %s", n.boot, id, m.Writer.Boot)
	n.w.judge.count("takeovers")
	log := m.Log
	s := &writer{n: n, id: id, m: stream.New(n.w.limits()), live: m.Rec, past: log.Past.Clone(), life: life, delivered: log.Tail, opened: true}
	n.streams[id] = s
	s.renewed()
	bodies := 0
	if m.Body != nil {
		bodies = 1
	}
	s.step(stream.Event{Op: stream.Opened, Rev: m.Rev, Epoch: m.Rec.Epoch, Tail: log.Tail, Covered: m.Rec.Tail, Sizes: log.Sizes})
	fates, _ := takeover.Fates(&m.Rec, log, bodies)
	s.run = &run{s: s, over: true, call: n.w.judge.calls[id]}
	switch fates[0] {
	case takeover.Again:
		s.run = newRun(s, n.w.judge.calls[id], &log.Past)
		n.w.judge.runs(s.run)
		n.after(0, s.run.next)
	case takeover.Over:
		s.push(stream.Entry{Kind: stream.Final, Meta: m.Rec.Calls[0].ID, Data: lostData}, true)
	}
	if n.draining {
		n.after(0, s.handOver)
	}
	return s
}
