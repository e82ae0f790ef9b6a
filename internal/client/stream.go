package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// stream is the event stream that a request is answered with, over all its connections.
type stream struct {
	c     *Client
	id    string        // of the request
	last  string        // the id of the last event that had one
	pause time.Duration // before it is resumed
	fault error         // no further connection helps
}

// readAnswer reads the event stream of a request until its answer has come, and closes it. It resumes the stream where that ends before.
func (s *stream) readAnswer(ctx context.Context, body io.ReadCloser) (json.RawMessage, error) {
	for {
		m, err := s.readConnection(ctx, body)
		switch {
		case m != nil:
			result, err := m.resultOrError()
			return result, askedLater(nil, err)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case s.fault != nil:
			return nil, s.fault
		case s.last == "" || s.c.isStateless():
			return nil, &brokenError{err}
		}
		if !errors.Is(err, io.EOF) {
			s.c.o.sayStatus(fmt.Sprintf("the connection broke; the stream of the call is resumed after %v", s.pause))
		}
		if body, err = s.resumeStream(ctx); err != nil {
			return nil, err
		}
	}
}

// readConnection handles the messages of a connection until the answer has come, which it returns, or the connection ends. It closes the body.
func (s *stream) readConnection(ctx context.Context, body io.ReadCloser) (*message, error) {
	c := s.c
	defer body.Close()
	events := eventstream.NewReader(body, MostBytes)
	for {
		e, err := events.Next()
		if err != nil {
			if _, ok := errors.AsType[eventstream.SizeError](err); ok { // it is as large on the next connection
				s.fault = err
			}
			return nil, err
		}
		if e.ID != "" {
			s.last = e.ID
		}
		if e.Retry > 0 {
			s.pause = e.Retry
		}
		if len(e.Data) == 0 {
			continue
		}
		all, err := parseMessages(e.Data)
		if err != nil {
			s.fault = fmt.Errorf("an event is %w: %s", err, excerptOf(e.Data))
			return nil, s.fault
		}
		for _, m := range all {
			switch {
			case m.isAnswerTo(s.id):
				return &m, nil
			case m.Method != "" && len(m.ID) > 0:
				if s.fault = c.replyToServer(ctx, m); s.fault != nil {
					return nil, s.fault
				}
			case m.Method != "" && c.o.Notify != nil:
				c.o.Notify(m.Method, m.Params)
			}
		}
	}
}

// resumeStream returns the next connection of a stream, which begins after its last event.
func (s *stream) resumeStream(ctx context.Context) (io.ReadCloser, error) {
	p := patience{c: s.c}
	for after := s.pause; ; {
		if err := sleepFor(ctx, after); err != nil {
			return nil, err
		}
		body, err := s.c.getStream(ctx, s.last)
		if err == nil {
			p.serverIsBack()
			return body, nil
		}
		var may bool
		if after, may = mayRepeat(err, true); !may && !errors.Is(err, errStillOpen) {
			return nil, fmt.Errorf("%w: its stream cannot be resumed: %w", ErrLost, err)
		}
		if err := p.waitForServer(ctx, after, err); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
		after = 0
	}
}

// errStillOpen reports that a server refuses to resume a stream, because it has not seen yet that the last connection broke.
var errStillOpen = errors.New("the server still has the broken connection")
