package actors

import (
	"bytes"
	"errors"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
)

// taking is an answer on its way into the log of the call that asked for it.
type taking struct {
	answer  Answer
	settled bool          // guarded by questions.mu, as what follows is until over is closed
	err     error         // nil if it is stored
	over    chan struct{} // closed when its fate is known
}

// takeAnswer gives x the answer that m is. Where the call may run again the answer is
// stored before the handler sees it, so that a second run finds it in the log. One
// answer at a time is taken: the first one stored is the handler's, and any other is
// dropped. One that comes while another is being stored waits for the fate of that: it
// is dropped only when there is nothing left that it could answer, and is taken itself
// when the other could not be stored. An error means that it was not taken; it is
// ErrUnavailable also when nobody knows yet.
func (q *questions) takeAnswer(svc *Service, x *question, journal *streamActor, m *codec.Message) error {
	a := Answer{Result: bytes.Clone(m.Result)}
	if m.Kind == codec.ErrorResponse {
		a = Answer{Err: wireError(m.Err)}
	}
	if journal == nil {
		if q.take(x) {
			x.ch <- a
		}
		return nil
	}
	patience := time.NewTimer(svc.Limits.StoreWait)
	defer patience.Stop()
	for {
		t, mine := q.claim(x, a)
		if t == nil {
			return nil
		}
		if mine {
			journal.journalAnswer(x, t, m)
		}
		select {
		case <-t.over:
		case <-patience.C:
			// What is being stored may still be: then the handler gets it, and who sends
			// the answer again is told that it has been taken.
			return ErrUnavailable
		}
		switch {
		case t.err == nil, errors.Is(t.err, stream.ErrEnded):
			return nil // stored, or the call was cancelled and is about to withdraw the question
		case mine:
			return t.err
		}
	}
}

// claim makes a the answer that is being taken for x, unless another one is: mine is
// false then. It returns nil when x needs no answer any more.
func (q *questions) claim(x *question, a Answer) (t *taking, mine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[x.id] != x:
		return nil, false
	case x.taking != nil:
		return x.taking, false
	}
	x.taking = &taking{answer: a, over: make(chan struct{})}
	return x.taking, true
}

// journalAnswer has the answer stored in the log of its call, and settles its fate when
// the log has, however long that takes.
func (s *streamActor) journalAnswer(x *question, t *taking, m *codec.Message) {
	data := append([]byte{'r'}, m.Result...)
	if m.Kind == codec.ErrorResponse {
		data = append([]byte{'e'}, m.Err...)
	}
	push := &pushEntries{entries: []stream.Entry{{
		Kind: stream.Answer, Meta: []byte(x.id), Data: data,
		Acked: func(err error) { s.node.questions.settle(x, t, err) },
	}}}
	if err := s.Post(push); err != nil {
		push.Refused(err)
	}
}

// settle ends t. An answer that is stored goes to the handler; after one that is not,
// another may be taken.
func (q *questions) settle(x *question, t *taking, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.settled {
		return
	}
	t.settled, t.err = true, err
	switch {
	case err != nil:
		x.taking = nil
	case q.open[x.id] == x:
		q.remove(x)
		x.ch <- t.answer // which has room for one, and gets no other
	}
	close(t.over)
}
