package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
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
	ended     func(*Answer) // of Question.Sending, nil without one
}

// pendingRequests are the open questions of this node, by raw id.
type pendingRequests struct {
	*site
	mu     sync.Mutex // guards the rest
	open   map[string]*pendingRequest
	counts map[SessionKey]int
	pings  int // open pings of the node's own
	n      uint64
}

func appendUint(b []byte, i uint64) []byte { return strconv.AppendUint(b, i, 10) }

// asker is a session as its questions see it.
type asker interface {
	payer
	// named is the key of the session.
	named() SessionKey
	// mostPending is how many questions to its client may be open; negative: no limit.
	mostPending() int
}

// openQuestion enters a new question to the client of s. The id names the stream that carries the
// question, so that an answer finds the call even if the stream was not resumed since the node
// started; on is nil for a question that does not outlive the process. If the call may run again,
// its answer is stored on the stream before the handler sees it.
func (q *pendingRequests) openQuestion(s asker, on *streamActor, asked *Question) (*pendingRequest, error) {
	x, err := q.addQuestion(s, on, asked)
	if err != nil || asked.Sending == nil {
		return x, err
	}
	params, ended := asked.Sending(asked.Params) // outside of the lock, as it may take long
	asked.Params = params
	q.mu.Lock()
	open := q.open[x.id] == x
	if open {
		x.ended = ended
	}
	q.mu.Unlock()
	if !open {
		ended(nil)
	}
	return x, nil
}

// addQuestion is openQuestion without Question.Sending.
func (q *pendingRequests) addQuestion(s asker, on *streamActor, asked *Question) (*pendingRequest, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a, err := s.billedAccount(), error(nil)
	if !asked.Part {
		if a, err = q.admitQuestion(s); err != nil {
			return nil, err
		}
	}
	q.n++
	x := &pendingRequest{session: s.named(), from: a, part: asked.Part, ch: make(chan Answer, 1)}
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

// admitQuestion returns the account on which one more question to the client of s is to be counted.
// The caller holds mu.
func (q *pendingRequests) admitQuestion(s asker) (*quota.Account, error) {
	a := s.billedAccount()
	switch {
	case quota.ExceedsLimit(int64(q.counts[s.named()])+1, s.mostPending()):
		q.refusals.Refused(limits.PendingPerSession.Row)
		return nil, ErrTooManyPending
	case quota.ExceedsLimit(a.Held[heldPending].Load()+a.HeldElsewhere(heldPending)+1, q.accounts.limits.Principal.Pending):
		q.refusals.Refused(limits.PendingPerPrincipal.Row)
		return nil, ErrTooManyPending
	}
	return a, nil
}

// takePlace counts a question of several requests, until it is given back. A call that runs again
// has a place in any case: its client may have the question.
func (q *pendingRequests) takePlace(s asker, again bool) (giveBack func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	x := &pendingRequest{session: s.named(), from: s.billedAccount()}
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

// unansweredID returns the id of a request whose answer nobody needs.
func (q *pendingRequests) unansweredID() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	return q.questionID(q.n, "")
}

// lateWait is for how long an answer is taken that nobody waits for: see Question.Late.
var lateWait = limits.LateTask.Value()

// keepOpen leaves x open for a while after its question was given up. Meanwhile it counts, as the
// client may work on it.
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
		case <-q.base.Done():
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
		if ended := q.removeQuestion(old); ended != nil {
			go ended(nil)
		}
	}
	q.open[x.id] = x
	if !x.part {
		q.countQuestion(x, 1)
	}
}

// reopenQuestions enters the questions of an earlier run of the call on stream w that have no
// answer. It runs before a client can resume the stream: such a client may answer at once, and the
// handler may take long to ask again.
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

// closeReopened closes the questions that reopenQuestions entered and that the ended run did not
// ask.
func (q *pendingRequests) closeReopened(j *journal) {
	for _, past := range j.asked {
		if x := past.open; x != nil {
			q.closeQuestion(x)
		}
	}
}

// closeQuestion removes a question; it reports whether it was still open.
func (q *pendingRequests) closeQuestion(x *pendingRequest) bool { return q.endQuestion(x, nil) }

// endQuestion is closeQuestion for a question that may have an answer.
func (q *pendingRequests) endQuestion(x *pendingRequest, a *Answer) bool {
	q.mu.Lock()
	if q.open[x.id] != x {
		q.mu.Unlock()
		return false
	}
	ended := q.removeQuestion(x)
	q.mu.Unlock()
	if ended != nil {
		ended(a)
	}
	return true
}

// removeQuestion closes x. The caller holds mu, and calls ended, unless that is nil, without it.
func (q *pendingRequests) removeQuestion(x *pendingRequest) (ended func(*Answer)) {
	delete(q.open, x.id)
	switch {
	case x.from == nil:
		q.pings--
	case !x.part:
		q.countQuestion(x, -1)
	}
	ended, x.ended = x.ended, nil
	return ended
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

// giveAnswer gives an answer to its question; open is false if the question is not open here, or
// not any more: its call may have gone on elsewhere.
func (q *pendingRequests) giveAnswer(s SessionKey, m *codec.Message) (open bool, err error) {
	x, journal, ok := q.findQuestion(s, string(m.ID))
	if !ok {
		return false, nil
	}
	return q.receiveAnswer(x, journal, m)
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
	b.WriteString(q.name)
	b.WriteByte('.')
	b.WriteString(q.boot)
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

// receiveAnswer takes m as the answer to x. If the call may run again, the answer is stored before
// the handler sees it, so that a second run finds it in the log. Only one answer is stored at a
// time; the handler gets the first one that is stored. An answer that comes meanwhile waits for
// that outcome: it is dropped once the other is stored, and is taken itself if the other could not
// be stored. open is false if the question was closed meanwhile. An error means that the answer was
// not taken, except ErrUnavailable, which also means that the outcome is unknown.
func (q *pendingRequests) receiveAnswer(x *pendingRequest, journal *streamActor, m *codec.Message) (open bool, err error) {
	a := Answer{Result: bytes.Clone(m.Result)}
	if m.Kind == codec.ErrorResponse {
		a = Answer{Err: wireError(m.Err)}
	}
	if journal == nil {
		if open = q.endQuestion(x, &a); open {
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
			q.journalAnswer(journal, x, t, m)
		}
		select {
		case <-t.over:
		case <-patience.C:
			// The answer may still be stored. Then the handler gets it, and a client that sends it
			// again learns that it was taken.
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

// claimRecording makes a the answer that is being stored for x. If another one is, it returns that,
// and mine is false. It returns nil if x needs no answer any more.
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

// journalAnswer stores the answer in the log of its call, which is that of stream w, and settles t
// when the outcome is known, however long that takes.
func (q *pendingRequests) journalAnswer(w *streamActor, x *pendingRequest, t *recording, m *codec.Message) {
	data := append([]byte{'r'}, m.Result...)
	if m.Kind == codec.ErrorResponse {
		data = append([]byte{'e'}, m.Err...)
	}
	push := &pushEntries{entries: []stream.Entry{{
		Kind: stream.Answer, Meta: []byte(x.id), Data: data,
		Acked: func(err error) { q.settleRecording(x, t, err) },
	}}}
	if err := w.Post(push); err != nil {
		push.Refused(err)
	}
}

// settleRecording ends t. A stored answer goes to the handler; after a failure another answer may
// be taken. Where the call has ended there is no second run that would need it stored: it goes to
// whoever is about to give the question up.
func (q *pendingRequests) settleRecording(x *pendingRequest, t *recording, err error) {
	answered, ended := q.endRecording(x, t, err)
	if ended != nil {
		ended(&t.answer)
	}
	if answered {
		x.ch <- t.answer // has room for one, and gets only this one
	}
}

// endRecording is settleRecording without the answer.
func (q *pendingRequests) endRecording(x *pendingRequest, t *recording, err error) (answered bool, ended func(*Answer)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.done {
		return false, nil
	}
	t.done, t.err = true, err
	switch {
	case err != nil && !x.lingers && !errors.Is(err, stream.ErrEnded):
		x.recording = nil
	case q.open[x.id] == x:
		answered, ended = true, q.removeQuestion(x)
	}
	close(t.over)
	return answered, ended
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

const (
	// maxShared is the largest answer that a session keeps, in bytes.
	maxShared = 64 << 10
	// shareWait bounds a call's wait for the answer to another call's question, whose connection
	// may be away. After that the call asks itself.
	shareWait = 10 * time.Second
)

// sharedAnswer is the client's answer to a question that all calls of a session share. It is asked
// once, and again when the client says that the answer has changed.
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

// beginAsk returns the answer if it is known. Otherwise the caller must wait for x or, if lead is
// set, ask the client and then end x with endAsk. ask makes the caller lead even if another call
// asks already.
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

// endAsk gives the outcome to the calls that wait for x. It keeps the answer if keep allows it and
// no change came since x was asked.
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

// forgetAnswer makes the next call ask again. Calls that wait for an answer still get it. Of a
// change that it is told of twice the answer may know by then; 0 is one that nobody tells of twice.
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

// askShared returns the kept answer, the answer that another call waits for, or the answer that ask
// gets. The end of over or of ctx ends the wait for another call.
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

// ErrNoAnswer reports that the client did not answer in time.
var ErrNoAnswer = errors.New("the client did not answer in time")

// withdrawalReason says why a question whose context has ended needs no answer.
func withdrawalReason(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return "timed out"
	}
	return "no longer needed"
}

// cancelParams is the params of the notification that cancels x.
func cancelParams(x *pendingRequest, why string) []byte {
	return fmt.Appendf(nil, `{"requestId":%s,"reason":%s}`, x.id, strconv.Quote(why))
}

// journal has what the earlier runs of a call sent and asked. It is nil for a first run.
type journal struct {
	sent   record.Sent             // never changes
	steps  map[string]*record.Step // neither do they
	member int                     // index of the call in its batch

	mu      sync.Mutex // guards the rest: handlers may ask from several goroutines
	skipped int        // messages of this run that an earlier run has sent
	asked   []*askedBefore
}

// skipMessage reports whether an earlier run has sent this message.
func (j *journal) skipMessage() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.skipped == j.sent.Messages {
		return false
	}
	j.skipped++
	return true
}

// storedStep returns the result of a step that an earlier run has stored, nil if none has. The
// messages of that step count as sent by this run.
func (j *journal) storedStep(name string) *record.Step {
	if j == nil || j.steps[name] == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.skipped = min(j.skipped+j.steps[name].Messages, j.sent.Messages)
	return j.steps[name]
}

// hasQuestion reports whether an earlier run asked this use of a key, and this run has not.
func (j *journal) hasQuestion(key string, use int) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.asked, func(q *askedBefore) bool { return q.Key == key && q.Use == use && !q.used })
}

// takeQuestion returns the question that an earlier run asked as this use of a key, nil if it
// asked none.
func (j *journal) takeQuestion(key string, use int) *askedBefore {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, q := range j.asked {
		if q.Key == key && q.Use == use && !q.used {
			q.used = true
			return q
		}
	}
	return nil
}

// askedBefore is a question of an earlier run.
type askedBefore struct {
	record.Question
	used bool
	open *pendingRequest // waits for the answer, nil if the answer is here
}

// clientAnswer is the client's answer.
func (q *askedBefore) clientAnswer() Answer {
	if q.Failed {
		return Answer{Err: wireError(q.Answer)}
	}
	return Answer{Result: bytes.Clone(q.Answer)}
}

func newJournal(p *record.Past, member int) *journal {
	j := &journal{sent: p.Sents.Of(member), steps: p.Steps.Of(member), member: member}
	for _, q := range p.Digest.Questions {
		if q.Member == member {
			j.asked = append(j.asked, &askedBefore{Question: q})
		}
	}
	return j
}

// Question is a request to the client.
type Question struct {
	Key    string // names the question within its call, so that a re-run finds its answer
	Method string
	Params []byte
	// Keep, if not nil, says that all calls of the session share this question. Its answer
	// is kept if Keep returns true for it, until Peer.Forget. If nil, each call asks for
	// itself.
	Keep func(result []byte) bool
	// Valid reports whether raw, any JSON, answers the question; nil accepts everything. It
	// is used for answers that come with a request that is sent again.
	Valid func(raw []byte) bool
	// Part says that the request is a part of a question that has a place of its own: see
	// Call.Place. It counts toward no limit.
	Part bool
	// Passing says that a second run has no use for the answer, which is not stored.
	Passing bool
	// Late, if not nil, gets an answer that comes within lateWait after Ask has failed. The
	// client is not told then that the question needs no answer.
	Late func(Answer)
	// Sending, if not nil, is called when the question is put to the client, which no kept or stored
	// answer makes needless. It returns the params to send in place of params, and what is to be
	// called once when the question has its answer, or nil when it was given up. Where the question
	// travels in a response, params are nil, and stay.
	Sending func(params []byte) (sent []byte, ended func(*Answer))
}

// Answer is the client's answer: either Result or Err is set. Both are copies.
type Answer struct {
	Result []byte
	Err    *mcp.Error
}
