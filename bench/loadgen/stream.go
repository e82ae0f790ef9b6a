package loadgen

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	wire "github.com/troupe-run/troupe/bench/client"
)

// stream is an event stream that a client keeps open: the standalone one of its session, a resumed one, or subscriptions/listen.
type stream struct {
	c      *client
	events *wire.Events
	last   string // the id of the last event that had one
}

// open sends a request whose answer is an event stream, and returns that. The stream lasts until ctx ends.
func (c *client) open(ctx context.Context, send func(context.Context) (*wire.Answer, error)) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.o.Timeout, func() { cancel(context.DeadlineExceeded) })
	a, err := send(ctx)
	late.Stop()
	if err == nil && a.Events != nil && a.Status == http.StatusOK {
		return &stream{c: c, events: a.Events}, nil
	}
	defer cancel(err)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if m, err := parse(a.Body); err == nil && m.Error != nil {
		return nil, m.failure()
	}
	return nil, statusFailure(a, "no event stream but ")
}

// get asks for a stream of the session: the standalone one, or the one behind the event last.
func (c *client) get(ctx context.Context, last string) (*stream, error) {
	h := c.header()
	if last != "" {
		h["Last-Event-Id"] = []string{last}
	}
	s, err := c.open(ctx, func(ctx context.Context) (*wire.Answer, error) { return c.do(ctx, http.MethodGet, "", h) })
	if err == nil {
		s.last = last
	}
	return s, err
}

// listen opens a stream for what happens to the server. uri is a resource whose updates it has to tell, "" for none.
func (c *client) listen(ctx context.Context, uri string) (*stream, error) {
	if !c.o.stateless() {
		if uri != "" {
			one, cancel := context.WithTimeout(ctx, c.o.Timeout)
			defer cancel()
			if _, err := c.call(one, c.newID(), "resources/subscribe", "", `"uri":`+quoted(uri), nil); err != nil {
				return nil, err
			}
		}
		return c.get(ctx, "")
	}
	const method = "subscriptions/listen"
	filter := `"toolsListChanged":true`
	if uri != "" {
		filter = `"resourceSubscriptions":[` + quoted(uri) + `]`
	}
	s, err := c.open(ctx, func(ctx context.Context) (*wire.Answer, error) {
		return c.post(ctx, c.request(c.newID(), method, `"notifications":{`+filter+`}`), method, "")
	})
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(c.o.Timeout, s.close)
	m, err := s.next(ctx)
	late.Stop()
	switch {
	case err != nil:
	case m.Method != "notifications/subscriptions/acknowledged":
		err = wrong("the first message of a listener is %q %.100s", m.Method, m.Result)
	case !strings.Contains(string(m.Params), uri):
		err = wrong("the acknowledgement lacks %s: %.200s", uri, m.Params)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// next returns the next message of the stream. Comments are none, and neither are events without data, nor pings, which are answered.
func (s *stream) next(ctx context.Context) (*message, error) {
	for {
		e, err := s.events.Next()
		if err != nil {
			return nil, &Failure{"stream ended", err.Error()}
		}
		if e.ID != "" {
			s.last = e.ID
		}
		if e.Data == "" {
			continue
		}
		m, err := parse([]byte(e.Data))
		if err != nil {
			return nil, err
		}
		if m.Method != "ping" || len(m.ID) == 0 {
			return m, nil
		}
		if err := s.c.send(ctx, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`, ""); err != nil {
			return nil, err
		}
	}
}

// close cuts the connection of the stream.
func (s *stream) close() { s.events.Close() }

// updated returns the resource that a message tells an update of, "" if it tells none.
func (m *message) updated() string {
	var p struct {
		URI string `json:"uri"`
	}
	if m.Method != "notifications/resources/updated" || json.Unmarshal(m.Params, &p) != nil {
		return ""
	}
	return p.URI
}
