package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
)

// The reasons for which no message comes.
var (
	// ErrSilent reports that the other side was not heard for [Patience], or has given the exchange up.
	ErrSilent = errors.New("relay: the other node is not heard")
	// ErrMemory reports that there is no room for what it sends.
	ErrMemory = errors.New("relay: no memory")
)

// Near is the end of an exchange on the node that has the client's connection. One goroutine reads it; any other may use
// the rest.
type Near struct {
	id   ID
	held *quota.Holding
	tell func(letter []byte)
	over func()

	mu    sync.Mutex // guards the rest; held while tell and over run
	in    receiver
	inbox []Message
	told  uint64    // the credit that the other side has
	heard time.Time // zero as long as the other side need not be heard
	fault error     // why nothing more comes
	wake  chan struct{}
}

// NewNear returns an end that counts the bytes that wait for its reader on held. It sends what it has to say with tell, which does
// not wait. It calls over when the reader need not wait for its client any more: what has come is all, or the call has cut
// the connection.
func NewNear(id ID, held *quota.Holding, tell func(letter []byte), over func()) *Near {
	return &Near{id: id, held: held, tell: tell, over: over, wake: make(chan struct{}, 1)}
}

// TakeFrame takes a frame.
func (x *Near) TakeFrame(f *Frame) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault != nil {
		return
	}
	x.heard = time.Now()
	m, grows, ok, err := x.in.takeFrame(f)
	if err == nil && !extendHolding(x.held, grows) {
		err = ErrMemory
	}
	switch {
	case err != nil:
		x.failExchange(err)
	case ok:
		if m.Kind == Cut {
			x.discardUnread()
			x.over()
		}
		x.inbox = append(x.inbox, m)
		x.notifyReader()
	}
	x.sendCredit()
}

// extendHolding counts n bytes more, if there is room for them.
func extendHolding(h *quota.Holding, n int) bool {
	if n <= 0 {
		h.Grow(int64(n))
		return true
	}
	return h.GrowIfRoom(int64(n)) == quota.Admitted
}

// sendCredit tells the other side what was taken, each time that a quarter of the window was. The caller holds mu.
func (x *Near) sendCredit() {
	if x.in.taken-x.told >= Window/4 && (x.in.phase != ended || x.in.rest > 0) {
		x.told = x.in.taken
		x.tell((&Alive{ID: x.id, Credit: x.told}).Append(nil))
	}
}

// discardUnread forgets what was not read. The caller holds mu.
func (x *Near) discardUnread() {
	for i := range x.inbox {
		x.held.Grow(-int64(len(x.inbox[i].Data)))
	}
	x.inbox = nil
}

// failExchange says that nothing more comes. The caller holds mu.
func (x *Near) failExchange(err error) {
	x.fault = err
	x.over()
	x.notifyReader()
}

func (x *Near) notifyReader() {
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// NextMessage returns the next message, once there is one. The reader calls FreeMessage when it has carried it out. Messages that have come are
// returned before an error: the cause of ctx, or why nothing more comes.
func (x *Near) NextMessage(ctx context.Context) (m Message, err error) {
	for {
		if m, ok, err := x.firstMessage(); ok || err != nil {
			return m, err
		}
		select {
		case <-x.wake:
		case <-ctx.Done():
			return m, context.Cause(ctx)
		}
	}
}

func (x *Near) firstMessage() (m Message, ok bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.inbox) == 0 {
		return m, false, x.fault
	}
	m, x.inbox[0] = x.inbox[0], Message{}
	x.inbox = x.inbox[1:]
	return m, true, nil
}

// FreeMessage says that a message needs no room any more.
func (x *Near) FreeMessage(m *Message) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.held.Grow(-int64(len(m.Data)))
	x.in.messageDone(m)
	x.sendCredit()
}

// Hear notes that the other side is there, and that num is its last frame.
func (x *Near) Hear(num uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = time.Now()
	if num > x.in.num && x.fault == nil {
		x.failExchange(fmt.Errorf("%w: %d was the last one, not %d", ErrGap, num, x.in.num))
	}
}

// Alive says that this side is there.
func (x *Near) Alive() Alive {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Alive{ID: x.id, Credit: x.in.taken}
}

// BreakIfSilent breaks the exchange if the other side was not heard for too long.
func (x *Near) BreakIfSilent(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault == nil && !x.heard.IsZero() && now.Sub(x.heard) > Patience {
		x.failExchange(ErrSilent)
	}
}

// Break says that nothing more comes.
func (x *Near) Break(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault == nil {
		x.failExchange(err)
	}
}
