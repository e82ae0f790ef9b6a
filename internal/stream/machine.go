package stream

import "time"

// Ring is how many appends of a stream the log has room for: append n takes the
// place of n-Ring.
const Ring = 1000

// Limits bound one stream. Zero fields take the defaults.
type Limits struct {
	Appends int // appends kept for replay, at most Ring; 1,000
	Bytes   int // bytes kept for replay; 4 MB
	Part    int // bytes of one append; 256 KiB
	Batch   int // entries that share one append; 256
}

func (l *Limits) fill() {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&l.Appends, Ring)
	l.Appends = min(l.Appends, Ring)
	def(&l.Bytes, 4<<20)
	def(&l.Part, 256<<10)
	def(&l.Batch, 256)
}

// Phase is where a stream stands.
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
	Rev     uint64 // Opened, Refreshed: revision of the writer record
	Tail    uint64 // Opened: last append in the log (takeover)
	Sizes   []int  // Opened: sizes of the retained appends, oldest first (takeover)
	Entries []Entry
	Last    bool              // Push: the stream ends with these; Cancel always does
	Of      func(*Entry) bool // Withdraw: which entries
	Err     error
}

// Op names an event.
type Op uint8

// The events.
const (
	Opened     Op = iota // the record is stored
	OpenFailed           // it could not be
	Push                 // Entries are to be sent
	Cancel               // nothing that waits is to be sent, but Entries, which end the stream
	Withdraw             // nothing that waits and is Of a call is to be sent
	Stored               // the append in flight is acknowledged
	Again                // it was not done and may be tried again
	Fenced               // another writer has the stream
	Refresh              // the writer record is due to be rewritten
	Refreshed            // it was, under Rev
	Refused              // rewriting it failed and may be tried again
)

// Effect is what the shell has to do, in order.
type Effect struct {
	Do      Do
	Num     uint64
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
	DoRefresh           // rewrite the writer record with tail Num
	DoRetry             // feed Again's append (or refresh) after After: Resend
	DoDrop              // Entries will never be stored: Err
	DoLost              // write no more: Err
)

// Machine is the writer's side of one stream: what waits, what is in flight,
// what is kept. At most one append is in flight, and what queues meanwhile
// shares the next. It is a pure state machine: no clock, no I/O.
type Machine struct {
	lim   Limits
	phase Phase
	rev   uint64
	tail  uint64

	queue  []Entry
	queued int
	last   bool

	flight  flight
	refresh bool // the record is due
	tries   int

	sizes []int // sizes of appends low..tail
	low   uint64
	bytes int
}

type flight struct {
	busy    bool
	blank   bool // overwriting append num with nothing
	record  bool // rewriting the writer record
	num     uint64
	parts   [][]byte
	entries []Entry
	last    bool
}

// New returns the machine of a stream whose record is being stored.
func New(l Limits) *Machine {
	l.fill()
	return &Machine{lim: l, low: 1}
}

// Phase is where the stream stands.
func (m *Machine) Phase() Phase { return m.phase }

// Rev is the revision of the writer record that guards appends.
func (m *Machine) Rev() uint64 { return m.rev }

// Tail is the number of the last acknowledged append.
func (m *Machine) Tail() uint64 { return m.tail }

// Queued is the number of bytes that wait for an append.
func (m *Machine) Queued() int { return m.queued }

// Tries is how often the write in flight was tried in vain.
func (m *Machine) Tries() int { return m.tries }

// Step takes the machine through e and appends what is to be done to out.
func (m *Machine) Step(e Event, out []Effect) []Effect {
	switch e.Op {
	case Opened:
		m.phase, m.rev, m.tail = Open, e.Rev, e.Tail
		m.sizes, m.low = e.Sizes, e.Tail-uint64(len(e.Sizes))+1
		for _, n := range e.Sizes {
			m.bytes += n
		}
		return m.next(out)
	case OpenFailed:
		return m.lose(e.Err, out)
	case Push:
		if m.phase > Open || m.last {
			return append(out, Effect{Do: DoDrop, Entries: e.Entries, Err: ErrEnded})
		}
		for i := range e.Entries {
			m.queued += e.Entries[i].size()
		}
		m.queue = append(m.queue, e.Entries...)
		m.last = m.last || e.Last
		return m.next(out)
	case Cancel:
		if m.phase > Open || m.last {
			return append(out, Effect{Do: DoDrop, Entries: e.Entries, Err: ErrEnded})
		}
		if len(m.queue) > 0 {
			out = append(out, Effect{Do: DoDrop, Entries: m.queue, Err: ErrEnded})
		}
		m.queue, m.queued, m.last = e.Entries, 0, true
		for i := range m.queue {
			m.queued += m.queue[i].size()
		}
		return m.next(out)
	case Withdraw:
		return m.withdraw(e.Of, out)
	case Stored:
		m.tries = 0
		return m.stored(out)
	case Again:
		if m.phase != Open || !m.flight.busy {
			return out
		}
		m.tries++
		return append(out, Effect{Do: DoRetry, After: backoff(m.tries)})
	case Fenced:
		return m.lose(e.Err, out)
	case Refresh:
		m.refresh = m.phase == Open
		return m.next(out)
	case Refreshed:
		m.tries = 0
		m.rev = e.Rev
		m.flight = flight{}
		return m.next(out)
	case Refused:
		if m.phase != Open {
			return out
		}
		m.tries++
		return append(out, Effect{Do: DoRetry, After: backoff(m.tries)})
	}
	return out
}

// Resend repeats the write in flight after an attempt that was not done.
func (m *Machine) Resend(out []Effect) []Effect {
	if m.phase != Open || !m.flight.busy {
		return out
	}
	return m.send(out)
}

func (m *Machine) withdraw(of func(*Entry) bool, out []Effect) []Effect {
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

// next starts a write when none is in flight: first the record, whose revision
// the rest needs, then a blank for what is beyond a limit, then what has queued.
func (m *Machine) next(out []Effect) []Effect {
	if m.phase != Open || m.flight.busy {
		return out
	}
	switch {
	case m.refresh:
		m.refresh = false
		m.flight = flight{busy: true, record: true}
	case (m.bytes > m.lim.Bytes || len(m.sizes) > m.lim.Appends) && m.low < m.tail:
		m.flight = flight{busy: true, blank: true, num: m.low}
	case len(m.queue) > 0 || m.last:
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
		m.flight = flight{busy: true, num: m.tail + 1, parts: encode(batch, last, m.lim.Part), entries: batch, last: last}
	default:
		return out
	}
	return m.send(out)
}

func (m *Machine) send(out []Effect) []Effect {
	f := &m.flight
	switch {
	case f.record:
		return append(out, Effect{Do: DoRefresh, Num: m.tail})
	case f.blank:
		return append(out, Effect{Do: DoAppend, Num: f.num})
	}
	return append(out, Effect{Do: DoAppend, Num: f.num, Data: f.parts[0]})
}

func (m *Machine) stored(out []Effect) []Effect {
	f := &m.flight
	if m.phase != Open || !f.busy || f.record {
		return out
	}
	if f.blank {
		m.bytes -= m.sizes[0]
		m.sizes, m.low = m.sizes[1:], m.low+1
		m.flight = flight{}
		return m.next(out)
	}
	m.tail = f.num
	m.keep(len(f.parts[0]))
	if f.parts = f.parts[1:]; len(f.parts) > 0 {
		f.num++
		return m.send(out)
	}
	done := *f
	m.flight = flight{}
	if done.last {
		m.phase = Ended
	}
	out = append(out, Effect{Do: DoDeliver, Num: done.num, Entries: done.entries, Last: done.last})
	return m.next(out)
}

// keep counts an append that is now retained; the ring forgets the oldest.
func (m *Machine) keep(size int) {
	m.sizes = append(m.sizes, size)
	m.bytes += size
	if len(m.sizes) > Ring {
		m.bytes -= m.sizes[0]
		m.sizes, m.low = m.sizes[1:], m.low+1
	}
}

func (m *Machine) lose(err error, out []Effect) []Effect {
	if m.phase > Open {
		return out
	}
	m.phase = Lost
	left := append(m.flight.entries[:len(m.flight.entries):len(m.flight.entries)], m.queue...)
	m.queue, m.queued, m.flight = nil, 0, flight{}
	if len(left) > 0 {
		out = append(out, Effect{Do: DoDrop, Entries: left, Err: err})
	}
	return append(out, Effect{Do: DoLost, Err: err})
}
