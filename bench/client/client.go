package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Revision is the protocol revision that the client speaks by default.
const Revision = "2025-11-25"

// maxBody is the largest body of a plain response, in bytes.
const maxBody = 16 << 20

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
	if rt == nil {
		rt = NewTransport()
	}
	return &Client{url: url, http: &http.Client{Transport: rt}, revision: Revision, records: make(map[string]*Record)}
}

// NewTransport returns connections that suit many streams to one server.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		DisableCompression:  true,
	}
}

// Answer is the response to a request: a body, or an open event stream.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte  // nil for a stream
	Events *Events // nil for a body
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
	a, err := c.post(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":`+capabilities+
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
	return c.post(ctx, `{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"`+withParams(params)+`}`)
}

// Batch sends a JSON array of messages, which 2025-03-26 has.
func (c *Client) Batch(ctx context.Context, messages string) (*Answer, error) {
	return c.post(ctx, messages)
}

// Notify sends a notification. A status other than 202 is an error.
func (c *Client) Notify(ctx context.Context, method, params string) error {
	a, err := c.post(ctx, `{"jsonrpc":"2.0","method":"`+method+`"`+withParams(params)+`}`)
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
	return c.post(ctx, `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`)
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

func (c *Client) post(ctx context.Context, body string) (*Answer, error) {
	return c.do(ctx, http.MethodPost, body, "")
}

func (c *Client) do(ctx context.Context, method, body, lastEventID string) (*Answer, error) {
	var rd io.Reader
	if method == http.MethodPost {
		rd = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url, rd)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if id, revision := c.settled(); id != "" {
		r.Header.Set("Mcp-Session-Id", id)
		r.Header.Set("MCP-Protocol-Version", revision)
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, unanswered(method, err)
	}
	a, err := answer(resp, method)
	if err == nil && a.Events != nil {
		a.Events.c, a.Events.from = c, lastEventID
		if p, err := ParseID(lastEventID); err == nil {
			a.Events.conn = c.record(p.Stream).connect(method, lastEventID)
		}
	}
	return a, err
}

// answer reads a response unless it is a stream.
func answer(resp *http.Response, method string) (*Answer, error) {
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.Events = &Events{op: method, body: resp.Body, rd: bufio.NewReader(resp.Body)}
		return a, nil
	}
	defer resp.Body.Close()
	var err error
	if a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody)); err != nil {
		return nil, &Error{method, Broken, err}
	}
	return a, nil
}

// Close ends the stream, if the answer is one.
func (a *Answer) Close() {
	if a.Events != nil {
		a.Events.Close()
	}
}
