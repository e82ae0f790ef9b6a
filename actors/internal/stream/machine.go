package stream

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// Ring is how many appends of a stream the log has room for: append n takes the
// place of n-Ring.
const Ring = 1000

// told is how many appends may follow the writer record before it is rewritten to cover
// them.
const told = 100

// Limits bound one stream. Zero fields take the defaults.
type Limits struct {
	Appends int `option:"Store.ReplayEvents"` // appends kept for replay, at most Ring; 1,000
	Bytes   int `option:"Store.ReplayBytes"`  // bytes kept for replay; 4 MB
	Part    int // bytes of one append; 256 KiB
	Batch   int // entries that share one append; 256
}

func (l *Limits) fillDefaults() {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&l.Appends, limits.ReplayEvents.Value())
	l.Appends = min(l.Appends, Ring)
	def(&l.Bytes, int(limits.ReplayBytes.Value()))
	def(&l.Part, 256<<10)
	def(&l.Batch, 256)
	l.Batch = min(l.Batch, maxEntries)
}

// Phase is the state of a stream.
type Phase uint8

// The phases, in order.
const (
	Opening Phase = iota // the writer record is being stored
	Open                 // appends are accepted
	Ended                // the last append is stored
	Lost                 // another writer has the stream, or it cannot be stored
)

// Event is what happens to a stream.
type Event struct {
	Op      Op
	Rev     uint64 // Opened, Refreshed, Ours, Created: revision of the writer record
	Epoch   uint64 // Opened, Absent: the epoch that the record has, or will have
	Tail    uint64 // Opened: last append in the log (takeover)
	Covered uint64 // Opened: last append that the record covers (takeover)
	Sizes   []int  // Opened: sizes of the retained appends, oldest first (takeover)
	Entries []Entry
	Last    bool              // Push, Absent: the stream ends with these; Cancel always does
	Of      func(*Entry) bool // Withdraw: which entries
	Err     error
}

// Op names an event.
type Op uint8

// The events.
const (
	Opened     Op = iota // the record is stored
	OpenFailed           // the record could not be stored
	Push                 // Entries must be sent
	Cancel               // drop all waiting entries; Entries end the stream
	Withdraw             // drop the waiting entries that Of selects
	Stored               // the append in flight is acknowledged
	Again                // the write in flight was not done, or its outcome is unknown: it may be tried again
	Guarded              // the write was not done: the writer record has another revision
	Ours                 // the record is this writer's, under Rev
	Absent               // the record is gone: the next one has Epoch. With Last, Entries end the stream, in place of all that waits
	Created              // the record was stored again, under Rev
	Fenced               // another writer has the stream, or it has been ended
	Refresh              // the writer record is due to be rewritten
	Refreshed            // the record was rewritten, under Rev
	Outlived             // the stored record outlives the append in flight: rewrite the record first
)

// Effect is an action that the caller must carry out, in order.
type Effect struct {
	Do      Do
	Num     uint64
	Epoch   uint64 // DoDeliver: of the append
	Data    []byte
	Entries []Entry
	Last    bool
	After   time.Duration
	Err     error
}

// Do names an effect.
type Do uint8

// The effects.
const (
	DoAppend  Do = iota // store Data as append Num, guarded by the record's revision
	DoDeliver           // append Num with Entries is stored: send it; Last ends the stream
	DoRefresh           // rewrite the writer record, which then covers all up to append Num
	DoLook              // find out whose the writer record is: Ours, Absent or Fenced
	DoCreate            // store the writer record again; it covers all up to append Num
	DoRetry             // repeat the write in flight after After: Resend
	DoDrop              // Entries will never be stored: Err
	DoLost              // write no more: Err
)

// Machine is the writer's side of one stream: the waiting entries, the write in flight, and
// what the log keeps. At most one append is in flight, and entries that queue meanwhile
// share the next one. The log forgets and the writer record does not: no append is
// overwritten or blanked before the record covers it. It is a pure state machine: no clock,
// no I/O.
type Machine struct {
	lim     Limits
	phase   Phase
	rev     uint64
	epoch   uint64
	tail    uint64
	whole   uint64 // last append with all parts stored: tail, except within an append in parts
	covered uint64 // last append that the stored record covers

	queue  []Entry
	queued int
	last   bool

	flight  flight
	held    *flight // an append that waits until the record has been rewritten
	refresh bool    // the record must be rewritten, before anything else is written
	tries   int

	sizes []int // sizes of appends low..tail
	low   uint64
	bytes int
}

type flight struct {
	busy    bool
	blank   bool // overwrites append num with nothing
	record  bool // rewrites the writer record
	doubt   doubt
	num     uint64   // of the next append to store
	parts   [][]byte // one append each
	sent    int      // parts that are stored
	entries []Entry
	size    int // of the entries
	last    bool
}

// doubt is what must be done about the writer record before a write can be repeated.
type doubt uint8

const (
	certain  doubt = iota
	looking        // finding out whose it is
	creating       // it is gone: storing it again
)

// New returns the machine of a stream whose record is being stored.
func New(l Limits) *Machine {
	l.fillDefaults()
	return &Machine{lim: l, low: 1}
}

// Phase is the state of the stream.
func (m *Machine) Phase() Phase { return m.phase }

// Rev is the revision of the writer record that guards appends.
func (m *Machine) Rev() uint64 { return m.rev }

// Epoch is the epoch of the writer record.
func (m *Machine) Epoch() uint64 { return m.epoch }

// Tail is the number of the last acknowledged append.
func (m *Machine) Tail() uint64 { return m.tail }

// Kept returns the first append that the log keeps of the stream, and the bytes from there.
func (m *Machine) Kept() (low uint64, bytes int) { return m.low, m.bytes }

// Queued is the number of bytes that wait to be appended.
func (m *Machine) Queued() int { return m.queued }

// Holds is about how many bytes the waiting entries take in memory, and those of writes in flight: these
// are there twice, as entries and as what is written.
func (m *Machine) Holds() int {
	n := m.queued + 2*m.flight.size
	if m.held != nil {
		n += 2 * m.held.size
	}
	return n
}

// Tries is how often the write in flight has failed so far.
func (m *Machine) Tries() int { return m.tries }

// Step applies e to the machine and appends the effects to out.
func (m *Machine) Step(e Event, out []Effect) []Effect {
	switch e.Op {
	case Opened:
		m.phase, m.rev, m.epoch, m.tail, m.whole, m.covered = Open, e.Rev, e.Epoch, e.Tail, e.Tail, e.Covered
		m.sizes = e.Sizes[max(0, len(e.Sizes)-Ring):] // older appends have been overwritten
		m.low = e.Tail - uint64(len(m.sizes)) + 1
		// What the takeover's record does not cover, such as the parts of an append that the writer before did not
		// finish, may be so old that the log forgets it before the record is due.
		m.refresh = e.Tail > e.Covered
		for _, n := range m.sizes {
			m.bytes += n
		}
		return m.startWrite(out)
	case OpenFailed:
		return m.loseStream(e.Err, out)
	case Push:
		if m.phase > Open || m.last {
			return append(out, Effect{Do: DoDrop, Entries: e.Entries, Err: ErrEnded})
		}
		for i := range e.Entries {
			m.queued += e.Entries[i].size()
		}
		m.queue = append(m.queue, e.Entries...)
		m.last = m.last || e.Last
		return m.startWrite(out)
	case Cancel:
		if m.phase > Open || m.last {
			return append(out, Effect{Do: DoDrop, Entries: e.Entries, Err: ErrEnded})
		}
		if len(m.queue) > 0 {
			out = append(out, Effect{Do: DoDrop, Entries: m.queue, Err: ErrEnded})
		}
		m.endWith(e.Entries)
		return m.startWrite(out)
	case Withdraw:
		return m.withdrawEntries(e.Of, out)
	case Stored:
		return m.flightStored(out)
	case Again:
		if m.phase != Open || !m.flight.busy {
			return out
		}
		m.tries++
		return append(out, Effect{Do: DoRetry, After: backoff(m.tries)})
	case Guarded, Ours, Absent, Created:
		return m.followRefusal(e, out)
	case Fenced:
		return m.loseStream(e.Err, out)
	case Refresh:
		m.refresh = m.phase == Open
		return m.startWrite(out)
	case Refreshed:
		return m.recordRefreshed(e.Rev, out)
	case Outlived:
		return m.holdForRecord(out)
	}
	return out
}

// Resend repeats the write in flight after an attempt that was not done.
func (m *Machine) Resend(out []Effect) []Effect {
	if m.phase != Open || !m.flight.busy {
		return out
	}
	return m.sendFlight(out)
}

// followRefusal follows a write that was refused for its guard. A record that is gone is stored again, and this writer goes on, or ends
// the stream.
func (m *Machine) followRefusal(e Event, out []Effect) []Effect {
	f := &m.flight
	if m.phase != Open || !f.busy {
		return out
	}
	switch e.Op {
	case Guarded:
		f.doubt = looking
	case Ours:
		m.tries, m.rev, f.doubt = 0, e.Rev, certain
	case Absent:
		m.tries, m.epoch = 0, e.Epoch
		m.rewindFlight(f)
		if e.Last {
			out = m.replaceWaiting(&e, out)
		}
		f.doubt = creating
	case Created:
		if f.doubt = certain; f.record {
			return m.recordRefreshed(e.Rev, out)
		}
		m.tries, m.rev, m.covered = 0, e.Rev, m.whole
	}
	return m.sendFlight(out)
}

// replaceWaiting drops all that waits, the write in flight included, for the entries that end the stream.
func (m *Machine) replaceWaiting(e *Event, out []Effect) []Effect {
	if left := m.unstoredEntries(); len(left) > 0 {
		out = append(out, Effect{Do: DoDrop, Entries: left, Err: e.Err})
	}
	m.held = nil
	m.endWith(e.Entries)
	m.flight = m.gatherAppend()
	return out
}

// endWith has entries end the stream, in place of what is queued.
func (m *Machine) endWith(entries []Entry) {
	m.queue, m.queued, m.last = entries, 0, true
	for i := range m.queue {
		m.queued += m.queue[i].size()
	}
}

// unstoredEntries lists the entries that are not stored.
func (m *Machine) unstoredEntries() []Entry {
	left := slices.Clone(m.flight.entries)
	if m.held != nil {
		left = append(left, m.held.entries...)
	}
	return append(left, m.queue...)
}

// rewindFlight makes all parts of an append be stored again: the next record does not cover the
// stored ones, and they may expire before it does.
func (m *Machine) rewindFlight(f *flight) {
	kept := max(0, len(m.sizes)-f.sent)
	for _, n := range m.sizes[kept:] {
		m.bytes -= n
	}
	m.sizes = m.sizes[:kept]
	m.tail, f.num, f.sent = m.tail-uint64(f.sent), f.num-uint64(f.sent), 0
}

// recordRefreshed goes on once the record covers all that is stored.
func (m *Machine) recordRefreshed(rev uint64, out []Effect) []Effect {
	if m.phase != Open || !m.flight.record {
		return out
	}
	m.tries, m.rev, m.covered = 0, rev, m.whole
	m.flight = flight{}
	return m.startWrite(out)
}

// holdForRecord holds the write in flight, done or not, until the record has been rewritten.
// Then all of it is written, again if need be. A record that outlives later appends would
// describe a log that has lost them.
func (m *Machine) holdForRecord(out []Effect) []Effect {
	if f := m.flight; m.phase == Open && f.busy && !f.record && f.doubt == certain {
		m.rewindFlight(&f)
		m.flight, m.held = flight{busy: true, record: true}, &f
		return m.sendFlight(out)
	}
	return out
}

func (m *Machine) withdrawEntries(of func(*Entry) bool, out []Effect) []Effect {
	var kept, dropped []Entry
	for i := range m.queue {
		if e := &m.queue[i]; of(e) {
			dropped = append(dropped, *e)
			m.queued -= e.size()
		} else {
			kept = append(kept, *e)
		}
	}
	if dropped == nil {
		return out
	}
	m.queue = kept
	return append(out, Effect{Do: DoDrop, Entries: dropped, Err: ErrEnded})
}

func backoff(tries int) time.Duration {
	return min(10*time.Millisecond<<min(tries, 7), time.Second)
}

// startWrite starts a write when none is in flight: first the record, whose revision the others
// need, then a blank for an append beyond a limit, then the queue. The record must cover an
// append before the log forgets it.
func (m *Machine) startWrite(out []Effect) []Effect {
	if m.phase != Open || m.flight.busy {
		return out
	}
	rewrite := flight{busy: true, record: true}
	switch {
	case m.refresh:
		m.refresh = false
		m.flight = rewrite
	case m.held != nil:
		m.flight, m.held = *m.held, nil
	case m.whole >= m.covered+told && (len(m.queue) > 0 || m.last):
		m.flight = rewrite // keeps a takeover's reading short
	case (m.bytes > m.lim.Bytes || len(m.sizes) > m.lim.Appends) && m.low < m.tail:
		if m.flight = rewrite; m.low <= m.covered {
			m.flight = flight{busy: true, blank: true, num: m.low}
		}
	case len(m.queue) > 0 || m.last:
		f := m.gatherAppend()
		if m.flight = f; m.tail+uint64(len(f.parts)) > m.covered+Ring {
			m.flight, m.held = rewrite, &f
		}
	default:
		return out
	}
	return m.sendFlight(out)
}

// gatherAppend takes as much of the queue as shares one append.
func (m *Machine) gatherAppend() flight {
	n := min(len(m.queue), m.lim.Batch)
	batch, size := m.queue[:n:n], 0
	for i := range batch {
		if size += batch[i].size(); i > 0 && size > m.lim.Part {
			size -= batch[i].size()
			batch = batch[:i:i]
			break
		}
	}
	m.queue = m.queue[len(batch):]
	m.queued -= size
	last := m.last && len(m.queue) == 0
	if len(m.queue) == 0 {
		m.queue = nil
	}
	return flight{busy: true, num: m.tail + 1, parts: encodeEntries(batch, last, m.lim.Part), entries: batch, size: size, last: last}
}

func (m *Machine) sendFlight(out []Effect) []Effect {
	f := &m.flight
	switch {
	case f.doubt == looking:
		return append(out, Effect{Do: DoLook})
	case f.doubt == creating:
		return append(out, Effect{Do: DoCreate, Num: m.whole})
	case f.record:
		return append(out, Effect{Do: DoRefresh, Num: m.whole})
	case f.blank:
		return append(out, Effect{Do: DoAppend, Num: f.num})
	}
	part := f.parts[f.sent]
	setEpoch(part, m.epoch)
	return append(out, Effect{Do: DoAppend, Num: f.num, Data: part})
}

func (m *Machine) flightStored(out []Effect) []Effect {
	f := &m.flight
	if m.phase != Open || !f.busy || f.record || f.doubt != certain {
		return out
	}
	m.tries = 0
	if f.blank {
		m.bytes -= m.sizes[0]
		m.sizes, m.low = m.sizes[1:], m.low+1
		m.flight = flight{}
		return m.startWrite(out)
	}
	m.tail = f.num
	m.countAppend(len(f.parts[f.sent]))
	if f.sent++; f.sent < len(f.parts) {
		f.num++
		return m.sendFlight(out)
	}
	done := *f
	m.whole, m.flight = m.tail, flight{}
	if done.last {
		m.phase = Ended
	}
	out = append(out, Effect{Do: DoDeliver, Num: done.num, Epoch: m.epoch, Entries: done.entries, Last: done.last})
	return m.startWrite(out)
}

// countAppend counts an append that is now retained; the ring forgets the oldest.
func (m *Machine) countAppend(size int) {
	m.sizes = append(m.sizes, size)
	m.bytes += size
	if len(m.sizes) > Ring {
		m.bytes -= m.sizes[0]
		m.sizes, m.low = m.sizes[1:], m.low+1
	}
}

func (m *Machine) loseStream(err error, out []Effect) []Effect {
	if m.phase > Open {
		return out
	}
	m.phase = Lost
	left := m.unstoredEntries()
	m.queue, m.queued, m.flight, m.held = nil, 0, flight{}, nil
	if len(left) > 0 {
		out = append(out, Effect{Do: DoDrop, Entries: left, Err: err})
	}
	return append(out, Effect{Do: DoLost, Err: err})
}
