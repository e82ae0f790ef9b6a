package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// stream is an event stream that a client keeps open: the standalone one of its session, a resumed one, or subscriptions/listen.
type stream struct {
	c      *client
	body   io.ReadCloser
	events *eventstream.Reader
	last   string // the id of the last event that had one
}

// open sends a request whose answer is an event stream, and returns that. The stream lasts until ctx ends.
func (c *client) open(ctx context.Context, send func(context.Context) (*http.Response, error)) (*stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.o.Timeout, func() { cancel(context.DeadlineExceeded) })
	resp, err := send(ctx)
	late.Stop()
	if err != nil {
		defer cancel(err)
		return nil, cause(ctx, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" && resp.StatusCode == http.StatusOK {
		return &stream{c: c, body: resp.Body, events: eventstream.NewReader(resp.Body, mostBody)}, nil
	}
	defer cancel(nil)
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if m, err := parse(bytes.TrimSpace(text)); err == nil && m.Error != nil {
		return nil, &Failure{fmt.Sprintf("error %d", m.Error.Code), m.Error.Message}
	}
	return nil, &Failure{fmt.Sprintf("status %d", resp.StatusCode), fmt.Sprintf("no event stream but %.200s", text)}
}

// get asks for a stream of the session: the standalone one, or the one behind the event last.
func (c *client) get(ctx context.Context, last string) (*stream, error) {
	s, err := c.open(ctx, func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(), nil)
		if err != nil {
			return nil, err
		}
		for k, v := range c.o.Header {
			r.Header[k] = v
		}
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", c.o.Revision)
		if c.session != "" {
			r.Header.Set("Mcp-Session-Id", c.session)
		}
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		return c.http.Do(r)
	})
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
	s, err := c.open(ctx, func(ctx context.Context) (*http.Response, error) {
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
		if len(e.Data) == 0 {
			continue
		}
		m, err := parse(e.Data)
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
func (s *stream) close() { _ = s.body.Close() }

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
