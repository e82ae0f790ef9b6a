package keeper

import (
	"bytes"
	"errors"
	"fmt"
)

// errLines says that the other side acknowledges or sends a line that cannot be. The connection cannot go on, and the next one begins with what both have.
var errLines = errors.New("keeper: lines out of order")

// sentLines are the lines of one direction on the side that numbers them: it has each until the other side has acknowledged it. The zero value has none.
type sentLines struct {
	acked uint64   // the last number that was acknowledged
	last  uint64   // the last number that was given
	sent  uint64   // the last number that went over this connection, at least acked
	bytes int      // what the lines after acked count for
	kept  [][]byte // the lines from acked+1 to last

	inherited   int    // what lines of an earlier sender count for that the other side has not acknowledged
	inheritedTo uint64 // the last of them
}

// add gives a line the next number. Whether there is room is for the caller to ask first.
func (s *sentLines) add(text []byte) uint64 {
	s.last++
	s.kept = append(s.kept, text)
	s.bytes += len(text) + lineCost
	return s.last
}

// full reports whether the window has no room, beside pending bytes that will be lines.
func (s *sentLines) full(pending int) bool { return s.bytes+s.inherited+pending >= Window }

// takeNext returns the next line for this connection, if there is one.
func (s *sentLines) takeNext() (number uint64, text []byte, ok bool) {
	if s.sent == s.last {
		return 0, nil, false
	}
	s.sent++
	return s.sent, s.kept[s.sent-s.acked-1], true
}

// hasNext reports whether takeNext has a line.
func (s *sentLines) hasNext() bool { return s.sent < s.last }

// ack forgets the lines up to number. It reports whether that makes room.
func (s *sentLines) ack(number uint64) (bool, error) {
	if number > s.sent {
		return false, fmt.Errorf("%w: %d is acknowledged, and %d was the last that was sent", errLines, number, s.sent)
	}
	freed := s.inherited > 0 && number >= s.inheritedTo
	if freed {
		s.inherited = 0
	}
	if number <= s.acked {
		return freed, nil
	}
	n := int(number - s.acked)
	for _, text := range s.kept[:n] {
		s.bytes -= len(text) + lineCost
	}
	clear(s.kept[:n]) // what follows stays in the same array
	s.kept, s.acked = s.kept[n:], number
	if len(s.kept) == 0 {
		s.kept = nil
	}
	return true, nil
}

// resume begins another connection, whose other side has the lines up to have: those after it are sent again.
func (s *sentLines) resume(have uint64) error {
	if have > s.last {
		return fmt.Errorf("%w: the other side has %d, and %d is the last there is", errLines, have, s.last)
	}
	s.sent = max(have, s.acked)
	return nil
}

// inherit makes an empty direction go on after a number that an earlier sender has reached, whose last lines count for some bytes until they are acknowledged.
func (s *sentLines) inherit(number uint64, bytes int) {
	s.acked, s.last, s.sent = number, number, number
	s.inherited, s.inheritedTo = bytes, number
}

// receivedLines is the other side of that: it knows the last line that came.
type receivedLines struct{ last uint64 }

// acceptLine reports whether a line is the next one. One that came before is not, and is dropped; one from further on is an error.
func (r *receivedLines) acceptLine(number uint64) (bool, error) {
	switch {
	case number <= r.last:
		return false, nil
	case number > r.last+1:
		return false, fmt.Errorf("%w: line %d came after %d", errLines, number, r.last)
	}
	r.last = number
	return true, nil
}

// handover has the lines that are on their way into a process: those that came and are not wholly in its pipe. The zero value has none.
type handover struct {
	received receivedLines
	begun    uint64 // the last line of which a byte was written
	written  uint64 // the last line that is wholly in the pipe
	bytes    int
	queue    [][]byte // the lines from written+1 on
}

// acceptLine takes a line, unless it came before.
func (h *handover) acceptLine(number uint64, text []byte) (bool, error) {
	fresh, err := h.received.acceptLine(number)
	if err != nil || !fresh {
		return false, err
	}
	// The sender's window is closed before this, unless it is not ours.
	if h.bytes >= Window {
		return false, fmt.Errorf("%w: line %d is beyond the window", errLines, number)
	}
	h.queue = append(h.queue, text)
	h.bytes += len(text) + lineCost
	return true, nil
}

// beginLine returns the line that is to be written next.
func (h *handover) beginLine() ([]byte, bool) {
	if len(h.queue) == 0 {
		return nil, false
	}
	h.begun = h.written + 1
	return h.queue[0], true
}

// endLine says how the writing of that line ended. Without a byte of it written, it counts as not begun.
func (h *handover) endLine(some, all bool) {
	switch {
	case all:
		h.bytes -= len(h.queue[0]) + lineCost
		h.queue[0] = nil
		h.queue = h.queue[1:]
		h.written = h.begun
		if len(h.queue) == 0 {
			h.queue = nil
		}
	case !some:
		h.begun = h.written
	}
}

// A splitter cuts what a process writes into lines. The zero value has read nothing.
type splitter struct{ part []byte }

// errLongLine says that a process wrote a line that is longer than MaxLine.
var errLongLine = fmt.Errorf("a line is longer than %d bytes", MaxLine)

// split takes a piece, and gives each line that it completes, as a copy and without its end. The rest stays for the next piece.
func (s *splitter) split(piece []byte, line func([]byte)) error {
	for {
		i := bytes.IndexByte(piece, '\n')
		if i < 0 {
			break
		}
		if len(s.part)+i > MaxLine {
			return errLongLine
		}
		text := make([]byte, 0, len(s.part)+i)
		text = append(append(text, s.part...), piece[:i]...)
		s.part, piece = nil, piece[i+1:]
		line(text)
	}
	if len(s.part)+len(piece) > MaxLine {
		return errLongLine
	}
	s.part = append(s.part, piece...)
	return nil
}

// rest returns what came after the last line's end. A process that ended within a line has written that much of it.
func (s *splitter) rest() ([]byte, bool) {
	text := s.part
	s.part = nil
	return text, len(text) > 0
}
