package letter

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
)

var whole = Head{Form: All, Kind: "session.ended", Node: "node-1", Boot: "b0t", Num: 7, Serial: 9, Epoch: 3}

// sealed makes a letter with a MAC by the key "k".
func sealed(h Head, data []byte) []byte {
	return Seal(Append(nil, h, data), h.Epoch, hmac.New(sha256.New, []byte("k")), "p.all", "p.re.x")
}

func TestRead(t *testing.T) {
	t.Parallel()
	good := sealed(whole, []byte("data"))
	if h, data, err := Read(good); h != whole || string(data) != "data" || err != nil {
		t.Errorf("got %+v, %q, %v", h, data, err)
	}
	// The form is what other releases read: it changes only with the version.
	if want := "\x02\x02\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x03\x0dsession.ended\x06node-1\x03b0tdata"; string(good[:len(good)-MACSize]) != want {
		t.Errorf("wrote %q, want %q", good, want)
	}
	edges := Head{Form: Heart, Node: strings.Repeat("n", maxName), Boot: strings.Repeat("b", maxName), Kind: strings.Repeat("k", maxKind), Num: 1<<64 - 1}
	if b := sealed(edges, nil); len(b) != MaxHead {
		t.Errorf("the longest head has %d bytes, want %d", len(b), MaxHead)
	} else if h, data, err := Read(b); h != edges || len(data) != 0 || err != nil {
		t.Errorf("got %+v, %q, %v", h, data, err)
	}
	for n := range len(good) - len("data") {
		if _, _, err := Read(good[:n]); !errors.Is(err, ErrMalformed) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for what, change := range map[string]func(h *Head){
		"no form":         func(h *Head) { h.Form = 0 },
		"unknown form":    func(h *Head) { h.Form = Refusal + 1 },
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
		if _, _, err := Read(sealed(h, nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for version, want := range map[byte]error{0: ErrMalformed, 1: ErrOlder, Version + 1: ErrNewer, 255: ErrNewer} {
		other := bytes.Clone(good)
		other[0] = version
		if _, _, err := Read(other); !errors.Is(err, want) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

// TestSealed: every byte of a letter, its subject and the one for its reply are covered by the MAC.
func TestSealed(t *testing.T) {
	t.Parallel()
	good := sealed(whole, []byte("data"))
	valid := func(b []byte, key, to, reply string) bool {
		return Sealed(b, hmac.New(sha256.New, []byte(key)), to, reply)
	}
	if !valid(good, "k", "p.all", "p.re.x") {
		t.Error("a letter is not what it was sealed as")
	}
	for _, c := range [][3]string{{"other", "p.all", "p.re.x"}, {"k", "q.all", "p.re.x"}, {"k", "p.all", "p.re.y"}, {"k", "p.all", ""}, {"k", "p.allp", ".re.x"}} {
		if valid(good, c[0], c[1], c[2]) {
			t.Errorf("with the key %s it passes on %s with the reply to %s", c[0], c[1], c[2])
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if valid(bad, "k", "p.all", "p.re.x") {
			t.Errorf("byte %d is not covered", i)
		}
	}
	for n := range good {
		if valid(good[:n], "k", "p.all", "p.re.x") {
			t.Errorf("the first %d bytes pass", n)
		}
	}
}

// FuzzRead reads anything, and writes again what it could read.
func FuzzRead(f *testing.F) {
	f.Add(sealed(whole, []byte("data")))
	f.Add(sealed(Head{Form: Bye, Node: "a", Boot: "b"}, nil))
	numbers := "\x02\x02" + strings.Repeat("\x00", 24)
	f.Add([]byte(numbers + "\xffsession" + strings.Repeat("m", MACSize)))
	f.Add([]byte(numbers + "\xff" + strings.Repeat("k", 300)))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, data, err := Read(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNewer) && !errors.Is(err, ErrOlder) {
				t.Errorf("an error of another kind: %v", err)
			}
			return
		}
		if again := Append(nil, h, data); !bytes.Equal(again, b[:len(b)-MACSize]) {
			t.Errorf("%q was read and written as %q", b, again)
		}
	})
}
