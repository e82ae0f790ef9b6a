package actors

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// errBadEvent stands for every event id that cannot be resumed from; the client
// is told no more than that.
var errBadEvent = errors.New("actors: bad event id")

// readAhead is how many appends a resume reads at a time.
const readAhead = 250

// Get opens the session's standalone stream, or resumes any of its streams.
func (n *Node) Get(svc *Service, in *Input) {
	if n.draining.Load() {
		n.unavailable(in.Conn, nil)
		return
	}
	s := n.of(svc, in, nil)
	if s == nil {
		return
	}
	done, ok := n.admitStream(svc, s, in)
	if !ok {
		return
	}
	defer done()
	if in.LastEventID == "" {
		n.listen(svc, s, in)
		return
	}
	pos, ok := stream.ParsePosition(in.LastEventID)
	if !ok {
		n.badEvent(in.Conn)
		return
	}
	n.resumes.Add(1)
	n.resume(svc, s, in.Conn, pos)
}

func (n *Node) badEvent(c Conn) {
	n.refusals.count(Replay)
	info, _ := mcp.LookupError(mcp.CodeBadEventID)
	c.Reject(400, mcp.CodeBadEventID, info.Message, nil, nil, 0)
}

// resume goes on with a stream after pos: what the log has, then live.
func (n *Node) resume(svc *Service, s *sessionActor, conn Conn, pos stream.Position) {
	key := StreamKey{s.key, pos.Stream}
	until := time.Now().Add(svc.Limits.ResumeWait)
	held, gone := false, make(chan struct{})
	for {
		// What the store may take is bounded there; this bounds a slow reader.
		ctx, cancel := context.WithTimeout(n.base, svc.Limits.ResumeWait)
		r := &replay{n: n, svc: svc, s: s, key: key, pos: pos, conn: conn, opened: held}
		err := r.run(ctx)
		cancel()
		switch {
		case err == nil:
			if s.view.Load().rec.Standalone == key.ID && s.away.Swap(false) {
				svc.Handler.Opened(s.peer, true)
			}
			return
		case errors.Is(err, errBadEvent) && !r.opened:
			n.badEvent(conn)
			return
		case errors.Is(err, ErrUnavailable) && r.att == nil && time.Now().Before(until):
			// A resume is never refused for the store: popular clients give up
			// after two attempts.
			if !held {
				if held = conn.Open(); !held {
					return
				}
				conn.Gone(func() { close(gone) })
			}
			conn.Comment()
			conn.Flush()
			select {
			case <-time.After(time.Second):
			case <-gone:
				return
			case <-svc.life.done:
				conn.Cut()
				return
			case <-n.base.Done():
				conn.Cut()
				return
			}
		default:
			n.log.Info("resume ended", "stream", key.ID, "error", err)
			if !r.opened {
				n.unavailable(conn, nil)
			}
			conn.Cut()
			return
		}
	}
}

// replay brings one connection from a position to the live tail.
type replay struct {
	n      *Node
	svc    *Service
	s      *sessionActor
	key    StreamKey
	pos    stream.Position
	conn   Conn
	opened bool
	att    *attachment
	reader stream.Reader
	whole  bool // the event id names the last part of an event, of which nothing is left to send
}

func (r *replay) run(ctx context.Context) error {
	w, rec, err := r.n.find(ctx, r.svc, r.s, r.key)
	if err != nil {
		return err
	}
	tail, count := uint64(0), 0
	if w != nil {
		m := &attach{}
		if tail, count, err = m.ask(w); err != nil {
			if w, rec, err = r.n.find(ctx, r.svc, r.s, r.key); err != nil {
				return err
			}
		}
	}
	if w == nil {
		return r.ended(ctx, rec)
	}
	first, err := r.check(ctx, tail, count)
	if err != nil {
		return err
	}
	r.att = r.attachment(rec, first)
	if err := r.open(); err != nil {
		return err
	}
	m := &attach{att: r.att, sess: r.s}
	upTo, _, err := m.ask(w)
	if err != nil {
		// The stream has ended in between, so that the log has all of it.
		if err := r.write(ctx, first); err != nil {
			return err
		}
		return r.rest(ctx, r.att.position(), toEnd)
	}
	if err := r.write(ctx, first); err != nil {
		return err
	}
	for {
		if err := r.rest(ctx, r.att.position(), upTo); err != nil {
			return err
		}
		if !r.att.catchUp() {
			return nil
		}
		m := &attach{}
		if upTo, _, err = m.ask(w); err != nil {
			upTo = toEnd
		}
	}
}

// ask posts m to a stream and returns the writer's tail.
func (m *attach) ask(w *streamActor) (uint64, int, error) {
	m.init()
	if err := w.post(m); err != nil {
		return 0, 0, err
	}
	m.wait()
	return m.tail, m.n, m.err
}

// check reads the beginning of what is to be replayed, and judges the event id.
func (r *replay) check(ctx context.Context, tail uint64, count int) ([]stream.Append, error) {
	if r.pos.Append > tail {
		return nil, errBadEvent
	}
	first, err := r.read(ctx, max(r.pos.Append, 1), min(tail, r.pos.Append+readAhead))
	if err != nil {
		return nil, err
	}
	if r.pos.Append == 0 {
		return first, nil
	}
	if r.whole && r.pos.Entry == 0 {
		// The event came in parts, of which its id names the last.
		return first, nil
	}
	if len(first) > 0 && first[0].Num == r.pos.Append {
		if r.pos.Entry >= len(first[0].Entries) || !first[0].Entries[r.pos.Entry].Kind.Visible() {
			return nil, errBadEvent
		}
		return first, nil
	}
	// The event itself may be gone when nothing came after it.
	if r.pos.Append == tail && (count == 0 || r.pos.Entry < count) {
		return nil, nil
	}
	return nil, errBadEvent
}

// attachment is the reading side from where first, the beginning of what is to
// be replayed, leaves off. When the client's event itself has expired, nothing
// has come after it, and what comes next is for the client.
func (r *replay) attachment(rec streamRecord, first []stream.Append) *attachment {
	att := r.n.newAttachment(r.svc, r.s, r.key, rec.Revision, r.conn, r.pos)
	if r.whole || len(first) == 0 && r.pos.Append > 0 {
		att.next, att.skip = r.pos.Append+1, 0
	}
	return att
}

// read returns the appends from..to, of which none may be missing. The append of
// the event id itself is the exception.
func (r *replay) read(ctx context.Context, from, to uint64) ([]stream.Append, error) {
	if from > to {
		return nil, nil
	}
	var all []stream.Append
	var fault error
	next := from
	err := r.n.store.Read(ctx, r.key.path(), from, to, func(num uint64, data []byte) {
		if num != next || len(data) == 0 {
			if num == next || !(next == r.pos.Append && num == next+1) {
				fault = errBadEvent
			}
		}
		next = num + 1
		if num == r.pos.Append && stream.Rest(data) {
			r.whole = true
		}
		a, ok, err := r.reader.Add(num, data)
		if err != nil {
			fault = err
		}
		if ok {
			all = append(all, a)
		}
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("actors: replay: %w", err)
	case fault != nil:
		return nil, fault
	case next <= to && !(from == to && from == r.pos.Append):
		return nil, errBadEvent
	}
	return all, nil
}

// open sends headers unless an earlier attempt has.
func (r *replay) open() error {
	if !r.opened {
		if !r.att.open(false) {
			return errGone
		}
		r.opened = true
		return nil
	}
	r.att.watch()
	return nil
}

var errGone = errors.New("actors: the connection is gone")

// replayBurst is how many bytes a replay writes before it waits for its reader.
const replayBurst = 128 << 10

// write sends appends no faster than the client reads them, and returns when
// there is room for what follows.
func (r *replay) write(ctx context.Context, appends []stream.Append) error {
	burst := 0
	for _, a := range appends {
		f := frame{entries: a.Entries}
		if burst += f.size(); burst > replayBurst {
			if err := r.room(ctx); err != nil {
				return err
			}
			burst = f.size()
		}
		r.att.replayed(a)
		if a.Last {
			return nil // which ended the response
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

// rest replays from append from to append to.
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
		appends, err := r.read(ctx, from, end)
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

// ended replays a stream that nobody writes any more.
func (r *replay) ended(ctx context.Context, rec streamRecord) error {
	tail := rec.Tail
	if !rec.ended {
		var err error
		if tail, err = r.n.store.Tail(ctx, r.key.path(), tail); err != nil {
			return err
		}
	}
	first, err := r.check(ctx, tail, 0)
	if err != nil {
		return err
	}
	r.att = r.attachment(rec, first)
	if !r.opened && r.over(first, tail) {
		// This is how a server tells an EventSource not to come back. A popular client
		// that got an empty stream would open another in its place, and without an
		// event id, so that it replaces the client's own standalone stream.
		r.conn.Answer(204, nil)
		return nil
	}
	if err := r.open(); err != nil {
		return err
	}
	if err := r.write(ctx, first); err != nil {
		return err
	}
	if next := r.att.position(); next <= tail {
		if err := r.rest(ctx, next, tail); err != nil {
			return err
		}
	}
	r.att.finish()
	return nil
}

// over reports whether the client has all of a stream that ended with append tail;
// first is what the log has from the client's event on.
func (r *replay) over(first []stream.Append, tail uint64) bool {
	if tail > r.pos.Append+readAhead {
		return false // first may not be all
	}
	for _, a := range first {
		for i := range a.Entries {
			if a.Entries[i].Kind.Visible() && (a.Num > r.att.next || a.Num == r.att.next && i >= r.att.skip) {
				return false
			}
		}
	}
	return true
}
