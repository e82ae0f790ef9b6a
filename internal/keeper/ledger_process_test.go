//go:build unix

package keeper

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

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
