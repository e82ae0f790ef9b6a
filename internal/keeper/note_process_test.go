//go:build unix

package keeper

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// TestNotes has whoever lists or adopts a process get its newest note.
func TestNotes(t *testing.T) {
	t.Parallel()
	f := spawned(t, time.Minute)
	s := spec(t, "a", "echo")
	s.Note = "of the start"
	p := f.start(t, s)
	if got := p.Note(); got != "of the start" {
		t.Errorf("the note is %q", got)
	}
	for _, text := range []string{"a", "", strings.Repeat("<", maxNote), "{\"b\":\"\u2028\"}"} {
		if err := p.SetNote(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		all, err := f.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Note != text || p.Note() != text {
			t.Errorf("listed: %+v, %v", all, err)
		}
	}
	if err := p.SetNote(t.Context(), strings.Repeat("x", maxNote+1)); !errors.Is(err, ErrSpec) {
		t.Errorf("a long note: %v", err)
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
	if got := q.Note(); got != "{\"b\":\"\u2028\"}" {
		t.Errorf("adopted with the note %q", got)
	}
	<-f.Ended()
	if err := p.SetNote(t.Context(), "of who was replaced"); !errors.Is(err, ErrReplaced) {
		t.Errorf("of who was replaced: %v", err)
	}
	if _, err := q.Stop(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	q.Forget()
	if err := q.SetNote(t.Context(), "too late"); !errors.Is(err, ErrAbsent) {
		t.Errorf("of a process that is forgotten: %v", err)
	}
}

// TestNotesOfAnEarlierRelease sends a keeper nothing that it does not know.
func TestNotesOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer func() { _ = theirs.Close() }()
	heard := make(chan frame, 10)
	go func() {
		defer close(heard)
		r := bufio.NewReader(theirs)
		for {
			f, err := readFrame(r)
			if err != nil {
				return
			}
			if heard <- f; f.kind == kindHello {
				answer, _ := appendControl(nil, kindWelcome, welcome{Version: 1, PID: 1, Boot: "b", Life: "l"})
				_, _ = theirs.Write(answer)
			}
		}
	}()
	c, err := newClient(t.Context(), Options{Log: quiet()}, ours, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	p := c.newProcess("a", "of the start", 1, 2, nil)
	c.mu.Unlock()
	if err := p.SetNote(context.Background(), "x"); !errors.Is(err, ErrUnknown) || p.Note() != "of the start" {
		t.Errorf("%v, and the note is %q", err, p.Note())
	}
	_ = c.Close()
	<-heard // hello
	for f := range heard {
		t.Errorf("the keeper heard %v %s", f.kind, f.body)
	}
}
