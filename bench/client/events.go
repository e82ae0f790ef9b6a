package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Events is the event stream of one response.
type Events struct {
	c        *Client // nil for a stream that cannot be resumed
	op       string
	from     string // Last-Event-ID of the request
	body     io.ReadCloser
	rd       *bufio.Reader
	conn     *Connection // where events are recorded, nil before the first
	comments int
}

// Next returns the next event. It returns io.EOF when the server has ended the
// response, and an *Error of stage Broken when the connection broke.
func (e *Events) Next() (Event, error) {
	var ev Event
	var data []byte
	seen := false
	for {
		line, err := e.rd.ReadBytes('\n')
		if err != nil {
			return Event{}, e.ended(err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if !seen {
				continue
			}
			ev.Data = string(data)
			if err := e.record(ev); err != nil {
				return Event{}, err
			}
			return ev, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "":
			e.comments++
		case "event":
			ev.Name, seen = string(value), true
		case "id":
			ev.ID, seen = string(value), true
		case "retry":
			ev.Retry, _ = strconv.Atoi(string(value))
			seen = true
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data, seen = append(data, value...), true
		}
	}
}

// ended turns the end of the body into Next's error and records it.
func (e *Events) ended(err error) error {
	end := "ended"
	if !errors.Is(err, io.EOF) { // a chunked body without its end is io.ErrUnexpectedEOF
		err = &Error{e.op, Broken, err}
		end = "broken"
	}
	if e.conn != nil {
		e.conn.end(end)
	}
	_ = e.body.Close()
	return err
}

// record adds ev to the record of its stream.
func (e *Events) record(ev Event) error {
	if e.c == nil {
		if ev.ID != "" || ev.Retry != 0 {
			return fmt.Errorf("client: event %q of a stream that cannot be resumed", ev.ID)
		}
		return nil
	}
	pos, err := ParseID(ev.ID)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if e.conn == nil {
		e.conn = e.c.record(pos.Stream).connect(e.op, e.from)
	}
	e.conn.add(ev)
	return nil
}

// Close breaks the connection off.
func (e *Events) Close() { _ = e.body.Close() }

// Comments is the number of comment lines read so far.
func (e *Events) Comments() int { return e.comments }
