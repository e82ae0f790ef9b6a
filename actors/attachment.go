package actors

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// maxPending bounds the frames that wait for a replay to catch up, in bytes. Frames beyond it
// are dropped, and read from the log later.
const maxPending = 256 << 10

// frame is an acknowledged append on its way to a connection. It covers the appends from..num;
// event ids carry num.
type frame struct {
	from, num uint64
	epoch     uint64
	entries   []stream.Entry
	last      bool
}

func (f *frame) size() int {
	n := 0
	for i := range f.entries {
		n += len(f.entries[i].Data)
	}
	return n
}

// attachment is the reading side of a stream: one connection, and how far it has got. It passes
// frames of the writer on strictly n+1 after n. Until a replay has caught up they wait; frames
// beyond maxPending are read from the log.
type attachment struct {
	among   *attachments // the node's open ones, while its connection is open
	svc     *Service
	from    *quota.Account // the connection is counted on it
	key     StreamKey
	conn    Conn
	primes  bool // the revision knows priming events and retry
	answers bool // the stream is a call's
	after   stream.Position

	mu      sync.Mutex // guards the fields below; never held over I/O
	next    uint64     // the append expected next
	skip    int        // entries of append next that the client has
	named   bool       // the connection has carried an event id to resume from
	primed  bool       // the connection has carried the time to wait before that
	live    bool       // frames go straight to the connection
	pending []frame
	bytes   int
	gap     bool // frames were dropped: the log has them
	done    bool // the last event has been written, or the connection was given up
	wrote   time.Time
	buf     []byte
}

// has reports whether a revision, by its date, has a feature.
func has(revision string, f mcp.Feature) bool {
	r, _ := mcp.ParseRevision(revision)
	return r.Has(f)
}

// open commits the response to a stream. A new stream is primed at once; a resumed one is
// primed once it has been silent for the time of a comment.
func (a *attachment) open(fresh bool) bool {
	if !a.conn.Open() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if fresh {
		a.prime()
	}
	a.conn.Flush()
	a.watch()
	return true
}

// prime tells the client its position if no event has. A client that has resumed may need that
// as much as a new one: popular clients remember only what their newest connection has carried.
// The id is then the one that the client came with.
func (a *attachment) prime() {
	if a.primes && !a.named {
		a.named = true
		a.conn.Event(a.id(a.after), a.retry(), nil)
	}
}

// retry is the reconnection time that the next event carries, in milliseconds; 0 for none. Each
// connection carries it once: a client may remember another time, see poll.
func (a *attachment) retry() int {
	if !a.primes || a.primed {
		return 0
	}
	a.primed = true
	wait := a.svc.Limits.Retry
	if !a.answers {
		// Release 1.x of the Python SDK tries once after a standalone stream broke off, and
		// twice after a call's stream did.
		wait *= 2
	}
	return int(wait / time.Millisecond)
}

// close ends the connection of a call that goes on.
func (a *attachment) close(m closeConn) {
	if m.leaving {
		a.finish()
		return
	}
	a.poll()
}

// soon is how long a client waits at most that must come back at once.
const soon = time.Second

// poll ends the connection of a call that goes on here, and has the client come back soon.
func (a *attachment) poll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	if a.primes {
		a.conn.Event("", int(min(soon, a.svc.Limits.Retry)/time.Millisecond), nil)
	}
	a.conn.Finish()
}

// watch keeps the connection among the node's open ones until it is gone.
func (a *attachment) watch() {
	a.wrote = time.Now()
	a.among.add(a)
	a.from.Held[heldStreams].Add(1)
	a.conn.Gone(func() {
		a.among.drop(a)
		a.from.Held[heldStreams].Add(-1)
	})
}

func (a *attachment) id(p stream.Position) string {
	a.buf = p.AppendTo(a.buf[:0])
	return string(a.buf)
}

// frame takes an append from the writer.
func (a *attachment) frame(f frame) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.done || f.num < a.next:
	case a.live && f.from <= a.next:
		a.write(stream.Append{Num: f.num, Epoch: f.epoch, Entries: f.entries, Last: f.last})
		a.conn.Flush()
	case a.live:
		// The writer and the connection are in one process with nothing between them. A gap
		// here means that a frame was lost, so the client must come back.
		a.done = true
		a.conn.Cut()
	case a.gap || a.bytes+f.size() > maxPending:
		a.gap, a.pending, a.bytes = true, nil, 0
	default:
		a.pending = append(a.pending, f)
		a.bytes += f.size()
	}
}

// write sends the visible entries of an append that the client does not have.
func (a *attachment) write(p stream.Append) {
	for i := range p.Entries {
		if (p.Num == a.next && i < a.skip) || !p.Entries[i].Kind.Visible() {
			continue
		}
		a.named = true
		a.conn.Event(a.id(p.Position(a.key.ID, i)), a.retry(), p.Entries[i].Data)
	}
	a.next, a.skip = p.Num+1, 0
	a.wrote = time.Now()
	if p.Last {
		a.done = true
		a.conn.Finish()
	}
}

// replayed writes an append that was read from the log.
func (a *attachment) replayed(p stream.Append) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done && p.Num >= a.next {
		a.write(p)
	}
}

// catchUp passes on the waiting frames, once the log has been read up to the writer's tail at
// attach. again reports that frames were dropped and the log must be read further.
func (a *attachment) catchUp() (again bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gap {
		a.gap = false
		return !a.done
	}
	for _, f := range a.pending {
		if f.num < a.next || a.done {
			continue
		}
		if f.from > a.next {
			return true
		}
		a.write(stream.Append{Num: f.num, Epoch: f.epoch, Entries: f.entries, Last: f.last})
	}
	a.pending, a.bytes = nil, 0
	a.live = true
	a.conn.Flush()
	return false
}

// finish ends the response. The client knows from the priming event when to come back.
func (a *attachment) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	a.conn.Finish()
}

// reconnect ends the connection of a stream that goes on, here or elsewhere, so that the client
// comes back. A client that knows polling does so when the response ends. Older ones take that
// for the end of the stream, and come back only when the connection breaks.
func (a *attachment) reconnect() {
	if a.primes {
		a.finish()
		return
	}
	a.cut()
}

// cut closes the connection: another one has replaced it, or the stream is lost.
func (a *attachment) cut() {
	a.mu.Lock()
	a.done = true
	a.mu.Unlock()
	a.conn.Cut()
}

// position is the append expected next.
func (a *attachment) position() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.next
}

// comment keeps a silent connection open.
func (a *attachment) comment(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done && now.Sub(a.wrote) >= a.svc.Limits.KeepAlive {
		a.wrote = now
		if a.primes && !a.named {
			a.prime()
		} else {
			a.conn.Comment()
		}
		a.conn.Flush()
	}
}

// attachments is the set of open streams of this node.
type attachments struct {
	mu  sync.Mutex // guards all
	all map[*attachment]struct{}
}

func (s *attachments) add(a *attachment) {
	s.mu.Lock()
	s.all[a] = struct{}{}
	s.mu.Unlock()
}

func (s *attachments) drop(a *attachment) {
	s.mu.Lock()
	delete(s.all, a)
	s.mu.Unlock()
}

func (s *attachments) snapshot() []*attachment {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*attachment, 0, len(s.all))
	for a := range s.all {
		all = append(all, a)
	}
	return all
}

func (s *attachments) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
