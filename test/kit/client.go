package kit

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// Client speaks Streamable HTTP only.
type Client struct {
	T       testing.TB
	HTTP    *http.Client
	URL     string
	Session string
	Header  http.Header // added to every request; an empty value removes a default

	// Sent and Received, if set, get each message that is POSTed and each one that comes
	// back, as a body or as an event. They may be called from the goroutines that use the
	// client and its answers.
	Sent     func(message string)
	Received func(message string)
}

// Event is one SSE event.
type Event struct{ Name, ID, Retry, Data string }

// Answer is a response: its body, or its open event stream.
type Answer struct {
	*http.Response
	Body string
	sse  *eventstream.Reader
	raw  io.Closer
	seen func(message string)
	// Comments counts the comment lines read so far.
	Comments int
	// Broke says that the connection broke before the end of the stream.
	Broke bool
}

// Stream reports whether the answer is an event stream.
func (a *Answer) Stream() bool { return a.sse != nil }

// Close breaks the connection.
func (a *Answer) Close() { _ = a.raw.Close() }

// Next reads the next event; ok is false at the end of the stream.
func (a *Answer) Next() (e Event, ok bool) {
	got, err := a.sse.Next()
	if a.Comments = a.sse.Comments; err != nil {
		a.Broke = err != io.EOF
		return e, false
	}
	e = Event{Name: got.Name, ID: got.ID, Data: string(got.Data)}
	if got.Retry > 0 {
		e.Retry = strconv.FormatInt(got.Retry.Milliseconds(), 10)
	}
	if e.Data != "" && a.seen != nil {
		a.seen(e.Data)
	}
	return e, true
}

// All reads the rest of the stream.
func (a *Answer) All() []Event {
	var all []Event
	for {
		e, ok := a.Next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// Do sends a request. It fails the test when there is no response at all.
func (c *Client) Do(method, body string, header ...string) *Answer {
	c.T.Helper()
	a, err := c.Try(method, body, header...)
	if err != nil {
		c.T.Fatalf("%s: %v", method, err)
	}
	return a
}

// Try sends a request. header are pairs of names and values; an empty value
// removes the header.
func (c *Client) Try(method, body string, header ...string) (*Answer, error) {
	var rd io.Reader
	if method == http.MethodPost {
		rd = bytes.NewBufferString(body)
	}
	r, err := http.NewRequest(method, c.URL, rd)
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.Session != "" {
		r.Header.Set("Mcp-Session-Id", c.Session)
	}
	for k, v := range c.Header {
		r.Header[k] = v
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	if method == http.MethodPost && c.Sent != nil {
		c.Sent(body)
	}
	resp, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	a := &Answer{Response: resp, raw: resp.Body, seen: c.Received}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.sse = eventstream.NewReader(resp.Body, 1<<30)
		return a, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a.Body = string(b)
	if a.Body != "" && c.Received != nil && resp.Header.Get("Content-Type") == "application/json" {
		c.Received(a.Body)
	}
	return a, err
}

// Post sends a message.
func (c *Client) Post(body string, header ...string) *Answer {
	c.T.Helper()
	return c.Do(http.MethodPost, body, header...)
}

// Get opens the standalone stream, or resumes one after the event id.
func (c *Client) Get(lastEventID string) *Answer {
	c.T.Helper()
	return c.Do(http.MethodGet, "", "Last-Event-ID", lastEventID)
}

// PostLater is Post on a goroutine of its own.
func (c *Client) PostLater(body string, header ...string) <-chan *Answer {
	answer := make(chan *Answer, 1)
	go func() {
		a, err := c.Try(http.MethodPost, body, header...)
		if err != nil {
			c.T.Errorf("%s: %v", http.MethodPost, err)
			a = &Answer{Response: &http.Response{}, raw: http.NoBody}
		}
		answer <- a
	}()
	return answer
}

// Initialize begins a session of the newest revision that has sessions, with the
// given capabilities.
func (c *Client) Initialize(capabilities string) *Client {
	c.T.Helper()
	return c.InitializeAs("2025-11-25", capabilities)
}

// InitializeAs begins a session of a revision.
func (c *Client) InitializeAs(revision, capabilities string) *Client {
	c.T.Helper()
	c.Session = ""
	a := c.Post(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":` + capabilities + `,"clientInfo":{"name":"kit","version":"1"}}}`)
	c.Session = a.Header.Get("Mcp-Session-Id")
	if a.StatusCode != http.StatusOK || c.Session == "" {
		c.T.Fatalf("initialize: %s %s", a.Status, a.Body)
	}
	if n := c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); n.StatusCode != http.StatusAccepted || n.Body != "" {
		c.T.Fatalf("initialized: %s %s", n.Status, n.Body)
	}
	return c
}
