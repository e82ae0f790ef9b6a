package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// ErrNoAnswer reports that the client did not answer in time.
var ErrNoAnswer = errors.New("the client did not answer in time")

// ErrTooManyPending reports that the session has as many calls waiting for its client
// as it may: the question was not asked.
var ErrTooManyPending = errors.New("too many calls wait for the client")

// Question is a request to the client.
type Question struct {
	Key    string // names the question within its call, so that a re-run finds its answer
	Method string
	Params []byte
	// Keep says that all calls of the session ask this alike: they share one
	// question, and the answer is kept if Keep returns true for it, until
	// Peer.Forget. nil asks each time.
	Keep func(result []byte) bool
	// Valid reports whether raw, any JSON, is an answer to the question; nil takes
	// everything. It is asked of what comes with a request that is sent again.
	Valid func(raw []byte) bool
}

// Answer is what the client answered: one of the two is set. Both are copies.
type Answer struct {
	Result []byte
	Err    *mcp.Error
}

// Ask puts questions to the client and waits for all the answers: on the call's stream or
// connection, or, of a stateless client, by having it send the request again. It fails
// with the cause of ctx or of the call, ErrNoAnswer, or ErrTooManyPending; an answer that is an
// error is an Answer.
func (c *Call) Ask(ctx context.Context, qs []Question) ([]Answer, error) {
	if c.r == nil {
		return nil, errReturned
	}
	return c.client.ask(ctx, c, qs)
}

// ask puts the questions of a call of the session.
func (s *sessionActor) ask(ctx context.Context, c *Call, qs []Question) ([]Answer, error) {
	answers, uses := make([]Answer, len(qs)), make([]int, len(qs))
	var own, common []int
	for i, q := range qs {
		uses[i] = c.uses.next(q.Key)
		if q.Keep == nil || c.journal.has(q.Key, uses[i]) {
			own = append(own, i)
		} else {
			common = append(common, i)
		}
	}
	if len(common) == 0 {
		return answers, s.askOwn(ctx, c, qs, uses, own, answers)
	}
	if len(common) == 1 && len(own) == 0 {
		a, err := s.askCommon(ctx, c, qs, uses, 0)
		answers[0] = a
		return answers, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ends := make(chan error, len(common))
	for _, i := range common {
		go func() {
			a, err := s.askCommon(ctx, c, qs, uses, i)
			answers[i] = a
			if err != nil {
				cancel(err)
			}
			ends <- err
		}()
	}
	err := s.askOwn(ctx, c, qs, uses, own, answers)
	if err != nil {
		cancel(err)
	}
	for range common {
		if e := <-ends; err == nil {
			err = e
		}
	}
	if err != nil {
		return nil, context.Cause(ctx) // the first of the errors, which ended the others
	}
	return answers, nil
}

// askCommon asks one question whose answer may be kept.
func (s *sessionActor) askCommon(ctx context.Context, c *Call, qs []Question, uses []int, i int) (Answer, error) {
	return s.kept().share(ctx, c.ctx, qs[i].Keep, func() (Answer, error) {
		answers := make([]Answer, len(qs))
		err := s.askOwn(ctx, c, qs, uses, []int{i}, answers)
		return answers[i], err
	})
}

// askOwn puts those of qs that which names to the client, and fills in the answers. uses
// numbers them all: see uses.
func (s *sessionActor) askOwn(ctx context.Context, c *Call, qs []Question, uses, which []int, answers []Answer) error {
	n, limits := c.peer.node, c.peer.svc.Limits
	var on *streamActor // to ask on
	begun := false      // it is as it will be
	waiting := make([]*pendingRequest, len(qs))
	defer func() {
		for _, x := range waiting {
			if x != nil {
				n.pending.close(x)
			}
		}
	}()
	for _, i := range which {
		q := qs[i]
		past := c.journal.question(q.Key, uses[i])
		if past != nil && past.Answer != nil {
			answers[i] = past.answer()
			continue
		}
		if past != nil { // the client has the question
			waiting[i] = past.open
			continue
		}
		if !begun {
			on, begun = c.becomeStream(), true
		}
		x, err := n.pending.of(s, on)
		if err != nil {
			c.withdraw(waiting, "no longer needed")
			return err
		}
		waiting[i] = x
		if err := c.put(ctx, x, q, uses[i]); err != nil {
			return err
		}
	}
	timer := time.NewTimer(limits.MaxAsk)
	defer timer.Stop()
	for i, x := range waiting {
		if x == nil {
			continue
		}
		select {
		case answers[i] = <-x.ch:
			waiting[i] = nil
		case <-timer.C:
			c.withdraw(waiting, "timed out")
			n.refusals.count(MaxAsk)
			return ErrNoAnswer
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-s.inputEnded:
			return ErrSessionEnded
		case <-ctx.Done():
			c.withdraw(waiting, notNeeded(ctx))
			return context.Cause(ctx)
		}
	}
	return nil
}

// notNeeded says why a question whose context has ended needs no answer.
func notNeeded(ctx context.Context) string {
	if errors.Is(context.Cause(ctx), ErrNoAnswer) {
		return "timed out"
	}
	return "no longer needed"
}

// put sends one question, the use-th with its key.
func (c *Call) put(ctx context.Context, x *pendingRequest, q Question, use int) error {
	asking := &emitted{entry: stream.Entry{
		Kind: stream.Request,
		Meta: record.AppendAsked(record.Question{ID: x.id, Key: q.Key, Use: use, Member: c.member}),
		Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params),
	}}
	return c.send(ctx, asking, &asking.entry.Acked, len(asking.entry.Data))
}

// becomeStream makes the call's answer a stream, and returns the one that logs it: nil
// where none does, or where nothing can be sent any more.
func (c *Call) becomeStream() *streamActor {
	m := &upgradeNow{}
	m.Init()
	if context.Cause(c.ctx) != nil || c.post(m) != nil {
		return nil
	}
	m.Wait()
	return m.stream
}

// upgradeNow makes a request's answer a stream.
type upgradeNow struct {
	kernel.Reply
	stream *streamActor
}

func (u *upgradeNow) Refused(error) { u.Done() }

// withdraw tells the client that what is still open needs no answer.
func (c *Call) withdraw(open []*pendingRequest, why string) {
	for _, x := range open {
		if x == nil || !c.peer.node.pending.close(x) {
			continue
		}
		data := codec.AppendNotification(nil, "notifications/cancelled", withdrawal(x, why))
		_ = c.post(&emitted{entry: stream.Entry{Kind: stream.Message, Data: data}})
	}
}

// Ask puts a question to the client on the session's standalone stream.
func (p *Peer) Ask(ctx context.Context, q Question) (Answer, error) {
	if q.Keep == nil {
		return p.ask(ctx, q)
	}
	s, err := p.actor(ctx)
	if err != nil {
		return Answer{}, err
	}
	return s.kept().share(ctx, p.node.base, q.Keep, func() (Answer, error) { return p.ask(ctx, q) })
}

func (p *Peer) ask(ctx context.Context, q Question) (Answer, error) {
	if _, err := p.who.session(); err != nil {
		return Answer{}, err
	}
	n := p.node
	x, err := n.pending.of(p.last.Load(), nil)
	if err != nil {
		return Answer{}, err
	}
	defer n.pending.close(x)
	entry := stream.Entry{Kind: stream.Request, Meta: record.AppendAsked(record.Question{ID: x.id, Key: q.Key}), Data: codec.AppendRequest(nil, []byte(x.id), q.Method, q.Params)}
	if err := p.send(ctx, entry); err != nil {
		return Answer{}, err
	}
	timer := time.NewTimer(p.svc.Limits.MaxAsk)
	defer timer.Stop()
	select {
	case a := <-x.ch:
		return a, nil
	case <-p.svc.life.done:
		return Answer{}, ErrRetired
	case <-p.last.Load().inputEnded:
		return Answer{}, p.svc.ended()
	case <-timer.C:
		p.withdraw(x, "timed out")
		n.refusals.count(MaxAsk)
		return Answer{}, ErrNoAnswer
	case <-ctx.Done():
		p.withdraw(x, notNeeded(ctx))
		return Answer{}, context.Cause(ctx)
	}
}

// withdraw tells the client, if it listens here, that x needs no answer.
func (p *Peer) withdraw(x *pendingRequest, why string) {
	if p.node.pending.close(x) {
		p.Push("notifications/cancelled", withdrawal(x, why))
	}
}

// withdrawal is the params of the notification that x needs no answer.
func withdrawal(x *pendingRequest, why string) []byte {
	return fmt.Appendf(nil, `{"requestId":%s,"reason":%s}`, x.id, strconv.Quote(why))
}

const (
	// maxKept is the largest answer that a session keeps, in bytes.
	maxKept = 64 << 10
	// shareWait is how long a call waits for the answer to another one's question,
	// whose connection may be away, before it asks itself.
	shareWait = 10 * time.Second
)

// kept is the client's answer to a question that all calls of a session ask alike.
// It is asked once, and again when the client says that the answer has changed.
type kept struct {
	mu     sync.Mutex // guards the rest
	answer []byte     // nil if there is none
	asking *shared    // the question that is being asked, nil if none is
}

// shared is a question that several calls wait for.
type shared struct {
	done   chan struct{} // closed when it is over
	answer Answer        // if ok
	ok     bool
}

// begin returns the answer if that is known. Else the caller is to wait for x, or,
// when lead is set, to ask and then to end x. ask makes the caller ask though another
// one does.
func (k *kept) begin(ask bool) (answer []byte, x *shared, lead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.answer != nil:
		return k.answer, nil, false
	case k.asking != nil && !ask:
		return nil, k.asking, false
	}
	k.asking = &shared{done: make(chan struct{})}
	return nil, k.asking, true
}

// end tells those who wait for x how it ended. The answer is kept if it may be, and
// if nothing has changed since x was asked.
func (k *kept) end(x *shared, a Answer, err error, keep func([]byte) bool) {
	k.mu.Lock()
	if k.asking == x {
		k.asking = nil
		if err == nil && a.Err == nil && len(a.Result) <= maxKept && keep(a.Result) {
			k.answer = a.Result
		}
	}
	k.mu.Unlock()
	x.answer, x.ok = a, err == nil
	close(x.done)
}

// forget makes the next call ask again. Whoever waits for an answer still gets it.
func (k *kept) forget() {
	k.mu.Lock()
	k.answer, k.asking = nil, nil
	k.mu.Unlock()
}

// share returns the answer that is known, or that somebody is waiting for, or that
// ask gets. over ends the wait for another's, as ctx does.
func (k *kept) share(ctx, over context.Context, keep func([]byte) bool, ask func() (Answer, error)) (Answer, error) {
	for insist := false; ; {
		answer, x, lead := k.begin(insist)
		switch {
		case answer != nil:
			return Answer{Result: bytes.Clone(answer)}, nil
		case lead:
			a, err := ask()
			k.end(x, a, err, keep)
			return a, err
		}
		timer := time.NewTimer(shareWait)
		select {
		case <-x.done:
			timer.Stop()
			if x.ok {
				return Answer{Result: bytes.Clone(x.answer.Result), Err: x.answer.Err}, nil
			}
		case <-timer.C:
			insist = true
		case <-over.Done():
			timer.Stop()
			return Answer{}, context.Cause(over)
		case <-ctx.Done():
			timer.Stop()
			return Answer{}, context.Cause(ctx)
		}
	}
}

// kept is the session's kept answer.
func (s *sessionActor) kept() *kept {
	k := s.keeps.Load()
	for k == nil {
		s.keeps.CompareAndSwap(nil, new(kept))
		k = s.keeps.Load()
	}
	return k
}

// Forget drops the answer that was kept: the next question that may be kept is asked.
func (p *Peer) Forget() {
	s, err := p.who.session()
	if err != nil {
		return
	}
	if k := s.keeps.Load(); k != nil {
		k.forget()
	}
}

// journal is what the earlier runs of a call have sent and asked. A nil journal
// is that of a first run.
type journal struct {
	sent   record.Sent // does not change
	member int         // place of the call in its batch

	mu      sync.Mutex // guards the rest: handlers may ask from several goroutines
	skipped int        // messages of this run that an earlier one has sent
	asked   []*askedBefore
}

// askedBefore is a question of an earlier run.
type askedBefore struct {
	record.Question
	used bool
	open *pendingRequest // waits for the answer, nil if that is here
}

// answer is what the client has answered.
func (q *askedBefore) answer() Answer {
	if q.Failed {
		return Answer{Err: wireError(q.Answer)}
	}
	return Answer{Result: bytes.Clone(q.Answer)}
}

func newJournal(p *record.Past, member int) *journal {
	j := &journal{sent: p.Sents.Of(member), member: member}
	for _, q := range p.Digest.Asked {
		if q.Member == member {
			j.asked = append(j.asked, &askedBefore{Question: q})
		}
	}
	return j
}

// skipMessage reports that an earlier run has sent this message.
func (j *journal) skipMessage() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.skipped == j.sent.Messages {
		return false
	}
	j.skipped++
	return true
}

// has reports whether an earlier run has asked this use of a key, and this one has not.
func (j *journal) has(key string, use int) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.ContainsFunc(j.asked, func(q *askedBefore) bool { return q.Key == key && q.Use == use && !q.used })
}

// question returns what an earlier run asked as this use of a key, nil if it did not.
func (j *journal) question(key string, use int) *askedBefore {
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

// uses counts how often a call has asked with each key. The zero value has counted
// nothing.
type uses struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

// next numbers a question when it is asked: a second run that asks in the same order
// comes to the same numbers, whatever of the first one is still in the log.
func (u *uses) next(key string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == nil {
		u.n = make(map[string]int)
	}
	u.n[key]++
	return u.n[key]
}
