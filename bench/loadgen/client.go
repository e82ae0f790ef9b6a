package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	wire "github.com/troupe-run/troupe/bench/client"
)

// narrowBuffer is what the system keeps for a connection that takes little, in bytes.
const narrowBuffer = 4096

// client is one client of the server, with a connection of its own.
type client struct {
	o       *Options
	all     []string // endpoints
	next    int      // the place of the one that gets the next request
	http    *http.Client
	conns   *http.Transport
	session string
	ids     int64
	turn    int  // of mixed
	reports bool // its calls ask for progress
	narrow  bool // its connections take little that it has not read
}

func newClient(o *Options) *client {
	rt := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, Protocols: new(http.Protocols)}
	rt.Protocols.SetHTTP1(true)
	c := &client{o: o, all: o.endpoints(), http: &http.Client{Transport: rt}, conns: rt}
	if o.Through != nil {
		c.http.Transport = o.Through(rt)
	}
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

func (c *client) closeConnections() { c.conns.CloseIdleConnections() }

// newID is the id of the next request.
func (c *client) newID() string {
	c.ids++
	return strconv.FormatInt(c.ids, 10)
}

// encodeRequest encodes a request. params are the members of its params, "" for none.
func (c *client) encodeRequest(id, method, params string) string {
	if c.o.stateless() {
		if params != "" {
			params += ","
		}
		params += `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + Stateless + `","io.modelcontextprotocol/clientInfo":{"name":"troupe-bench","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}` + c.declaredExtensions() + `}` + c.progressToken(method, id) + `}`
	} else if t := c.progressToken(method, id); t != "" {
		params += `,"_meta":{` + t[1:] + `}`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`
}

// declaredExtensions are what a client of tasks declares. Others would get tasks for answers.
func (c *client) declaredExtensions() string {
	if c.o.Scenario != "tasks" {
		return ""
	}
	return `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
}

// progressToken asks for progress of a call.
func (c *client) progressToken(method, id string) string {
	if method != "tools/call" || !c.reports {
		return ""
	}
	return `,"progressToken":` + id
}

// requestHeader is what all requests of the client have.
func (c *client) requestHeader() http.Header {
	h := make(http.Header, len(c.o.Header)+6)
	for k, v := range c.o.Header {
		h[k] = v
	}
	if c.session != "" {
		h["Mcp-Session-Id"] = []string{c.session}
	}
	h["Mcp-Protocol-Version"] = []string{c.o.Revision}
	return h
}

// postBody sends a body. name is what the request of a stateless client is about.
func (c *client) postBody(ctx context.Context, body, method, name string) (*wire.Answer, error) {
	h := c.requestHeader()
	switch {
	case c.o.stateless():
		h["Mcp-Method"] = []string{method}
		if name != "" {
			h["Mcp-Name"] = []string{name}
		}
	case method == "initialize":
		delete(h, "Mcp-Protocol-Version")
	}
	return c.sendRequest(ctx, http.MethodPost, body, h)
}

// sendRequest sends a request to the endpoint whose turn it is.
func (c *client) sendRequest(ctx context.Context, method, body string, h http.Header) (*wire.Answer, error) {
	c.next++
	a, err := wire.Do(ctx, c.http, method, c.all[(c.next-1)%len(c.all)], body, h)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return a, nil
}

// callMethod sends a request and returns its answer. seen gets what comes before that on an event
// stream; it may be nil.
func (c *client) callMethod(ctx context.Context, id, method, name, params string, seen func(context.Context, *message) error) (*message, error) {
	a, err := c.postBody(ctx, c.encodeRequest(id, method, params), method, name)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if s := a.Header.Get("Mcp-Session-Id"); s != "" && method == "initialize" {
		c.session = s
	}
	m, err := answerTo(ctx, a, id, seen)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	if m.Error != nil {
		return nil, m.asFailure()
	}
	return m, nil
}

// callTool calls a tool and returns its result.
func (c *client) callTool(ctx context.Context, tool, arguments, more string, seen func(context.Context, *message) error) (*toolResult, error) {
	return c.callAs(ctx, c.newID(), tool, arguments, more, seen)
}

func (c *client) callAs(ctx context.Context, id, tool, arguments, more string, seen func(context.Context, *message) error) (*toolResult, error) {
	m, err := c.callMethod(ctx, id, "tools/call", tool, `"name":`+quoteJSON(tool)+`,"arguments":`+arguments+more, seen)
	if err != nil {
		return nil, err
	}
	return resultOf(m)
}

// toolOr is the tool that the user has named, or the scenario's own.
func (c *client) toolOr(own string) string {
	if c.o.Tool != "" {
		return c.o.Tool
	}
	return own
}

// statusFailure is the failure of an answer with a status that says so.
func statusFailure(a *wire.Answer, what string) error {
	return &Failure{fmt.Sprintf("status %d", a.Status), fmt.Sprintf("%s%.200s", what, a.Body)}
}

// causeOf makes a time-out of what a time-out has led to.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// answerTo reads the answer to a request.
func answerTo(ctx context.Context, a *wire.Answer, id string, seen func(context.Context, *message) error) (*message, error) {
	for a.Events != nil && a.Status == http.StatusOK {
		e, err := a.Events.Next()
		if err != nil {
			return nil, &Failure{"connection", fmt.Sprintf("the event stream ended before the answer: %v", err)}
		}
		if e.Data == "" {
			continue
		}
		m, err := parseMessage([]byte(e.Data))
		switch {
		case err != nil:
			return nil, err
		case m.Method == "" && string(m.ID) == id:
			drainEvents(a.Events)
			return m, nil
		case m.Method == "":
			return nil, wrongAnswer("an answer to %s, and %s was asked", m.ID, id)
		case seen != nil:
			if err := seen(ctx, m); err != nil {
				return nil, err
			}
		}
	}
	m, err := parseMessage(a.Body)
	switch {
	case err == nil && m.Error != nil:
		return m, nil
	case a.Status != http.StatusOK:
		return nil, statusFailure(a, "")
	case err != nil:
		return nil, err
	case string(m.ID) != id:
		return nil, wrongAnswer("an answer to %s, and %s was asked", m.ID, id)
	}
	return m, nil
}

// drainFor is how long a server may leave an event stream open after the answer. Beyond that its
// connection is not used again.
const drainFor = 100 * time.Millisecond

// drainEvents reads the rest of a stream, so that its connection can be used again.
func drainEvents(events *wire.Events) {
	late := time.AfterFunc(drainFor, events.Close)
	defer late.Stop()
	_, _ = io.Copy(io.Discard, events)
}

// sendMessage sends a notification or an answer, which gets no body back.
func (c *client) sendMessage(ctx context.Context, body, method string) error {
	a, err := c.postBody(ctx, body, method, "")
	if err != nil {
		return err
	}
	a.Close()
	if a.Status/100 != 2 {
		return statusFailure(a, "")
	}
	return nil
}

// initialize begins the session of a client that needs one.
func (c *client) initialize(ctx context.Context) error {
	if c.o.stateless() {
		return nil
	}
	m, err := c.callMethod(ctx, c.newID(), "initialize", "", `"protocolVersion":"`+c.o.Revision+`","capabilities":{"elicitation":{}},"clientInfo":{"name":"troupe-bench","version":"1"}`, nil)
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	var settled struct {
		Revision string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Result, &settled); err != nil {
		return wrongAnswer("initialize: %v", err)
	}
	if settled.Revision != c.o.Revision {
		return fmt.Errorf("the server speaks %q and not %q: pass that as the revision", settled.Revision, c.o.Revision)
	}
	return c.sendMessage(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "notifications/initialized")
}

// ping asks whether the session is there.
func (c *client) ping(ctx context.Context) error {
	_, err := c.callMethod(ctx, c.newID(), "ping", "", "", nil)
	return err
}

// endSession ends the session of the client, if the server has one.
func (c *client) endSession(ctx context.Context) error {
	if c.session == "" {
		return nil
	}
	h := c.requestHeader()
	c.session = ""
	a, err := c.sendRequest(ctx, http.MethodDelete, "", h)
	if err != nil {
		return err
	}
	a.Close()
	if a.Status/100 != 2 && a.Status != http.StatusMethodNotAllowed { // A server need not let clients end sessions.
		return statusFailure(a, "DELETE: ")
	}
	return nil
}
