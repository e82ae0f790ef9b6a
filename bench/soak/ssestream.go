package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/bench/client"
)

// sseStream is the client's end of a session over HTTP+SSE: messages go out by POST, and all that come are on one stream. One goroutine uses it, except for sending.
type sseStream struct {
	*client.SSE
	w     *world
	came  chan string // closed when the stream has ended
	why   error       // of the end, set before came is closed
	shown []string    // what came last, for a report
}

// sseQueue is how many messages may have come that nobody has asked for yet.
const sseQueue = 256

// openSSE opens a session over a client's connections.
func (w *world) openSSE(c *connSet) (*sseStream, error) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	late := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no session after %v", patience)) })
	s, err := client.OpenSSE(ctx, w.p.stream(), c)
	if !late.Stop() && err == nil {
		s.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	l := &sseStream{SSE: s, w: w, came: make(chan string, sseQueue)}
	go func() {
		defer cancel(nil)
		defer close(l.came)
		for {
			m, err := s.Next()
			if err != nil {
				l.why = err
				return
			}
			l.came <- m
		}
	}()
	return l, nil
}

// drain returns what came and was not asked for, once the stream has ended, which whoever calls it has seen to.
func (l *sseStream) drain() (rest []client.Event) {
	for m := range l.came {
		l.note(m)
		rest = append(rest, client.Event{Data: m})
	}
	return rest
}

// next returns the next message, which must come while the client is patient.
func (l *sseStream) next() (string, error) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case m, open := <-l.came:
		if !open {
			return "", fmt.Errorf("the stream has ended: %w", l.why)
		}
		l.note(m)
		return m, nil
	case <-t.C:
		return "", fmt.Errorf("nothing came in %v", patience)
	case <-l.w.ctx.Done():
		return "", context.Cause(l.w.ctx)
	}
}

// collect returns the messages that come, up to the one that is the last.
func (l *sseStream) collect(last func(string) bool) (all []client.Event, err error) {
	for {
		data, err := l.next()
		if err != nil {
			return all, err
		}
		if all = append(all, client.Event{Data: data}); last(data) {
			return all, nil
		}
	}
}

// answering reports of a message whether it is the answer to the request.
func answering(id string) func(string) bool {
	return func(data string) bool {
		m := parse(data)
		return m.answers(id)
	}
}

// ask makes a request whose answer must be the next message. It returns the answer.
func (l *sseStream) ask(id, method, params string) (string, error) {
	if err := l.Call(l.w.ctx, id, method, params); err != nil {
		return "", err
	}
	data, err := l.next()
	if err == nil && !answering(id)(data) {
		err = fmt.Errorf("%s %s is not answered next", method, id)
	}
	return data, err
}

// expect is ask for an answer that is known.
func (l *sseStream) expect(id, method, params, want string) error {
	got, err := l.ask(id, method, params)
	if err == nil && got != want {
		err = fmt.Errorf("%s %s: the answer is not %s", method, id, want)
	}
	return err
}

// gone sends messages to the session, whose stream the client has closed, over other connections, until one is refused because there is no such
// session, which must be soon. The first may come before the end of the connection does.
func (l *sseStream) gone(c http.RoundTripper, newID func() string) error {
	s := l.Over(c)
	for end := time.Now().Add(goneWithin); time.Now().Before(end); {
		id := newID()
		a, err := s.Post(l.w.ctx, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`)
		switch {
		case err != nil:
			return err
		case a.Status == http.StatusNotFound && string(a.Body) == `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32600,"message":"unknown session: connect anew"}}`:
			return nil
		case a.Status != http.StatusAccepted || len(a.Body) > 0:
			return fmt.Errorf("a message after the stream got %d %s", a.Status, a.Body)
		}
		if !l.w.wait(2 * time.Millisecond) {
			return context.Cause(l.w.ctx)
		}
	}
	return fmt.Errorf("messages are taken %v after the stream was closed", goneWithin)
}

const (
	// goneWithin is less than the time between two keep-alives, by which the server would notice, too.
	goneWithin = 5 * time.Second

	sseShown = 8   // messages that a report has
	sseChars = 300 // of each
)

func (l *sseStream) note(m string) {
	if len(m) > sseChars {
		m = fmt.Sprintf("%s… (%d bytes)", m[:sseChars], len(m))
	}
	l.shown = append(l.shown, m)
	l.shown = l.shown[max(0, len(l.shown)-sseShown):]
}

// with adds the last messages to an error.
func (l *sseStream) with(err error) error {
	if l == nil || err == nil {
		return err
	}
	return errors.Join(err, errors.New("the last messages that came:\n"+strings.Join(l.shown, "\n")))
}
