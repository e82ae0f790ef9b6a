// Package lease keeps a node's entry in the store alive: a [Machine] says what a renewal does next, and when the lease counts.
//
//	Update ──▶ Over                  the entry is the one that it knows
//	   │
//	   └─▶ Read ─┬▶ Update ──▶ Over  it is this boot's, from a write without an answer
//	             ├▶ Create ──▶ Over  it has expired
//	             └▶ Over             a newer boot has the name: the lease has ended
//
// Nothing here reads a clock, does I/O or starts a goroutine. A Machine is used by one goroutine at a time.
package lease

import (
	"errors"
	"time"
)

// ErrTaken reports that the node's name belongs to a newer boot.
var ErrTaken = errors.New("a newer boot has this node's name")

// Do is what a renewal must do next.
type Do uint8

// The steps of a renewal.
const (
	Over   Do = iota // it has ended: Err
	Update           // write the entry over revision Rev: Wrote
	Read             // read the entry: Found
	Create           // write the entry, which must not be there: Wrote
)

// PerTerm is how often in its term a lease is renewed.
const PerTerm = 5

// Reconnect is how long a process may take to reach servers that have come back, and to write its entry there.
const Reconnect = 2 * time.Second

// Machine is a lease and the renewal under way. Times are counted by a clock of the process that never jumps.
type Machine struct {
	Rev uint64 // the entry's last known revision; 0 is none
	Err error  // of the last renewal
	// Renewed is when the last successful renewal was sent. Before its answer came, the entry may have been another node's, so
	// the time of sending counts.
	Renewed time.Duration
	Since   time.Duration // since when every renewal came in time for this node to know of others: see SteadyFrom

	boot string
	term time.Duration
	sent time.Duration
	do   Do
	read bool // the entry has been read in this renewal
}

// New returns the lease of a boot, which lasts for term after each renewal.
func New(boot string, term time.Duration) *Machine { return &Machine{boot: boot, term: term} }

// Renew begins a renewal.
func (m *Machine) Renew(now time.Duration) {
	m.sent, m.read, m.Err = now, false, nil
	if m.do = Update; m.Rev == 0 {
		m.do = Read
	}
}

// Next is what must be done next.
func (m *Machine) Next() Do { return m.do }

func (m *Machine) end(err error) { m.do, m.Err = Over, err }

// Wrote takes the outcome of a write. conflict says that err stands for an entry of another revision.
func (m *Machine) Wrote(rev uint64, conflict bool, err error) {
	switch {
	case conflict && !m.read:
		m.do = Read
	case err != nil:
		m.end(err)
	default:
		if m.do == Create || m.sent-m.Renewed > Late(m.term) {
			m.Since = m.sent
		}
		m.Rev, m.Renewed = rev, m.sent
		m.end(nil)
	}
}

// Found takes the entry: the boot that it names, "" if that is unreadable. missing says that err stands for one that is not there.
func (m *Machine) Found(boot string, rev uint64, missing bool, err error) {
	switch m.read = true; {
	case missing:
		m.do = Create
	case err != nil:
		m.end(err)
	case boot != m.boot:
		// The boot that overwrote the entry ended this lease, however long it had left.
		m.Rev, m.Renewed = 0, min(m.Renewed, m.sent-m.term-1)
		m.end(ErrTaken)
	default:
		m.Rev, m.do = rev, Update
	}
}

// Late is the time between two renewals from which on the entry of another living node may have expired in the same outage: that one
// may have been renewed PerTerm earlier, and takes a reconnect longer to come back.
func Late(term time.Duration) time.Duration {
	return max(term-term/PerTerm-Reconnect, 2*term/PerTerm)
}

// SteadyFrom is when an entry of another node that is not there begins to say that this one is gone: the lease was renewed in time for one
// term and a reconnect then. Before that, what has kept this node from the servers may have kept the other one.
func (m *Machine) SteadyFrom() time.Duration { return m.Since + m.term + Reconnect }

// Steady reports whether that is so. Where the last renewal was long ago, the next one may show that it is not.
func (m *Machine) Steady(now time.Duration) bool {
	return now-m.Renewed <= Late(m.term) && now >= m.SteadyFrom()
}
