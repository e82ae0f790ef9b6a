package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/takeover"
)

var lostData = []byte("lost")

// client makes one call, and comes back for its response until it has that.
type client struct {
	w     *world
	n     int
	id    string // of the stream
	safe  bool
	steps []step
	begin time.Duration

	conn     *conn
	posted   bool
	ids      []seenID // events, in the order in which they were first seen
	last     string
	end      string // how it ended, "" if it has not
	answered map[string]bool
}

type seenID struct {
	id    string
	index int // which event of the call it is; -1 is the priming one
}

// step is one event that the call's handler sends.
type step struct {
	wait time.Duration
	ask  bool
	size int
	sync bool // it waits until the event is stored
}

// conn is one connection of a client to a node.
type conn struct {
	c      *client
	n      *node
	next   int // the event that must come next
	opened bool
	over   bool
	left   bool // the client has closed it
	gone   []func()
}

func (c *client) connect(n *node, next int) *conn {
	k := &conn{c: c, n: n, next: next}
	c.conn = k
	w := c.w
	w.after(w.span(10*time.Second, 60*time.Second), func() { // nothing, or too much, for too long
		if c.conn == k {
			c.leave()
		}
	})
	return k
}

const wire = time.Millisecond

func (k *conn) Open() bool { k.opened = k.opened || !k.over; return !k.over }
func (k *conn) Comment()   {}
func (k *conn) Flush()     {}
func (k *conn) Finish()    { k.close() }
func (k *conn) Cut()       { k.close() }
func (k *conn) Gone(f func()) {
	k.gone = append(k.gone, f)
	if k.over {
		k.closed()
	}
}
func (k *conn) reject(code int) { k.told(func() { k.c.refused(code) }); k.close() }
func (k *conn) nothingMore()    { k.told(k.c.over); k.close() }

func (k *conn) Event(id string, _ int, data []byte) {
	if !k.over {
		data = append([]byte(nil), data...)
		k.told(func() { k.c.got(k, id, data) })
	}
}

// told has the client learn something, unless it has closed the connection by then.
func (k *conn) told(f func()) {
	k.c.w.after(wire, func() {
		if k.c.conn == k && !k.left {
			f()
		}
	})
}

func (k *conn) close() {
	if !k.over {
		k.told(k.c.leave)
		k.closed()
	}
}

func (k *conn) closed() {
	k.over = true
	for _, f := range k.gone {
		k.n.after(0, f)
	}
	k.gone = nil
}

// leave ends the connection of the client, which comes back.
func (c *client) leave() {
	k := c.conn
	if k == nil {
		return
	}
	c.conn, k.left = nil, true
	k.closed()
	if c.end == "" {
		c.w.after(c.w.span(20*time.Millisecond, 2*time.Second), c.come)
	}
}

func (c *client) hostGone(n *node) {
	if c.conn != nil && c.conn.n == n {
		c.leave()
	}
}

func (c *client) finish(how string) {
	if c.end == "" {
		c.w.note("client %d: %s", c.n, how)
		c.w.judge.count(how)
		c.end = how
	}
	c.leave()
}

// somebody is a node that takes requests, nil if there is none.
func (w *world) somebody() *node {
	from := w.rnd.IntN(len(w.nodes))
	for i := range w.nodes {
		if n := w.nodes[(from+i)%len(w.nodes)]; n.up && !n.dead && !n.draining && (i > 0 || !n.frozen || w.chance(500)) {
			return n
		}
	}
	return nil
}

// come posts the call, or resumes its stream.
func (c *client) come() {
	w := c.w
	n := w.somebody()
	switch {
	case c.end != "" || c.conn != nil:
	case c.posted && c.last == "":
		c.finish("forgotten") // it cannot come back
	case n == nil || !c.posted && !n.certain():
		w.after(time.Second, c.come)
	case !c.posted:
		c.posted = true
		k := c.connect(n, 0)
		w.after(wire, func() { n.run(func() { n.post(c, k) }) })
	default:
		from := c.ids[len(c.ids)-1]
		if w.chance(100) {
			from = c.ids[w.rnd.IntN(len(c.ids))]
		}
		pos, ok := stream.ParsePosition(from.id)
		if !ok {
			w.judge.fault("client %d: the id %s is not one", c.n, from.id)
			return
		}
		c.last = from.id
		w.note("client %d resumes after %s (event %d) on %s", c.n, short(from.id), from.index, n.boot)
		w.judge.count("resumes")
		k := c.connect(n, from.index+1)
		w.after(wire, func() { n.run(func() { n.resume(c.id, pos, k) }) })
	}
}

func short(id string) string {
	if i := strings.IndexByte(id, '.'); i > 4 {
		return id[:4] + id[i:]
	}
	return id
}

// got takes an event.
func (c *client) got(k *conn, id string, data []byte) {
	w := c.w
	w.mix(uint64(len(id)) + uint64(len(data)))
	if len(data) == 0 {
		if len(c.ids) == 0 {
			c.ids = append(c.ids, seenID{id, -1})
			c.last = id
		}
		return
	}
	index := w.judge.event(c, k, id, data)
	if len(c.ids) == 0 || c.ids[len(c.ids)-1].index < index {
		c.ids = append(c.ids, seenID{id, index})
	}
	k.next, c.last = index+1, id
	text := string(data)
	switch {
	case text == "lost":
		c.finish("calls lost")
	case index == len(c.steps):
		c.finish("responses")
	case c.steps[index].ask:
		if q := strings.Split(text, "|")[1]; !c.answered[q] {
			c.answered[q] = true
			w.after(w.span(10*time.Millisecond, 3*time.Second), func() { c.answer(q) })
		}
	}
	if c.end == "" && w.chance(w.plan.Cuts) {
		c.leave()
	}
}

// answer answers a question, until that is accepted.
func (c *client) answer(q string) {
	w := c.w
	n := w.somebody()
	if c.end != "" {
		return
	}
	over := false
	again := func() {
		if !over {
			over = true
			w.after(w.span(500*time.Millisecond, 2*time.Second), func() { c.answer(q) })
		}
	}
	w.after(20*time.Second, again)
	if n == nil {
		return
	}
	w.serial++
	text := `"` + strconv.FormatUint(w.serial, 10) + `"`
	w.after(wire, func() {
		n.run(func() {
			n.answer(c.id, q, text, func(ok bool) {
				if !ok {
					again()
				}
				over = true
			})
		})
	})
}

func (c *client) refused(code int) {
	c.w.note("client %d is refused: %d", c.n, code)
	switch {
	case code == 400:
		c.w.judge.refused(c)
		c.finish("bad event ids")
	case c.last == "":
		c.finish("refused")
	}
}

// over takes 204: the client has everything.
func (c *client) over() {
	if c.end == "" {
		c.w.judge.nothingMore(c)
		c.finish("nothing more")
	}
}

// post begins a call.
func (n *node) post(c *client, k *conn) {
	w := n.w
	if n.draining || !n.certain() {
		k.reject(503)
		return
	}
	rec := record.Stream{Version: record.Version, Node: n.name, Boot: n.boot, Epoch: 1, Attempt: 1, Safe: c.safe, Calls: []record.Call{{ID: json.RawMessage(strconv.Itoa(c.n))}}}
	s := &writer{n: n, id: c.id, m: stream.New(w.limits()), live: rec, life: takeover.Began(n.skew())}
	s.run = newRun(s, c, &s.past)
	n.streams[c.id] = s
	var rev uint64
	n.op(func(st *store) (err error) { rev, err = st.open(c.id, rec, c.safe); return err }, func(err error) {
		if err != nil || s.stopped {
			k.reject(503)
			s.remove()
			return
		}
		s.opened = true
		s.life.Stored(n.skew())
		s.renewed()
		w.judge.opened(c)
		att := n.attach(c.id, k, stream.Position{Stream: c.id}, 1, 0, true, nil)
		if att.Open(true) {
			s.attach(att)
			k.Gone(func() {
				if s.att == reader(att) {
					s.att = nil
				}
			})
		}
		s.step(stream.Event{Op: stream.Opened, Rev: rev, Epoch: 1})
		w.judge.runs(s.run)
		s.run.next()
		if n.draining {
			s.handOver()
		}
	})
}

// run is one run of a handler.
type run struct {
	s      *writer
	call   *client
	i      int // the step that is next
	number int // messages sent or passed over
	sent   record.Sent
	asked  []*question
	uses   int
	over   bool
}

// question is one that a run, or the one before it, has asked.
type question struct {
	record.Question
	pushing bool
	waits   bool // the handler waits for the answer
}

func newRun(s *writer, c *client, past *record.Past) *run {
	r := &run{s: s, call: c, sent: past.Sents.Of(0)}
	for _, q := range past.Digest.Questions {
		r.asked = append(r.asked, &question{Question: q})
	}
	return r
}

func (r *run) end() { r.over = true }

// next does the next step of the handler.
func (r *run) next() {
	if r.over {
		return
	}
	if r.i == len(r.call.steps) {
		var answers []string
		for _, q := range r.asked {
			answers = append(answers, string(q.Answer))
		}
		r.s.push(stream.Entry{Kind: stream.Final, Meta: r.s.live.Calls[0].ID, Data: fmt.Appendf(nil, "%d|%d|%s", r.call.n, r.i, strings.Join(answers, ","))}, true)
		r.over = true
		return
	}
	r.s.n.after(r.call.steps[r.i].wait, r.do)
}

func (r *run) do() {
	if r.over {
		return
	}
	st := r.call.steps[r.i]
	data := fmt.Appendf(nil, "%d|%d|", r.call.n, r.i)
	for len(data) < st.size {
		data = append(data, '.')
	}
	goOn := func() { r.i++; r.next() }
	if st.ask {
		r.ask()
		return
	}
	if r.number++; r.number <= r.sent.Messages {
		r.s.n.w.judge.count("messages passed over")
		goOn()
		return
	}
	e := stream.Entry{Kind: stream.Message, Meta: binary.AppendUvarint(nil, uint64(r.number)), Data: data}
	if st.sync {
		e.Acked = func(err error) {
			if err == nil {
				r.s.n.run(goOn)
			}
		}
		r.s.push(e, false)
		return
	}
	r.s.push(e, false)
	goOn()
}

func (r *run) ask() {
	r.uses++
	for _, q := range r.asked {
		if q.Use == r.uses {
			r.s.n.w.judge.count("questions found again")
			if q.waits = true; q.Answer != nil {
				r.take(q)
			}
			return
		}
	}
	w := r.s.n.w
	w.serial++
	q := &question{Question: record.Question{ID: `"` + strconv.FormatUint(w.serial, 10) + `"`, Key: "k", Use: r.uses}, waits: true}
	r.asked = append(r.asked, q)
	r.s.push(stream.Entry{Kind: stream.Request, Meta: record.AppendAsked(q.Question), Data: fmt.Appendf(nil, "%d|%s|%d", r.call.n, q.ID, r.i)}, false)
}

// take has the handler go on with an answer.
func (r *run) take(q *question) {
	q.waits = false
	r.s.n.w.judge.takes(r.call, q.Use, string(q.Answer))
	r.i++
	r.next()
}

// answer takes the answer to a question, and stores it before anybody learns of it.
func (r *run) answer(id, text string, f func(ok bool)) {
	for _, q := range r.asked {
		switch {
		case q.ID != id:
		case q.Answer != nil:
			f(true)
			return
		case q.pushing || r.over:
			f(false)
			return
		default:
			q.pushing = true
			r.s.push(stream.Entry{Kind: stream.Answer, Meta: []byte(id), Data: []byte("r" + text), Acked: func(err error) {
				if q.pushing = false; err != nil {
					f(false)
					return
				}
				q.Answer = json.RawMessage(text)
				f(true)
				if q.waits {
					r.take(q)
				}
			}}, false)
			return
		}
	}
	f(r.over && !r.s.stopped)
}

// answer brings an answer to the run that has asked, wherever that is.
func (n *node) answer(id, q, text string, f func(ok bool)) {
	here := func(s *writer) { s.run.answer(q, text, f) }
	take := func(given takeover.Writer) {
		n.take(id, given, func(s *writer, m *takeover.Machine, err error) {
			switch {
			case s != nil:
				here(s)
			case err == nil && m != nil && m.Next() == takeover.Ended, errors.Is(err, errMissing):
				f(true)
			default:
				f(false)
			}
		})
	}
	if s := n.streams[id]; s != nil && !s.stopped {
		here(s)
		return
	}
	n.writerRecord(id, func(rec record.Stream, _ uint64, err error) {
		by := takeover.WriterOf(&rec)
		switch {
		case errors.Is(err, errMissing):
			f(true)
		case err != nil:
			f(false)
		case !by.MustBeGone(n.boot, takeover.Writer{}):
			take(takeover.Writer{})
		default:
			n.gone(by, func(gone bool, err error) {
				switch {
				case err != nil:
					f(false)
				case gone:
					take(takeover.Writer{})
				default:
					n.ask(by.Node, by.Boot, func(to *node, reply func(error)) {
						to.current(id, func(s *writer) {
							if s == nil {
								reply(errNotHere)
								return
							}
							s.run.answer(q, text, func(ok bool) {
								if ok {
									reply(nil)
								} else {
									reply(errUnsure)
								}
							})
						})
					}, func(err error) {
						if errors.Is(err, errNotHere) {
							take(by)
							return
						}
						f(err == nil)
					})
				}
			})
		}
	})
}
