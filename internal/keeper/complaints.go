package keeper

import (
	"bytes"
	"time"
)

// Bounds of what is relayed and kept of standard error.
const (
	stderrLine   = 4 << 10 // a longer line is cut
	stderrTail   = 20      // the last lines that an end is told with
	stderrRate   = 50      // lines a second that are relayed
	stderrBurst  = 200     // lines that are relayed at once after silence
	stderrQueued = 256     // lines that wait for the connection
)

// complaints is what a process writes to standard error: a rate of it is relayed, the rest is counted, and the last lines are kept whatever their rate. The zero value has none.
type complaints struct {
	part    []byte // what came after the last line's end
	cut     bool   // whether the rest of that line is dropped
	tail    [][]byte
	queue   []complaint
	dropped int // lines since the last that was queued
	tokens  float64
	filled  time.Time
}

// A complaint is a line that is relayed, with how many were left out before it.
type complaint struct {
	text    []byte
	dropped int
}

// write takes a piece, and reports whether there is something to relay. relayed says whether somebody listens.
func (c *complaints) write(piece []byte, now time.Time, relayed bool) bool {
	before := len(c.queue)
	for len(piece) > 0 {
		i := bytes.IndexByte(piece, '\n')
		end := i
		if i < 0 {
			end = len(piece)
		}
		if room := stderrLine - len(c.part); !c.cut {
			c.part = append(c.part, piece[:min(end, room)]...)
			c.cut = end > room
		}
		if i < 0 {
			break
		}
		c.finishLine(now, relayed)
		piece = piece[i+1:]
	}
	return len(c.queue) > before
}

// finishLine ends the line that has begun.
func (c *complaints) finishLine(now time.Time, relayed bool) {
	text := bytes.TrimSuffix(c.part, []byte("\r"))
	c.part, c.cut = nil, false
	if len(text) == 0 {
		return
	}
	if len(c.tail) == stderrTail {
		c.tail = append(c.tail[:0], c.tail[1:]...)
	}
	c.tail = append(c.tail, text)
	if c.filled.IsZero() {
		c.tokens = stderrBurst
	} else {
		c.tokens = min(stderrBurst, c.tokens+now.Sub(c.filled).Seconds()*stderrRate)
	}
	c.filled = now
	if !relayed || c.tokens < 1 || len(c.queue) == stderrQueued {
		c.dropped++
		return
	}
	c.tokens--
	c.queue = append(c.queue, complaint{text, c.dropped})
	c.dropped = 0
}

// takeNext returns the next line to relay.
func (c *complaints) takeNext() (complaint, bool) {
	if len(c.queue) == 0 {
		c.queue = nil
		return complaint{}, false
	}
	next := c.queue[0]
	c.queue = c.queue[1:]
	return next, true
}

// lastLines returns the last lines, the oldest first.
func (c *complaints) lastLines() []string {
	var all []string
	for _, text := range c.tail {
		all = append(all, string(text))
	}
	return all
}
