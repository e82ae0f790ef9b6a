package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
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

// Client speaks to one server. Make one with [Connect].
type Client struct {
	o        Options
	http     *http.Client
	revision mcp.Revision // 0 until both sides have agreed
	session  string       // "" without one
	last     int64        // the id of the last request
}

// Connect agrees with a server on a revision, and begins a session where the revision has sessions. Without a revision in the options it
// tries the newest, and falls back to initialize where the server has never heard of that (basic/versioning, "Backward Compatibility"). The
// error is an *[mcp.Error] or a *[StatusError] if the server answered with one.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c := &Client{o: o, http: &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if o.Revision.Valid() && !o.Revision.Stateless() {
		return c, c.initializeSession(ctx, o.Revision)
	}
	legacy, err := c.discoverServer(ctx)
	switch {
	case err == nil:
		return c, nil
	case o.Revision.Stateless() || !legacy:
		return nil, err
	}
	return c, c.initializeSession(ctx, mcp.LatestLegacy)
}

// discoverServer asks what the server speaks. Where it fails, legacy says that the server may be one of the time before.
func (c *Client) discoverServer(ctx context.Context) (legacy bool, err error) {
	c.revision = mcp.Latest
	result, err := c.sendRepeated(ctx, request{method: mcp.MethodServerDiscover, reads: true})
	if err != nil {
		c.revision = 0
		return isLegacy(err), err
	}
	var d struct {
		Supported []string `json:"supportedVersions"`
		Meta      struct {
			Server mcp.Implementation `json:"io.modelcontextprotocol/serverInfo"` // a malformed one is refused
		} `json:"_meta"`
	}
	if err := json.Unmarshal(result, &d); err != nil {
		return false, fmt.Errorf("the result of %s: %w", mcp.MethodServerDiscover, err)
	}
	if slices.Contains(d.Supported, mcp.Latest.String()) {
		return false, nil
	}
	c.revision = 0
	return true, fmt.Errorf("the server speaks %s, and not %v", strings.Join(d.Supported, ", "), mcp.Latest)
}

// initializeSession begins a session.
func (c *Client) initializeSession(ctx context.Context, revision mcp.Revision) error {
	params := map[string]json.RawMessage{"protocolVersion": encodeRaw(revision.String()), "capabilities": encodeRaw(c.o.clientCapabilities(c.revision)), "clientInfo": encodeRaw(c.o.clientInfo())}
	result, err := c.sendRepeated(ctx, request{method: mcp.MethodInitialize, params: params, reads: true})
	if err != nil {
		return err
	}
	var settled struct {
		Version string             `json:"protocolVersion"`
		Server  mcp.Implementation `json:"serverInfo"` // a malformed one is refused
	}
	if err := json.Unmarshal(result, &settled); err != nil {
		return fmt.Errorf("the result of %s: %w", mcp.MethodInitialize, err)
	}
	spoken, known := mcp.ParseRevision(settled.Version)
	if !known || c.o.Revision != 0 && spoken != c.o.Revision || spoken.Stateless() {
		c.Close()
		return fmt.Errorf("the server speaks %.40q, and not %v", settled.Version, revision)
	}
	c.revision = spoken
	body, err := encodeMessage("", mcp.NotifyInitialized, nil)
	if err != nil {
		return err
	}
	return c.sendMessage(ctx, body, mcp.NotifyInitialized)
}

// Revision is the revision that both sides speak.
func (c *Client) Revision() mcp.Revision { return c.revision }

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

// mostPages bounds how often a server may say that there is more of a list.
const mostPages = 1000

// Tools lists all tools of the server that the client sees, page by page.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	var all []Tool
	params := map[string]json.RawMessage{}
	for range mostPages {
		result, err := c.sendRepeated(ctx, request{method: mcp.MethodToolsList, params: params, reads: true})
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []json.RawMessage `json:"tools"`
			Next  string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(result, &page); err != nil {
			return nil, fmt.Errorf("the result of %s: %w", mcp.MethodToolsList, err)
		}
		for _, text := range page.Tools {
			t := Tool{Raw: text}
			if err := json.Unmarshal(text, &t); err != nil {
				return nil, fmt.Errorf("a tool: %w", err)
			}
			all = append(all, t)
		}
		if page.Next == "" {
			return all, nil
		}
		params["cursor"] = encodeRaw(page.Next)
	}
	return nil, fmt.Errorf("the list of tools has more than %d pages", mostPages)
}

// sendRepeated sends a request, again where that may help, and returns the result of the one that was answered. The error is an *[mcp.Error] if the
// server answered with one.
func (c *Client) sendRepeated(ctx context.Context, q request) (json.RawMessage, error) {
	p := patience{c: c}
	for {
		result, err := c.sendOnce(ctx, q)
		after, may := mayRepeat(err, q.reads)
		if !may {
			if e, ok := errors.AsType[*brokenError](err); ok {
				err = fmt.Errorf("%w (%s)", ErrLost, innermostText(e.err))
			}
			if _, ok := errors.AsType[*goneError](err); !ok && ctx.Err() == nil {
				p.serverIsBack()
			}
			return result, err
		}
		if err := p.waitForServer(ctx, after, err); err != nil {
			return nil, err
		}
	}
}

// sendOnce sends a request and reads its answer.
func (c *Client) sendOnce(ctx context.Context, q request) (json.RawMessage, error) {
	id := c.newID()
	body, err := encodeMessage(id, q.method, c.withMeta(q, id))
	if err != nil {
		return nil, err
	}
	defer func() {
		if ctx.Err() != nil && !c.isStateless() && q.method == mcp.MethodToolsCall {
			c.cancelRequest(id) // without a session, the end of the connection says it
		}
	}()
	res, err := c.postMessage(ctx, body, q)
	if err != nil {
		return nil, err
	}
	if q.method == mcp.MethodInitialize {
		c.session = res.Header.Get("Mcp-Session-Id")
	}
	if isStream(res) {
		s := stream{c: c, id: id}
		return s.readAnswer(ctx, res.Body)
	}
	return readAnswer(ctx, res, id)
}

// withMeta returns the params of a request with the `_meta` that the client adds.
func (c *Client) withMeta(q request, id string) map[string]json.RawMessage {
	meta := map[string]any{}
	if q.method == mcp.MethodToolsCall {
		meta[mcp.MetaProgressToken] = json.RawMessage(id)
	}
	if c.isStateless() {
		meta[mcp.MetaProtocolVersion], meta[mcp.MetaClientInfo], meta[mcp.MetaClientCapabilities] = c.revision.String(), c.o.clientInfo(), c.o.clientCapabilities(c.revision)
	}
	if len(meta) == 0 {
		return q.params
	}
	params := map[string]json.RawMessage{"_meta": encodeRaw(meta)}
	maps.Copy(params, q.params)
	return params
}

// postMessage sends a message.
func (c *Client) postMessage(ctx context.Context, body []byte, q request) (*http.Response, error) {
	r, err := c.newRequest(ctx, http.MethodPost, body)
	if err != nil {
		return nil, err
	}
	if c.isStateless() {
		r.Header.Set("Mcp-Method", q.method)
		if q.about != "" {
			r.Header.Set("Mcp-Name", headerValue(q.about))
		}
	}
	maps.Copy(r.Header, q.header)
	res, err := c.http.Do(r)
	if err != nil {
		return nil, noResponse(ctx, err)
	}
	return res, nil
}

// sendMessage sends a message that has no answer: a notification, or the answer to a question of the server.
func (c *Client) sendMessage(ctx context.Context, body []byte, method string) error {
	p := patience{c: c}
	for {
		res, err := c.postMessage(ctx, body, request{method: method})
		if err == nil {
			if res.StatusCode/100 == 2 {
				_ = res.Body.Close()
				p.serverIsBack()
				return nil
			}
			_, err = readAnswer(ctx, res, "")
		}
		after, may := mayRepeat(err, true)
		if !may {
			return err
		}
		if err := p.waitForServer(ctx, after, err); err != nil {
			return err
		}
	}
}

// cancelRequest says that nobody waits for the answer to a request any more.
func (c *Client) cancelRequest(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	body, err := encodeMessage("", mcp.NotifyCancelled, map[string]json.RawMessage{"requestId": json.RawMessage(id)})
	if err != nil {
		return
	}
	if res, err := c.postMessage(ctx, body, request{method: mcp.NotifyCancelled}); err == nil {
		_ = res.Body.Close()
	}
}

// getStream asks for what follows an event.
func (c *Client) getStream(ctx context.Context, last string) (io.ReadCloser, error) {
	r, err := c.newRequest(ctx, http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Last-Event-ID", last)
	res, err := c.http.Do(r)
	if err != nil {
		return nil, noResponse(ctx, err)
	}
	if isStream(res) {
		return res.Body, nil
	}
	if res.StatusCode == http.StatusConflict {
		_ = res.Body.Close()
		return nil, errStillOpen
	}
	_, err = readAnswer(ctx, res, "")
	return nil, err
}

// replyToServer answers a request of the server.
func (c *Client) replyToServer(ctx context.Context, m message) error {
	response := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		Error   *mcp.Error      `json:"error,omitempty"`
	}{JSONRPC: "2.0", ID: m.ID}
	switch {
	case m.Method == mcp.MethodPing:
		response.Result = json.RawMessage(`{}`)
	case m.Method == mcp.MethodElicitationCreate && c.o.Answer != nil:
		response.Result = encodeRaw(c.o.Answer(m.Method, m.Params))
	default:
		response.Error = mcp.NewError(mcp.CodeMethodNotFound, "this client answers no "+m.Method)
	}
	body, err := json.Marshal(response)
	if err != nil {
		return err
	}
	return c.sendMessage(ctx, body, "")
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
