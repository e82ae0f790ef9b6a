package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

var id = ID{1, 2, 3, 15: 9}

// decoders read a letter of each form, and write it again.
var decoders = map[string]func(b []byte) ([]byte, error){
	"frame": func(b []byte) ([]byte, error) { l, err := ReadFrame(b); return l.Append(nil), err },
	"begin": func(b []byte) ([]byte, error) { l, err := ReadBegin(b); return l.Append(nil), err },
	"part":  func(b []byte) ([]byte, error) { l, err := ReadPart(b); return l.Append(nil), err },
	"gone":  func(b []byte) ([]byte, error) { l, err := ReadGone(b); return l.Append(nil), err },
	"alive": func(b []byte) ([]byte, error) {
		l, rest, err := ReadAlive(b)
		return append(l.Append(nil), rest...), err
	},
}

var letters = map[string][]byte{
	"frame": (&Frame{ID: id, Num: 300, Kind: Answer, Status: 200, Rest: 70_000, Data: []byte("data")}).Append(nil),
	"begin": (&Begin{ID: id, Size: 9, Head: []byte("{}"), Data: []byte("body")}).Append(nil),
	"part":  (&Part{ID: id, Offset: 4, Data: []byte("body")}).Append(nil),
	"gone":  (&Gone{ID: id, Broken: true}).Append(nil),
	"alive": (&Alive{ID: id, Num: 7, Credit: 1 << 40}).Append(nil),
}

func TestLetters(t *testing.T) {
	t.Parallel()
	for name, b := range letters {
		if again, err := decoders[name](b); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: %v, and %q as %q", name, err, b, again)
		}
		for n := range 17 { // none is complete without the id and a number
			if _, err := decoders[name](b[:n:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
	f, err := ReadFrame(letters["frame"])
	if want := (Frame{ID: id, Num: 300, Kind: Answer, Status: 200, Rest: 70_000, Data: []byte("data")}); err != nil || !reflect.DeepEqual(f, want) {
		t.Errorf("got %+v, %v", f, err)
	}
}

// TestMalformedLetters has what no release writes.
func TestMalformedLetters(t *testing.T) {
	t.Parallel()
	huge := binary.AppendUvarint(nil, 1<<63)
	with := func(parts ...[]byte) []byte { return append(bytes.Clone(id[:]), bytes.Join(parts, nil)...) }
	for name, b := range map[string][]byte{
		"frame 0":                          with([]byte{0, byte(Open), 0, 0}),
		"frame of no kind":                 with([]byte{1, 0, 0, 0}),
		"frame of an unknown kind":         with([]byte{1, byte(kinds), 0, 0}),
		"frame with a huge rest":           with([]byte{1, byte(Answer), 0}, huge),
		"frame with a huge status":         with([]byte{1, byte(Answer)}, huge, []byte{0}),
		"frame with an endless number":     with(bytes.Repeat([]byte{0xff}, 12)),
		"frame with too much":              with([]byte{1, byte(Event), 0, 0}, make([]byte, MaxPart+1)),
		"begin with more than its size":    with([]byte{3, 2}, []byte("{}body")),
		"begin with half a head":           with([]byte{3, 9}, []byte("{}")),
		"begin with a huge head":           with([]byte{3}, huge, []byte("{}")),
		"begin with a long head":           with([]byte{3}, binary.AppendUvarint(nil, MaxHead+1), make([]byte, MaxHead+1)),
		"begin with too much":              with(binary.AppendUvarint(nil, MaxUpload+1), []byte{0}, make([]byte, MaxUpload+1)),
		"part without data":                with([]byte{0}),
		"part with too much":               with([]byte{0}, make([]byte, MaxUpload+1)),
		"part at a huge offset":            with(huge, []byte("body")),
		"gone for an unknown reason":       with([]byte{2}),
		"gone with more":                   with([]byte{1, 1}),
		"alive with an endless number":     with([]byte{1}, bytes.Repeat([]byte{0xff}, 12)),
		"alive without what it has taken":  with([]byte{1}),
		"frame without anything but an id": with(),
	} {
		form, _, _ := strings.Cut(name, " ")
		if _, err := decoders[form](b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzLetters reads any bytes as each form of letter. What can be read is written as it was.
func FuzzLetters(f *testing.F) {
	for _, b := range letters {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, read := range decoders {
			again, err := read(b)
			if err != nil {
				continue
			}
			if len(again) > len(b) {
				t.Errorf("%s: %x became %x", name, b, again)
			}
			if _, err := read(again); err != nil {
				t.Errorf("%s: %x became %x, which is %v", name, b, again, err)
			}
		}
	})
}
