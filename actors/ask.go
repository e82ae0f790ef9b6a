package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
)

// takeAnswer takes a client's answer. An error means that the answer was not taken and may be sent
// again.
func (q *answers) takeOfSession(s *sessionActor, m *codec.Message) error {
	for end := time.Now().Add(s.svc.Limits.StoreWait); ; {
		err := q.offerAnswer(s, m)
		if !errors.Is(err, kernel.ErrStopped) || time.Now().After(end) {
			return err
		}
		// The stream that would store the answer has stopped: its call was cancelled, and is about
		// to withdraw the question.
		time.Sleep(withdrawalWait)
	}
}

// offerAnswer tries to take a client's answer, once.
func (q *answers) offerAnswer(s *sessionActor, m *codec.Message) error {
	if open, err := q.pending.giveAnswer(s.key, m); open {
		return err
	}
	// A stream that cannot be read is no reason to drop the answer, unless the stream does not
	// exist.
	w, forwarded, err := q.routeAnswer(s.svc, s, m)
	if forwarded || err != nil && !errors.Is(err, errBadEvent) && !errors.Is(err, ErrSessionEnded) {
		return err
	}
	open, err := q.pending.giveAnswer(s.key, m)
	if !open && w != nil && w.Stopped() { // the call may have been left to another process before its question was open
		return w.givenUp()
	}
	return err
}

// receiveAnswer takes a client's answer that came to another node.
func (q *answers) receiveAnswer(l *store.Letter) {
	var a answerLetter
	if !q.fleet.readLetter(l, &a) {
		return
	}
	m := &codec.Message{Kind: codec.Result, ID: a.ID, Result: a.Result, Err: a.Err}
	if len(a.Err) > 0 {
		m.Kind = codec.ErrorResponse
	}
	q.fleet.runAside(l, func() {
		there := a.Stream.ID == ""
		w, here := q.streams.Current(a.Stream) // a takeover enters the questions before its stream is found
		open, err := q.pending.giveAnswer(a.Stream.Session, m)
		if err == nil && !open && here && !w.Stopped() {
			ctx, cancel := context.WithTimeout(q.base, w.svc.Limits.StoreWait)
			there, err = q.streams.stillWrites(ctx, w)
			cancel()
		}
		switch {
		case err != nil:
			replyTo(l, tryAgain, nil)
		case !open && !there:
			replyTo(l, notHere, nil)
		default: // taken, or nobody needs it any more
			replyTo(l, done, nil)
		}
	})
}

// answers takes clients' answers to where their questions are.
type answers struct {
	*site
	pending   *pendingRequests
	sessions  *sessions
	streams   *streams
	takeovers *takeovers
}

// letterAnswer brings a client's answer.
const letterAnswer = "answer"

// answerLetter is a client's answer on its way to what asked.
type answerLetter struct {
	Stream StreamKey // ID is "" for a question that does not outlive its process
	ID     json.RawMessage
	Result json.RawMessage `json:",omitempty"`
	Err    json.RawMessage `json:",omitempty"`
}

// withdrawalWait is the pause before an answer is tried again whose call has just ended.
const withdrawalWait = 5 * time.Millisecond

// routeAnswer takes an answer to where its question is. It takes over the stream that carried the
// question, if no process writes it, so that the call runs again and can get its answer: w is its
// writer then. forwarded says that another node has taken the answer, or could not.
func (q *answers) routeAnswer(svc *Service, s *sessionActor, m *codec.Message) (w *streamActor, forwarded bool, err error) {
	ctx, cancel := context.WithTimeout(q.base, svc.Limits.StoreWait)
	defer cancel()
	key := StreamKey{s.key, askedOn(m.ID)}
	if key.ID == "" {
		forwarded, err = q.forwardAnswer(ctx, s, key, askedBy(m.ID), m)
		return nil, forwarded, err
	}
	if w, here := q.streams.Get(key); here && !w.Stopped() { // nobody asks any more, unless another node has the stream
		ours, err := q.streams.stillWrites(ctx, w)
		if !ours {
			err = cmp.Or(err, store.ErrUnavailable)
		}
		return nil, !ours, err
	}
	steady := q.fleet.knowsOthers()
	lost := false
	for given := (takeover.Writer{}); ; {
		w, _, err := q.takeovers.findWriter(ctx, svc, s, key, given)
		if errors.Is(err, store.ErrFenced) && !lost { // another node has just taken the stream over, perhaps for the same answer
			lost = true
			continue
		}
		remote, ok := errors.AsType[errRemoteWriter](err)
		if !ok {
			forwarded, err = q.routeToAsker(ctx, s, key, m, steady, err)
			return w, forwarded, err
		}
		if forwarded, err = q.forwardAnswer(ctx, s, key, remote.nodeAddress(), m); forwarded {
			return nil, true, err
		}
		given = remote.Writer
	}
}

// routeToAsker is routeAnswer for an answer whose stream the store does not have, which err says.
// Who asked may have been cut off for longer than records live, and be about to store it again:
// then it gets the answer. If it is gone, that is noted, so that its calls end if it comes back
// after all, and nobody needs the answer: unless another node has taken the stream over since and
// has been away as this one was, so that nothing is concluded before this one is steady, as it must
// have been when it looked. Otherwise the client must send it again. A node that was never heard is
// not looked up: a client may name any, and a steady node has heard those that live.
func (q *answers) routeToAsker(ctx context.Context, s *sessionActor, key StreamKey, m *codec.Message, steady bool, err error) (forwarded bool, _ error) {
	if !errors.Is(err, errBadEvent) {
		return false, err
	}
	f, asker := &q.fleet, askedBy(m.ID)
	forwarded, asked := q.forwardAnswer(ctx, s, key, asker, m)
	if forwarded && asked != nil {
		forwarded = f.mail.Heard(asker)
	}
	if forwarded && asked != nil {
		// To a node that was cut off when it ended letters take all of their time for minutes: the servers believe that it listens.
		ctx, cancel := context.WithTimeout(q.base, s.svc.Limits.StoreWait)
		defer cancel()
		gone, failed := f.mail.Gone(ctx, asker)
		if gone && failed == nil {
			failed = f.marks.markGone(ctx, q.store, asker.Boot, s.svc.callLifetime())
		}
		forwarded = !gone || failed != nil
	}
	switch {
	case forwarded:
		return true, asked
	case !steady || !f.knowsOthers():
		return true, errMayReturn
	}
	return false, err
}

// forwardAnswer has another node take an answer. forwarded is false if that node does not have what
// asked.
func (q *answers) forwardAnswer(ctx context.Context, s *sessionActor, key StreamKey, to store.Address, m *codec.Message) (forwarded bool, err error) {
	f := &q.fleet
	if f.mail == nil || to.Node == "" || to.Boot == q.boot {
		return false, nil
	}
	err = f.deliverLetter(ctx, s.key, s, to, letterAnswer, answerLetter{key, m.ID, m.Result, m.Err})
	switch {
	case errors.Is(err, errNotHere):
		return false, nil
	case errors.Is(err, store.ErrNobody) && key.ID == "":
		if f.knowsOthers() && !f.mail.Heard(to) { // as in routeToAsker
			return false, nil
		}
		if gone, err := f.mail.Gone(ctx, to); gone && err == nil {
			return false, nil // and so is what asked
		}
	}
	return true, err
}

// takeAnswer takes an answer that a client POSTs. If no question waits for it, or the question has
// an answer, it is accepted and dropped.
func (q *answers) takeAnswer(svc *Service, in *Input, m *codec.Message) {
	s := q.sessions.findSession(svc, in, nil)
	if s == nil {
		return
	}
	if err := q.takeOfSession(s, m); err != nil {
		q.log.Warn("answer not taken", "session", s.key.ID, "error", err)
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	s.acceptMessage(in.Conn)
}

// askedOn is the stream that the raw id of a question names, "" if none.
func askedOn(id []byte) string {
	_, tail, _ := strings.Cut(strings.Trim(string(id), `"`), "-")
	for ; tail != "" && !stream.ValidID(tail); _, tail, _ = strings.Cut(tail, "-") {
	}
	return tail
}

// askedBy is the node that the raw id of a question names.
func askedBy(id []byte) (a store.Address) {
	rest := strings.Trim(string(id), `"`)
	if node, rest, ok := strings.Cut(rest, "."); ok {
		a.Node = node
		a.Boot, _, _ = strings.Cut(rest, ".")
	}
	return a
}
