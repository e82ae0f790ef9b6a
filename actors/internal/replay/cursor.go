package replay

import (
	"errors"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
)

// ErrBadEvent stands for every event id that cannot be resumed from: the log lacks the event, or one that follows it.
var ErrBadEvent = errors.New("replay: bad event id")

// Cursor is how far a replay has got.
type Cursor struct {
	Pos  stream.Position // the event id that the client came with
	Next uint64          // first append that the client needs
	Skip int             // entries of it that the client has

	reader   stream.Reader
	lastPart []byte // the append of the event id, if it is the last part of a divided event
	read     []stream.Append
	due      uint64 // the append that is read next
	fault    error
}

// FindPlace finds where the client reads on in a log whose last append is tail. It fails with ErrBadEvent if there is no such
// event.
func (c *Cursor) FindPlace(tail uint64, marks []record.Watermark) error {
	c.Next, c.Skip = c.Pos.Append, c.Pos.Entry+1
	next, marked := appendAfter(marks, c.Pos)
	switch {
	case c.Pos.Append > tail:
		return ErrBadEvent
	case marked:
		c.Next, c.Skip = next, 0
	case c.Pos.Append == 0:
		c.Next, c.Skip = 1, 0
	}
	return nil
}

// appendAfter returns the append that follows an event and the invisible appends behind it; ok is
// false if that is not known.
func appendAfter(marks []record.Watermark, p stream.Position) (num uint64, ok bool) {
	for _, m := range marks {
		if m.Seen.Is(p) {
			num, ok = max(num, m.Upto+1), true
		}
	}
	return num, ok
}

// BeginReading says that the appends from num on are read now: AddAppend takes them.
func (c *Cursor) BeginReading(num uint64) {
	if num != c.due { // what was read before is no beginning of these
		c.reader = stream.Reader{}
	}
	c.due, c.read, c.fault = num, nil, nil
}

// AddAppend takes an append that was read.
func (c *Cursor) AddAppend(num uint64, data []byte) {
	if num != c.due || len(data) == 0 {
		c.fault = ErrBadEvent
	}
	c.due = num + 1
	if num == c.Pos.Append && stream.IsLastPart(data) {
		c.lastPart = data
	}
	a, ok, err := c.reader.Add(num, data)
	if err != nil {
		c.fault = err
	}
	if ok {
		c.read = append(c.read, a)
	}
}

// EndReading returns what was read up to append to. It fails with ErrBadEvent if an append is missing.
func (c *Cursor) EndReading(to uint64) ([]stream.Append, error) {
	all := c.read
	switch c.read = nil; {
	case c.fault != nil:
		return nil, c.fault
	case c.due <= to:
		return nil, ErrBadEvent
	}
	return all, nil
}

// JudgeEvent judges the event id by first, the log from Next on. If the stored append has another epoch than the id, the id is
// that of an event which is gone. The client's event itself may be gone if the record has a watermark of it.
func (c *Cursor) JudgeEvent(first []stream.Append) error {
	if c.Next != c.Pos.Append {
		return nil
	}
	switch {
	case c.lastPart != nil: // the event was stored in parts, and its id names the last one
		if stream.EpochOf(c.lastPart) != c.Pos.Epoch || c.Pos.Entry != 0 {
			return ErrBadEvent
		}
		c.Next, c.Skip = c.Pos.Append+1, 0
	case len(first) == 0 || first[0].Num != c.Pos.Append || first[0].Epoch != c.Pos.Epoch,
		c.Pos.Entry >= len(first[0].Entries) || !first[0].Entries[c.Pos.Entry].Kind.Visible():
		return ErrBadEvent
	}
	return nil
}

// HasAll reports whether the client has all of a stream that ended with append tail; first is the
// log from the client's event on.
func (c *Cursor) HasAll(first []stream.Append, tail uint64) bool {
	switch {
	case c.Next > tail:
		return true
	case len(first) == 0 || first[len(first)-1].Num < tail:
		return false // first may not be all
	}
	for _, a := range first {
		for i := range a.Entries {
			if a.Entries[i].Kind.Visible() && (a.Num > c.Next || a.Num == c.Next && i >= c.Skip) {
				return false
			}
		}
	}
	return true
}
