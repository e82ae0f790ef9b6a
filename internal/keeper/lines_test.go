package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestSentLines walks through what a sender can meet.
func TestSentLines(t *testing.T) {
	t.Parallel()
	var s sentLines
	take := func(want ...string) {
		t.Helper()
		var got []string
		for number, text, ok := s.takeNext(); ok; number, text, ok = s.takeNext() {
			got = append(got, fmt.Sprint(number, string(text)))
		}
		if !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
	ack := func(number uint64, freed bool, want error) {
		t.Helper()
		if got, err := s.ack(number); got != freed || !errors.Is(err, want) {
			t.Errorf("acknowledged %d: %v, %v", number, got, err)
		}
	}
	take()
	s.add([]byte("a"))
	s.add([]byte("b"))
	take("1a", "2b")
	ack(3, false, errLines)
	ack(1, true, nil)
	ack(1, false, nil)
	s.add([]byte("c"))
	ack(3, false, errLines) // it was not sent
	if err := s.resume(4); !errors.Is(err, errLines) {
		t.Errorf("resumed after a line that never was: %v", err)
	}
	if err := s.resume(0); err != nil { // the other side is another one, and 1 is gone
		t.Error(err)
	}
	take("2b", "3c")
	if err := s.resume(2); err != nil {
		t.Error(err)
	}
	take("3c")
	ack(3, true, nil)
	if s.bytes != 0 || s.kept != nil || s.hasNext() {
		t.Errorf("in the end %+v", s)
	}
	s.inherit(10, Window)
	if !s.full(0) {
		t.Error("what another has sent does not count")
	}
	ack(9, false, nil)
	ack(10, true, nil)
	if s.full(0) || s.add([]byte("d")) != 11 {
		t.Errorf("after that %+v", s)
	}
	take("11d")
}

func TestReceivedLines(t *testing.T) {
	t.Parallel()
	var r receivedLines
	for _, row := range []struct {
		number uint64
		fresh  bool
		err    error
	}{{1, true, nil}, {1, false, nil}, {3, false, errLines}, {2, true, nil}, {0, false, nil}, {3, true, nil}} {
		if fresh, err := r.acceptLine(row.number); fresh != row.fresh || !errors.Is(err, row.err) {
			t.Errorf("line %d: %v, %v", row.number, fresh, err)
		}
	}
}

func TestHandover(t *testing.T) {
	t.Parallel()
	var h handover
	if _, ok := h.beginLine(); ok {
		t.Error("it has a line")
	}
	for n := range uint64(3) {
		if fresh, err := h.acceptLine(n+1, []byte("x")); !fresh || err != nil {
			t.Error(fresh, err)
		}
	}
	h.beginLine()
	h.endLine(true, true)
	h.beginLine()
	if h.endLine(false, false); h.begun != 1 || h.written != 1 {
		t.Errorf("nothing was written of 2: %+v", h)
	}
	h.beginLine()
	if h.endLine(true, false); h.begun != 2 || h.written != 1 {
		t.Errorf("a part of 2 was written: %+v", h)
	}
	if fresh, err := h.acceptLine(3, nil); fresh || err != nil {
		t.Errorf("3 came again: %v, %v", fresh, err)
	}
	h.bytes = Window
	if _, err := h.acceptLine(4, nil); !errors.Is(err, errLines) {
		t.Errorf("beyond the window: %v", err)
	}
}

// TestRandomBreaks lets a direction of lines break at random: each side loses what is on its way, and, at times, the receiver is another one who has what was acknowledged. Nothing is lost, nothing comes twice
// to the same receiver, and the order stays.
func TestRandomBreaks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var s sentLines
		var r receivedLines
		var way []uint64 // numbers of lines on their way
		var back []uint64
		var got []uint64 // by this receiver, after from
		from := uint64(0)
		const lines = 30
		check := func(number uint64, text []byte) {
			if string(text) != fmt.Sprint("line ", number) {
				t.Fatalf("seed %d: line %d is %q", seed, number, text)
			}
		}
		for step := 0; from+uint64(len(got)) < lines || s.acked < lines; step++ {
			if step > 20_000 {
				t.Fatalf("seed %d: it does not end: %+v %+v", seed, s, r)
			}
			switch rnd.IntN(12) {
			case 0, 1, 2:
				if s.last < lines {
					s.add(fmt.Append(nil, "line ", s.last+1))
				}
			case 3, 4, 5:
				if number, text, ok := s.takeNext(); ok {
					check(number, text)
					way = append(way, number)
				}
			case 6, 7, 8:
				if len(way) > 0 {
					number := way[0]
					way = way[1:]
					fresh, err := r.acceptLine(number)
					if err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if fresh {
						got = append(got, number)
					}
				}
			case 9:
				if r.last > 0 {
					back = append(back, from+uint64(rnd.IntN(len(got)+1)))
				}
			case 10:
				if len(back) > 0 {
					if _, err := s.ack(back[0]); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					back = back[1:]
				}
			case 11: // a break
				way, back = nil, nil
				if rnd.IntN(3) == 0 { // the receiver is another one
					from = s.acked
					r, got = receivedLines{last: from}, nil
				}
				if err := s.resume(r.last); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		for i, number := range got {
			if number != from+uint64(i)+1 {
				t.Fatalf("seed %d: after %d it got %v", seed, from, got)
			}
		}
	}
}

// TestRandomHandover has lines to a process over a connection that breaks, while writes end in the middle at times: each line reaches the pipe once and in order, and what is acknowledged is in it.
func TestRandomHandover(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var s sentLines
		var h handover
		type numbered struct {
			number uint64
			text   []byte
		}
		var way []numbered
		var pipe []string
		const lines = 30
		for step := 0; s.acked < lines; step++ {
			if step > 20_000 {
				t.Fatalf("seed %d: it does not end: %+v %+v", seed, s, h)
			}
			switch rnd.IntN(8) {
			case 0, 1:
				if s.last < lines {
					s.add(fmt.Append(nil, "line ", s.last+1))
				}
			case 2, 3:
				if number, text, ok := s.takeNext(); ok {
					way = append(way, numbered{number, text})
				}
			case 4:
				if len(way) > 0 {
					if _, err := h.acceptLine(way[0].number, way[0].text); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					way = way[1:]
				}
			case 5:
				if text, ok := h.beginLine(); ok {
					pipe = append(pipe, string(text))
					h.endLine(true, true)
				}
			case 6:
				if h.written <= s.sent {
					if _, err := s.ack(h.written); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
				}
			case 7:
				way = nil
				if rnd.IntN(3) == 0 { // another sender
					var next sentLines
					next.inherit(h.received.last, h.bytes)
					s = next
				} else if err := s.resume(h.received.last); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if s.acked > h.received.last {
				t.Fatalf("seed %d: %d is acknowledged, and %d has come", seed, s.acked, h.received.last)
			}
		}
		for text, ok := h.beginLine(); ok; text, ok = h.beginLine() {
			pipe = append(pipe, string(text))
			h.endLine(true, true)
		}
		for i, text := range pipe {
			if text != fmt.Sprint("line ", i+1) {
				t.Fatalf("seed %d: the pipe got %q", seed, pipe)
			}
		}
		if len(pipe) != lines {
			t.Fatalf("seed %d: the pipe got %d lines", seed, len(pipe))
		}
	}
}

func TestSplitter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		want := []string{"", "a", "\r", strings.Repeat("b", 5000), "é\x00\xff", "", "c"}
		text := strings.Join(want, "\n")
		var s splitter
		var got []string
		for len(text) > 0 {
			n := min(len(text), 1+rnd.IntN(1+rnd.IntN(3000)))
			if err := s.split([]byte(text[:n]), func(line []byte) { got = append(got, string(line)) }); err != nil {
				t.Fatal(err)
			}
			text = text[n:]
		}
		rest, ok := s.rest()
		if got = append(got, string(rest)); !ok || !slices.Equal(got, want) {
			t.Fatalf("seed %d: %q", seed, got)
		}
	}
	var s splitter
	n := 0
	count := func([]byte) { n++ }
	if err := s.split(append(bytes.Repeat([]byte("x"), MaxLine), '\n'), count); err != nil || n != 1 {
		t.Errorf("the longest line: %v", err)
	}
	if err := s.split(bytes.Repeat([]byte("x"), MaxLine), count); err != nil {
		t.Error(err)
	}
	if err := s.split([]byte("x"), count); !errors.Is(err, errLongLine) {
		t.Errorf("a line that is longer: %v", err)
	}
}
