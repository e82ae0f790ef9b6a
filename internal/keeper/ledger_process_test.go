//go:build unix

package keeper

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRememberedAtOnce has a keeper that is told a text read it, though nothing else of the program that tells it runs any more:
// whatever follows may be the program's end.
func TestRememberedAtOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ours, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := &Client{}
	c.wire = c.newWire(ours) // nobody writes for it
	c.wire.patience = time.Hour
	p := &Process{client: c, attached: true, handle: 1}
	c.wire.turn <- struct{}{} // somebody has gathered what there was before, and writes it
	go func() {
		time.Sleep(10 * time.Millisecond)
		<-c.wire.turn
	}()
	if err := p.Remember("call", []byte("its number")); err != nil {
		t.Fatal(err)
	}
	if err := theirs.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	want := appendText(nil, kindRemember, 1, "call", []byte("its number"))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(theirs, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the keeper reads %q (%v), want %q", got, err, want)
	}
}

// TestRemembered has whoever adopts a process get what was remembered of it, the newest by each name.
func TestRemembered(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	p := f.start(t, spec(t, "a", "echo"))
	large := strings.Repeat("\u2028\x00", 1<<19)
	for _, x := range [][2]string{{"a", "1"}, {"b", "2"}, {"a", "3"}, {"gone", "4"}, {"gone", ""}, {"", large}} {
		if err := p.Remember(x[0], []byte(x[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Remember(strings.Repeat("x", maxName+1), []byte("x")); !errors.Is(err, ErrSpec) {
		t.Errorf("a long name: %v", err)
	}
	if err := p.Remember("b", make([]byte, maxLedger)); !errors.Is(err, ErrMany) {
		t.Errorf("too much: %v", err)
	}
	want := map[string]string{"a": "3", "b": "2", "": large}
	is := func(who string, p *Process) {
		t.Helper()
		got := map[string]string{}
		for name, text := range p.Remembered() {
			got[name] = string(text)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s remembers %q", who, slices.Collect(maps.Keys(got)))
		}
	}
	is("who has said it", p)
	if _, err := p.Send(t.Context(), []byte("x")); err != nil { // what is remembered is there before it
		t.Fatal(err)
	}
	if _, err := p.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, err := Dial(t.Context(), f.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	q, err := next.Adopt(t.Context(), "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	is("who adopts it", q)
	<-f.Ended()
	if err := p.Remember("late", []byte("x")); !errors.Is(err, ErrReplaced) {
		t.Errorf("of who was replaced: %v", err)
	}
}

// TestLedger: what is forgotten counts no more.
func TestLedger(t *testing.T) {
	t.Parallel()
	var l ledger
	for range 3 {
		for i := range 1000 {
			if err := l.remember(strings.Repeat("n", i%7), []byte(strings.Repeat("x", i%11))); err != nil {
				t.Fatal(err)
			}
		}
	}
	sum := 0
	for _, name := range l.names() {
		sum += len(name) + len(l.texts[name]) + lineCost
		if err := l.remember(name, nil); err != nil {
			t.Fatal(err)
		}
	}
	if l.bytes != 0 || len(l.texts) != 0 {
		t.Errorf("%d bytes are left of %d, in %d texts", l.bytes, sum, len(l.texts))
	}
}
