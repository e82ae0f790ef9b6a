package history

import (
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/internal/attachment"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/replay"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

const (
	readAhead = 250
	toEnd     = math.MaxUint64
)

var (
	errNotHere = errors.New("not on that node")
	errGone    = errors.New("the connection is gone")
)

// attached is one connection of a stream.
type attached = attachment.Attachment[string]

// held counts open connections, which no history is about.
var held atomic.Int64

func (n *node) attach(id string, c *conn, after stream.Position, next uint64, skip int, live bool, behind func()) *attached {
	return attachment.New(attachment.Config[string]{Among: &n.among, Key: id, Held: &held, Conn: c, Stream: id, After: after, Primes: true, Answers: true, Retry: time.Second, KeepAlive: time.Hour, Behind: behind}, next, skip, live)
}

// resumption brings one connection from an event to where it is live: what Node.Get does around the machines.
type resumption struct {
	n      *node
	id     string
	conn   *conn
	cursor replay.Cursor
	att    *attached
	far    bool
	given  takeover.Writer
	until  time.Duration
	x      *reading
	first  []stream.Append

	busy, more bool
}

// resume takes a client that comes back.
func (n *node) resume(id string, pos stream.Position, c *conn) {
	r := &resumption{n: n, id: id, conn: c, cursor: replay.Cursor{Pos: pos}, until: n.w.now + n.w.plan.ResumeWait, busy: true}
	r.follow()
}

// again reads on where the connection is no longer live.
func (r *resumption) again() {
	r.more = true
	r.n.after(0, r.begin)
}

func (r *resumption) begin() {
	if !r.more || r.busy {
		return
	}
	r.more = false
	if r.att == nil || r.att.Over() || r.conn.over {
		return
	}
	r.busy, r.until = true, r.n.w.now+r.n.w.plan.ResumeWait
	r.follow()
}

func (r *resumption) settle() {
	r.busy = false
	r.begin()
}

func (r *resumption) follow() { r.find() }

// end ends an attempt.
func (r *resumption) end(err error) {
	worth := err != nil && !errors.Is(err, replay.ErrBadEvent) && !errors.Is(err, errGone) && r.n.w.now < r.until
	switch {
	case err == nil, r.conn.over, r.att != nil && r.att.Over():
		r.settle()
	case r.att == nil && errors.Is(err, replay.ErrBadEvent) && !r.conn.opened:
		r.conn.reject(400)
	case worth:
		if r.att != nil {
			r.att.Detach()
		}
		r.n.after(r.n.w.span(500*time.Millisecond, 1500*time.Millisecond), func() {
			if r.conn.over {
				r.settle()
				return
			}
			r.follow()
		})
	default:
		if r.conn.opened {
			r.conn.Cut()
		} else {
			r.conn.reject(503)
		}
		r.settle()
	}
}

// find looks for the writer, and takes the stream over if that is gone.
func (r *resumption) find() {
	n := r.n
	if s := n.streams[r.id]; s != nil && !s.stopped {
		r.near(s)
		return
	}
	n.writerRecord(r.id, func(rec record.Stream, _ uint64, err error) {
		switch by := takeover.WriterOf(&rec); {
		case errors.Is(err, errMissing):
			r.end(replay.ErrBadEvent)
		case err != nil:
			r.end(err)
		case !by.MustBeGone(n.boot, r.given):
			r.judge(&rec)
		default:
			n.gone(by, func(gone bool, err error) {
				switch {
				case err != nil:
					r.end(err)
				case gone:
					r.judge(&rec)
				default:
					r.there(by)
				}
			})
		}
	})
}

// judge refuses an event id that cannot be resumed from, before a takeover runs its calls again or ends them.
func (r *resumption) judge(rec *record.Stream) {
	n := r.n
	take := func() {
		n.take(r.id, r.given, func(s *writer, m *takeover.Machine, err error) {
			switch {
			case errors.Is(err, errMissing):
				r.end(replay.ErrBadEvent)
			case err != nil:
				r.end(err)
			case s != nil:
				r.near(s)
			case m != nil && m.Next() == takeover.Ended:
				r.over(&m.Rec, m.Log.Tail)
			default:
				r.find()
			}
		})
	}
	if r.att != nil {
		take()
		return
	}
	marks := rec.Watermarks()
	var tail uint64
	n.op(func(st *store) error { tail = st.tail(r.id, rec.Tail); return nil }, func(err error) {
		if err != nil {
			r.end(err)
			return
		}
		probe := replay.Cursor{Pos: r.cursor.Pos}
		r.check(&probe, extent{tail, marks}, 1, func(_ []stream.Append, err error) {
			if err != nil {
				r.end(err)
				return
			}
			take()
		})
	})
}

// check judges the event id, and reads the beginning of the replay.
func (r *resumption) check(c *replay.Cursor, at extent, ahead uint64, f func([]stream.Append, error)) {
	if err := c.Begin(at.tail, at.marks); err != nil {
		f(nil, err)
		return
	}
	r.read(c, c.Next, min(at.tail, c.Next+ahead), func(first []stream.Append, err error) {
		if err == nil {
			err = c.Judge(first)
		}
		f(first, err)
	})
}

func (r *resumption) read(c *replay.Cursor, from, to uint64, f func([]stream.Append, error)) {
	if from > to {
		f(nil, nil)
		return
	}
	c.From(from)
	r.n.readLog(r.id, from, to, c.Add, func(err error) {
		if err != nil {
			f(nil, err)
			return
		}
		f(c.End(to))
	})
}

// holder is who writes the stream.
type holder struct {
	attach, look func(f func(extent, error))
	doubt        func(f func(error))
}

func (r *resumption) near(s *writer) {
	r.far = false
	look := func(f func(extent, error)) {
		if s.stopped {
			f(extent{}, errGone)
			return
		}
		f(s.attach(nil), nil)
	}
	r.serve(holder{
		look: look,
		attach: func(f func(extent, error)) {
			if s.stopped {
				f(extent{}, errGone)
				return
			}
			r.leave()
			f(s.attach(r.att), nil)
		},
		doubt: func(f func(error)) { // another node may have the stream
			r.n.writerRecord(r.id, func(rec record.Stream, _ uint64, err error) {
				switch {
				case errors.Is(err, errMissing), err == nil && rec.Boot == r.n.boot:
					f(replay.ErrBadEvent)
				case err != nil:
					f(err)
				default:
					s.refresh()
					f(errUnsure)
				}
			})
		},
	})
}

// there is the same for a stream that another node writes.
func (r *resumption) there(by takeover.Writer) {
	r.far = true
	lookAs := func(kind uint64, f func(extent, error)) {
		var at extent
		r.n.ask(by.Node, by.Boot, func(to *node, reply func(error)) {
			to.current(r.id, func(s *writer) {
				switch {
				case s == nil:
					reply(errNotHere)
					return
				case kind > 0:
					at = s.attach(to.addReader(r.n, kind, s))
				default:
					at = s.attach(nil)
				}
				reply(nil)
			})
		}, func(err error) { f(at, err) })
	}
	lost := func(err error) error {
		if errors.Is(err, errNotHere) {
			r.given = by
		}
		return err
	}
	h := holder{
		look: func(f func(extent, error)) { lookAs(0, func(at extent, err error) { f(at, lost(err)) }) },
		attach: func(f func(extent, error)) {
			x := r.reads(by) // first, as frames may come before the reply
			lookAs(x.id, func(at extent, err error) {
				if err != nil {
					x.drop()
				}
				f(at, lost(err))
			})
		},
		doubt: func(f func(error)) { f(replay.ErrBadEvent) },
	}
	if r.att != nil {
		r.serve(h)
		return
	}
	h.look(func(_ extent, err error) {
		switch {
		case errors.Is(err, errNotHere):
			r.find() // it may be taken over now
		case err != nil:
			r.end(err)
		default:
			r.serve(h)
		}
	})
}

// serve brings the connection to where it is live.
func (r *resumption) serve(h holder) {
	goOn := func() {
		h.attach(func(now extent, err error) {
			switch {
			case err != nil && r.far:
				r.end(err)
				return
			case err != nil: // the stream has ended meanwhile, so the log has all of it
				r.write(r.first)
				r.rest(r.att.Position(), toEnd, r.end)
				return
			}
			r.write(r.first)
			r.catchUp(h, now.tail)
		})
	}
	if r.att != nil {
		goOn()
		return
	}
	h.look(func(at extent, err error) {
		if err != nil {
			r.end(err)
			return
		}
		r.check(&r.cursor, at, readAhead, func(first []stream.Append, err error) {
			switch {
			case errors.Is(err, replay.ErrBadEvent):
				h.doubt(r.end)
				return
			case err != nil:
				r.end(err)
				return
			}
			r.first = first
			if r.open() {
				goOn()
			}
		})
	})
}

func (r *resumption) open() bool {
	r.att = r.n.attach(r.id, r.conn, r.cursor.Pos, r.cursor.Next, r.cursor.Skip, false, r.again)
	if !r.att.Open(false) {
		r.end(errGone)
		return false
	}
	r.conn.Gone(r.leave)
	return true
}

// catchUp reads the log up to where the writer is, until the connection is live.
func (r *resumption) catchUp(h holder, upTo uint64) {
	r.rest(r.att.Position(), upTo, func(err error) {
		if err != nil || !r.att.CatchUp() {
			r.end(err)
			return
		}
		h.look(func(now extent, err error) {
			switch {
			case err != nil && r.far:
				r.end(err)
			case err != nil:
				r.catchUp(h, toEnd)
			default:
				r.catchUp(h, now.tail)
			}
		})
	})
}

func (r *resumption) write(appends []stream.Append) {
	r.first = nil
	for _, a := range appends {
		r.att.Replayed(a)
	}
}

// rest replays the appends from..to.
func (r *resumption) rest(from, to uint64, f func(error)) {
	if from > to {
		f(nil)
		return
	}
	read := func(end uint64) {
		if end < from {
			f(errGone)
			return
		}
		r.read(&r.cursor, from, end, func(all []stream.Append, err error) {
			if err != nil {
				f(err)
				return
			}
			last := len(all) > 0 && all[len(all)-1].Last
			if r.write(all); last {
				f(nil)
				return
			}
			r.rest(end+1, to, f)
		})
	}
	if end := from + readAhead - 1; to != toEnd {
		read(min(end, to))
	} else {
		var tail uint64
		r.n.op(func(st *store) error { tail = st.tail(r.id, from-1); return nil }, func(err error) {
			if err != nil {
				f(err)
				return
			}
			read(min(end, tail))
		})
	}
}

// over replays a stream that has ended with append tail.
func (r *resumption) over(rec *record.Stream, tail uint64) {
	finish := func(err error) {
		if err == nil {
			r.att.Finish()
		}
		r.end(err)
	}
	if r.att != nil {
		r.rest(r.att.Position(), toEnd, r.end)
		return
	}
	r.check(&r.cursor, extent{tail, rec.Watermarks()}, readAhead, func(first []stream.Append, err error) {
		switch {
		case err != nil:
			r.end(err)
			return
		case !r.conn.opened && r.cursor.Over(first, tail):
			r.conn.nothingMore()
			return
		}
		if !r.open() {
			return
		}
		r.write(first)
		r.rest(r.att.Position(), tail, finish)
	})
}
