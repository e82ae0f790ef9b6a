package actors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
)

const readAhead = 250 // appends that a resume reads at once

// Get takes a GET: it opens the session's standalone stream, or resumes any of its streams.
func (n *Node) Get(svc *Service, in *Input) {
	if n.drain.over.Load() {
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	if !n.accounts.admitGet(&svc.Limits, in) {
		return
	}
	if in.LastEventID != "" {
		n.sessions.resumed(svc, in)
		return
	}
	s := n.sessions.staying(in, func(in *Input) *sessionActor { return n.sessions.of(svc, in, nil) })
	if s == nil {
		return
	}
	defer s.left()
	if done, ok := n.accounts.admitStream(&s.sessionAccount, &svc.Limits, in); ok {
		defer done()
		s.listen(svc, in)
	}
}

// resumed takes a GET that resumes a stream.
func (d *sessions) resumed(svc *Service, in *Input) {
	n := d.node
	h := newHold(n, svc, in.Conn)
	own := *in
	own.Conn = h
	pos, good := stream.ParsePosition(in.LastEventID)
	find := h.find
	if !good { // a malformed id is not worth a wait for the store
		find = func(in *Input) *sessionActor { return n.sessions.of(svc, in, nil) }
	}
	s := n.sessions.staying(&own, find)
	if s == nil {
		return
	}
	defer s.left()
	done, ok := n.accounts.admitStream(&s.sessionAccount, &svc.Limits, &own)
	if !ok {
		return
	}
	defer done()
	if !good {
		h.badEvent()
		return
	}
	n.resumes.Add(1)
	s.resume(h, pos)
}

// staying returns the session that find finds, or nil if find has refused the request. It stays in memory until
// left is called: if it left before its stream is open, it would miss notifications.
func (d *sessions) staying(in *Input, find func(*Input) *sessionActor) *sessionActor {
	for {
		s := find(in)
		if s == nil {
			return nil
		}
		switch err := s.stays(); {
		case err == nil:
			return s
		case !errors.Is(err, kernel.ErrStopped): // a stopped session has just left memory: activate it anew
			d.node.refusals.unavailable(in.Conn, nil)
			return nil
		}
	}
}

// resume continues a stream after pos: first from the log, then live.
func (s *sessionActor) resume(h *hold, pos stream.Position) {
	n := s.node
	key := StreamKey{s.key, pos.Stream}
	f := &fare{n: n, from: s, paid: min(h.svc.Limits.Stream.Bytes, replayAtOnce)} // which admitGet took
	for {
		// The store's operations have bounds of their own; this one is for a slow reader.
		ctx, cancel := context.WithCancel(n.base)
		patience := time.AfterFunc(h.svc.Limits.ResumeWait, cancel)
		r := &replay{n: n, svc: h.svc, s: s, key: key, pos: pos, conn: h.Conn, opened: h.open, fare: f, patience: patience}
		err := r.run(ctx)
		patience.Stop()
		cancel()
		f.end()
		switch {
		case err == nil:
			if s.view.Load().rec.Standalone == key.ID && s.missed.Swap(false) {
				h.svc.Handler.Opened(s.peer, true)
			}
			return
		case errors.Is(err, errBadEvent) && r.opened == h.open:
			h.badEvent()
			return
		case errors.Is(err, ErrSessionEnded) && r.opened == h.open:
			unknownSession(h, nil)
			return
		case r.att == nil && h.worth(err):
			if !h.wait() {
				return
			}
		default:
			n.log.Info("resume ended", "stream", key.ID, "error", err)
			if !r.opened {
				n.refusals.unavailable(h, nil)
			}
			h.Cut()
			return
		}
	}
}

// replay brings one connection from a position to the live tail.
type replay struct {
	n        *Node
	svc      *Service
	s        *sessionActor
	key      StreamKey
	pos      stream.Position
	conn     Conn
	opened   bool
	att      *attached
	reader   stream.Reader
	next     uint64 // first append that the client needs
	skip     int    // entries of it that the client has
	lastPart []byte // the append of the event id, if it is the last part of a divided event
	fare     *fare
	bytes    int         // of the log; see extent
	patience *time.Timer // ends the replay for a slow reader
}

// after returns the append that follows an event and the invisible appends behind it; ok is
// false if that is not known.
func (x extent) after(p stream.Position) (num uint64, ok bool) {
	for _, m := range x.watermarks {
		if m.Seen.Is(p) {
			num, ok = max(num, m.Upto+1), true
		}
	}
	return num, ok
}

func (r *replay) run(ctx context.Context) error {
	w, rec, err := r.find(ctx)
	if err != nil {
		return err
	}
	if len(rec.Calls) == 0 && !r.s.isCurrent(r.key.ID) {
		r.s.endStandalone(r.key.ID) // another standalone stream has replaced it meanwhile
		return errBadEvent
	}
	var at extent
	for w != nil {
		m := &attach{}
		if at, err = m.ask(w); err == nil {
			break
		}
		if w, rec, err = r.n.streams.find(ctx, r.svc, r.s, r.key); err != nil { // the stream has just ended
			return err
		}
	}
	if w == nil {
		return r.ended(ctx, rec)
	}
	first, err := r.check(ctx, at, readAhead)
	if err != nil {
		return err
	}
	r.att = r.attachment(rec)
	if err := r.open(); err != nil {
		return err
	}
	m := &attach{att: r.att, sess: r.s}
	now, err := m.ask(w)
	if err != nil {
		// The stream has ended meanwhile, so the log has all of it.
		if err := r.write(ctx, first); err != nil {
			return err
		}
		return r.rest(ctx, r.att.Position(), toEnd)
	}
	if err := r.write(ctx, first); err != nil {
		return err
	}
	for upTo := now.tail; ; {
		if err := r.rest(ctx, r.att.Position(), upTo); err != nil {
			return err
		}
		if !r.att.CatchUp() {
			return nil
		}
		m := &attach{}
		if now, err = m.ask(w); err != nil {
			upTo = toEnd
		} else {
			upTo = now.tail
		}
		r.bytes = now.bytes
	}
}

// find judges the event id and returns the writer of the stream, which takes the stream over if its writer is gone.
func (r *replay) find(ctx context.Context) (*streamActor, record.Stream, error) {
	if !r.n.streams.serves(r.key) {
		leave, err := r.n.streams.lostLog(ctx, r.s, r.fare)
		if err == nil {
			defer leave()
			err = r.judge(ctx)
		}
		if err != nil {
			return nil, record.Stream{}, err
		}
	}
	return r.n.streams.find(ctx, r.svc, r.s, r.key)
}

// judge refuses an event id that cannot be resumed from, before a takeover runs its calls again or ends them.
func (r *replay) judge(ctx context.Context) error {
	if r.n.streams.serves(r.key) { // another resume has just taken it over
		return nil
	}
	rec, _, err := r.n.streams.readWriter(ctx, r.key)
	if err != nil {
		return err
	}
	at := extent{watermarks: rec.Watermarks()}
	if at.tail, err = r.n.store.Tail(ctx, r.key.path(), rec.Tail); err != nil {
		return err
	}
	probe := *r
	_, err = probe.check(ctx, at, 1)
	r.fare.held.Reset()
	return err
}

// ask posts m to a stream and returns how far its writer has got.
func (m *attach) ask(w *streamActor) (extent, error) {
	m.Init()
	if err := w.Post(m); err != nil {
		return extent{}, err
	}
	m.Wait()
	return m.at, m.err
}

// check judges the event id and reads the beginning of the replay: at most ahead appends after
// the client's own. If the stored append has another epoch than the id, the id is that of an
// event which is gone. The client's event itself may be gone if the record has a watermark of
// it.
func (r *replay) check(ctx context.Context, at extent, ahead uint64) ([]stream.Append, error) {
	r.next, r.skip, r.bytes = r.pos.Append, r.pos.Entry+1, at.bytes
	next, marked := at.after(r.pos)
	switch {
	case r.pos.Append > at.tail:
		return nil, errBadEvent
	case marked:
		r.next, r.skip = next, 0
	case r.pos.Append == 0:
		r.next, r.skip = 1, 0
	}
	first, _, err := r.read(ctx, r.next, min(at.tail, r.next+ahead))
	if err != nil || r.next != r.pos.Append {
		return first, err
	}
	switch {
	case r.lastPart != nil: // the event was stored in parts, and its id names the last one
		if stream.EpochOf(r.lastPart) != r.pos.Epoch || r.pos.Entry != 0 {
			return nil, errBadEvent
		}
		r.next, r.skip = r.pos.Append+1, 0
	case len(first) == 0 || first[0].Num != r.pos.Append || first[0].Epoch != r.pos.Epoch,
		r.pos.Entry >= len(first[0].Entries) || !first[0].Entries[r.pos.Entry].Kind.Visible():
		return nil, errBadEvent
	}
	return first, nil
}

// attachment makes the connection's reading side, which begins where check said.
func (r *replay) attachment(rec record.Stream) *attached {
	return r.s.newAttachment(r.svc, r.key, &rec, r.conn, r.pos, r.next, r.skip, false)
}

// afford waits until there is room for appends from..to. If there is little, it returns a smaller to.
func (r *replay) afford(ctx context.Context, from, to uint64) (uint64, error) {
	to, err := r.fare.afford(ctx, from, to, r.bytes)
	for err != nil && r.att != nil && ctx.Err() == nil { // the response has begun, and goes on as soon as there is room
		to, err = r.fare.afford(ctx, from, to, r.bytes)
	}
	return to, err
}

// pay waits until the client has the tokens for what was read. It is not slow meanwhile.
func (r *replay) pay(ctx context.Context) error {
	for wait := r.fare.due(); wait > 0; wait = r.fare.due() {
		err := pause(ctx, min(wait, time.Second))
		r.patience.Reset(r.svc.Limits.ResumeWait)
		if err != nil || r.conn.Room(overNow) != nil {
			return errGone
		}
	}
	return nil
}

// read returns the appends from..to, or the first of them, up to end; it fails with errBadEvent if one is missing.
func (r *replay) read(ctx context.Context, from, to uint64) (all []stream.Append, end uint64, err error) {
	if from > to {
		return nil, to, nil
	}
	if to, err = r.afford(ctx, from, to); err != nil {
		return nil, 0, err
	}
	size := 0
	var fault error
	next := from
	err = r.n.store.Read(ctx, r.key.path(), from, to, func(num uint64, data []byte) {
		size += len(data)
		if num != next || len(data) == 0 {
			fault = errBadEvent
		}
		next = num + 1
		if num == r.pos.Append && stream.Rest(data) {
			r.lastPart = data
		}
		a, ok, err := r.reader.Add(num, data)
		if err != nil {
			fault = err
		}
		if ok {
			all = append(all, a)
		}
	})
	r.fare.read(size, int(to-from)+1)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("actors: replay: %w", err)
	case fault != nil:
		return nil, 0, fault
	case next <= to:
		return nil, 0, errBadEvent
	}
	return all, to, nil
}

// open sends headers, unless an earlier attempt did.
func (r *replay) open() error {
	if !r.opened {
		if !r.att.Open(false) {
			return errGone
		}
		r.opened = true
		return nil
	}
	r.att.Watch()
	return nil
}

var errGone = errors.New("actors: the connection is gone")

// replayBurst is how many bytes a replay writes before it waits for the reader.
const replayBurst = 128 << 10

// write sends appends no faster than the client reads them. It returns when there is room for
// more.
func (r *replay) write(ctx context.Context, appends []stream.Append) error {
	if err := r.pay(ctx); err != nil {
		return err
	}
	burst := 0
	for _, a := range appends {
		if burst += attachment.Size(&a); burst > replayBurst {
			if err := r.room(ctx); err != nil {
				return err
			}
			burst = attachment.Size(&a)
		}
		r.att.Replayed(a)
		if a.Last {
			return nil // the response has ended
		}
	}
	return r.room(ctx)
}

// room waits until the client has read enough that any event fits.
func (r *replay) room(ctx context.Context) error {
	r.conn.Flush()
	if r.conn.Room(ctx) != nil {
		return errGone
	}
	return nil
}

// toEnd stands for the last append of a stream that has ended.
const toEnd = math.MaxUint64

// rest replays the appends from..to.
func (r *replay) rest(ctx context.Context, from, to uint64) error {
	for from <= to {
		end := from + readAhead - 1
		if to != toEnd {
			end = min(end, to)
		} else if tail, err := r.n.store.Tail(ctx, r.key.path(), from-1); err != nil {
			return err
		} else {
			end = min(end, tail)
		}
		if end < from {
			return errGone
		}
		appends, end, err := r.read(ctx, from, end)
		if err != nil {
			return err
		}
		last := len(appends) > 0 && appends[len(appends)-1].Last
		if err := r.write(ctx, appends); err != nil || last {
			return err
		}
		from = end + 1
	}
	return nil
}

// ended replays a stream that has no writer any more.
func (r *replay) ended(ctx context.Context, rec record.Stream) error {
	at := extent{tail: rec.End, watermarks: rec.Watermarks()}
	if at.tail == 0 {
		var err error
		if at.tail, err = r.n.store.Tail(ctx, r.key.path(), rec.Tail); err != nil {
			return err
		}
	}
	first, err := r.check(ctx, at, readAhead)
	if err != nil {
		return err
	}
	r.att = r.attachment(rec)
	if !r.opened && r.over(first, at.tail) {
		// Status 204 tells an EventSource not to come back. After an empty stream a popular
		// client would open another one without an event id, which would replace its own
		// standalone stream.
		r.conn.Answer(204, nil)
		return nil
	}
	if err := r.open(); err != nil {
		return err
	}
	if err := r.write(ctx, first); err != nil {
		return err
	}
	if next := r.att.Position(); next <= at.tail {
		if err := r.rest(ctx, next, at.tail); err != nil {
			return err
		}
	}
	r.att.Finish()
	return nil
}

// over reports whether the client has all of a stream that ended with append tail; first is the
// log from the client's event on.
func (r *replay) over(first []stream.Append, tail uint64) bool {
	switch {
	case r.next > tail:
		return true
	case len(first) == 0 || first[len(first)-1].Num < tail:
		return false // first may not be all
	}
	for _, a := range first {
		for i := range a.Entries {
			if a.Entries[i].Kind.Visible() && (a.Num > r.next || a.Num == r.next && i >= r.skip) {
				return false
			}
		}
	}
	return true
}

// holdEvery is how often, on average, a held resume sends a comment and tries again. Each wait
// is half as long to half as long again: many resumes that were held at once come back one by one.
const holdEvery = time.Second

// hold is the connection of a resume. A resume is never refused because of the store, since
// popular clients give up after two attempts: while the store cannot be read, the response is
// open and gets comments. An open response cannot be refused any more, so it is cut instead:
// the client comes back and then learns the reason.
type hold struct {
	Conn
	n     *Node
	svc   *Service
	until time.Time
	open  bool           // the response has begun
	gone  chan struct{}  // closed when the connection is gone
	from  *quota.Account // the resume is counted on it until its session is known
}

func newHold(n *Node, svc *Service, conn Conn) *hold {
	return &hold{Conn: conn, n: n, svc: svc, until: time.Now().Add(svc.Limits.ResumeWait), gone: make(chan struct{})}
}

// worth reports whether a resume that failed with err is worth another try later.
func (h *hold) worth(err error) bool {
	return errors.Is(err, ErrUnavailable) && !errors.Is(err, errNewer) && time.Now().Before(h.until)
}

// wait waits for holdEvery and reports whether to try again. If not, the connection is gone or
// has been cut.
func (h *hold) wait() bool {
	if !h.open {
		if h.open = h.Conn.Open(); !h.open {
			return false
		}
		h.Conn.Gone(func() { close(h.gone) })
	}
	h.Conn.Comment()
	h.Conn.Flush()
	timer := time.NewTimer(holdEvery/2 + rand.N(holdEvery))
	defer timer.Stop()
	select {
	case <-timer.C:
		if !h.n.drain.over.Load() {
			return true
		}
	case <-h.gone:
		return false
	case <-h.svc.life.done:
	case <-h.n.base.Done():
	}
	h.Conn.Cut()
	return false
}

// find returns the session of the resume in, whose connection is h, or refuses the resume. It
// holds the resume while the session is not in memory and the store cannot be read.
func (h *hold) find(in *Input) *sessionActor {
	defer h.release()
	for {
		s, err := h.n.sessions.lookUp(h.svc, in)
		switch {
		case err == nil || !h.worth(err):
			return h.n.sessions.found(in, nil, s, err)
		case !h.charge(in) || !h.wait():
			return nil
		}
	}
}

// charge counts a resume whose session is not known on its principal's account, or refuses it.
func (h *hold) charge(in *Input) bool {
	for h.from == nil || h.from.Dropped() {
		h.release()
		h.from = h.n.accounts.Of(in.Tenant, in.Address)
		if gets := h.from.Held[heldGets].Add(1); quota.Over(gets+h.from.Held[heldStreams].Load(), h.n.accounts.limits.Principal.Streams) {
			h.n.refusals.refuseVerdict(h, nil, verdict{reason: StreamsOfPrincipal})
			return false
		}
	}
	return true
}

func (h *hold) release() {
	if h.from != nil {
		h.from.Held[heldGets].Add(-1)
		h.from = nil
	}
}

// Reject refuses the resume, or cuts its connection if that is open.
func (h *hold) Reject(status, code int, message string, data, id []byte, retryAfter time.Duration) {
	if h.open {
		h.Conn.Cut()
		return
	}
	h.Conn.Reject(status, code, message, data, id, retryAfter)
}

// badEvent refuses the event id that the resume came with.
func (h *hold) badEvent() {
	h.n.refusals.count(Replay)
	faults.EventID.Tell(h, nil)
}
