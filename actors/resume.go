package actors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/attachment"
	"github.com/troupe-run/troupe/actors/internal/record"
	replaying "github.com/troupe-run/troupe/actors/internal/replay"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

const readAhead = 250 // appends that a resume reads at once

// Who writes a stream that is replayed, for [Config.Replayed].
const (
	WriterHere      = "here"
	WriterElsewhere = "elsewhere"
	WriterNone      = "none" // the stream has ended
)

// resumes brings clients that come back to where their streams are live.
type resumes struct {
	*site
	sessions  *sessions
	streams   *streams
	takeovers *takeovers
	readings  *readings
	begun     atomic.Int64
	replaying atomic.Int64 // clients that wait for what is stored
	replayed  func(writer string, took time.Duration)
}

// resumeStream continues a stream after pos: first from the log, then live.
func (d *resumes) resumeStream(s *sessionActor, h *heldResume, pos stream.Position) {
	f := &readCharge{accounts: &d.accounts, from: s, paid: min(h.svc.Limits.Stream.Bytes, maxPrepaid)} // which admitGet took
	r := &replay{n: d, svc: h.svc, s: s, key: StreamKey{s.key, pos.Stream}, pos: pos, cursor: replaying.Cursor{Pos: pos}, conn: h.Conn, hold: h, charge: f}
	r.busy.Store(true)
	r.followStream()
	r.endFollow()
}

// followAgain reads on, beside its caller, where the connection is no longer live: frames were
// lost, or the writer was.
func (r *replay) followAgain() {
	r.more.Store(true)
	r.beginFollow()
}

// endedElsewhere reports whether a session has ended on another node, and its streams with it,
// while this one could not hear of that.
func (d *resumes) endedElsewhere(svc *Service, key SessionKey) bool {
	if d.fleet.mail == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(d.base, svc.Limits.StoreWait)
	defer cancel()
	_, _, err := d.sessions.readRecord(ctx, key)
	return errors.Is(err, store.ErrNotFound)
}

// beginFollow runs followStream beside its caller if that is wanted, unless it runs.
func (r *replay) beginFollow() {
	if r.more.Load() && r.busy.CompareAndSwap(false, true) {
		go func() {
			defer r.endFollow()
			r.more.Store(false)
			if r.att == nil || r.att.IsOver() {
				return
			}
			if r.s.beginStay() != nil { // The session has ended, and the writer, which would have ended the connection, was lost.
				r.att.Cut()
				return
			}
			defer r.s.endStay()
			r.n.replaying.Add(1)
			defer r.n.replaying.Add(-1)
			r.hold.since = time.Now()
			r.hold.markOpen()
			r.followStream()
		}()
	}
}

// endFollow ends a run of followStream, and begins another one if it is wanted by now.
func (r *replay) endFollow() {
	r.busy.Store(false)
	r.beginFollow()
}

// followStream brings the connection to where it is live, or ends it.
func (r *replay) followStream() {
	s, h, n := r.s, r.hold, r.n
	var no *refusal.Refusal
	for {
		// The store's operations have bounds of their own; this one is for a slow reader.
		ctx, cancel := context.WithCancel(n.base)
		r.patience = time.AfterFunc(h.svc.Limits.ResumeWait, cancel)
		r.opened = r.opened || h.open
		held := h.open
		err := r.run(ctx)
		r.patience.Stop()
		cancel()
		r.charge.settle()
		switch {
		case err == nil:
			n.replayed(r.writer, time.Since(h.since))
			if !r.isRemote && s.view.Load().rec.Standalone == r.key.ID && s.missed.Swap(false) {
				h.svc.Handler.Opened(s.peer, true)
			}
			return
		case r.att != nil && r.att.IsOver(): // the client is gone, or has all
			return
		case errors.Is(err, errBadEvent) && r.opened == held && r.att == nil:
			if n.endedElsewhere(h.svc, s.key) {
				unknownSession(h, nil)
				return
			}
			h.refuseEventID()
			return
		case errors.As(err, &no) && r.opened == held && r.att == nil:
			no.Tell(h, nil)
			return
		case errors.Is(err, ErrSessionEnded) && r.opened == held && r.att == nil:
			unknownSession(h, nil)
			return
		case r.att == nil && h.worthRetry(err):
			if !h.waitForRetry() {
				return
			}
		case r.att != nil && n.fleet.mail != nil && h.worthRetry(err):
			r.att.Detach()
			if h.markOpen(); !h.waitForRetry() {
				return
			}
		default:
			n.log.Info("resume ended", "stream", r.key.ID, "error", err)
			if !r.opened {
				refusal.Unavailable.Tell(h, nil)
			}
			h.Cut()
			return
		}
	}
}

// replay brings one connection from a position to the live tail.
type replay struct {
	n        *resumes
	svc      *Service
	s        *sessionActor
	key      StreamKey
	pos      stream.Position
	conn     Conn
	hold     *heldResume
	opened   bool
	att      *attached
	isRemote bool            // another node writes the stream
	ours     bool            // nobody else has written it since this node did
	writer   string          // who does, for metrics
	given    takeover.Writer // the node that has given the stream up
	cursor   replaying.Cursor
	charge   *readCharge
	bytes    int         // of the log; see extent
	patience *time.Timer // ends the replay for a slow reader

	busy, more       atomic.Bool // followStream runs; it must run again
	reading          atomic.Pointer[reading]
	pinned, unpinned atomic.Bool // see pinSession
}

func (r *replay) run(ctx context.Context) error {
	if r.s.ended.Load() { // while the resume was held
		return ErrSessionEnded
	}
	if r.n.fleet.mail != nil && r.n.store.Lapsed() { // others may have the stream; the client is held, and not let go once more
		return fmt.Errorf("actors: resume: this node has no lease: %w", store.ErrUnavailable)
	}
	w, rec, at, err := r.findExtent(ctx)
	if err == nil {
		err = r.checkScopes(&rec)
	}
	if err != nil {
		return err
	}
	switch _, r.isRemote = w.(*remoteWriter); {
	case r.isRemote:
		r.writer = WriterElsewhere
	case w != nil:
		r.writer = WriterHere
	default:
		r.writer = WriterNone
	}
	r.ours = r.writer == WriterHere || r.writer == WriterNone && rec.Boot == r.n.boot
	var first []stream.Append
	switch {
	case w == nil && r.att == nil:
		return r.replayEndedStream(ctx, rec)
	case w == nil:
		return r.replayRange(ctx, r.att.Position(), toEnd)
	case r.att == nil:
		if first, err = r.checkEventID(ctx, at, readAhead); err != nil {
			return r.explainRefusal(ctx, w, err)
		}
		r.att = r.newAttachment(rec)
		if err := r.openResponse(); err != nil {
			return err
		}
	}
	now, err := w.attachReplay(ctx, r)
	if r.isRemote && err != nil {
		return r.lostWriter(w, err)
	}
	if err != nil {
		// The stream has ended meanwhile, so the log has all of it.
		if err := r.writeAppends(ctx, first); err != nil {
			return err
		}
		return r.replayRange(ctx, r.att.Position(), toEnd)
	}
	if err := r.writeAppends(ctx, first); err != nil {
		return err
	}
	for upTo := now.tail; ; {
		if err := r.replayRange(ctx, r.att.Position(), upTo); err != nil {
			return err
		}
		if !r.att.CatchUp() {
			return nil
		}
		now, err := w.readExtent(ctx)
		switch {
		case r.isRemote && err != nil:
			return r.lostWriter(w, err)
		case err != nil:
			upTo = toEnd
		default:
			upTo = now.tail
		}
		r.bytes = now.bytes
	}
}

// findExtent judges the event id and returns the writer of the stream, and how far that is. It
// takes the stream over if its writer is gone. A stream that has ended has no writer.
func (r *replay) findExtent(ctx context.Context) (w streamWriter, rec record.Stream, at extent, err error) {
	for {
		if w, rec, err = r.findWriter(ctx); err != nil || w == nil {
			return w, rec, at, err
		}
		if len(rec.Calls) == 0 && !(standalone{r.s}).isCurrent(r.key.ID) {
			if r.n.fleet.mail != nil { // what is known of the session here may be old
				if err := (standalone{r.s}).mustName(ctx, r.key.ID); err == nil {
					continue
				} else if !errors.Is(err, errBadEvent) {
					return nil, rec, at, err
				}
			}
			standalone{r.s}.endStandalone(r.key.ID) // another standalone stream has replaced it meanwhile
			return nil, rec, at, errBadEvent
		}
		at, err = w.readExtent(ctx)
		switch remote, ok := w.(*remoteWriter); {
		case err == nil:
			return w, rec, at, nil
		case ok && errors.Is(err, errNotHere):
			r.given = remote.Writer // it may be taken over now
		case ok:
			return nil, rec, at, err
		} // otherwise the stream has just ended
	}
}

// explainRefusal returns why checkEventID has refused the event id: ErrUnavailable if the stream is
// not written here any more, so that the resume tries again.
func (r *replay) explainRefusal(ctx context.Context, w streamWriter, err error) error {
	near, ok := w.(localWriter)
	if !ok || !errors.Is(err, errBadEvent) {
		return err
	}
	switch ours, failed := r.n.streams.stillWrites(ctx, near.streamActor); {
	case failed != nil:
		return failed
	case !ours:
		return fmt.Errorf("actors: resume: another node has the stream: %w", store.ErrUnavailable)
	}
	return err
}

// judgeEventID refuses an event id that cannot be resumed from, before a takeover runs its calls
// again or ends them. Of the stream of a call that has ended, and that nobody has to take over, it
// returns the record, with its end.
func (r *replay) judgeEventID(ctx context.Context) (rec record.Stream, err error) {
	if r.n.streams.writesHere(r.key) { // another resume has just taken it over
		return rec, nil
	}
	rec, rev, err := r.n.streams.readWriter(ctx, r.key)
	if err != nil {
		return rec, err
	}
	if err := r.checkScopes(&rec); err != nil {
		return rec, err
	}
	at := extent{watermarks: rec.Watermarks()}
	if at.tail, err = r.n.store.Tail(ctx, r.key.streamPath(), rec.Tail); err != nil {
		return rec, err
	}
	defer r.charge.held.Reset()
	probe := &replay{n: r.n, svc: r.svc, s: r.s, key: r.key, pos: r.pos, cursor: replaying.Cursor{Pos: r.pos}, conn: r.conn, charge: r.charge, patience: r.patience}
	if at.tail > 0 && len(rec.Calls) > 0 {
		last, _, err := probe.readAppends(ctx, at.tail, at.tail)
		if err == nil && len(last) == 1 && last[0].Last {
			rec.End = at.tail // replayEndedStream judges the event id
			return rec, nil
		}
		if err != nil && !errors.Is(err, errBadEvent) { // the takeover will judge that
			return rec, err
		}
	}
	_, err = probe.checkEventID(ctx, at, 1)
	return rec, r.n.streams.confirmBadEvent(ctx, r.key, rev, err)
}

// checkScopes refuses who lacks a scope that the calls of the stream need, before it gets anything
// of them. The error is a *refusal.Refusal.
func (r *replay) checkScopes(rec *record.Stream) error {
	if r.att != nil { // it has the stream, and comes back to it
		return nil
	}
	if no := r.svc.scopeRefusal(r.hold.caller, rec.Scopes); no != nil {
		return no
	}
	return nil
}

// checkEventID judges the event id and reads the beginning of the replay: at most ahead appends
// after the client's own.
func (r *replay) checkEventID(ctx context.Context, at extent, ahead uint64) ([]stream.Append, error) {
	c := &r.cursor
	r.bytes = at.bytes
	if err := c.FindPlace(at.tail, at.watermarks); err != nil {
		return nil, errBadEvent
	}
	first, _, err := r.readAppends(ctx, c.Next, min(at.tail, c.Next+ahead))
	if err == nil && c.JudgeEvent(first) != nil {
		return nil, errBadEvent
	}
	return first, err
}

// newAttachment makes the connection's reading side, which begins where checkEventID said.
func (r *replay) newAttachment(rec record.Stream) *attached {
	return r.n.streams.newAttachment(&r.svc.Terms, r.s, r.s.view.Load().rec.Subscribed, r.key, &rec, r.conn, r.pos, r.cursor.Next, r.cursor.Skip, false, r.onBehind())
}

// onBehind is what the connection calls when it is no longer live; nil where the writer is
// certainly in this process.
func (r *replay) onBehind() func() {
	if r.n.fleet.mail == nil {
		return nil
	}
	return r.followAgain
}

// affordAppends waits until there is room for appends from..to. If there is little, it returns a
// smaller to.
func (r *replay) affordAppends(ctx context.Context, from, to uint64) (uint64, error) {
	to, err := r.charge.affordAppends(ctx, from, to, r.bytes)
	for err != nil && r.att != nil && ctx.Err() == nil { // the response has begun, and goes on as soon as there is room
		to, err = r.charge.affordAppends(ctx, from, to, r.bytes)
	}
	return to, err
}

// payTokens waits until the client has the tokens for what was read. It is not slow meanwhile.
func (r *replay) payTokens(ctx context.Context) error {
	for wait := r.charge.takeTokens(); wait > 0; wait = r.charge.takeTokens() {
		err := pause(ctx, min(wait, time.Second))
		r.patience.Reset(r.svc.Limits.ResumeWait)
		if err != nil || r.conn.Room(doneContext) != nil {
			return errGone
		}
	}
	return nil
}

// readAppends returns the appends from..to, or the first of them, up to end; it fails with
// errBadEvent if one is missing.
func (r *replay) readAppends(ctx context.Context, from, to uint64) (all []stream.Append, end uint64, err error) {
	if from > to {
		return nil, to, nil
	}
	if to, err = r.affordAppends(ctx, from, to); err != nil {
		return nil, 0, err
	}
	size := 0
	if all, ok := r.readCached(from, to); ok {
		return all, to, nil
	}
	r.cursor.BeginReading(from)
	err = r.n.store.Read(ctx, r.key.streamPath(), from, to, func(num uint64, data []byte) {
		size += len(data)
		r.cursor.AddAppend(num, data)
	})
	r.charge.noteRead(size, int(to-from)+1)
	if err != nil {
		return nil, 0, fmt.Errorf("actors: replay: %w", err)
	}
	if all, err = r.cursor.EndReading(to); errors.Is(err, replaying.ErrBadEvent) {
		err = errBadEvent
	}
	return all, to, err
}

// readCached returns the appends from..to if this node has kept them, and nobody else can have
// written the stream since.
func (r *replay) readCached(from, to uint64) ([]stream.Append, bool) {
	if !r.ours {
		return nil, false
	}
	all, ok := r.n.cache.Read(r.key.streamPath(), from, to, time.Now())
	if ok {
		size := 0
		for i := range all {
			size += attachment.AppendSize(&all[i])
		}
		r.charge.noteRead(size, len(all))
	}
	return all, ok
}

// openResponse sends headers, unless an earlier attempt did.
func (r *replay) openResponse() error {
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

// writeAppends sends appends no faster than the client reads them. It returns when there is room
// for more.
func (r *replay) writeAppends(ctx context.Context, appends []stream.Append) error {
	if err := r.payTokens(ctx); err != nil {
		return err
	}
	burst := 0
	for _, a := range appends {
		if burst += attachment.AppendSize(&a); burst > replayBurst {
			if err := r.awaitRoom(ctx); err != nil {
				return err
			}
			burst = attachment.AppendSize(&a)
		}
		r.att.WriteReplayed(a)
		if a.Last {
			return nil // the response has ended
		}
	}
	return r.awaitRoom(ctx)
}

// awaitRoom waits until the client has read enough that any event fits.
func (r *replay) awaitRoom(ctx context.Context) error {
	r.conn.Flush()
	if r.conn.Room(ctx) != nil {
		return errGone
	}
	return nil
}

// toEnd stands for the last append of a stream that has ended.
const toEnd = math.MaxUint64

// replayRange replays the appends from..to.
func (r *replay) replayRange(ctx context.Context, from, to uint64) error {
	for from <= to {
		end := from + readAhead - 1
		if to != toEnd {
			end = min(end, to)
		} else if tail, err := r.n.store.Tail(ctx, r.key.streamPath(), from-1); err != nil {
			return err
		} else {
			end = min(end, tail)
		}
		if end < from {
			return errGone
		}
		appends, end, err := r.readAppends(ctx, from, end)
		if err != nil {
			return err
		}
		last := len(appends) > 0 && appends[len(appends)-1].Last
		if err := r.writeAppends(ctx, appends); err != nil || last {
			return err
		}
		from = end + 1
	}
	return nil
}

// replayEndedStream replays a stream that has no writer any more.
func (r *replay) replayEndedStream(ctx context.Context, rec record.Stream) error {
	at := extent{tail: rec.End, watermarks: rec.Watermarks()}
	if at.tail == 0 {
		var err error
		if at.tail, err = r.n.store.Tail(ctx, r.key.streamPath(), rec.Tail); err != nil {
			return err
		}
	}
	first, err := r.checkEventID(ctx, at, readAhead)
	if err != nil {
		return err
	}
	r.att = r.newAttachment(rec)
	if !r.opened && r.cursor.HasAll(first, at.tail) {
		// Status 204 tells an EventSource not to come back. After an empty stream a popular
		// client would open another one without an event id, which would replace its own
		// standalone stream.
		r.conn.Answer(204, nil)
		return nil
	}
	if err := r.openResponse(); err != nil {
		return err
	}
	if err := r.writeAppends(ctx, first); err != nil {
		return err
	}
	if next := r.att.Position(); next <= at.tail {
		if err := r.replayRange(ctx, next, at.tail); err != nil {
			return err
		}
	}
	r.att.Finish()
	return nil
}

// findWriter returns the writer of the stream.
func (r *replay) findWriter(ctx context.Context) (streamWriter, record.Stream, error) {
	d := r.n.streams
	if !d.writesHere(r.key) {
		end, over := r.n.cache.EndOf(r.key.streamPath(), time.Now())
		if r.n.fleet.mail != nil || over {
			steady := r.n.fleet.knowsOthers()
			rec, _, err := d.readWriter(ctx, r.key)
			if errors.Is(err, errBadEvent) && !(steady && r.n.fleet.knowsOthers()) && !r.n.endedElsewhere(r.svc, r.s.key) {
				err = errMayReturn
			}
			if err != nil {
				return nil, rec, err
			}
			if over && rec.Boot == r.n.boot { // nobody has taken it over since
				rec.End = end
				return nil, rec, nil
			}
			if remote, err := r.n.takeovers.findRemoteWriter(ctx, r.key, &rec, r.given); err != nil {
				return nil, rec, err
			} else if remote != nil {
				return remote, rec, nil
			}
		}
		var rec record.Stream
		leave, err := r.n.takeovers.awaitLogTurn(ctx, r.s, r.charge)
		if err == nil {
			defer leave()
			if r.att == nil {
				rec, err = r.judgeEventID(ctx)
			}
		}
		if err != nil || rec.End > 0 {
			return nil, rec, err
		}
	}
	w, rec, err := r.n.takeovers.findWriter(ctx, r.svc, r.s, r.key, r.given)
	if e, ok := errors.AsType[errRemoteWriter](err); ok {
		return e.remoteWriter, rec, nil
	}
	if w == nil || err != nil {
		return nil, rec, err
	}
	return localWriter{w}, rec, nil
}

// lostWriter returns why another node is not the stream's writer for now: ErrUnavailable, so that
// the resume tries again.
func (r *replay) lostWriter(w streamWriter, err error) error {
	if errors.Is(err, errNotHere) {
		r.given = w.(*remoteWriter).Writer
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// pinSession keeps the session in memory while its client reads a stream from here that another
// node writes.
func (r *replay) pinSession() {
	if r.pinned.Swap(true) {
		return
	}
	_ = r.s.Post(pinSession{1})
	r.conn.Gone(func() {
		r.unpinSession()
		if x := r.reading.Swap(nil); x != nil {
			r.n.readings.dropReading(x)
			r.n.fleet.sendLetter(x.at, letterCredit, packet(appendCredit(nil, x.id, 0, true)))
		}
	})
}

// unpinSession ends what pinSession began, for the session; the connection may be counted otherwise
// now.
func (r *replay) unpinSession() {
	if x := r.reading.Swap(nil); x != nil {
		r.n.readings.dropReading(x)
	}
	if r.pinned.Load() && !r.unpinned.Swap(true) {
		_ = r.s.Post(pinSession{-1})
	}
}

// holdEvery is how often, on average, a held resume sends a comment and tries again. Each wait
// is half as long to half as long again: many resumes that were held at once come back one by one.
const holdEvery = time.Second

// heldResume is the connection of a resume. A resume is never refused because of the store, since
// popular clients give up after two attempts: while the store cannot be read, the response is
// open and gets comments. An open response cannot be refused any more, so it is cut instead:
// the client comes back and then learns the reason.
type heldResume struct {
	Conn
	n      *resumes
	svc    *Service
	since  time.Time // when the client came, or was left behind
	until  time.Time
	open   bool           // the response has begun
	gone   chan struct{}  // closed when the connection is gone
	at     string         // the event id that the client came with, if its revision has priming events
	caller any            // who resumes: see Call.Principal
	from   *quota.Account // the resume is counted on it until its session is known
}

// worthRetry reports whether a resume that failed with err is worth another try later.
func (h *heldResume) worthRetry(err error) bool {
	return errors.Is(err, store.ErrUnavailable) && !errors.Is(err, errNewer) && time.Now().Before(h.until)
}

// markOpen says that the response is open, and that the resume goes on after it was live.
func (h *heldResume) markOpen() {
	if !h.open {
		h.open = true
		h.Conn.Gone(func() { close(h.gone) })
	}
	h.until = time.Now().Add(h.svc.Limits.ResumeWait)
}

// waitForRetry waits for holdEvery and reports whether to try again. If not, the connection is gone
// or has been cut.
func (h *heldResume) waitForRetry() bool {
	if !h.open {
		if h.open = h.Conn.Open(); !h.open { // The transport is about to end, or the client is gone.
			refusal.Unavailable.Tell(h, nil)
			return false
		}
		h.Conn.Gone(func() { close(h.gone) })
		if h.at != "" { // popular clients remember only what their newest connection has carried
			h.Conn.Event(h.at, 0, nil)
		}
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

// findSession returns the session of the resume in, whose connection is h, or refuses the resume.
// It holds the resume while the session is not in memory and the store cannot be read.
func (h *heldResume) findSession(in *Input) *sessionActor {
	defer h.releaseCharge()
	for {
		s, err := h.n.sessions.lookUp(h.svc, in)
		switch {
		case err == nil || !h.worthRetry(err):
			return h.n.sessions.useFound(in, nil, s, err)
		case !h.chargeResume(in) || !h.waitForRetry():
			return nil
		}
	}
}

// chargeResume counts a resume whose session is not known on its principal's account, or refuses
// it.
func (h *heldResume) chargeResume(in *Input) bool {
	for h.from == nil || h.from.Dropped() {
		h.releaseCharge()
		h.from = h.n.accounts.Of(in.Tenant, in.Address)
		if gets := h.from.Held[heldGets].Add(1); quota.ExceedsLimit(gets+h.from.Held[heldStreams].Load(), h.n.accounts.limits.Principal.Streams) {
			h.n.refusals.refuseRequest(h, refusal.Of(limits.StreamsPerPrincipal.Row), nil)
			return false
		}
	}
	return true
}

func (h *heldResume) releaseCharge() {
	if h.from != nil {
		h.from.Held[heldGets].Add(-1)
		h.from = nil
	}
}

// Reject refuses the resume, or cuts its connection if that is open.
func (h *heldResume) Reject(no *refusal.Refusal) {
	if h.open {
		h.Conn.Cut()
		return
	}
	h.Conn.Reject(no)
}

// refuseEventID refuses the event id that the resume came with.
func (h *heldResume) refuseEventID() {
	h.n.refusals.Refused(limits.ReplayAge.Row)
	refusal.EventID.Tell(h, nil)
}

func newHeldResume(n *resumes, svc *Service, conn Conn) *heldResume {
	return &heldResume{Conn: conn, n: n, svc: svc, since: time.Now(), until: time.Now().Add(svc.Limits.ResumeWait), gone: make(chan struct{})}
}

// takeResume takes a GET that resumes a stream.
func (d *resumes) takeResume(svc *Service, in *Input, principal any) {
	h := newHeldResume(d, svc, in.Conn)
	h.caller = principal
	own := *in
	own.Conn = h
	pos, good := stream.ParsePosition(in.LastEventID)
	find := h.findSession
	if !good { // a malformed id is not worth a wait for the store
		find = func(in *Input) *sessionActor { return d.sessions.findSession(svc, in, nil) }
	} else {
		if hasFeature(in.Version, protocol.FeatureStreamPriming) {
			h.at = in.LastEventID
		}
		d.replaying.Add(1)
		defer d.replaying.Add(-1)
	}
	s := d.sessions.findToStay(&own, find)
	if s == nil {
		return
	}
	defer s.endStay()
	done, ok := d.accounts.admitStream(&s.sessionAccount, &svc.Limits, &own)
	if !ok {
		return
	}
	defer done()
	if !good {
		h.refuseEventID()
		return
	}
	d.begun.Add(1)
	d.resumeStream(s, h, pos)
}
