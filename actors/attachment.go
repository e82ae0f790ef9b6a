package actors

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/mcp"
)

// maxPending bounds the frames that wait for a replay to catch up, in bytes;
// beyond it they are dropped, and read from the log later.
const maxPending = 256 << 10

// frame is an acknowledged append on its way to a connection. It covers the
// append numbers from..num, of which num is the one that event ids carry.
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

// attachment is the reading side of a stream: one connection, and how far it
// has got. Frames of the writer are passed on strictly n+1 after n; until a
// replay has caught up they wait, and what does not fit is read from the log.
type attachment struct {
	among   *attachments // of the node, while its connection is open
	svc     *Service
	from    *quota.Account // that the connection counts on
	key     StreamKey
	conn    Conn
	primes  bool // the revision knows priming events and retry
	answers bool // the stream is of a call
	after   stream.Position

	mu      sync.Mutex // guards the fields below; never held over I/O
	next    uint64     // the append expected next
	skip    int        // entries of append next that the client has
	named   bool       // the connection has carried an event id to come back with
	primed  bool       // and the time after which to come back
	live    bool       // frames go straight to the connection
	pending []frame
	bytes   int
	gap     bool // frames were dropped: the log has them
	done    bool // the last event has been written, or the connection is no longer ours
	wrote   time.Time
	buf     []byte
}

// has reports whether a revision, by its date, has a feature.
func has(revision string, f mcp.Feature) bool {
	r, _ := mcp.ParseRevision(revision)
	return r.Has(f)
}

// open commits the response to a stream. A new stream is primed at once, one that
// is resumed when it has had nothing to say for as long as a comment may take.
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

// prime tells the client where it is when no event has. One that has resumed may
// need it as much as one that begins: popular clients remember only what their
// newest connection has carried. The id is then the one that it came with.
func (a *attachment) prime() {
	if a.primes && !a.named {
		a.named = true
		a.conn.Event(a.id(a.after), a.retry(), nil)
	}
}

// retry is what the next event says of the time to come back, in milliseconds; 0 is
// nothing. It is said once on each connection: a client may remember another time,
// see poll.
func (a *attachment) retry() int {
	if !a.primes || a.primed {
		return 0
	}
	a.primed = true
	wait := a.svc.Limits.Retry
	if !a.answers {
		// Release 1.x of the Python SDK tries once where a standalone stream broke off,
		// and twice where that of a call did.
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

// soon is how long a client waits at most that is told to come back at once.
const soon = time.Second

// poll ends the connection of a call that goes on here, so that the client comes
// back soon.
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
		// The writer and the connection are in one process and nothing comes
		// between them: a gap here means that a frame was lost, so that the
		// client has to come back.
		a.done = true
		a.conn.Cut()
	case a.gap || a.bytes+f.size() > maxPending:
		a.gap, a.pending, a.bytes = true, nil, 0
	default:
		a.pending = append(a.pending, f)
		a.bytes += f.size()
	}
}

// write sends the visible entries of an append that the client has not got.
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

// replayed writes an append read from the log.
func (a *attachment) replayed(p stream.Append) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.done && p.Num >= a.next {
		a.write(p)
	}
}

// catchUp passes on what waited, once the log has been read up to what the
// writer had when this was attached. again is set when frames were dropped and
// the log has to be read on, up to at least the append upTo.
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

// finish ends the response; when to come back the client knows from the priming
// event.
func (a *attachment) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return
	}
	a.done = true
	a.conn.Finish()
}

// reconnect ends the connection of a stream that goes on, here or elsewhere, so that
// the client comes back. One that knows of polling does when the response ends;
// older ones take that for the end of the stream, and come back when it breaks.
func (a *attachment) reconnect() {
	if a.primes {
		a.finish()
		return
	}
	a.cut()
}

// cut closes the connection: another one has taken its place, or the stream is
// lost.
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
