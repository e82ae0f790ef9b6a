package relay

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"
)

// Bounds of what is said of one exchange.
const (
	// MaxPart bounds the data of a frame. Four fit into the window, so that one can be on its way while another is taken.
	MaxPart = 64 << 10
	// Window bounds the frames that are on their way, by their weight.
	Window = 256 << 10
	// MaxUpload bounds the part of a request that a letter has, and MaxHead what it says of the request.
	MaxUpload = 192 << 10
	MaxHead   = 64 << 10
	// maxMessage bounds what a letter may say of the length of what follows.
	maxMessage = 1 << 30
	// around is what a frame weighs beside its data, so that empty ones are bounded, too.
	around = 64
)

const (
	// Beat is how often each side says that it is there.
	Beat = 2 * time.Second
	// Patience is how long a side waits to hear of the other one.
	Patience = 5 * time.Second
)

// ErrMalformed reports a letter that no release writes.
var ErrMalformed = errors.New("relay: malformed letter")

// ID names an exchange between two nodes.
type ID [16]byte

// NewID returns a random id.
func NewID() (id ID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id
}

// Kind says what a frame does to the exchange.
type Kind byte

// The kinds of frames.
const (
	Open     Kind = iota + 1 // begins a stream
	Event                    // an event of the stream
	Finish                   // ends the stream
	Answer                   // the whole response, with its status
	Reject                   // the same, as a refusal.Refusal
	Cut                      // breaks the connection off
	Numbered                 // an event of a stream that can be resumed; see AppendEvent
	kinds
)

// Frame is a message of a call to its exchange, or a part of one.
type Frame struct {
	ID     ID
	Num    uint64 // from 1
	Kind   Kind
	Status int // of an Answer
	Rest   int // bytes of the same message in the frames that follow
	Data   []byte
}

// Append appends the letter to b.
func (f *Frame) Append(b []byte) []byte {
	b = append(b, f.ID[:]...)
	b = binary.AppendUvarint(b, f.Num)
	b = append(b, byte(f.Kind))
	b = binary.AppendUvarint(b, uint64(f.Status))
	b = binary.AppendUvarint(b, uint64(f.Rest))
	return append(b, f.Data...)
}

// ReadFrame decodes a letter, whose bytes the frame keeps.
func ReadFrame(b []byte) (f Frame, err error) {
	r := reader{b: b}
	r.readID(&f.ID)
	f.Num = r.readUint()
	f.Kind = Kind(r.readByte())
	f.Status, f.Rest = r.readLength(), r.readLength()
	if r.bad || f.Num == 0 || f.Kind == 0 || f.Kind >= kinds || len(r.b) > MaxPart {
		return Frame{}, ErrMalformed
	}
	f.Data = r.b
	return f, nil
}

// AppendEvent appends an event that has an id, or says when its client may come back, to b.
func AppendEvent(b []byte, id string, retryMS int, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(retryMS))
	b = binary.AppendUvarint(b, uint64(len(id)))
	return append(append(b, id...), data...)
}

// ReadEvent decodes an event, whose bytes data keeps. One that no release writes is an event without an id.
func ReadEvent(b []byte) (id string, retryMS int, data []byte) {
	r := reader{b: b}
	retryMS = r.readLength()
	n := r.readLength()
	if r.bad || n > len(r.b) {
		return "", 0, b
	}
	return string(r.b[:n]), retryMS, r.b[n:]
}

// windowWeight is what a frame counts toward the window.
func (f *Frame) windowWeight() uint64 { return around + uint64(len(f.Data)) }

// Begin is the first letter of a request.
type Begin struct {
	ID   ID
	Size int    // of the whole body
	Head []byte // what is said of the request
	Data []byte // the beginning of the body
}

// Append appends the letter to b.
func (l *Begin) Append(b []byte) []byte {
	b = append(b, l.ID[:]...)
	b = binary.AppendUvarint(b, uint64(l.Size))
	b = binary.AppendUvarint(b, uint64(len(l.Head)))
	return append(append(b, l.Head...), l.Data...)
}

// ReadBegin decodes a letter, whose bytes l keeps.
func ReadBegin(b []byte) (l Begin, err error) {
	r := reader{b: b}
	r.readID(&l.ID)
	l.Size = r.readLength()
	head := r.readLength()
	if r.bad || head > MaxHead || head > len(r.b) || len(r.b)-head > min(l.Size, MaxUpload) {
		return Begin{}, ErrMalformed
	}
	l.Head, l.Data = r.b[:head:head], r.b[head:]
	return l, nil
}

// Part is a later letter of a request.
type Part struct {
	ID     ID
	Offset int // of the data in the body
	Data   []byte
}

// Append appends the letter to b.
func (l *Part) Append(b []byte) []byte {
	b = append(b, l.ID[:]...)
	b = binary.AppendUvarint(b, uint64(l.Offset))
	return append(b, l.Data...)
}

// ReadPart decodes a letter, whose bytes l keeps.
func ReadPart(b []byte) (l Part, err error) {
	r := reader{b: b}
	r.readID(&l.ID)
	l.Offset = r.readLength()
	if r.bad || len(r.b) == 0 || len(r.b) > MaxUpload {
		return Part{}, ErrMalformed
	}
	l.Data = r.b
	return l, nil
}

// Alive says that one side of an exchange is there: the number of the last frame that it has sent, or how much of the
// frames it has taken, by their weight. Each counts from the beginning, so that the loss of an earlier letter is made good.
type Alive struct {
	ID          ID
	Num, Credit uint64
}

// Append appends the letter, or one more exchange of it, to b.
func (l *Alive) Append(b []byte) []byte {
	b = append(b, l.ID[:]...)
	b = binary.AppendUvarint(b, l.Num)
	return binary.AppendUvarint(b, l.Credit)
}

// ReadAlive decodes what a letter says of one exchange, and returns what follows.
func ReadAlive(b []byte) (l Alive, rest []byte, err error) {
	r := reader{b: b}
	r.readID(&l.ID)
	l.Num, l.Credit = r.readUint(), r.readUint()
	if r.bad {
		return Alive{}, nil, ErrMalformed
	}
	return l, r.b, nil
}

// Gone says that one side of an exchange has given it up: the client closed the connection or, if Broken, the side does not
// know why the other one is not heard, or has ended.
type Gone struct {
	ID     ID
	Broken bool
}

// Append appends the letter to b.
func (l *Gone) Append(b []byte) []byte {
	b = append(b, l.ID[:]...)
	if l.Broken {
		return append(b, 1)
	}
	return append(b, 0)
}

// ReadGone decodes a letter.
func ReadGone(b []byte) (l Gone, err error) {
	r := reader{b: b}
	r.readID(&l.ID)
	why := r.readByte()
	if r.bad || why > 1 || len(r.b) > 0 {
		return Gone{}, ErrMalformed
	}
	l.Broken = why == 1
	return l, nil
}

// reader reads the fields of a letter. Once one of them was malformed, bad is set.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) readID(id *ID) {
	if copy(id[:], r.b) < len(id) {
		r.bad, r.b = true, nil
		return
	}
	r.b = r.b[len(id):]
}

func (r *reader) readByte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) readUint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) readLength() int {
	v := r.readUint()
	if v > maxMessage {
		r.bad = true
		return 0
	}
	return int(v)
}
