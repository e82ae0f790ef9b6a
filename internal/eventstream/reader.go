// Package eventstream reads server-sent events, as the client of an MCP server gets them. What it reads comes from a server that it does not know:
// an event is bounded, and nothing in a stream is an error but its end.
//
// A Reader belongs to one goroutine.
package eventstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Event is one server-sent event.
type Event struct {
	Name  string        // "" if it has none
	ID    string        // "" if it has none
	Retry time.Duration // after which the client may come back; 0 if the event does not say
	Data  []byte        // valid until the next event is read; empty for an event that only has an id or a time
}

// Reader reads the events of a stream.
type Reader struct {
	Comments int // lines of comments so far

	rd   *bufio.Reader
	most int
	line []byte
	data []byte
	feed bool // the last line ended with a carriage return: a line feed now belongs to it
	seen bool // a line was read: only before the first may be a byte order mark
}

// NewReader returns a reader of a stream whose events have at most so many bytes each.
func NewReader(r io.Reader, most int) *Reader { return &Reader{rd: bufio.NewReader(r), most: most} }

// Next returns the next event, or why there is none: [io.EOF] at the end of the stream, a [SizeError], or the
// error of the underlying reader. An event that the stream ends within is none. Comments are counted, and unknown fields are skipped, as is a name without anything else.
func (r *Reader) Next() (Event, error) {
	var e Event
	r.data = r.data[:0]
	begun, lines := false, 0
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if !r.seen {
			r.seen, line = true, bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if len(line) == 0 {
			if begun {
				e.Data = r.data
				return e, nil
			}
			e.Name = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "":
			r.Comments++
		case "data":
			if lines++; lines > 1 {
				r.data = append(r.data, '\n')
			}
			if len(r.data)+len(value) > r.most {
				return Event{}, SizeError(r.most)
			}
			r.data = append(r.data, value...)
			begun = true
		case "event":
			e.Name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.ID, begun = string(value), true
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.Retry, begun = time.Duration(ms)*time.Millisecond, true
			}
		}
	}
}

// readLine returns the next line without its end, which is a line feed, a carriage return, or both.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if _, err := r.rd.Peek(1); err != nil {
			return nil, err
		}
		part, _ := r.rd.Peek(r.rd.Buffered())
		if r.feed {
			if r.feed = false; part[0] == '\n' {
				_, _ = r.rd.Discard(1)
				continue
			}
		}
		end := len(part)
		for _, mark := range []byte("\n\r") { // one at a time, which takes many bytes at once
			if i := bytes.IndexByte(part[:end], mark); i >= 0 {
				end = i
			}
		}
		if len(r.line)+end > r.most {
			return nil, SizeError(r.most)
		}
		r.line = append(r.line, part[:end]...)
		if end == len(part) {
			_, _ = r.rd.Discard(end)
			continue
		}
		r.feed = part[end] == '\r'
		_, _ = r.rd.Discard(end + 1)
		return r.line, nil
	}
}

// SizeError reports an event of more bytes than it says.
type SizeError int

func (e SizeError) Error() string { return fmt.Sprintf("an event of more than %d bytes", int(e)) }
