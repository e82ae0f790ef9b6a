package relay

import (
	"errors"
	"fmt"
)

// The faults of frames, each of which breaks the exchange.
var (
	ErrGap   = errors.New("relay: a frame is missing")
	ErrOrder = errors.New("relay: a frame that cannot come now")
	ErrFlood = errors.New("relay: more than the window")
)

// phase is how far an exchange has got.
type phase byte

const (
	fresh phase = iota
	streaming
	ended
)

// Message is what a call does with its exchange.
type Message struct {
	Kind   Kind
	Status int
	Data   []byte
	weight uint64 // not yet given as credit
}

// receiver takes the frames of one exchange. The zero value is ready.
type receiver struct {
	num   uint64 // of the last frame
	phase phase
	got   uint64 // weight of all frames
	taken uint64 // weight of those that need no room any more
	part  Message
	rest  int // bytes that are missing of part; 0 if there is none
}

// takeFrame takes a frame. If that completes a message, ok is set. grows is how many bytes of the data of messages it adds: all that
// the first part announces, or less if the message is broken off. A frame that came before is ignored.
func (r *receiver) takeFrame(f *Frame) (m Message, grows int, ok bool, err error) {
	switch {
	case f.Num <= r.num:
		return m, 0, false, nil
	case f.Num != r.num+1:
		return m, 0, false, fmt.Errorf("%w: %d after %d", ErrGap, f.Num, r.num)
	}
	r.num++
	r.got += f.windowWeight()
	if r.got-r.taken > Window+around { // a Cut may come beyond the window
		return m, 0, false, ErrFlood
	}
	if f.Kind == Cut && r.phase != ended {
		grows = -len(r.part.Data) - r.rest
		r.part, r.rest, r.phase = Message{}, 0, ended
		return Message{Kind: Cut, weight: f.windowWeight()}, grows, true, nil
	}
	if r.rest > 0 {
		return r.goOn(f)
	}
	if !r.phase.allowsKind(f.Kind) || f.Rest > maxMessage-len(f.Data) {
		return m, 0, false, ErrOrder
	}
	r.phase = r.phase.phaseAfter(f.Kind)
	m = Message{Kind: f.Kind, Status: f.Status, Data: f.Data, weight: f.windowWeight()}
	if f.Rest == 0 {
		return m, len(f.Data), true, nil
	}
	m.weight = 0
	r.taken += f.windowWeight()
	r.part, r.rest = m, f.Rest
	return Message{}, len(f.Data) + f.Rest, false, nil
}

// goOn takes a part of a message that has begun.
func (r *receiver) goOn(f *Frame) (m Message, grows int, ok bool, err error) {
	if f.Kind != r.part.Kind || len(f.Data) == 0 || f.Rest != r.rest-len(f.Data) {
		return m, 0, false, ErrOrder
	}
	r.part.Data = append(r.part.Data, f.Data...)
	if r.rest = f.Rest; r.rest > 0 {
		r.taken += f.windowWeight()
		return m, 0, false, nil
	}
	m, r.part = r.part, Message{}
	m.weight = f.windowWeight()
	return m, 0, true, nil
}

// messageDone says that a message needs no room any more.
func (r *receiver) messageDone(m *Message) { r.taken += m.weight }

func (p phase) allowsKind(k Kind) bool {
	switch k {
	case Open, Answer, Reject:
		return p == fresh
	case Event, Numbered, Finish:
		return p == streaming
	}
	return false
}

func (p phase) phaseAfter(k Kind) phase {
	switch k {
	case Open, Event, Numbered:
		return streaming
	}
	return ended
}
