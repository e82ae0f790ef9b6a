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

// Session is the session's id, "" before Initialize.
func (c *Client) Session() string {
	id, _ := c.settled()
	return id
}

// WithSession returns a client of the same connections that uses another
// session's id.
func (c *Client) WithSession(id string) *Client {
	_, revision := c.settled()
	return &Client{url: c.url, http: c.http, session: id, revision: revision, records: make(map[string]*Record)}
}

// At returns a client of the same connections and session at another endpoint.
func (c *Client) At(url string) *Client {
	session, revision := c.settled()
	return &Client{url: url, http: c.http, session: session, revision: revision, records: make(map[string]*Record)}
}

// settled returns the session's id and the revision of the session.
func (c *Client) settled() (session, revision string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.revision
}

// Initialize begins a session. capabilities is the client's, a JSON object.
func (c *Client) Initialize(ctx context.Context, capabilities string) error {
	return c.InitializeAs(ctx, Revision, capabilities)
}

// InitializeAs begins a session of a revision.
func (c *Client) InitializeAs(ctx context.Context, revision, capabilities string) error {
	a, err := c.Post(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":`+capabilities+
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
	return c.Notify(ctx, "notifications/initialized", "")
}

// Call sends a request. id is a raw JSON token and params a JSON object, or ""
// for none.
func (c *Client) Call(ctx context.Context, id, method, params string) (*Answer, error) {
	return c.Post(ctx, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"`+withParams(params)+`}`)
}

// Post sends a message, or a JSON array of them, which 2025-03-26 has.
func (c *Client) Post(ctx context.Context, messages string) (*Answer, error) {
	return c.do(ctx, http.MethodPost, messages, "")
}

// Notify sends a notification. A status other than 202 is an error.
func (c *Client) Notify(ctx context.Context, method, params string) error {
	a, err := c.Post(ctx, `{"jsonrpc":"2.0","method":"`+method+`"`+withParams(params)+`}`)
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
func (c *Client) Answer(ctx context.Context, id, result string) (*Answer, error) {
	return c.Post(ctx, `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`)
}

func withParams(params string) string {
	if params == "" {
		return ""
	}
	return `,"params":` + params
}

// Listen opens the session's standalone stream.
func (c *Client) Listen(ctx context.Context) (*Answer, error) {
	return c.do(ctx, http.MethodGet, "", "")
}

// Resume resumes a stream after the event with the id.
func (c *Client) Resume(ctx context.Context, lastEventID string) (*Answer, error) {
	return c.do(ctx, http.MethodGet, "", lastEventID)
}

// Delete ends the session.
func (c *Client) Delete(ctx context.Context) (*Answer, error) {
	return c.do(ctx, http.MethodDelete, "", "")
}

// record returns the record of a stream, and makes it if there is none.
func (c *Client) record(stream string) *Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[stream]
	if r == nil {
		r = &Record{Stream: stream}
		c.records[stream] = r
	}
	return r
}

// Record returns the received events of a stream, or nil if there are none.
func (c *Client) Record(stream string) *Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records[stream]
}

// Forget drops the record of a stream.
func (c *Client) Forget(stream string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.records, stream)
}

func (c *Client) do(ctx context.Context, method, body, lastEventID string) (*Answer, error) {
	h := make(http.Header)
	if id, revision := c.settled(); id != "" {
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
			a.Events.conn = c.record(p.Stream).connect(method, lastEventID)
		}
	}
	return a, err
}
