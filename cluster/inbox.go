package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/store"
)

const (
	// callTimeout ends every call to NATS that has no answer.
	callTimeout = 5 * time.Second
	// maxCalls caps the calls in flight of one inbox.
	maxCalls = 1 << 16
	// maxInboxBytes caps the answers that wait for the receiving goroutine.
	maxInboxBytes = 256 << 20
)

// handler gets the answer of a call, or the error that ended it: exactly one of
// both. A handler for many answers returns true until it has the last one. It may
// get the end of the call while it handles an answer.
type handler func(m *nats.Msg, err error) (more bool)

// call is a request in flight. Calls form a list in the order of their deadlines,
// which is the order they were made in, since all have the same timeout.
type call struct {
	token      uint64
	deadline   time.Time
	many       bool // more than one answer may come
	handle     handler
	prev, next *call
}

// inbox is one subscription that receives the answers of many calls. It makes an
// append cheap: no future, timer, channel or goroutine of its own.
type inbox struct {
	publish func(*nats.Msg) error
	prefix  string
	check   func(m *nats.Msg) bool // reports whether a message that came is an answer, and not one that somebody made up; nil takes any
	sub     *nats.Subscription

	mu     sync.Mutex // guards the fields below; not held while a handler runs
	token  uint64
	calls  map[uint64]*call
	list   call // sentinel of the ring of calls
	timer  *time.Timer
	closed bool
	idle   chan struct{} // closed when a draining inbox has no call left
}

func newInbox(conn *nats.Conn, check func(*nats.Msg) bool) (*inbox, error) {
	b := &inbox{publish: conn.PublishMsg, check: check, prefix: conn.NewInbox() + ".", calls: map[uint64]*call{}}
	b.list.prev, b.list.next = &b.list, &b.list
	sub, err := conn.Subscribe(b.prefix+"*", b.receiveAnswer)
	if err != nil {
		return nil, fmt.Errorf("cluster: subscribe to answers: %w", err)
	}
	if err := sub.SetPendingLimits(8*maxCalls, maxInboxBytes); err != nil {
		return nil, fmt.Errorf("cluster: limit answers: %w", err)
	}
	b.sub = sub
	return b, nil
}

// sendCall publishes m with a reply subject of its own and calls h with the answer. A
// returned error means that nothing was sent and that h will not be called.
func (b *inbox) sendCall(m *nats.Msg, many bool, h handler) (token uint64, err error) {
	c := &call{handle: h, many: many, deadline: time.Now().Add(callTimeout)}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, store.ErrClosed
	}
	if len(b.calls) >= maxCalls {
		b.mu.Unlock()
		return 0, fmt.Errorf("%w: %d calls in flight", store.ErrRetry, maxCalls)
	}
	b.token++
	c.token = b.token
	b.calls[c.token] = c
	c.prev, c.next = b.list.prev, &b.list
	c.prev.next, b.list.prev = c, c
	if b.timer == nil {
		b.timer = time.AfterFunc(callTimeout, b.expireCalls)
	}
	b.mu.Unlock()

	var reply [96]byte
	m.Reply = string(strconv.AppendUint(append(reply[:0], b.prefix...), c.token, 36))
	if err := b.publish(m); err != nil {
		if !b.forgetCall(c.token) {
			// The call expired or the inbox was closed meanwhile: h has the error.
			return c.token, nil
		}
		switch {
		case errors.Is(err, nats.ErrMaxPayload):
			return 0, store.ErrTooBig
		case errors.Is(err, nats.ErrReconnectBufExceeded): // there is no buffer
			return 0, fmt.Errorf("%w: no connection to nats", store.ErrUnavailable)
		}
		return 0, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return c.token, nil
}

// forgetCall drops a call without an answer. It returns false if the call has ended.
func (b *inbox) forgetCall(token uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.calls[token]
	if ok {
		b.removeCall(c)
	}
	return ok
}

// removeCall takes c off the table. The lock is held.
func (b *inbox) removeCall(c *call) {
	delete(b.calls, c.token)
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
	if b.idle != nil && len(b.calls) == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// tokenOf returns the token of a call's reply subject.
func (b *inbox) tokenOf(subject string) (token uint64, ok bool) {
	token, err := strconv.ParseUint(strings.TrimPrefix(subject, b.prefix), 36, 64)
	return token, err == nil
}

// refuseCall ends a call that publish took and that was not sent after all. Another subject is none of a call.
func (b *inbox) refuseCall(subject string, err error) {
	token, ok := b.tokenOf(subject)
	if !ok {
		return
	}
	b.mu.Lock()
	c := b.calls[token]
	if c != nil {
		b.removeCall(c)
	}
	b.mu.Unlock()
	if c != nil {
		c.handle(nil, err)
	}
}

func (b *inbox) receiveAnswer(m *nats.Msg) {
	nobody := len(m.Data) == 0 && m.Header.Get("Status") == "503"
	if nobody || b.check == nil || b.check(m) {
		b.handleAnswer(m, nobody)
	}
}

// handleAnswer gives an answer to its call.
func (b *inbox) handleAnswer(m *nats.Msg, nobody bool) {
	token, ok := b.tokenOf(m.Subject)
	if !ok {
		return
	}
	b.mu.Lock()
	c := b.calls[token]
	if c == nil {
		b.mu.Unlock()
		return
	}
	if !c.many || nobody {
		b.removeCall(c)
	}
	b.mu.Unlock()
	switch {
	case nobody:
		c.handle(nil, fmt.Errorf("%w: %w", store.ErrUnavailable, errNoResponders))
	case !c.handle(m, nil) && c.many:
		b.forgetCall(token)
	}
}

// expireCalls ends the calls whose time is up and sets the timer for the next.
func (b *inbox) expireCalls() {
	now := time.Now()
	b.mu.Lock()
	var due []*call
	for c := b.list.next; c != &b.list && !c.deadline.After(now); c = b.list.next {
		b.removeCall(c)
		due = append(due, c)
	}
	b.timer = nil
	if first := b.list.next; first != &b.list && !b.closed {
		b.timer = time.AfterFunc(first.deadline.Sub(now), b.expireCalls)
	}
	b.mu.Unlock()
	for _, c := range due {
		c.handle(nil, fmt.Errorf("%w: no answer within %v", store.ErrUnavailable, callTimeout))
	}
}

// drainCalls waits until no call is in flight, and reports whether that came before
// ctx ended.
func (b *inbox) drainCalls(ctx context.Context) bool {
	b.mu.Lock()
	if len(b.calls) == 0 {
		b.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	b.idle = idle
	b.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends all calls with ErrUnavailable, their outcome unknown, and refuses
// later ones with ErrClosed.
func (b *inbox) close() { b.endCalls(true, "node closed before the answer") }

// failCalls ends all calls in the same way, because their server is gone.
func (b *inbox) failCalls() { b.endCalls(false, "the store was started again before the answer") }

func (b *inbox) endCalls(closing bool, why string) {
	b.mu.Lock()
	b.closed = b.closed || closing
	var left []*call
	for c := b.list.next; c != &b.list; c = b.list.next {
		b.removeCall(c)
		left = append(left, c)
	}
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.mu.Unlock()
	for _, c := range left {
		c.handle(nil, fmt.Errorf("%w: %s", store.ErrUnavailable, why))
	}
}

// inFlight returns the number of calls without an answer.
func (b *inbox) inFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.calls)
}

// errNoResponders: nobody has subscribed to the subject of a call.
var errNoResponders = errors.New("no responders")

// answer is what ask waits for.
type answer struct {
	msg *nats.Msg
	err error
}

// askAndWait sends m and waits for its one answer, at most callTimeout.
func (b *inbox) askAndWait(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	ch := make(chan answer, 1)
	token, err := b.sendCall(m, false, func(m *nats.Msg, err error) bool {
		ch <- answer{m, err}
		return false
	})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-ch:
		return a.msg, a.err
	case <-ctx.Done():
		b.forgetCall(token)
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// sleep waits for d. It returns false when ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// slots bounds the reads of one kind that run at a time.
type slots chan struct{}

// errManyReads says that a read did not start in time. Nothing was read.
var errManyReads = fmt.Errorf("%w: too many reads are under way", store.ErrUnavailable)

// waitForSlot waits for a slot; done releases it. It waits no longer than an answer may
// take: if the reads before it get none in that time, waiting on does not help.
func (t slots) waitForSlot(ctx context.Context) (done func(), err error) {
	if t.takeSlot() {
		return t.releaseSlot, nil
	}
	timer := time.NewTimer(callTimeout)
	defer timer.Stop()
	select {
	case t <- struct{}{}:
		return t.releaseSlot, nil
	case <-timer.C:
		return nil, errManyReads
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errManyReads, context.Cause(ctx))
	}
}

// takeSlot takes a slot if one is free.
func (t slots) takeSlot() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// releaseSlot releases a slot.
func (t slots) releaseSlot() { <-t }

const (
	// getsOfRead is how many appends a read asks for before it has their answers, if other reads leave it as many.
	getsOfRead = 64
	// getsAtOnce is how many all reads and all searches for an end together ask for. With MaxAppend each, their answers stay at
	// half of 64 MiB. Above that the server cuts a connection, with all calls in flight on it. It is a connection that no
	// lease and no append uses.
	getsAtOnce = 128
)

// readsAtOnce is how many reads of the log run at a time, and how many searches
// for its end; others wait.
var readsAtOnce = limits.LogReads.Value()
