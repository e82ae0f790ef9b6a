package takeover

import (
	"errors"

	"github.com/troupe-run/troupe/actors/internal/record"
)

// Do is what must be done next; the method that takes its outcome follows it.
type Do uint8

// The steps of a takeover. The last four end it.
const (
	ReadRecord Do = iota // read the writer record: RecordRead
	AskGone              // find out whether Writer is gone: WriterGone
	ReadLog              // read Log on up to its last append: LogRead
	CheckLease           // find out whether this node is certain of its lease: LeaseChecked
	MarkTaken            // note that Writer is gone: WriterMarked
	ReadBody             // read the body of the calls: BodyRead
	Replace              // replace the record of revision Rev by Rec: RecordReplaced
	Reread               // read the writer record, to see whether an attempt with an unknown outcome has stored it: RecordRead
	KeepBody             // give the body the lifetime of the record: BodyKept
	Done                 // this node is the writer
	Elsewhere            // Writer writes the stream
	Ended                // the stream has ended with append Log.Tail
	Failed               // Err says why
)

// The failures of a takeover that are its own.
var (
	ErrUncertain = errors.New("takeover: lease not certain")
	ErrTaken     = errors.New("takeover: another node has taken the stream over")
)

// Machine is one attempt to take a stream over. Begin with Next, carry out what it says, and call the method that takes the
// outcome; then Next again.
type Machine struct {
	Rec    record.Stream // as it was read, and from Replace on as it is stored
	Rev    uint64
	Log    *Log   // nil until ReadLog
	Body   []byte // of the calls, if they may run again
	Err    error
	Writer Writer // in the record as it was read

	self  Writer
	given Writer
	alone bool
	epoch uint64 // random
	do    Do
	ours  bool // the record is this node's
}

// New returns an attempt of a node. self is the node and its boot, and given the writer that has said that it does not write
// the stream. alone says that no other node shares the store: every other boot is dead. random makes the epoch.
func New(self, given Writer, alone bool, random uint64) *Machine {
	return &Machine{self: self, given: given, alone: alone, epoch: random}
}

// Next is what must be done next.
func (m *Machine) Next() Do { return m.do }

func (m *Machine) fail(err error) {
	m.do, m.Err = Failed, err
}

// RecordRead takes the writer record. missing says that err stands for one that is not there.
func (m *Machine) RecordRead(rec record.Stream, rev uint64, missing bool, err error) {
	again := m.do == Reread
	switch {
	case again && (missing || err == nil && !Same(&rec, &m.Rec)):
		m.fail(ErrTaken)
	case err != nil:
		m.fail(err)
	case again:
		m.ownRecord(rev)
	default:
		m.Rec, m.Rev, m.Writer = rec, rev, WriterOf(&rec)
		if m.do = AskGone; m.alone || !m.Writer.MustBeGone(m.self.Boot, m.given) {
			m.readLog()
		}
	}
}

// WriterGone takes whether the writer is gone.
func (m *Machine) WriterGone(gone bool, err error) {
	switch {
	case err != nil:
		m.fail(err)
	case gone:
		m.readLog()
	default:
		m.do = Elsewhere
	}
}

func (m *Machine) readLog() { m.do, m.Log = ReadLog, NewLog(&m.Rec) }

// LogRead takes that Log was read on.
func (m *Machine) LogRead(err error) {
	switch {
	case err != nil:
		m.fail(err)
	case m.Log.Last:
		m.do = Ended
	case m.ours:
		m.Rec.Safe = m.Rec.Safe && !m.Log.Unknown
		m.do = Done
	default:
		m.do = CheckLease
	}
}

// LeaseChecked takes whether this node is certain of its lease: if it is not, it may itself be taken for dead.
func (m *Machine) LeaseChecked(certain bool) {
	if !certain {
		m.fail(ErrUncertain)
		return
	}
	m.Rec.Attempt, m.Rec.Node, m.Rec.Boot, m.Rec.Epoch = m.Rec.RunCount()+1, m.self.Node, m.self.Boot, NextEpoch(m.Rec.Epoch, m.epoch)
	m.Rec.Low, m.Rec.Bytes = m.Log.Kept()
	m.Rec.Safe = m.Rec.Safe && !m.Log.Unknown
	if m.do = MarkTaken; m.alone || !m.Writer.MustBeGone(m.self.Boot, m.given) {
		m.WriterMarked(nil)
	}
}

// WriterMarked takes whether it is noted that the writer's boot is gone. That comes before the record changes: a writer that finds its record
// expired, and no such note, knows that nobody has taken its stream.
func (m *Machine) WriterMarked(err error) {
	switch {
	case err != nil:
		m.fail(err)
	case m.Rec.Safe:
		m.do = ReadBody
	default:
		m.replaceRecord()
	}
}

// BodyRead takes the body of the calls. Without one they may not run again. It is read before the takeover: a store that cannot
// be read now, which is what passes says, is no reason to give the calls up.
func (m *Machine) BodyRead(body []byte, passes bool, err error) {
	if err != nil && passes {
		m.fail(err)
		return
	}
	m.Body = body
	if err != nil {
		m.Body, m.Rec.Safe = nil, false
	}
	m.replaceRecord()
}

func (m *Machine) replaceRecord() {
	_ = m.Rec.TakePast(m.Log.Whole, &m.Log.Past) // fits: the record had these questions, except the last few
	m.do = Replace
}

// RecordReplaced takes whether the record was replaced. conflict says that err stands for a record of another revision.
func (m *Machine) RecordReplaced(rev uint64, conflict bool, err error) {
	switch {
	case conflict:
		m.do = Reread
	case err != nil:
		m.fail(err)
	default:
		m.ownRecord(rev)
	}
}

func (m *Machine) ownRecord(rev uint64) {
	m.Rev, m.ours = rev, true
	if m.do = KeepBody; m.Body == nil {
		m.BodyKept()
	}
}

// BodyKept takes that the body was renewed, or could not be. The old writer may have stored appends before the record changed, so
// the log is read on.
func (m *Machine) BodyKept() { m.do = ReadLog }
