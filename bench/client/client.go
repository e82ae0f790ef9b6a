package client

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Revision is the protocol revision that the client speaks by default.
const Revision = "2025-11-25"

// Client speaks to one endpoint in one session. Make one with New.
type Client struct {
	url  string
	http *http.Client

	mu       sync.Mutex // guards the rest
	session  string
	revision string
	records  map[string]*Record
}

// New returns a client of the endpoint without a session. If rt is nil, the client
// has its own connections.
func New(url string, rt http.RoundTripper) *Client {
	return &Client{url: url, http: newHTTP(rt), revision: Revision, records: make(map[string]*Record)}
}

// currentSession returns the session's id and the revision of the session.
func (c *Client) currentSession() (session, revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.revision
}

// BeginSession begins a session. capabilities is the client's, a JSON object.
func (c *Client) BeginSession(ctx context.Context, capabilities string) error {
	return c.BeginSessionAs(ctx, Revision, capabilities)
}

// BeginSessionAs begins a session of a revision.
func (c *Client) BeginSessionAs(ctx context.Context, revision, capabilities string) error {
	a, err := c.PostMessage(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":`+capabilities+
		`,"clientInfo":{"name":"troupe-bench","version":"1"}}}`)
	if err != nil {
		return err
	}
	id := a.Header.Get("Mcp-Session-Id")
	if a.Status != http.StatusOK || id == "" {
		a.Close()
		return fmt.Errorf("client: initialize: status %d, session %q: %s", a.Status, id, a.Body)
	}
	c.mu.Lock()
	c.session, c.revision = id, revision
	c.mu.Unlock()
	return c.SendNotification(ctx, "notifications/initialized", "")
}

// SendRequest sends a request. id is a raw JSON token and params a JSON object, or ""
// for none.
func (c *Client) SendRequest(ctx context.Context, id, method, params string) (*Answer, error) {
	return c.PostMessage(ctx, Request(id, method, params))
}

// PostMessage sends a message, or a JSON array of them, which 2025-03-26 has.
func (c *Client) PostMessage(ctx context.Context, messages string) (*Answer, error) {
	return c.doRequest(ctx, http.MethodPost, messages, "")
}

// SendNotification sends a notification. A status other than 202 is an error.
func (c *Client) SendNotification(ctx context.Context, method, params string) error {
	a, err := c.PostMessage(ctx, notificationOf(method, params))
	if err != nil {
		return err
	}
	a.Close()
	if a.Status != http.StatusAccepted {
		return fmt.Errorf("client: %s: status %d: %s", method, a.Status, a.Body)
	}
	return nil
}

// Answer posts the client's answer to a request of the server. id is the raw
// token of that request.
func (c *Client) SendAnswer(ctx context.Context, id, result string) (*Answer, error) {
	return c.PostMessage(ctx, answerOf(id, result))
}

// OpenStandalone opens the session's standalone stream.
func (c *Client) OpenStandalone(ctx context.Context) (*Answer, error) {
	return c.doRequest(ctx, http.MethodGet, "", "")
}

// ResumeStream resumes a stream after the event with the id.
func (c *Client) ResumeStream(ctx context.Context, lastEventID string) (*Answer, error) {
	return c.doRequest(ctx, http.MethodGet, "", lastEventID)
}

// EndSession ends the session.
func (c *Client) EndSession(ctx context.Context) (*Answer, error) {
	return c.doRequest(ctx, http.MethodDelete, "", "")
}

// StreamRecord returns the received events of a stream, which may be none.
func (c *Client) StreamRecord(stream string) *Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[stream]
	if r == nil {
		r = &Record{Stream: stream}
		c.records[stream] = r
	}
	return r
}

// ForgetStream drops the record of a stream.
func (c *Client) ForgetStream(stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.records, stream)
}

func (c *Client) doRequest(ctx context.Context, method, body, lastEventID string) (*Answer, error) {
	h := make(http.Header)
	if id, revision := c.currentSession(); id != "" {
		h.Set("Mcp-Session-Id", id)
		h.Set("MCP-Protocol-Version", revision)
	}
	if lastEventID != "" {
		h.Set("Last-Event-ID", lastEventID)
	}
	a, err := Do(ctx, c.http, method, c.url, body, h)
	if err == nil && a.Events != nil {
		a.Events.c, a.Events.from = c, lastEventID
		if p, err := ParseID(lastEventID); err == nil {
			a.Events.conn = c.StreamRecord(p.Stream).addConnection(method, lastEventID)
		}
	}
	return a, err
}
