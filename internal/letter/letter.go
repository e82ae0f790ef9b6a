// Package letter has the form of the messages that nodes send one another: a head that says who sends what, data that this package
// does not know, and a code (MAC) that only a holder of a key can make.
//
// The first byte is the version of the form. A node reads the versions from [Oldest] up to its own, so a release writes the oldest one
// that says what it has to say.
package letter

import (
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
)

const (
	// Version is the newest version of the form that this release reads, and the one that it writes.
	Version = 2
	// Oldest is the oldest version that it reads. Letters of version 1 had no MAC.
	Oldest = 2
)

// Form says what a letter is for.
type Form byte

// The forms of letters.
const (
	// To is for one node, and has no number.
	To Form = iota + 1
	// All is for all nodes. Its number counts the sender's letters of this form.
	All
	// Heart says that its sender is there. Its number is that of the sender's last letter to all.
	Heart
	// Bye is the last heart of its sender.
	Bye
	// Reply is the reply to a letter. It has no number and no serial: its address is used once.
	Reply
	// Refusal is a reply of one who cannot take the letter.
	Refusal
)

// Head is what a letter says of itself.
type Head struct {
	Form   Form
	Kind   string // what its receiver does with it: [a-z0-9._-]{0,64}, and at least one for To and All
	Node   string // of the sender: [a-z0-9-]{1,32}
	Boot   string // the same
	Num    uint64 // see Form
	Serial uint64 // counts what the sender's boot sends to the same subject, so that a receiver notices a letter that comes twice; 0 in replies
	Epoch  uint64 // of the key of the MAC
}

const (
	maxKind = 64
	maxName = 32

	// The places of the numbers in a letter, and of what follows them.
	numAt, serialAt, epochAt, namesAt = 2, 10, 18, 26

	// MACSize is how many bytes the MAC has, at the end of a letter.
	MACSize = 16
	// MaxHead is the most bytes of a head and the MAC.
	MaxHead = namesAt + 3 + maxKind + 2*maxName + MACSize
	// MaxMessage is NATS's own limit for one message, in bytes, and MaxData is the most bytes of the data of a letter, or of a reply.
	MaxMessage = 1 << 20
	MaxData    = MaxMessage - MaxHead
)

// ErrNewer reports that a letter is of a newer version, ErrOlder that it is of one that is not read any more, and ErrMalformed that it is of none.
var (
	ErrNewer     = errors.New("letter: of a newer release")
	ErrOlder     = errors.New("letter: of an earlier release")
	ErrMalformed = errors.New("letter: malformed")
)

// Append appends a letter to b, without its MAC: see Seal. The head must be a valid one.
func Append(b []byte, h Head, data []byte) []byte {
	b = append(b, Version, byte(h.Form))
	for _, n := range [...]uint64{h.Num, h.Serial, h.Epoch} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, s := range [...]string{h.Kind, h.Node, h.Boot} {
		b = append(append(b, byte(len(s))), s...)
	}
	return append(b, data...)
}

// Number changes the number and the serial of a letter that is not sealed yet.
func Number(b []byte, num, serial uint64) {
	binary.BigEndian.PutUint64(b[numAt:], num)
	binary.BigEndian.PutUint64(b[serialAt:], serial)
}

// Seal appends the MAC to a letter, made by mac, whose key is that of the epoch. It covers all of the letter, the subject that the
// letter is sent to, and the one that its reply is expected on.
func Seal(b []byte, epoch uint64, mac hash.Hash, to, reply string) []byte {
	binary.BigEndian.PutUint64(b[epochAt:], epoch)
	return append(b, code(b, mac, to, reply)...)
}

// Sealed reports whether a letter, its MAC included, was made by Seal with the same key and subjects.
func Sealed(b []byte, mac hash.Hash, to, reply string) bool {
	body := len(b) - MACSize
	return body >= namesAt && hmac.Equal(code(b[:body], mac, to, reply), b[body:])
}

func code(b []byte, mac hash.Hash, to, reply string) []byte {
	mac.Reset()
	for _, s := range [...]string{to, reply} { // With their lengths, so that no two pairs read the same.
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		mac.Write([]byte(s))
	}
	mac.Write(b)
	return mac.Sum(nil)[:MACSize]
}

// Read reads the head of a letter and its data, which are a part of b. Whether the MAC is right is for Sealed to say.
func Read(b []byte) (h Head, data []byte, err error) {
	switch {
	case len(b) == 0 || b[0] == 0:
		return h, nil, fmt.Errorf("%w: no version", ErrMalformed)
	case b[0] > Version:
		return h, nil, fmt.Errorf("%w: version %d, this one reads %d", ErrNewer, b[0], Version)
	case b[0] < Oldest:
		return h, nil, fmt.Errorf("%w: version %d, this one reads %d", ErrOlder, b[0], Version)
	case len(b) < namesAt+MACSize:
		return h, nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	h.Form, h.Num, h.Serial, h.Epoch = Form(b[1]), binary.BigEndian.Uint64(b[numAt:]), binary.BigEndian.Uint64(b[serialAt:]), binary.BigEndian.Uint64(b[epochAt:])
	b = b[namesAt : len(b)-MACSize]
	for _, s := range [...]*string{&h.Kind, &h.Node, &h.Boot} {
		end := 1
		if len(b) > 0 {
			end += int(b[0])
		}
		if len(b) < end {
			return Head{}, nil, fmt.Errorf("%w: cut off", ErrMalformed)
		}
		*s, b = string(b[1:end]), b[end:]
	}
	if err := h.Check(); err != nil {
		return Head{}, nil, err
	}
	return h, b, nil
}

// Check refuses a head that Read would not read.
func (h *Head) Check() error {
	switch {
	case h.Form < To || h.Form > Refusal:
		return fmt.Errorf("%w: form %d", ErrMalformed, h.Form)
	case !is(h.Kind, 0, maxKind, true) || h.Kind == "" && h.Form <= All:
		return fmt.Errorf("%w: kind %.70q", ErrMalformed, h.Kind)
	case !is(h.Node, 1, maxName, false) || !is(h.Boot, 1, maxName, false):
		return fmt.Errorf("%w: from %.40q, %.40q", ErrMalformed, h.Node, h.Boot)
	}
	return nil
}

// is reports whether s has from least to most characters of [a-z0-9-], or also dots and underscores.
func is(s string, least, most int, dots bool) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', dots && (c == '.' || c == '_'):
		default:
			return false
		}
	}
	return true
}
