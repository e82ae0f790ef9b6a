package attachment

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

// maxPending bounds the frames that wait for a replay to catch up, in bytes. Frames beyond it
// are dropped, and read from the log later.
const maxPending = 256 << 10

// Frame is an acknowledged append on its way to a connection. It covers the appends from From
// to the append itself, whose number event ids carry.
type Frame struct {
	From uint64
	stream.Append
}

// AppendSize is the bytes of the append's entries.
func AppendSize(p *stream.Append) int {
	n := 0
	for i := range p.Entries {
		n += len(p.Entries[i].Data)
	}
	return n
}

// Conn is the client's side of one HTTP request. Its methods never block.
type Conn interface {
	Open() bool
	Event(id string, retryMS int, data []byte)
	Comment()
	Flush()
	Finish()
	Cut()
	Gone(f func())
}

// Config says how an Attachment serves its connection.
type Config[K any] struct {
	// Among are the process's open connections; the attachment is one of them while it is
	// open.
	Among *Set[K]
	Key   K             // names the stream
	Held  *atomic.Int64 // counts the connection while it is open
	Conn  Conn
	// Stream is the stream's id, and After is the event after which the client reads.
	Stream string
	After  stream.Position
	// Answers says that the stream is a call's; Primes that the client's revision knows
	// priming events and retry.
	Answers, Primes bool
	Retry           time.Duration // time that clients wait before they come back to a call
	KeepAlive       time.Duration // silence after which the connection gets a comment
	// Holder is who has the connection, and Expires is the first moment at which it may not be served any more, the zero time if there is none: its client comes back
	// then. A call that its client could not come back for keeps its connection.
	Holder  any
	Expires time.Time
	// Withholds reports whether Holder must not have a message. later says that Holder's client has more to come back with, perhaps: then the connection ends as by
	// Reconnect, and the message is left to the next one. If not, the connection goes on without the message. If nil, nothing is withheld. It is called with the
	// attachment's mutex held.
	Withholds func(message []byte) (withheld, later bool)
	// Behind is called when frames of a live connection did not come: the log has them, and the connection is no longer live. It
	// must not block, nor use the attachment before it returns. If nil, the connection is cut: nothing can lose frames within a process.
	Behind func()
}

// Gone calls f once when the connection is gone.
func (c *Config[K]) Gone(f func()) { c.Conn.Gone(f) }

// Attachment is the reading side of a stream: one connection, and how far it has got. Until a
// replay has caught up, the writer's frames wait; frames beyond maxPending are read from the
// log. Any goroutine may use it; [New] makes one.
type Attachment[K any] struct {
	Config[K]

	mu   sync.Mutex // guards the fields below; never held over I/O
	next uint64     // the append expected next
	skip int        // entries of append next that the client has
	primer
	live        bool // frames go straight to the connection
	pending     []Frame
	bytes       int
	gap         bool // frames were dropped: the log has them
	done        bool // the last event has been written, or the connection was given up
	keptExpired bool // it has expired, and the client could not come back
	hushed      bool // no comments
	wrote       time.Time
}

// primer is what a connection has carried for its client to come back with.
type primer struct {
	named bool // an event id to resume from
	timed bool // the time to wait before that
	buf   []byte
}

// eventID is the id of an event as the client gets it.
func (m *primer) eventID(p stream.Position) string {
	m.buf = p.AppendTo(m.buf[:0])
	return string(m.buf)
}

// takeRetry is the reconnection time that the next event carries, in milliseconds; 0 for none. Each
// connection carries it once: a client may remember another time, see Poll.
func (m *primer) takeRetry(wait time.Duration) int {
	if m.timed {
		return 0
	}
	m.timed = true
	return int(wait / time.Millisecond)
}

// New makes the attachment of a connection that reads a stream from entry skip of append next
// on. Its frames wait until CatchUp, unless it is live from the beginning.
func New[K any](c Config[K], next uint64, skip int, live bool) *Attachment[K] {
	switch {
	case !c.Primes:
		c.Retry = 0
	case !c.Answers:
		// Release 1.x of the Python SDK tries once after a standalone stream broke off, and
		// twice after a call's stream did.
		c.Retry *= 2
	}
	return &Attachment[K]{Config: c, next: next, skip: skip, live: live}
}

// Open commits the response to a stream; false reports that the client is gone. A fresh stream
// is primed at once; a resumed one is primed by CatchUp, if nothing was left for it to carry.
func (a *Attachment[K]) Open(fresh bool) bool {
	if !a.Conn.Open() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if fresh {
		a.primeClient()
	}
	a.Conn.Flush()
	a.Watch()
	return true
}

// primeClient tells the client its position if no event has. A client that has resumed may need that
// as much as a new one: popular clients remember only what their newest connection has carried.
// The id is then the one that the client came with.
func (a *Attachment[K]) primeClient() {
	if a.Primes && !a.named {
		a.named = true
		a.Conn.Event(a.eventID(a.After), a.takeRetry(a.Retry), nil)
	}
}

// soon is how long a client waits at most that must come back at once.
const soon = time.Second

// Poll ends the connection of a call that goes on here, and has the client come back soon.
func (a *Attachment[K]) Poll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	if a.Primes {
		id := ""
		if !a.named {
			id = a.eventID(a.After)
		}
		a.Conn.Event(id, int(min(soon, a.Retry)/time.Millisecond), nil)
	}
	a.Conn.Finish()
}

// Watch keeps the connection in the set of open ones until it is gone. Open does that for the
// connections that it opens.
func (a *Attachment[K]) Watch() {
	a.wrote = time.Now()
	a.Among.addAttachment(a)
	a.Held.Add(1)
	a.Conn.Gone(func() {
		a.Among.dropAttachment(a)
		a.Held.Add(-1)
	})
}

// Frame takes an append from the writer.
func (a *Attachment[K]) Frame(f Frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.done || f.Num < a.next || a.endIfExpired():
	case a.live && f.From <= a.next:
		a.writeNew(f.Append)
		a.Conn.Flush()
	case a.live:
		a.fallBack()
	case a.gap || a.bytes+AppendSize(&f.Append) > maxPending:
		a.gap, a.pending, a.bytes = true, nil, 0
	default:
		a.pending = append(a.pending, f)
		a.bytes += AppendSize(&f.Append)
	}
}

// fallBack ends that the connection is live, because a frame was lost. The caller holds mu.
func (a *Attachment[K]) fallBack() {
	if a.Behind == nil {
		a.done = true
		a.Conn.Cut()
		return
	}
	a.live, a.gap = false, true
	a.Behind()
}

// NoteTail says that the writer has stored appends up to tail, whose frames may not come.
func (a *Attachment[K]) NoteTail(tail uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.done || tail < a.next:
	case a.live:
		a.fallBack()
	default:
		a.gap, a.pending, a.bytes = true, nil, 0
	}
}

// Detach ends that the connection is live: its writer is gone, and the log has what follows.
func (a *Attachment[K]) Detach() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live, a.gap, a.pending, a.bytes = false, false, nil, 0
}

// IsOver reports whether nothing more can be written to the connection.
func (a *Attachment[K]) IsOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

// HushComments stops the comments, or lets them go on: a connection whose writer is not heard must not seem alive.
func (a *Attachment[K]) HushComments(hushed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hushed = hushed
}

// writeEntries sends the visible entries of an append that the client does not have.
func (a *Attachment[K]) writeEntries(p stream.Append) {
	wrote := false
	for i := range p.Entries {
		if (p.Num == a.next && i < a.skip) || !p.Entries[i].Kind.Visible() {
			continue
		}
		if a.Withholds != nil {
			if withheld, _ := a.Withholds(p.Entries[i].Data); withheld {
				continue
			}
		}
		a.named, wrote = true, true
		a.Conn.Event(a.eventID(p.Position(a.Stream, i)), a.takeRetry(a.Retry), p.Entries[i].Data)
	}
	a.next, a.skip = p.Num+1, 0
	if wrote { // an append that clients do not see, as that of a step, leaves the connection silent
		a.wrote = time.Now()
	}
	if p.Last {
		a.done = true
		a.Conn.Finish()
	}
}

// writeNew is write of what was stored since the client came. Where it has a message
// that is withheld for now, the client comes back for all of it, if it can. The caller holds mu.
func (a *Attachment[K]) writeNew(p stream.Append) {
	if a.Withholds != nil && (a.Primes || a.named) {
		for i := range p.Entries {
			if _, later := a.Withholds(p.Entries[i].Data); later && p.Entries[i].Kind.Visible() {
				a.sendBack()
				return
			}
		}
	}
	a.writeEntries(p)
}

// WriteReplayed writes an append that was read from the log.
func (a *Attachment[K]) WriteReplayed(p stream.Append) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done && p.Num >= a.next && !a.endIfExpired() {
		a.writeEntries(p)
	}
}

// CatchUp passes on the waiting frames, once the log has been read up to the writer's tail at
// attach. again reports that frames were dropped and the log must be read further. Where the client
// has missed nothing, the connection is primed: it may break before it carries an event.
func (a *Attachment[K]) CatchUp() (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gap {
		a.gap = false
		return !a.done
	}
	for _, f := range a.pending {
		if f.Num < a.next || a.done || a.endIfExpired() {
			continue
		}
		if f.From > a.next {
			return true
		}
		a.writeNew(f.Append)
	}
	a.pending, a.bytes = nil, 0
	a.live = true
	if !a.done {
		a.primeClient()
	}
	a.Conn.Flush()
	return false
}

// Finish ends the response. The client knows from the priming event when to come back.
func (a *Attachment[K]) Finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	a.Conn.Finish()
}

// Reconnect ends the connection of a stream that goes on, here or elsewhere, so that the client
// comes back. A client that knows polling does so when the response ends. Older ones take that
// for the end of the stream, and come back only when the connection breaks.
func (a *Attachment[K]) Reconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done || !a.Primes {
		a.sendBack()
	}
}

// Release is Reconnect for a client that can come back: it has an event id to do so. Another one keeps its connection.
func (a *Attachment[K]) Release() {
	a.mu.Lock()
	if a.Primes && !a.done {
		a.primeClient()
	}
	named := a.named
	a.mu.Unlock()
	if named {
		a.Reconnect()
	}
}

// EndIfExpired ends the connection if it has expired.
func (a *Attachment[K]) EndIfExpired() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done {
		a.endIfExpired()
	}
}

// ExpireNow ends the connection as if it expired at this moment, and reports whether it did: see EndIfExpired.
func (a *Attachment[K]) ExpireNow() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Expires = time.Now()
	return !a.done && a.endIfExpired()
}

// endIfExpired ends the connection if it has expired, as Reconnect does, and reports whether it did. A call whose client has no event id keeps its connection, and one that has none
// at that moment may have it to the end. The caller holds mu.
func (a *Attachment[K]) endIfExpired() bool {
	switch {
	case a.Expires.IsZero() || a.keptExpired || time.Now().Before(a.Expires):
		return false
	case a.Answers && !a.Primes && !a.named:
		a.keptExpired = true
		return false
	}
	a.sendBack()
	return true
}

// sendBack is Reconnect for a caller that holds mu.
func (a *Attachment[K]) sendBack() {
	if a.done = true; !a.Primes {
		a.Conn.Cut()
		return
	}
	a.primeClient()
	a.Conn.Finish()
}

// Cut closes the connection: another one has replaced it, or the stream is lost.
func (a *Attachment[K]) Cut() {
	a.mu.Lock()
	a.done = true
	a.mu.Unlock()
	a.Conn.Cut()
}

// Position is the append expected next.
func (a *Attachment[K]) Position() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}

// SendUnstored sends a message that is not stored, unless a replay has not caught up.
func (a *Attachment[K]) SendUnstored(data []byte, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done && a.live && !a.endIfExpired() {
		a.Conn.Event("", 0, data)
		a.Conn.Flush()
		a.wrote = now
	}
}

// Comment keeps a silent connection open.
func (a *Attachment[K]) Comment(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done && !a.hushed && now.Sub(a.wrote) >= a.KeepAlive {
		a.wrote = now
		if a.Primes && !a.named {
			a.primeClient()
		} else {
			a.Conn.Comment()
		}
		a.Conn.Flush()
	}
}
