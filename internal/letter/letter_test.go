package letter

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

var whole = Head{Form: All, Kind: "session.ended", Node: "node-1", Boot: "b0t", Num: 7}

func TestRead(t *testing.T) {
	t.Parallel()
	good := Append(nil, whole, []byte("data"))
	if h, data, err := Read(good); h != whole || string(data) != "data" || err != nil {
		t.Errorf("got %+v, %q, %v", h, data, err)
	}
	// The form is what other releases read: it changes only with the version.
	if want := "\x01\x02\x00\x00\x00\x00\x00\x00\x00\x07\x0dsession.ended\x06node-1\x03b0tdata"; string(good) != want {
		t.Errorf("wrote %q, want %q", good, want)
	}
	edges := Head{Form: Heart, Node: strings.Repeat("n", maxName), Boot: strings.Repeat("b", maxName), Kind: strings.Repeat("k", maxKind), Num: 1<<64 - 1}
	if b := Append(nil, edges, nil); len(b) != MaxHead {
		t.Errorf("the longest head has %d bytes, want %d", len(b), MaxHead)
	} else if h, data, err := Read(b); h != edges || len(data) != 0 || err != nil {
		t.Errorf("got %+v, %q, %v", h, data, err)
	}
	head := len(good) - len("data")
	for n := range head {
		if _, _, err := Read(good[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for what, change := range map[string]func(h *Head){
		"no form":         func(h *Head) { h.Form = 0 },
		"unknown form":    func(h *Head) { h.Form = Bye + 1 },
		"no kind":         func(h *Head) { h.Kind = "" },
		"bad kind":        func(h *Head) { h.Kind = "A" },
		"long kind":       func(h *Head) { h.Kind = strings.Repeat("k", maxKind+1) },
		"no node":         func(h *Head) { h.Node = "" },
		"bad node":        func(h *Head) { h.Node = "a.b" },
		"long node":       func(h *Head) { h.Node = strings.Repeat("n", maxName+1) },
		"no boot":         func(h *Head) { h.Boot = "" },
		"bad boot":        func(h *Head) { h.Boot = "b\n" },
		"a wildcard":      func(h *Head) { h.Boot = ">" },
		"kind with space": func(h *Head) { h.Kind = "a b" },
	} {
		h := whole
		change(&h)
		if _, _, err := Read(Append(nil, h, nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for version, want := range map[byte]error{0: ErrMalformed, Version + 1: ErrNewer, 255: ErrNewer} {
		other := bytes.Clone(good)
		other[0] = version
		if _, _, err := Read(other); !errors.Is(err, want) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// FuzzRead reads anything, and writes again what it could read.
func FuzzRead(f *testing.F) {
	f.Add(Append(nil, whole, []byte("data")))
	f.Add(Append(nil, Head{Form: Bye, Node: "a", Boot: "b"}, nil))
	f.Add([]byte("\x01\x02\x00\x00\x00\x00\x00\x00\x00\x07\xffsession"))
	f.Add([]byte("\x01\x02\x00\x00\x00\x00\x00\x00\x00\x07\xff" + strings.Repeat("k", 300)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, data, err := Read(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNewer) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		if again := Append(nil, h, data); !bytes.Equal(again, b) {
			t.Errorf("%q was read and written as %q", b, again)
		}
	})
}
