package client

import (
	"errors"
	"fmt"
	"io"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// Events is the event stream of one response.
type Events struct {
	c     *Client // that records its events, nil for nobody
	noIDs bool    // its events must have none, as the stream cannot be resumed
	op    string
	from  string // Last-Event-ID of the request
	body  io.ReadCloser
	rd    *eventstream.Reader
	conn  *Connection // where events are recorded, nil before the first
}

// Next returns the next event. It returns io.EOF when the server has ended the
// response, and an *Error of stage Broken when the connection broke.
func (e *Events) Next() (Event, error) {
	for {
		got, err := e.rd.Next()
		if err != nil {
			return Event{}, e.noteEnd(err)
		}
		ev := Event{got.Name, got.ID, int(got.Retry.Milliseconds()), string(got.Data)}
		if err := e.recordEvent(ev); err != nil {
			return Event{}, err
		}
		if !ev.onlyRetry() {
			return ev, nil
		}
	}
}

// onlyRetry reports whether an event says nothing but when to come back, as before the end of a
// stream whose call goes on: the client's position stays what it is.
func (e *Event) onlyRetry() bool { return e.ID == "" && e.Data == "" && e.Retry > 0 }

// noteEnd turns the end of the body into Next's error and records it.
func (e *Events) noteEnd(err error) error {
	end := "ended"
	if !errors.Is(err, io.EOF) { // a chunked body without its end is io.ErrUnexpectedEOF
		err = &Error{e.op, Broken, err}
		end = "broken"
	}
	if e.conn != nil {
		e.conn.noteEnd(end)
	}
	_ = e.body.Close()
	return err
}

// recordEvent adds ev to the record of its stream.
func (e *Events) recordEvent(ev Event) error {
	if e.noIDs && (ev.ID != "" || ev.Retry != 0) {
		return fmt.Errorf("client: event %q of a stream that cannot be resumed", ev.ID)
	}
	if e.c == nil || ev.onlyRetry() {
		return nil
	}
	pos, err := ParseID(ev.ID)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if e.conn == nil {
		e.conn = e.c.StreamRecord(pos.Stream).addConnection(e.op, e.from)
	}
	e.conn.addEvent(ev)
	return nil
}

// Read reads bytes of the stream as they come, for who does not look at its events.
func (e *Events) Read(p []byte) (int, error) { return e.body.Read(p) }

// Close breaks the connection off.
func (e *Events) Close() { _ = e.body.Close() }
