package relay

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
)

// Far is the end of an exchange on the node where the call runs: to the call it is the connection. Its methods are those of
// transport.Exchange as far as a response needs them, and may be called from any goroutine.
//
//	fresh ──Open──▶ streaming ──Finish──▶ ended ──all sent──▶ gone
//	  ├──Answer, Reject────────────────────▲                   ▲
//	  └──Cut, Close, Break─────────────────────────────────────┘   from each
type Far struct {
	sessionless
	held *quota.Holding
	most int                 // bytes that may wait for the window
	send func(letter []byte) // does not wait
	over func()

	mu     sync.Mutex // guards the rest; held while send runs
	out    sender
	phase  phase
	gone   bool
	broken bool
	heard  time.Time
	hook   func()   // of WhenGone
	after  []func() // of Gone
	ctx    context.Context
	cancel context.CancelFunc
	room   chan struct{} // closed when there is room; nil if nobody waits for it
}

// NewFar returns an end that counts what waits for the window on held, at most about most bytes. It calls over once, when it is gone.
func NewFar(id ID, held *quota.Holding, most int, send func(letter []byte), over func()) *Far {
	return &Far{held: held, most: most, send: send, over: over, out: sender{id: id}, heard: time.Now()}
}

// sessionless has what an exchange does for its session and its connection. A request without a session has none, the node that has
// the connection keeps it open, and nothing is kept back.
type sessionless struct{}

// SetSession does nothing.
func (sessionless) SetSession(string) {}

// Comment does nothing.
func (sessionless) Comment() {}

// Flush does nothing.
func (sessionless) Flush() {}

// Answer sends the whole response. The caller may reuse body after the return. It returns false, and does nothing, if anything was
// sent before.
func (x *Far) Answer(status int, body []byte) bool { return x.sendWhole(Answer, status, body) }

// AnswerLast is Answer.
func (x *Far) AnswerLast(status int, body []byte) bool { return x.Answer(status, body) }

// Accepted answers without a body.
func (x *Far) Accepted() { x.Answer(202, nil) }

// Reject sends an error as the whole response.
func (x *Far) Reject(no *refusal.Refusal) {
	said, err := codec.Marshal(no)
	if err != nil { // never: it is plain data
		x.Cut()
		return
	}
	x.sendWhole(Reject, 0, said)
}

func (x *Far) sendWhole(k Kind, status int, data []byte) bool {
	x.mu.Lock()
	if x.phase != fresh {
		x.mu.Unlock()
		return false
	}
	x.putAndUnlock(k, status, data)
	return true
}

// Open begins a stream. It returns false if anything was sent before, or the other side is gone.
func (x *Far) Open() bool {
	x.mu.Lock()
	if x.phase != fresh {
		x.mu.Unlock()
		return false
	}
	x.putAndUnlock(Open, 0, nil)
	return true
}

// Event sends an event of the stream. If too much waits already, the connection is cut.
func (x *Far) Event(id string, retryMS int, data []byte) {
	kind := Event
	if id != "" || retryMS != 0 {
		kind, data = Numbered, AppendEvent(nil, id, retryMS, data)
	}
	x.mu.Lock()
	switch waiting := x.out.queued; {
	case x.phase != streaming:
		x.mu.Unlock()
	case waiting+len(data) > x.most && waiting >= x.most/2:
		x.cutAndUnlock()
	default:
		x.putAndUnlock(kind, 0, data)
	}
}

// Finish ends the stream once all events are sent.
func (x *Far) Finish() {
	x.mu.Lock()
	if x.phase != streaming {
		x.mu.Unlock()
		return
	}
	x.putAndUnlock(Finish, 0, nil)
}

// Cut breaks the connection off; what waits is lost.
func (x *Far) Cut() {
	x.mu.Lock()
	x.cutAndUnlock()
}

// putAndUnlock sends a message, or as much of it as the window has room for. mu is held, and released.
func (x *Far) putAndUnlock(k Kind, status int, data []byte) {
	if !extendHolding(x.held, len(data)) {
		x.cutAndUnlock()
		return
	}
	x.phase = x.phase.phaseAfter(k)
	x.out.putMessage(k, status, data)
	x.pumpWindow()
	if n := len(x.out.queue); n > 0 { // the caller may reuse data
		x.out.queue[n-1].Data = bytes.Clone(x.out.queue[n-1].Data)
	}
	x.settleAndUnlock()
}

// pumpWindow sends what the window has room for. mu is held.
func (x *Far) pumpWindow() {
	for {
		letter, n, ok := x.out.nextLetter()
		if !ok {
			return
		}
		x.held.Grow(-int64(n))
		x.send(letter)
	}
}

// settleAndUnlock follows after pump. mu is held, and released.
func (x *Far) settleAndUnlock() {
	if x.room != nil && x.out.queued < x.most/2 {
		close(x.room)
		x.room = nil
	}
	if x.phase == ended && len(x.out.queue) == 0 {
		x.endAndUnlock()
		return
	}
	x.mu.Unlock()
}

// cutAndUnlock is Cut. mu is held, and released.
func (x *Far) cutAndUnlock() {
	if x.gone {
		x.mu.Unlock()
		return
	}
	x.held.Grow(-int64(x.out.dropQueue()))
	x.phase = ended
	x.out.putMessage(Cut, 0, nil)
	x.pumpWindow()
	x.endAndUnlock()
}

// endAndUnlock makes the exchange gone. mu is held, and released.
func (x *Far) endAndUnlock() {
	if x.gone {
		x.mu.Unlock()
		return
	}
	x.gone, x.phase = true, ended
	x.held.Grow(-int64(x.out.dropQueue()))
	if x.room != nil {
		close(x.room)
		x.room = nil
	}
	hook, after, cancel := x.hook, x.after, x.cancel
	x.hook, x.after = nil, nil
	x.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	if hook != nil {
		go hook()
	}
	for _, f := range after {
		go f()
	}
	x.over()
}

// Close says that the client has closed the connection.
func (x *Far) Close() {
	x.mu.Lock()
	x.endAndUnlock()
}

// Break says that nobody knows what became of the client: letters were lost, or the other side is not heard.
func (x *Far) Break() {
	x.mu.Lock()
	x.broken = x.broken || !x.gone
	x.endAndUnlock()
}

// Broken reports whether the exchange ended by Break: its client may send the request again.
func (x *Far) Broken() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.broken
}

// Room waits until an event fits. It returns ErrSilent once the exchange is gone, or the cause of ctx.
func (x *Far) Room(ctx context.Context) error {
	for {
		x.mu.Lock()
		if x.gone || x.phase == ended {
			x.mu.Unlock()
			return ErrSilent
		}
		if x.out.queued < max(1, x.most/2) {
			x.mu.Unlock()
			return nil
		}
		if x.room == nil {
			x.room = make(chan struct{})
		}
		room := x.room
		x.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Gone calls f, on a goroutine of its own, once the exchange is gone.
func (x *Far) Gone(f func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		go f()
		return
	}
	x.after = append(x.after, f)
}

// WhenGone is Gone for one f at a time. stop takes f back; it reports whether f will not be called.
func (x *Far) WhenGone(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		go f()
		return func() bool { return false }
	}
	x.hook = f
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		had := x.hook != nil
		x.hook = nil
		return had
	}
}

// Context returns a context that is done once the exchange is gone.
func (x *Far) Context() context.Context {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx == nil {
		x.ctx, x.cancel = context.WithCancel(context.Background())
		if x.gone {
			x.cancel()
		}
	}
	return x.ctx
}

// Hear notes that the other side is there, and how much it has taken.
func (x *Far) Hear(credit uint64) {
	x.mu.Lock()
	x.heard = time.Now()
	x.out.noteTaken(credit)
	x.pumpWindow()
	x.settleAndUnlock()
}

// Alive says that this side is there.
func (x *Far) Alive() Alive {
	x.mu.Lock()
	defer x.mu.Unlock()
	return Alive{ID: x.out.id, Num: x.out.num}
}

// Silent reports whether the other side was not heard for too long.
func (x *Far) Silent(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return now.Sub(x.heard) > Patience
}
