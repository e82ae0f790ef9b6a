package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// MostBytes is the most that is read of one message of a server.
const MostBytes = 16 << 20

// Options say which server to speak to, and how.
type Options struct {
	URL    string      // of the endpoint
	Header http.Header // of each request
	// Revision is the only revision to speak. 0 means the newest that both sides speak.
	Revision mcp.Revision
	// Patience is for how long a server that is gone, or asks to come again later, is tried again before the request fails. 0 or less
	// means not at all.
	Patience time.Duration

	// Notify gets the progress of calls and other notifications. nil drops them.
	Notify func(method string, params json.RawMessage)
	// Status gets what happens to a call beside its notifications, a sentence each: that the server is gone, and is back, that the call
	// became a task, and the task's messages. nil drops them.
	Status func(text string)
	// Answer answers a question of the server: the method is [mcp.MethodElicitationCreate]. nil declares no elicitation.
	Answer func(method string, params json.RawMessage) mcp.ElicitResult

	Name, Version string            // of the client, as servers are told
	Transport     http.RoundTripper // nil: [http.DefaultTransport]
}

// Client speaks to one server. Make one with [Connect].
type Client struct {
	o        Options
	http     *http.Client
	revision mcp.Revision // 0 until both sides have agreed
	session  string       // "" without one
	last     int64        // the id of the last request
	server   string       // its name and version, as far as it has said
}

// Revision is the revision that both sides speak.
func (c *Client) Revision() mcp.Revision { return c.revision }

// Server is what the server calls itself, with its version; "" if it does not say.
func (c *Client) Server() string { return c.server }

// farewell bounds what is said to a server at the end.
const farewell = 2 * time.Second

// Close ends the session, if there is one. A server that does not answer in time, or lets no client end a session, keeps it until it expires.
func (c *Client) Close() {
	if c.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	r, err := c.newRequest(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	if res, err := c.http.Do(r); err == nil {
		_ = res.Body.Close()
	}
	c.session = ""
}

// newRequest returns an HTTP request with the headers of each one.
func (c *Client) newRequest(ctx context.Context, method string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.o.URL, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	for name, values := range c.o.Header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodGet {
		r.Header.Set("Accept", "text/event-stream")
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.revision != 0 {
		r.Header.Set("Mcp-Protocol-Version", c.revision.String())
	}
	return r, nil
}

// newID returns the id of the next request, a JSON token.
func (c *Client) newID() string {
	c.last++
	return strconv.FormatInt(c.last, 10)
}

func (c *Client) isStateless() bool { return c.revision.Stateless() }

// clientCapabilities are those of the client in a revision.
func (o *Options) clientCapabilities(revision mcp.Revision) mcp.ClientCapabilities {
	var all mcp.ClientCapabilities
	if o.Answer != nil {
		all.Elicitation = &mcp.ElicitationCapability{Form: mcp.Declared(), URL: mcp.Declared()}
	}
	if revision.Stateless() {
		all.Extensions = map[string]mcp.Object{mcp.ExtensionTasks: {}}
	}
	return all
}

func (o *Options) clientInfo() mcp.Implementation {
	return mcp.Implementation{Name: o.Name, Version: o.Version}
}

func (o *Options) sayStatus(text string) {
	if o.Status != nil {
		o.Status(text)
	}
}
