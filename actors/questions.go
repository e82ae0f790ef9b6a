package actors

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// question is a request to the client that waits for its answer.
type question struct {
	id      string // raw token
	session SessionKey
	from    *quota.Account // that it counts on, nil for a ping of the node's own
	journal *streamActor   // where the answer is record.Method first, nil if it need not be
	taking  *taking        // the answer that is being record.Method or has been, nil while there is none
	ch      chan Answer
}

// questions are the open questions of this node by their raw id.
type questions struct {
	node   *Node
	mu     sync.Mutex // guards the rest
	open   map[string]*question
	counts map[SessionKey]int
	pings  int // of the node's own among the open ones
	n      uint64
}

func appendUint(b []byte, i uint64) []byte { return strconv.AppendUint(b, i, 10) }

// of enters a new question to the client of s. Its id names the stream on that it is sent,
// so that an answer finds the call even where nobody has resumed that since the node
// started; nil is a question that does not outlive the process. Where the call may run
// again the answer is record.Method on the stream before the handler sees it.
func (q *questions) of(s *sessionActor, on *streamActor) (*question, error) {
	n := q.node
	q.mu.Lock()
	defer q.mu.Unlock()
	a := s.billed()
	if no := s.admitQuestion(a, q.counts[s.key]); no != admitted {
		n.refusals.count(no)
		return nil, ErrParked
	}
	q.n++
	x := &question{session: s.key, from: a, ch: make(chan Answer, 1)}
	if on == nil {
		x.id = q.id(q.n, "")
	} else {
		x.id = q.id(q.n, on.key.ID)
		if on.rec.Safe {
			x.journal = on
		}
	}
	q.enter(x)
	return x, nil
}

// enter makes x open. The caller holds mu.
func (q *questions) enter(x *question) {
	if q.counts == nil {
		q.counts = make(map[SessionKey]int)
	}
	if old := q.open[x.id]; old != nil { // of a run that was lost, and has not noticed yet
		q.remove(old)
	}
	q.open[x.id] = x
	q.counts[x.session]++
	x.from.Held[heldParked].Add(1)
}

// reopen enters what an earlier run of the call on stream w asked and nobody has
// answered. It comes before a client can resume the stream: one that does may
// answer at once, and the handler may take long to get to where it asks.
func (q *questions) reopen(w *streamActor, from *quota.Account, j *journal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, past := range j.asked {
		if past.Answer == nil {
			past.open = &question{id: past.ID, session: w.key.Session, from: from, journal: w, ch: make(chan Answer, 1)}
			q.enter(past.open)
		}
	}
}

// end closes what reopen has entered and the run that has ended did not ask.
func (q *questions) end(j *journal) {
	for _, past := range j.asked {
		if x := past.open; x != nil {
			q.take(x)
		}
	}
}

// take removes a question; it reports whether it was still open.
func (q *questions) take(x *question) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[x.id] != x {
		return false
	}
	q.remove(x)
	return true
}

// remove closes x. The caller holds mu.
func (q *questions) remove(x *question) {
	delete(q.open, x.id)
	if x.from == nil {
		q.pings--
		return
	}
	x.from.Held[heldParked].Add(-1)
	if q.counts[x.session]--; q.counts[x.session] <= 0 {
		delete(q.counts, x.session)
	}
}

// find returns the open question with that id, if it was put to that session.
func (q *questions) find(s SessionKey, id string) (x *question, journal *streamActor, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x, ok = q.open[id]; !ok || x.session != s {
		return nil, nil, false
	}
	return x, x.journal, true
}

func (q *questions) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) - q.pings
}

// answer takes a response POSTed by a client. One that nobody waits for, or
// that another has answered, is accepted and dropped.
func (q *questions) answer(svc *Service, in *Input, m *codec.Message) {
	n := q.node
	s := n.sessions.of(svc, in, nil)
	if s == nil {
		return
	}
	if err := s.answered(m); err != nil {
		n.log.Warn("answer not taken", "session", s.key.ID, "error", err)
		n.refusals.unavailable(in.Conn, nil)
		return
	}
	in.Conn.Accepted()
}

// answered takes a client's response. An error means that it was not taken and may
// be sent again.
func (s *sessionActor) answered(m *codec.Message) error {
	n := s.node
	x, journal, ok := n.questions.find(s.key, string(m.ID))
	if !ok {
		// Whatever keeps the stream from being read is no reason to drop the answer, unless
		// there is no such stream.
		if err := n.questions.reach(s.svc, s, m.ID); err != nil && !errors.Is(err, errBadEvent) && !errors.Is(err, ErrSessionEnded) {
			return err
		}
		if x, journal, ok = n.questions.find(s.key, string(m.ID)); !ok {
			return nil
		}
	}
	return n.questions.takeAnswer(s.svc, x, journal, m)
}

// reach takes over the stream that a question was sent on, if no process has it,
// so that the call runs again and can be answered.
func (q *questions) reach(svc *Service, s *sessionActor, id []byte) error {
	n := q.node
	key := StreamKey{s.key, askedOn(id)}
	if key.ID == "" || s.link != nil {
		return nil
	}
	if _, here := n.streams.Get(key); here {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	_, _, err := n.streams.find(ctx, svc, s, key)
	return err
}

// askedOn is the stream that the raw id of a question names, "" if none.
func askedOn(id []byte) string {
	_, tail, _ := strings.Cut(strings.Trim(string(id), `"`), "-")
	for ; tail != "" && !stream.ValidID(tail); _, tail, _ = strings.Cut(tail, "-") {
	}
	return tail
}

func wireError(raw []byte) *mcp.Error {
	e := &mcp.Error{Data: bytes.Clone(codec.Optional(raw, "data"))}
	e.Code, _ = strconv.Atoi(string(codec.Field(raw, "code")))
	e.Message, _ = codec.Str(codec.Field(raw, "message"))
	return e
}

// id is the raw id of the i-th request that the node sends, on the given stream.
func (q *questions) id(i uint64, stream string) string {
	var b strings.Builder
	b.WriteByte('"')
	b.WriteString(q.node.name)
	b.WriteByte('.')
	b.WriteString(q.node.boot)
	b.WriteByte('.')
	b.Write(appendUint(nil, i))
	if stream != "" {
		b.WriteByte('-')
		b.WriteString(stream)
	}
	b.WriteByte('"')
	return b.String()
}
