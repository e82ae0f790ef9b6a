package actors

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/actors/internal/takeover"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/mcp"
)

// pendingRequest is a question that was sent to a client and has no answer yet.
type pendingRequest struct {
	id        string // raw token
	session   SessionKey
	from      *quota.Account // the question is counted on it; nil for a ping of the node's own
	journal   *streamActor   // where the answer is stored before the handler sees it, nil if it need not be
	recording *recording     // the answer that is being or has been stored, nil without one
	part      bool           // of a question that is counted otherwise
	lingers   bool           // its question was given up: the answer need not be stored
	ch        chan Answer
}

// pendingRequests are the open questions of this node, by raw id.
type pendingRequests struct {
	node   *Node
	mu     sync.Mutex // guards the rest
	open   map[string]*pendingRequest
	counts map[SessionKey]int
	pings  int // open pings of the node's own
	n      uint64
}

func appendUint(b []byte, i uint64) []byte { return strconv.AppendUint(b, i, 10) }

// openQuestion enters a new question to the client of s. The id names the stream that carries the question, so that an
// answer finds the call even if the stream was not resumed since the node started; on is nil for a question
// that does not outlive the process. If the call may run again, its answer is stored on the stream before the
// handler sees it.
func (q *pendingRequests) openQuestion(s *sessionActor, on *streamActor, asked *Question) (*pendingRequest, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, err := s.billedAccount(), error(nil)
	if !asked.Part {
		if a, err = q.admitQuestion(s); err != nil {
			return nil, err
		}
	}
	q.n++
	x := &pendingRequest{session: s.key, from: a, part: asked.Part, ch: make(chan Answer, 1)}
	if on == nil {
		x.id = q.questionID(q.n, "")
	} else {
		x.id = q.questionID(q.n, on.key.ID)
		if on.rec.Safe && !asked.Passing {
			x.journal = on
		}
	}
	q.enterQuestion(x)
	return x, nil
}

// admitQuestion returns the account on which one more question to the client of s is to be counted. The caller holds mu.
func (q *pendingRequests) admitQuestion(s *sessionActor) (*quota.Account, error) {
	a := s.billedAccount()
	if no := s.admitPending(a, q.counts[s.key]); no != nil {
		q.node.refusals.Refused(no)
		return nil, ErrTooManyPending
	}
	return a, nil
}

// takePlace counts a question of several requests, until it is given back. A call that runs again has a place in any case: its
// client may have the question.
func (q *pendingRequests) takePlace(s *sessionActor, again bool) (giveBack func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := &pendingRequest{session: s.key, from: s.billedAccount()}
	if !again {
		if x.from, err = q.admitQuestion(s); err != nil {
			return nil, err
		}
	}
	q.countQuestion(x, 1)
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.countQuestion(x, -1)
	}, nil
}

// countQuestion counts x, or no longer. The caller holds mu.
func (q *pendingRequests) countQuestion(x *pendingRequest, by int) {
	if q.counts == nil {
		q.counts = make(map[SessionKey]int)
	}
	x.from.Held[heldPending].Add(int64(by))
	if q.counts[x.session] += by; q.counts[x.session] <= 0 {
		delete(q.counts, x.session)
	}
}

// orderID returns the id of a request whose answer nobody needs.
func (q *pendingRequests) orderID() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	return q.questionID(q.n, "")
}

// lateWait is for how long an answer is taken that nobody waits for: see Question.Late.
var lateWait = limits.LateTask.Value()

// keepOpen leaves x open for a while after its question was given up. Meanwhile it counts, as the client may work on it.
func (q *pendingRequests) keepOpen(x *pendingRequest, late func(Answer)) {
	q.mu.Lock()
	x.lingers, x.journal = true, nil // the log of its call may have ended
	if x.part && q.open[x.id] == x {
		x.part = false
		q.countQuestion(x, 1)
	}
	q.mu.Unlock()
	go func() {
		patience := time.NewTimer(lateWait)
		defer patience.Stop()
		select {
		case a := <-x.ch:
			late(a)
			return
		case <-patience.C:
		case <-q.node.base.Done():
		}
		if !q.closeQuestion(x) {
			select {
			case a := <-x.ch: // it came in the end
				late(a)
			default:
			}
		}
	}()
}

// enterQuestion makes x open. The caller holds mu.
func (q *pendingRequests) enterQuestion(x *pendingRequest) {
	if old := q.open[x.id]; old != nil { // of a lost run that has not ended yet
		q.removeQuestion(old)
	}
	q.open[x.id] = x
	if !x.part {
		q.countQuestion(x, 1)
	}
}

// reopenQuestions enters the questions of an earlier run of the call on stream w that have no answer. It runs before a
// client can resume the stream: such a client may answer at once, and the handler may take long to ask again.
func (q *pendingRequests) reopenQuestions(w *streamActor, from *quota.Account, j *journal) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, past := range j.asked {
		if past.Answer == nil {
			past.open = &pendingRequest{id: past.ID, session: w.key.Session, from: from, journal: w, ch: make(chan Answer, 1)}
			q.enterQuestion(past.open)
		}
	}
}

// closeReopened closes the questions that reopenQuestions entered and that the ended run did not ask.
func (q *pendingRequests) closeReopened(j *journal) {
	for _, past := range j.asked {
		if x := past.open; x != nil {
			q.closeQuestion(x)
		}
	}
}

// closeQuestion removes a question; it reports whether it was still open.
func (q *pendingRequests) closeQuestion(x *pendingRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[x.id] != x {
		return false
	}
	q.removeQuestion(x)
	return true
}

// removeQuestion closes x. The caller holds mu.
func (q *pendingRequests) removeQuestion(x *pendingRequest) {
	delete(q.open, x.id)
	switch {
	case x.from == nil:
		q.pings--
	case !x.part:
		q.countQuestion(x, -1)
	}
}

// findQuestion returns the open question with an id, if it was sent to that session.
func (q *pendingRequests) findQuestion(s SessionKey, id string) (x *pendingRequest, journal *streamActor, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x, ok = q.open[id]; !ok || x.session != s {
		return nil, nil, false
	}
	return x, x.journal, true
}

func (q *pendingRequests) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open) - q.pings
}

// takeAnswer takes a client's answer. An error means that the answer was not taken and may be sent again.
func (s *sessionActor) takeAnswer(m *codec.Message) error {
	for end := time.Now().Add(s.svc.Limits.StoreWait); ; {
		err := s.offerAnswer(m)
		if !errors.Is(err, kernel.ErrStopped) || time.Now().After(end) {
			return err
		}
		// The stream that would store the answer has stopped: its call was cancelled, and is about to withdraw the question.
		time.Sleep(withdrawalWait)
	}
}

// withdrawalWait is the pause before an answer is tried again whose call has just ended.
const withdrawalWait = 5 * time.Millisecond

// offerAnswer tries to take a client's answer, once.
func (s *sessionActor) offerAnswer(m *codec.Message) error {
	n := s.node
	if open, err := n.pending.giveAnswer(s.key, m); open {
		return err
	}
	// A stream that cannot be read is no reason to drop the answer, unless the stream does not exist.
	forwarded, err := n.pending.routeAnswer(s.svc, s, m)
	if forwarded || err != nil && !errors.Is(err, errBadEvent) && !errors.Is(err, ErrSessionEnded) {
		return err
	}
	_, err = n.pending.giveAnswer(s.key, m)
	return err
}

// giveAnswer gives an answer to its question; open is false if the question is not open here, or not any more: its call may have gone on
// elsewhere.
func (q *pendingRequests) giveAnswer(s SessionKey, m *codec.Message) (open bool, err error) {
	x, journal, ok := q.findQuestion(s, string(m.ID))
	if !ok {
		return false, nil
	}
	return q.receiveAnswer(x, journal, m)
}

// routeAnswer takes an answer to where its question is. It takes over the stream that carried the question, if no process writes it, so that
// the call runs again and can get its answer. forwarded says that another node has taken the answer, or could not.
func (q *pendingRequests) routeAnswer(svc *Service, s *sessionActor, m *codec.Message) (forwarded bool, err error) {
	n := q.node
	ctx, cancel := context.WithTimeout(n.base, svc.Limits.StoreWait)
	defer cancel()
	key := StreamKey{s.key, askedOn(m.ID)}
	if key.ID == "" {
		return q.forwardAnswer(ctx, s, key, askedBy(m.ID), m)
	}
	if w, here := n.streams.Get(key); here && !w.Stopped() { // nobody asks any more, unless another node has the stream
		ours, err := n.streams.stillWrites(ctx, w)
		if !ours {
			err = cmp.Or(err, store.ErrUnavailable)
		}
		return !ours, err
	}
	for given := (takeover.Writer{}); ; {
		_, _, err := n.streams.findWriter(ctx, svc, s, key, given)
		remote, ok := errors.AsType[errRemoteWriter](err)
		if !ok {
			return q.routeToAsker(ctx, s, key, m, err)
		}
		if forwarded, err = q.forwardAnswer(ctx, s, key, remote.nodeAddress(), m); forwarded {
			return true, err
		}
		given = remote.Writer
	}
}

// routeToAsker is routeAnswer for an answer whose stream the store does not have, which err says. Who asked may have been cut off for longer than
// records live, and be about to store it again: then it gets the answer. If it is gone, that is noted, so that its calls end if it comes back after
// all, and nobody needs the answer. Otherwise the client must send it again. Of a node that was never heard there is nothing to wait for.
func (q *pendingRequests) routeToAsker(ctx context.Context, s *sessionActor, key StreamKey, m *codec.Message, err error) (forwarded bool, _ error) {
	if !errors.Is(err, errBadEvent) {
		return false, err
	}
	f, asker := &q.node.fleet, askedBy(m.ID)
	forwarded, asked := q.forwardAnswer(ctx, s, key, asker, m)
	if forwarded && asked != nil {
		if !f.mail.Heard(asker) { // as in forwardAnswer, which takes no client's word for a writer
			return false, err
		}
		gone, failed := f.mail.Gone(ctx, asker)
		if gone && failed == nil {
			failed = f.marks.markGone(ctx, q.node.store, asker.Boot, s.svc.callLifetime())
		}
		forwarded = !gone || failed != nil
	}
	if forwarded {
		return true, asked
	}
	return false, err
}

// forwardAnswer has another node take an answer. forwarded is false if that node does not have what asked.
func (q *pendingRequests) forwardAnswer(ctx context.Context, s *sessionActor, key StreamKey, to store.Address, m *codec.Message) (forwarded bool, err error) {
	f := &q.node.fleet
	if f.mail == nil || to.Node == "" || to.Boot == q.node.boot {
		return false, nil
	}
	err = f.deliverLetter(ctx, s, to, letterAnswer, answerLetter{key, m.ID, m.Result, m.Err})
	switch {
	case errors.Is(err, errNotHere):
		return false, nil
	case errors.Is(err, store.ErrNobody) && key.ID == "":
		if !f.mail.Heard(to) { // a client may name anybody, and learns nothing by it
			return false, nil
		}
		if gone, err := f.mail.Gone(ctx, to); gone && err == nil {
			return false, nil // and so is what asked
		}
	}
	return true, err
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

func wireError(raw []byte) *mcp.Error {
	e := &mcp.Error{Data: bytes.Clone(codec.Optional(raw, "data"))}
	e.Code, _ = strconv.Atoi(string(codec.Field(raw, "code")))
	e.Message, _ = codec.Str(codec.Field(raw, "message"))
	return e
}

// questionID is the raw id of the i-th question of the node, on the given stream.
func (q *pendingRequests) questionID(i uint64, stream string) string {
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

// recording is an answer on its way into the log of its call.
type recording struct {
	answer Answer
	done   bool          // done and err are guarded by pendingRequests.mu until over is closed
	err    error         // nil if it is stored
	over   chan struct{} // closed when the outcome is known
}

// receiveAnswer takes m as the answer to x. If the call may run again, the answer is stored before the handler sees
// it, so that a second run finds it in the log. Only one answer is stored at a time; the handler gets the
// first one that is stored. An answer that comes meanwhile waits for that outcome: it is dropped once the
// other is stored, and is taken itself if the other could not be stored. open is false if the question was closed
// meanwhile. An error means that the answer was not taken, except ErrUnavailable, which also means that the outcome is
// unknown.
func (q *pendingRequests) receiveAnswer(x *pendingRequest, journal *streamActor, m *codec.Message) (open bool, err error) {
	a := Answer{Result: bytes.Clone(m.Result)}
	if m.Kind == codec.ErrorResponse {
		a = Answer{Err: wireError(m.Err)}
	}
	if journal == nil {
		if open = q.closeQuestion(x); open {
			x.ch <- a
		}
		return open, nil
	}
	patience := time.NewTimer(journal.svc.Limits.StoreWait)
	defer patience.Stop()
	for {
		t, mine := q.claimRecording(x, a)
		if t == nil {
			return false, nil
		}
		if mine {
			journal.journalAnswer(x, t, m)
		}
		select {
		case <-t.over:
		case <-patience.C:
			// The answer may still be stored. Then the handler gets it, and a client that sends it again
			// learns that it was taken.
			return true, store.ErrUnavailable
		}
		switch {
		case t.err == nil, errors.Is(t.err, stream.ErrEnded):
			return true, nil // stored, or the call was cancelled
		case mine:
			return true, t.err
		}
	}
}

// claimRecording makes a the answer that is being stored for x. If another one is, it returns that, and mine is false.
// It returns nil if x needs no answer any more.
func (q *pendingRequests) claimRecording(x *pendingRequest, a Answer) (t *recording, mine bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.open[x.id] != x:
		return nil, false
	case x.recording != nil:
		return x.recording, false
	}
	x.recording = &recording{answer: a, over: make(chan struct{})}
	return x.recording, true
}

// settleRecording ends t. A stored answer goes to the handler; after a failure another answer may be taken. Where the call has ended
// there is no second run that would need it stored: it goes to whoever is about to give the question up.
func (q *pendingRequests) settleRecording(x *pendingRequest, t *recording, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.done {
		return
	}
	t.done, t.err = true, err
	switch {
	case err != nil && !x.lingers && !errors.Is(err, stream.ErrEnded):
		x.recording = nil
	case q.open[x.id] == x:
		q.removeQuestion(x)
		x.ch <- t.answer // has room for one, and gets only this one
	}
	close(t.over)
}

// openPing enters a question that no account counts.
func (q *pendingRequests) openPing(s SessionKey) *pendingRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	x := &pendingRequest{id: q.questionID(q.n, ""), session: s, ch: make(chan Answer, 1)}
	q.open[x.id] = x
	q.pings++
	return x
}

// takeAnswer takes an answer that a client POSTs. If no question waits for it, or the question has
// an answer, it is accepted and dropped.
func (q *pendingRequests) takeAnswer(svc *Service, in *Input, m *codec.Message) {
	n := q.node
	s := n.sessions.findSession(svc, in, nil)
	if s == nil {
		return
	}
	if err := s.takeAnswer(m); err != nil {
		n.log.Warn("answer not taken", "session", s.key.ID, "error", err)
		refusal.Unavailable.Tell(in.Conn, nil)
		return
	}
	s.acceptMessage(in.Conn)
}

// admitPending decides on one more question to the client of a session that has parked open questions
// already: it returns the limit that leaves no room, nil if there is room.
func (s *sessionActor) admitPending(a *quota.Account, parked int) *limits.Row {
	switch {
	case quota.Over(int64(parked)+1, s.svc.Limits.Pending):
		return limits.PendingPerSession.Row
	case quota.Over(a.Held[heldPending].Load()+a.Elsewhere(heldPending)+1, s.node.accounts.limits.Principal.Pending):
		return limits.PendingPerPrincipal.Row
	}
	return nil
}

const (
	// maxShared is the largest answer that a session keeps, in bytes.
	maxShared = 64 << 10
	// shareWait bounds a call's wait for the answer to another call's question, whose connection may be away.
	// After that the call asks itself.
	shareWait = 10 * time.Second
)

// sharedAnswer is the client's answer to a question that all calls of a session share. It is asked once, and again
// when the client says that the answer has changed.
type sharedAnswer struct {
	mu      sync.Mutex      // guards the rest
	answer  []byte          // nil if there is none
	asking  *sharedQuestion // the question that is being asked, nil without one
	changes [4]uint64       // the last changes that other nodes have told of; 0 for none
}

// sharedQuestion is a question that several calls wait for.
type sharedQuestion struct {
	done   chan struct{} // closed when it is over
	answer Answer        // if ok
	ok     bool
}

// beginAsk returns the answer if it is known. Otherwise the caller must wait for x or, if lead is set, ask the
// client and then end x with endAsk. ask makes the caller lead even if another call asks already.
func (k *sharedAnswer) beginAsk(ask bool) (answer []byte, x *sharedQuestion, lead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.answer != nil:
		return k.answer, nil, false
	case k.asking != nil && !ask:
		return nil, k.asking, false
	}
	k.asking = &sharedQuestion{done: make(chan struct{})}
	return nil, k.asking, true
}

// endAsk gives the outcome to the calls that wait for x. It keeps the answer if keep allows it and no change
// came since x was asked.
func (k *sharedAnswer) endAsk(x *sharedQuestion, a Answer, err error, keep func([]byte) bool) {
	k.mu.Lock()
	if k.asking == x {
		k.asking = nil
		if err == nil && a.Err == nil && len(a.Result) <= maxShared && keep(a.Result) {
			k.answer = a.Result
		}
	}
	k.mu.Unlock()
	x.answer, x.ok = a, err == nil
	close(x.done)
}

// forgetAnswer makes the next call ask again. Calls that wait for an answer still get it. Of a change that it is told of twice the answer may
// know by then; 0 is one that nobody tells of twice.
func (k *sharedAnswer) forgetAnswer(change uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if change != 0 {
		if slices.Contains(k.changes[:], change) {
			return
		}
		k.changes = [...]uint64{change, k.changes[0], k.changes[1], k.changes[2]}
	}
	k.answer, k.asking = nil, nil
}

// askShared returns the kept answer, the answer that another call waits for, or the answer that ask gets. The end
// of over or of ctx ends the wait for another call.
func (k *sharedAnswer) askShared(ctx, over context.Context, keep func([]byte) bool, ask func() (Answer, error)) (Answer, error) {
	for insist := false; ; {
		answer, x, lead := k.beginAsk(insist)
		switch {
		case answer != nil:
			return Answer{Result: bytes.Clone(answer)}, nil
		case lead:
			a, err := ask()
			k.endAsk(x, a, err, keep)
			return a, err
		}
		select {
		case <-x.done:
			if x.ok {
				return Answer{Result: bytes.Clone(x.answer.Result), Err: x.answer.Err}, nil
			}
		case <-time.After(shareWait):
			insist = true
		case <-over.Done():
			return Answer{}, context.Cause(over)
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
	}
}

// sharedAnswer is the session's kept answer.
func (s *sessionActor) sharedAnswer() *sharedAnswer {
	if k := s.keeps.Load(); k != nil {
		return k
	}
	s.keeps.CompareAndSwap(nil, new(sharedAnswer))
	return s.keeps.Load()
}
