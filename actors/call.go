package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/record"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// Call is one request as its handler sees it. Its spans are valid until the
// handler returns. Its methods may be called from any goroutine; those that send
// fail once the handler has returned, and send nothing.
type Call struct {
	r          *requestActor // used again for other requests: see turn; nil for a listener's call
	generation uint64
	ctx        context.Context
	peer       *Peer
	msg        *codec.Message
	own        []byte                 // the progress token of the first request, nil if none; a copy
	token      atomic.Pointer[[]byte] // that of the request that is answered now
	principal  any
	trace      Trace
	attempt    int
	member     int // place in a batch
	journal    *journal
	uses       uses

	// These are its way's, see there; nil for a listener's call.
	client client
	pace   pacer

	// unstored counts the bytes on their way to the log.
	unstored atomic.Int64
}

// Message is the scanned request. It must not be changed or kept.
func (c *Call) Message() *codec.Message { return c.msg }

// Peer is the session the call belongs to.
func (c *Call) Peer() *Peer { return c.peer }

// ProgressToken is the raw token that the client wants progress under, nil if it
// wants none.
func (c *Call) ProgressToken() []byte {
	if token := c.token.Load(); token != nil {
		return *token
	}
	return nil
}

// Principal is what the transport's authentication returned, or, when the call
// runs again after its node was lost, the raw JSON of that.
func (c *Call) Principal() any { return c.principal }

// Trace is the trace context of the HTTP request.
func (c *Call) Trace() Trace { return c.trace }

// Attempt is 1 for the first run of a call and more when it runs again.
func (c *Call) Attempt() int { return c.attempt }

// Notify sends a notification on the call's stream, which makes the answer a
// stream. It waits only when Limits.Queue bytes wait for the log already. An
// error means that it was not sent: the call was cancelled or lost its stream.
func (c *Call) Notify(ctx context.Context, method string, params []byte) error {
	if c.journal != nil && c.journal.skipMessage() {
		return nil
	}
	return c.notify(ctx, method, params, true)
}

func (c *Call) notify(ctx context.Context, method string, params []byte, numbered bool) error {
	data := codec.AppendNotification(nil, method, params)
	m := &emitted{entry: stream.Entry{Kind: stream.Message, Data: data}, numbered: numbered}
	return c.send(ctx, m, &m.entry.Acked, len(data))
}

// Progress reports progress under the request's token; params are the whole
// params of the notification. What does not rise is dropped, and above
// request.Rate a second the newest wins. Without a token it does nothing.
func (c *Call) Progress(ctx context.Context, value float64, params []byte) error {
	if c.ProgressToken() == nil {
		return nil
	}
	meta := record.AppendMember(binary.BigEndian.AppendUint64(nil, math.Float64bits(value)), c.member)
	p := &progressed{value: value, meta: meta, data: codec.AppendNotification(nil, "notifications/progress", params)}
	return c.send(ctx, p, &p.acked, len(p.data))
}

// CloseConnection closes the connection of the call's stream while the call
// runs on; the client is told to come back and resume. Where the revision has no
// way to tell it that, nothing happens.
func (c *Call) CloseConnection() {
	if c.peer.Revision().Has(mcp.FeatureStreamPriming) {
		_ = c.post(closeConn{})
	}
}

// called is a message of a handler. The actor may have gone on to another
// request by the time a goroutine that a handler left behind sends it.
type called struct {
	generation uint64
	m          any
}

func (c called) Refused(err error) {
	if r, ok := c.m.(kernel.Refusable); ok {
		r.Refused(err)
	}
}

func (c *Call) post(m any) error {
	if c.r == nil { // of a listener: there is nothing to send by
		return errReturned
	}
	return c.r.Post(called{c.generation, m})
}

// send posts a message about an entry of the given size. When too much is on its
// way to the log, the handler waits until its own entry has got there. acked is
// where the message keeps whom to tell.
func (c *Call) send(ctx context.Context, m any, acked *func(error), size int) error {
	if c.r == nil { // of a listener: there is nothing to send by, and nothing to wait for
		return errReturned
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if err := c.pace.pace(ctx); err != nil {
		return err
	}
	defer c.pace.paced()
	var stored chan error
	if c.unstored.Add(int64(size)) > int64(c.peer.svc.Limits.Queue) {
		stored = make(chan error, 1)
	}
	*acked = func(err error) {
		c.unstored.Add(-int64(size))
		if stored != nil {
			stored <- err // which has room: an entry is told of once
		}
	}
	if err := c.post(m); err != nil {
		c.unstored.Add(-int64(size))
		return err
	}
	if stored == nil {
		return nil
	}
	select {
	case err := <-stored:
		return err
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Tell is Notify for what the handler does not know of: a run after a crash does not
// take it for one of the handler's messages.
func (c *Call) Tell(ctx context.Context, method string, params []byte) error {
	return c.notify(ctx, method, params, false)
}

// logs is the account of a session's log messages, or of those of a stateless
// request: what exceeds its rate is dropped, and the client is told how much
// that was.
type logs struct {
	rate      quota.Bucket
	missed    atomic.Int64 // dropped since the client was last told
	reporting atomic.Bool  // somebody is going to tell it
}

// logsIn returns the account that p holds, which it has from its first message on.
func logsIn(p *atomic.Pointer[logs], rate float64) *logs {
	l := p.Load()
	for l == nil {
		p.CompareAndSwap(nil, &logs{rate: quota.NewBucket(quota.Rate{PerSecond: rate, Burst: quota.Burst(rate, 0)})})
		l = p.Load()
	}
	return l
}

// admit takes a token for one message. When there is none, wait is how long it will be
// until there is.
func (l *logs) admit(n *Node) (wait time.Duration) {
	if wait = l.rate.Take(time.Now()); wait > 0 {
		l.missed.Add(1)
		n.refusals.count(LogRateOfSession)
	}
	return wait
}

// unreported returns how many messages were dropped since it was last called.
func (l *logs) unreported() int64 {
	if l == nil || l.missed.Load() == 0 {
		return 0
	}
	return l.missed.Swap(0)
}

func (s *sessionActor) logs() *atomic.Pointer[logs] { return &s.logged }

// Missed returns how many log messages were dropped for their rate since it was last
// called. The caller is to tell the client.
func (c *Call) Missed() int64 {
	if c.r == nil {
		return 0
	}
	return c.client.logs().Load().unreported()
}

// Missed is that of messages that belong to no call.
func (p *Peer) Missed() int64 {
	s, err := p.who.session()
	if err != nil {
		return 0
	}
	return s.logged.Load().unreported()
}

// AdmitLog decides whether a log message that the client wants, or does not, is to be
// sent. One that is not counts as sent all the same when the call runs again: that
// run drops as many of its first messages as the earlier one had come to, whatever
// was wanted then and however many there was room for. dropped says that there was
// none. An error means that the call has ended.
func (c *Call) AdmitLog(wanted bool) (send, dropped bool, err error) {
	if c.r == nil { // of a listener: there is nothing to send by
		return false, false, errReturned
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return false, false, cause
	}
	if c.journal != nil && c.journal.skipMessage() {
		return false, false, nil
	}
	if wanted {
		if logsIn(c.client.logs(), c.peer.svc.Limits.LogRate).admit(c.peer.node) == 0 {
			return true, false, nil
		}
		dropped = true
	}
	c.Pass()
	return false, dropped, nil
}

// Pass counts a message that is not sent: see AdmitLog.
func (c *Call) Pass() { _ = c.post(passed{}) }

// passed numbers a message that is not sent.
type passed struct{}

// AdmitLog decides whether a log message that belongs to no call is to be sent. When
// one is dropped, later is called once there is room again.
func (p *Peer) AdmitLog(later func()) bool {
	s, err := p.who.session()
	if err != nil {
		return true // and fails: there is no stream for it
	}
	l := logsIn(&s.logged, p.svc.Limits.LogRate)
	wait := l.admit(p.node)
	if wait > 0 && l.reporting.CompareAndSwap(false, true) {
		time.AfterFunc(wait, func() {
			l.reporting.Store(false)
			later()
		})
	}
	return wait == 0
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
