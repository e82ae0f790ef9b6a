package loadgen

import (
	"context"
	"net/http"
	"strings"
	"time"

	wire "github.com/troupe-run/troupe/bench/client"
)

// stream is an event stream that a client keeps open: the standalone one of its session, a resumed
// one, or subscriptions/listen.
type stream struct {
	c      *client
	events *wire.Events
	last   string // the id of the last event that had one
}

// openStream sends a request whose answer is an event stream, and returns that. The stream lasts
// until ctx ends.
func openStream(ctx context.Context, c *client, send func(context.Context) (*wire.Answer, error)) (*stream, error) {
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
	if m, err := parseMessage(a.Body); err == nil && m.Error != nil {
		return nil, m.asFailure()
	}
	return nil, statusFailure(a, "no event stream but ")
}

// getStream asks for a stream of the session: the standalone one, or the one behind the event last.
func getStream(ctx context.Context, c *client, last string) (*stream, error) {
	h := c.requestHeader()
	if last != "" {
		h["Last-Event-Id"] = []string{last}
	}
	s, err := openStream(ctx, c, func(ctx context.Context) (*wire.Answer, error) { return c.sendRequest(ctx, http.MethodGet, "", h) })
	if err == nil {
		s.last = last
	}
	return s, err
}

// openListener opens a stream for what happens to the server. uri is a resource whose updates it
// has to tell, "" for none.
func openListener(ctx context.Context, c *client, uri string) (*stream, error) {
	if !c.o.stateless() {
		if uri != "" {
			one, cancel := context.WithTimeout(ctx, c.o.Timeout)
			defer cancel()
			if _, err := c.callMethod(one, c.newID(), "resources/subscribe", "", `"uri":`+quoteJSON(uri), nil); err != nil {
				return nil, err
			}
		}
		return getStream(ctx, c, "")
	}
	const method = "subscriptions/listen"
	filter := `"toolsListChanged":true`
	if uri != "" {
		filter = `"resourceSubscriptions":[` + quoteJSON(uri) + `]`
	}
	s, err := openStream(ctx, c, func(ctx context.Context) (*wire.Answer, error) {
		return c.postBody(ctx, c.encodeRequest(c.newID(), method, `"notifications":{`+filter+`}`), method, "")
	})
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(c.o.Timeout, s.close)
	m, err := s.nextMessage(ctx)
	late.Stop()
	switch {
	case err != nil:
	case m.Method != "notifications/subscriptions/acknowledged":
		err = wrongAnswer("the first message of a listener is %q %.100s", m.Method, m.Result)
	case !strings.Contains(string(m.Params), uri):
		err = wrongAnswer("the acknowledgement lacks %s: %.200s", uri, m.Params)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// nextMessage returns the next message of the stream. Comments are none, and neither are events
// without data, nor pings, which are answered.
func (s *stream) nextMessage(ctx context.Context) (*message, error) {
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
		m, err := parseMessage([]byte(e.Data))
		if err != nil {
			return nil, err
		}
		if m.Method != "ping" || len(m.ID) == 0 {
			return m, nil
		}
		if err := s.c.sendMessage(ctx, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{}}`, ""); err != nil {
			return nil, err
		}
	}
}

// close cuts the connection of the stream.
func (s *stream) close() { s.events.Close() }

// openCall calls a tool in a way that leaves the event stream of its answer to the caller.
func openCall(ctx context.Context, c *client, id, tool, arguments string) (*stream, error) {
	body := c.encodeRequest(id, "tools/call", `"name":`+quoteJSON(tool)+`,"arguments":`+arguments)
	return openStream(ctx, c, func(ctx context.Context) (*wire.Answer, error) { return c.postBody(ctx, body, "tools/call", tool) })
}
