package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/eventstream"
)

// mostBody bounds what is read of an answer, in bytes.
const mostBody = 128 << 20

// narrowBuffer is what the system keeps for a connection that takes little, in bytes.
const narrowBuffer = 4096

// client is one client of the server, with a connection of its own.
type client struct {
	o       *Options
	all     []string // endpoints
	next    int      // the place of the one that gets the next request
	http    *http.Client
	session string
	ids     int64
	turn    int  // of mixed
	reports bool // its calls ask for progress
	narrow  bool // its connections take little that it has not read
	buf     bytes.Buffer
}

func newClient(o *Options) *client {
	rt := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, Protocols: new(http.Protocols)}
	rt.Protocols.SetHTTP1(true)
	c := &client{o: o, all: o.endpoints(), http: &http.Client{Transport: rt}}
	rt.DialContext = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		if o.Dial != nil {
			conn, err = o.Dial(o.From, address)
		} else {
			var d net.Dialer
			if o.From != "" {
				d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(o.From)}
			}
			conn, err = d.DialContext(ctx, network, address)
		}
		if tcp, ok := conn.(*net.TCPConn); ok && c.narrow {
			err = tcp.SetReadBuffer(narrowBuffer)
		}
		return conn, err
	}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// url is where the next request goes.
func (c *client) url() string {
	c.next++
	return c.all[(c.next-1)%len(c.all)]
}

// message is what of a JSON-RPC message is looked at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// newID is the id of the next request.
func (c *client) newID() string {
	c.ids++
	return strconv.FormatInt(c.ids, 10)
}

// request encodes a request. params are the members of its params, "" for none.
func (c *client) request(id, method, params string) string {
	if c.o.stateless() {
		if params != "" {
			params += ","
		}
		params += `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + Stateless + `","io.modelcontextprotocol/clientInfo":{"name":"troupe-bench","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}` + c.extensions() + `}` + c.token(method, id) + `}`
	} else if t := c.token(method, id); t != "" {
		params += `,"_meta":{` + t[1:] + `}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

// extensions are what a client of tasks declares. Others would get tasks for answers.
func (c *client) extensions() string {
	if c.o.Scenario != "tasks" {
		return ""
	}
	return `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
}

// token asks for progress of a call.
func (c *client) token(method, id string) string {
	if method != "tools/call" || !c.reports {
		return ""
	}
	return `,"progressToken":` + id
}

// post sends a body. name is what the request of a stateless client is about.
func (c *client) post(ctx context.Context, body, method, name string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url(), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := r.Header
	for k, v := range c.o.Header {
		h[k] = v
	}
	h["Content-Type"] = []string{"application/json"}
	h["Accept"] = []string{"application/json, text/event-stream"}
	switch {
	case c.o.stateless():
		h["Mcp-Protocol-Version"], h["Mcp-Method"] = []string{Stateless}, []string{method}
		if name != "" {
			h["Mcp-Name"] = []string{name}
		}
	case c.session != "":
		h["Mcp-Session-Id"] = []string{c.session}
		fallthrough
	case method != "initialize":
		h["Mcp-Protocol-Version"] = []string{c.o.Revision}
	}
	return c.http.Do(r)
}

// call sends a request and returns its answer. seen gets what comes before that on an event stream; it may be nil.
func (c *client) call(ctx context.Context, id, method, name, params string, seen func(context.Context, *message) error) (*message, error) {
	resp, err := c.post(ctx, c.request(id, method, params), method, name)
	if err != nil {
		return nil, cause(ctx, err)
	}
	defer resp.Body.Close()
	if s := resp.Header.Get("Mcp-Session-Id"); s != "" && method == "initialize" {
		c.session = s
	}
	m, err := c.answer(ctx, resp, id, seen)
	if err != nil {
		return nil, cause(ctx, err)
	}
	if m.Error != nil {
		return nil, &Failure{fmt.Sprintf("error %d", m.Error.Code), m.Error.Message}
	}
	return m, nil
}

// cause makes a time-out of what a time-out has led to.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// answer reads the answer to a request.
func (c *client) answer(ctx context.Context, resp *http.Response, id string, seen func(context.Context, *message) error) (*message, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/event-stream" && resp.StatusCode == http.StatusOK {
		events := eventstream.NewReader(resp.Body, mostBody)
		for {
			e, err := events.Next()
			if err != nil {
				return nil, &Failure{"connection", fmt.Sprintf("the event stream ended before the answer: %v", err)}
			}
			if len(e.Data) == 0 {
				continue
			}
			m, err := parse(e.Data)
			switch {
			case err != nil:
				return nil, err
			case m.Method == "" && string(m.ID) == id:
				drain(resp.Body)
				return m, nil
			case m.Method == "":
				return nil, wrong("an answer to %s, and %s was asked", m.ID, id)
			case seen != nil:
				if err := seen(ctx, m); err != nil {
					return nil, err
				}
			}
		}
	}
	c.buf.Reset()
	if _, err := c.buf.ReadFrom(io.LimitReader(resp.Body, mostBody)); err != nil {
		return nil, err
	}
	m, err := parse(c.buf.Bytes())
	switch {
	case err == nil && m.Error != nil:
		return m, nil
	case resp.StatusCode != http.StatusOK:
		return nil, &Failure{fmt.Sprintf("status %d", resp.StatusCode), fmt.Sprintf("%.200s", c.buf.Bytes())}
	case err != nil:
		return nil, err
	case string(m.ID) != id:
		return nil, wrong("an answer to %s, and %s was asked", m.ID, id)
	}
	return m, nil
}

// drainFor is how long a server may leave an event stream open after the answer. Beyond that its connection is not used again.
const drainFor = 100 * time.Millisecond

// drain reads the rest of a stream, so that its connection can be used again.
func drain(body io.ReadCloser) {
	late := time.AfterFunc(drainFor, func() { _ = body.Close() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, body)
}

func parse(data []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, wrong("%v: %.200s", err, data)
	}
	return m, nil
}

// send sends a notification or an answer, which gets no body back.
func (c *client) send(ctx context.Context, body, method string) error {
	resp, err := c.post(ctx, body, method, "")
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 {
		return &Failure{fmt.Sprintf("status %d", resp.StatusCode), fmt.Sprintf("%.200s", text)}
	}
	return nil
}

// initialize begins the session of a client that needs one.
func (c *client) initialize(ctx context.Context) error {
	if c.o.stateless() {
		return nil
	}
	m, err := c.call(ctx, c.newID(), "initialize", "", `"protocolVersion":"`+c.o.Revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"troupe-bench","version":"1"}`, nil)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	var settled struct {
		Revision string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Result, &settled); err != nil {
		return wrong("initialize: %v", err)
	}
	if settled.Revision != c.o.Revision {
		return fmt.Errorf("the server speaks %q and not %q: pass that as the revision", settled.Revision, c.o.Revision)
	}
	return c.send(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "notifications/initialized")
}

// ping asks whether the session is there.
func (c *client) ping(ctx context.Context) error {
	_, err := c.call(ctx, c.newID(), "ping", "", "", nil)
	return err
}

// end ends the session of the client, if the server has one.
func (c *client) end(ctx context.Context) error {
	if c.session == "" {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.url(), nil)
	if err != nil {
		return err
	}
	for k, v := range c.o.Header {
		r.Header[k] = v
	}
	r.Header.Set("Mcp-Session-Id", c.session)
	r.Header.Set("Mcp-Protocol-Version", c.o.Revision)
	c.session = ""
	resp, err := c.http.Do(r)
	if err != nil {
		return cause(ctx, err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusMethodNotAllowed { // A server need not let clients end sessions.
		return &Failure{fmt.Sprintf("status %d", resp.StatusCode), fmt.Sprintf("DELETE: %.200s", text)}
	}
	return nil
}
