// Package letter has the form of the messages that nodes send one another: a head that says who sends what, and data that this package
// does not know.
//
// The first byte is the version of the form. A node reads the versions up to its own, so a release writes the oldest one that says what
// it has to say.
package letter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the newest version of the form that this release reads, and the one that it writes.
const Version = 1

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
)

// Head is what a letter says of itself.
type Head struct {
	Form Form
	Kind string // what its receiver does with it: [a-z0-9._-]{0,64}, and at least one for To and All
	Node string // of the sender: [a-z0-9-]{1,32}
	Boot string // the same
	Num  uint64 // see Form
}

const (
	maxKind = 64
	maxName = 32
	// MaxHead is the most bytes of a head.
	MaxHead = 2 + 8 + 3 + maxKind + 2*maxName
)

// ErrNewer reports that a letter is of a newer version, and ErrMalformed that it is of none.
var (
	ErrNewer     = errors.New("letter: of a newer release")
	ErrMalformed = errors.New("letter: malformed")
)

// Append appends a letter to b. The head must be a valid one.
func Append(b []byte, h Head, data []byte) []byte {
	b = append(b, Version, byte(h.Form))
	b = binary.BigEndian.AppendUint64(b, h.Num)
	for _, s := range [...]string{h.Kind, h.Node, h.Boot} {
		b = append(append(b, byte(len(s))), s...)
	}
	return append(b, data...)
}

// Number changes the number of an encoded letter.
func Number(b []byte, num uint64) { binary.BigEndian.PutUint64(b[2:], num) }

// Read reads the head of a letter. The data are the rest of b.
func Read(b []byte) (h Head, data []byte, err error) {
	switch {
	case len(b) == 0 || b[0] == 0:
		return h, nil, fmt.Errorf("%w: no version", ErrMalformed)
	case b[0] > Version:
		return h, nil, fmt.Errorf("%w: version %d", ErrNewer, b[0])
	case len(b) < 10:
		return h, nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	h.Form, h.Num = Form(b[1]), binary.BigEndian.Uint64(b[2:])
	b = b[10:]
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
	case h.Form < To || h.Form > Bye:
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
