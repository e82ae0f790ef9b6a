package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind is the kind of an entry.
type Kind uint8

// The kinds of entries. Those from Answer on are for the writer only: they are stored, and
// never sent to a client.
const (
	Message  Kind = iota + 1 // a notification; Meta holds its number if it is a call's
	Progress                 // a progress notification; Meta holds its value
	Request                  // a request to the client; Meta holds id and key
	Final                    // the response to a client's request; Meta holds its id
	Answer                   // the client's answer; Meta holds the id of the question
	End                      // the stream ends without a further response
)

// Visible reports whether clients see entries of this kind.
func (k Kind) Visible() bool { return k < Answer }

// Entry is one event of a stream. Its slices belong to the machine once pushed.
type Entry struct {
	Kind Kind
	Meta []byte
	Data []byte
	// Acked, if not nil, is called once: with nil when the entry is stored, with an error
	// when it never will be.
	Acked func(error)
}

// Drop calls Acked with err, once: err says why the entry will not be stored; nil says that
// it is stored or need not be.
func (e *Entry) Drop(err error) {
	if f := e.Acked; f != nil {
		e.Acked = nil
		f(err)
	}
}

func (e *Entry) size() int { return len(e.Meta) + len(e.Data) + 12 }

// appendVersion is the version byte of a stored append. Version 1, without an epoch, can be
// read.
const appendVersion = 2

// Lengths of the head of an append, by version: the version, flags, and since 2 the epoch
// of its writer.
const (
	headV1 = 2
	head   = 2 + 8
)

const (
	flagLast = 1 << iota // the stream ends with this append
	flagMore             // the next append holds the rest of this one
	flagCont             // this append continues the one before
)

// The faults of a stored append. A faulty append is left as it is.
var (
	ErrFormat = errors.New("stream: unreadable append")
	ErrNewer  = errors.New("stream: append of a newer release")
)

// setEpoch writes the epoch of the writer into an append that encode made.
func setEpoch(data []byte, epoch uint64) { binary.BigEndian.PutUint64(data[2:head], epoch) }

// EpochOf is the epoch in which an append was stored, 0 if it has none.
func EpochOf(data []byte) uint64 {
	if len(data) < head || data[0] < 2 {
		return 0
	}
	return binary.BigEndian.Uint64(data[2:head])
}

// encodeEntries lays entries out as one or more appends of at most part bytes each. The caller
// sets their epoch.
func encodeEntries(entries []Entry, last bool, part int) [][]byte {
	n := head + binary.MaxVarintLen64
	for i := range entries {
		n += entries[i].size() + 16
	}
	b := make([]byte, head, n)
	b[0] = appendVersion
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = append(b, byte(e.Kind))
		b = binary.AppendUvarint(b, uint64(len(e.Meta)))
		b = append(b, e.Meta...)
		b = binary.AppendUvarint(b, uint64(len(e.Data)))
		b = append(b, e.Data...)
	}
	var flags byte
	if last {
		flags = flagLast
	}
	if len(b) <= part {
		b[1] = flags
		return [][]byte{b}
	}
	var parts [][]byte
	for rest := b[head:]; len(rest) > 0; {
		k := min(len(rest), part-head)
		p := make([]byte, head, k+head)
		p[0] = appendVersion
		p = append(p, rest[:k]...)
		rest = rest[k:]
		if len(parts) > 0 {
			p[1] |= flagCont
		}
		if len(rest) > 0 {
			p[1] |= flagMore
		} else {
			p[1] |= flags
		}
		parts = append(parts, p)
	}
	return parts
}

// Append is a stored append that has been read back. Num is the number that event ids
// carry: that of its last part.
type Append struct {
	Num     uint64
	Epoch   uint64
	Entries []Entry
	Last    bool
}

// Encode lays the append out for a reader on another node, of whatever size: what clients do not see is empty.
func (a *Append) Encode() []byte {
	seen := make([]Entry, len(a.Entries))
	for i, e := range a.Entries {
		seen[i].Kind = e.Kind
		if e.Kind.Visible() {
			seen[i].Data = e.Data
		}
	}
	b := encodeEntries(seen, a.Last, math.MaxInt)[0]
	setEpoch(b, a.Epoch)
	return b
}

// Position is the event id of an entry.
func (a *Append) Position(stream string, entry int) Position {
	return Position{Stream: stream, Append: a.Num, Epoch: a.Epoch, Entry: entry}
}

// isReadable reports whether this release can read a stored append; a blank is not readable.
func isReadable(data []byte) bool {
	return len(data) >= head && data[0] == appendVersion || len(data) >= headV1 && data[0] == 1
}

// IsLast reports whether a stored append is the last of its stream.
func IsLast(data []byte) bool { return isReadable(data) && data[1]&flagLast != 0 }

// IsLastPart reports whether a stored append is the last part of one that began before.
func IsLastPart(data []byte) bool { return isReadable(data) && data[1]&(flagCont|flagMore) == flagCont }

// Reader puts stored appends together again. Feed it consecutive appends in
// order; the zero value starts anywhere.
type Reader struct {
	open  bool
	parts []byte
}

// Open reports whether more parts of an append must follow.
func (r *Reader) Open() bool { return r.open }

// Add takes the append numbered num. ok is false while more parts must follow, for a blank,
// and for the rest of an append whose first part was not seen.
func (r *Reader) Add(num uint64, data []byte) (a Append, ok bool, err error) {
	if len(data) == 0 { // blanked to keep the bytes cap
		r.open, r.parts = false, nil
		return Append{}, false, nil
	}
	switch {
	case data[0] > appendVersion:
		return Append{}, false, fmt.Errorf("%w: append %d has version %d, this release reads %d", ErrNewer, num, data[0], appendVersion)
	case !isReadable(data):
		return Append{}, false, fmt.Errorf("%w: append %d has version %d and %d bytes", ErrFormat, num, data[0], len(data))
	}
	flags, body := data[1], data[headV1:]
	if data[0] > 1 {
		body = data[head:]
	}
	switch {
	case flags&flagCont != 0 && !r.open:
		return Append{}, false, nil
	case flags&flagCont != 0:
		r.parts = append(r.parts, body...)
		body = r.parts
	case flags&flagMore != 0:
		r.parts = append([]byte(nil), body...)
	}
	if r.open = flags&flagMore != 0; r.open {
		return Append{}, false, nil
	}
	r.parts = nil
	a = Append{Num: num, Epoch: EpochOf(data), Last: flags&flagLast != 0}
	if a.Entries, err = decodeEntries(body); err != nil {
		return Append{}, false, fmt.Errorf("append %d: %w", num, err)
	}
	return a, true, nil
}

func decodeEntries(b []byte) ([]Entry, error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)) {
		return nil, ErrFormat
	}
	b = b[k:]
	entries := make([]Entry, 0, n)
	field := func() ([]byte, bool) {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, false
		}
		f := b[k : k+int(n) : k+int(n)]
		b = b[k+int(n):]
		return f, true
	}
	for range n {
		if len(b) == 0 {
			return nil, ErrFormat
		}
		e := Entry{Kind: Kind(b[0])}
		b = b[1:]
		var ok1, ok2 bool
		e.Meta, ok1 = field()
		e.Data, ok2 = field()
		if !ok1 || !ok2 || e.Kind < Message || e.Kind > End {
			return nil, ErrFormat
		}
		entries = append(entries, e)
	}
	if len(b) != 0 {
		return nil, ErrFormat
	}
	return entries, nil
}
