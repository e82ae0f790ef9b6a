package troupetest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/origin"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// ErrClosed is the error of a request that the server ended without a response, or that was
// sent after [Client.Close]. Whether it took effect is unknown.
var ErrClosed = errors.New("troupetest: the connection is closed")

// Client is a client of one server.
type Client struct {
	o        Options
	stateful bool // the revision has sessions
	declared json.RawMessage
	ctx      context.Context // of answers to questions
	stop     context.CancelFunc
	lines    chan []byte   // to the server; a mutex would keep virtual time from passing
	quit     chan struct{} // closed when nothing more will be written
	gone     chan struct{} // closed when nothing more will be read
	order    chan struct{} // holds one while a question is answered
	served   chan error
	closing  sync.Once
	fault    error

	mu      sync.Mutex // guards the rest
	last    int64      // the id of the last request
	waiting map[string]request
	hosted  map[string]*hostedTask // by their ids
}

// Connect serves srv, kept in memory, to a new client until the test ends. It fails the test
// if they cannot agree on a revision. A server serves one client at a time: give a second
// client a server of its own, or close the first client before.
func Connect(t testing.TB, srv *troupe.Server, o Options) *Client {
	t.Helper()
	if o.LogLevel == "" {
		o.LogLevel = mcp.LevelInfo
	}
	if o.Runtime.DrainWait == 0 {
		o.Runtime.DrainWait = 5 * time.Second
	}
	if o.Runtime.Store.Lease == 0 {
		o.Runtime.Store.Lease = time.Minute // no other node waits for its end, and a test in virtual time may let hours pass
	}
	c := &Client{lines: make(chan []byte), quit: make(chan struct{}), gone: make(chan struct{}), order: make(chan struct{}, 1), served: make(chan error, 1), waiting: map[string]request{}}
	if p := o.Principal; o.Runtime.Authenticate == nil && (p.Issuer != "" || p.Subject != "" || p.Claims != nil || p.Token.Reveal() != "") {
		o.Runtime.Authenticate = func(*http.Request) (troupe.Principal, error) { return p, nil }
	}
	endLog := func() {}
	if o.Runtime.Log == nil {
		o.Runtime.Log, endLog = logOf(t)
	}
	rt, err := troupe.New(o.Runtime)
	if err != nil {
		t.Fatalf("troupetest: %v", err)
	}
	if err := rt.TryMount(mountPath, srv); err != nil {
		_ = rt.Close(t.Context()) // nothing has begun
		t.Fatalf("troupetest: %v (a server is served to one client at a time)", err)
	}
	if err := c.speak(o, srv.Revisions()); err != nil {
		rt.Unmount(mountPath)     // another client may have the server
		_ = rt.Close(t.Context()) // nothing has begun
		t.Fatalf("troupetest: %v", err)
	}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	request := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: mountPath}, Header: http.Header{}, RemoteAddr: "192.0.2.1:1234"}
	if o.Header != nil {
		request.Header = o.Header.Clone()
	}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	go func() {
		err := rt.ServePipe(origin.With(c.ctx, request), srv, stdin, stdout)
		_ = stdin.Close()
		_ = stdout.Close()
		rt.Unmount(mountPath) // another client may have the server
		c.served <- err
	}()
	go c.write(in)
	go c.read(out)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("troupetest: the runtime ended with %v", err)
		}
		endLog()
	})
	if err := c.begin(t.Context()); err != nil {
		t.Fatalf("troupetest: %v", err)
	}
	return c
}

// speak takes the options of a client of a server that speaks the revisions, oldest first.
func (c *Client) speak(o Options, spoken []mcp.Revision) error {
	if o.Revision == 0 {
		o.Revision = spoken[len(spoken)-1]
	}
	if !slices.Contains(spoken, o.Revision) {
		return fmt.Errorf("the server speaks %v, not %s", spoken, o.Revision)
	}
	c.o, c.stateful = o, protocol.Has(o.Revision, protocol.FeatureSessions)
	declared, err := json.Marshal(c.capabilities())
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	c.declared = declared
	return nil
}

// mountPath is where a runtime mounts its server. No request goes there: mounting finds out
// at once whether the server is free.
const mountPath = "/mcp"

// capabilities returns the capabilities of the options.
func (c *Client) capabilities() mcp.ClientCapabilities {
	all := c.o.Capabilities
	if c.o.Elicit != nil && all.Elicitation == nil {
		all.Elicitation = &mcp.ElicitationCapability{Form: mcp.Declared(), URL: mcp.Declared()}
	}
	if c.o.Sample != nil && all.Sampling == nil {
		all.Sampling = &mcp.SamplingCapability{}
	}
	if c.o.HostTasks && protocol.Has(c.o.Revision, protocol.FeatureCoreTasks) && all.Tasks == nil {
		all.Tasks = c.o.hosting()
	}
	if c.o.Roots != nil && all.Roots == nil {
		all.Roots = &mcp.ListChanged{ListChanged: true}
	}
	return all
}

// begin begins the session, if the revision has sessions.
func (c *Client) begin(ctx context.Context) error {
	if !c.stateful {
		return nil
	}
	params := map[string]any{"protocolVersion": c.o.Revision.String(), "capabilities": c.declared, "clientInfo": clientInfo}
	var settled mcp.InitializeResult
	if err := c.Do(ctx, mcp.MethodInitialize, params, &settled); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if settled.ProtocolVersion != c.o.Revision.String() {
		return fmt.Errorf("initialize: the server speaks %s, not %s", settled.ProtocolVersion, c.o.Revision)
	}
	if err := c.Send(mcp.NotifyInitialized, nil); err != nil {
		return err
	}
	if c.o.Log == nil {
		return nil
	}
	return c.Do(ctx, mcp.MethodLoggingSetLevel, protocol.SetLevelParams{Level: c.o.LogLevel}, nil)
}

var clientInfo = mcp.Implementation{Name: "troupetest", Version: "1"}

// Close ends the connection from the client's side: calls in flight may still end, within
// Runtime.DrainWait. It returns the error that the runtime ended with; a second Close
// returns the same. The end of the test closes the client.
func (c *Client) Close() error {
	c.closing.Do(func() {
		close(c.quit)
		c.fault = <-c.served
		c.stop()
		<-c.gone
	})
	return c.fault
}

// Do sends a request and decodes its result, unless result is nil. params may be any value
// that encodes to a JSON object, or nil for none. The error is a *[mcp.Error] if the server
// responds with one. When ctx ends, Do cancels the request and returns the cause of ctx.
func (c *Client) Do(ctx context.Context, method string, params, result any) error {
	members, err := object(params)
	if err != nil {
		return fmt.Errorf("troupetest: %s: %w", method, err)
	}
	for {
		data, err := c.ask(ctx, method, members, nil)
		if err != nil {
			return err
		}
		var input mcp.InputRequiredResult
		if c.stateful || json.Unmarshal(data, &input) != nil || input.ResultType != mcp.ResultInputRequired {
			if result == nil {
				return nil
			}
			return json.Unmarshal(data, result)
		}
		if members["inputResponses"], err = c.answers(ctx, input.InputRequests); err != nil {
			return fmt.Errorf("troupetest: %s: %w", method, err)
		}
		if delete(members, "requestState"); input.RequestState != "" {
			members["requestState"], _ = json.Marshal(input.RequestState) // a string
		}
	}
}

// ask sends one request and waits for the response. acknowledged, which must have room, gets
// a value when the server acknowledges a subscription; it is nil for other requests.
func (c *Client) ask(ctx context.Context, method string, members map[string]json.RawMessage, acknowledged chan<- struct{}) (json.RawMessage, error) {
	c.mu.Lock()
	c.last++
	id := strconv.FormatInt(c.last, 10)
	answered := make(chan answer, 1)
	c.waiting[id] = request{answered, acknowledged}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
	}()
	params, err := c.withMeta(members, id)
	if err == nil {
		err = c.send(message{ID: json.RawMessage(id), Method: method, Params: params})
	}
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, a.err
		}
		return a.result, nil
	case <-c.gone:
		return nil, ErrClosed
	case <-ctx.Done():
		_ = c.Send(mcp.NotifyCancelled, mcp.CancelledParams{RequestID: mcp.RequestID(id)}) // if the server is gone, it need not know
		return nil, context.Cause(ctx)
	}
}

// withMeta returns params with the `_meta` that the client adds: where to send progress and,
// without a session, which client asks.
func (c *Client) withMeta(members map[string]json.RawMessage, id string) (json.RawMessage, error) {
	meta := map[string]any{}
	if own := members["_meta"]; own != nil {
		if err := json.Unmarshal(own, &meta); err != nil {
			return nil, fmt.Errorf("troupetest: _meta: %w", err)
		}
	}
	if c.o.Progress != nil && meta[mcp.MetaProgressToken] == nil {
		meta[mcp.MetaProgressToken] = json.RawMessage(id)
	}
	if !c.stateful {
		meta[mcp.MetaProtocolVersion], meta[mcp.MetaClientCapabilities], meta[mcp.MetaClientInfo] = c.o.Revision.String(), c.declared, clientInfo
		if c.o.Log != nil {
			meta[mcp.MetaLogLevel] = c.o.LogLevel
		}
	}
	if len(meta) == 0 {
		return json.Marshal(members)
	}
	data, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("troupetest: _meta: %w", err)
	}
	full := map[string]json.RawMessage{}
	for name, value := range members {
		full[name] = value
	}
	full["_meta"] = data
	return json.Marshal(full)
}

// Send sends a notification. params are as for [Client.Do].
func (c *Client) Send(method string, params any) error {
	members, err := object(params)
	if err != nil {
		return fmt.Errorf("troupetest: %s: %w", method, err)
	}
	m := message{Method: method}
	if len(members) > 0 {
		if m.Params, err = json.Marshal(members); err != nil {
			return fmt.Errorf("troupetest: %s: %w", method, err)
		}
	}
	return c.send(m)
}

// CallTool calls a tool. arguments may be any value that encodes to a JSON object, or nil
// for none. A tool that fails is a result with IsError; the errors are those of [Client.Do].
func (c *Client) CallTool(ctx context.Context, name string, arguments any) (*mcp.CallToolResult, error) {
	p := map[string]any{"name": name}
	if arguments != nil {
		p["arguments"] = arguments
	}
	r := new(mcp.CallToolResult)
	if err := c.Do(ctx, mcp.MethodToolsCall, p, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Text returns the text blocks of a result, a line each. It is empty for nil.
func Text(r *mcp.CallToolResult) string {
	if r == nil {
		return ""
	}
	var texts []string
	for _, block := range r.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Tools lists all tools that the client sees, page by page.
func (c *Client) Tools(ctx context.Context) ([]mcp.Tool, error) {
	var all []mcp.Tool
	var params struct {
		Cursor string `json:"cursor,omitempty"`
	}
	for {
		var page mcp.ListToolsResult
		if err := c.Do(ctx, mcp.MethodToolsList, params, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tools...)
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return all, nil
		}
	}
}

// Subscribe asks for notifications of changes: of the resources with these URIs and, where
// the revision requires it (2026-07-28), of all lists. It returns when the server has
// accepted that. Options.Notify gets them. ctx bounds the wait; without sessions, it also
// ends the subscription.
func (c *Client) Subscribe(ctx context.Context, uris ...string) error {
	if c.stateful {
		for _, uri := range uris {
			if err := c.Do(ctx, mcp.MethodResourcesSubscribe, map[string]string{"uri": uri}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	filter := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: uris}
	ended := make(chan error, 1)
	acknowledged := make(chan struct{}, 1)
	params, err := object(map[string]any{"notifications": filter})
	if err != nil {
		return err // never: a filter is only strings and booleans
	}
	go func() {
		_, err := c.ask(ctx, mcp.MethodSubscriptionsListen, params, acknowledged)
		ended <- err
	}()
	select {
	case <-acknowledged:
		return nil
	case err := <-ended:
		return err
	}
}

// send gives a message to the goroutine that writes.
func (c *Client) send(m message) error {
	m.JSONRPC = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("troupetest: %w", err)
	}
	select {
	case c.lines <- append(line, '\n'):
		return nil
	case <-c.quit:
		return ErrClosed
	case <-c.gone:
		return ErrClosed
	}
}

// write writes lines until the client is closed, which ends the server's input.
func (c *Client) write(in *io.PipeWriter) {
	defer in.Close()
	for {
		select {
		case line := <-c.lines:
			if _, err := in.Write(line); err != nil {
				return
			}
		case <-c.quit:
			return
		}
	}
}

// read reads messages until the server is gone.
func (c *Client) read(out io.Reader) {
	defer close(c.gone)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue // never: the server sends whole messages
		}
		switch {
		case m.Method != "" && m.ID != nil:
			go c.reply(m)
		case m.Method != "":
			c.notice(m)
		default:
			c.mu.Lock()
			waiting := c.waiting[string(m.ID)]
			c.mu.Unlock()
			if waiting.answered != nil {
				waiting.answered <- answer{m.Result, m.Error}
			}
		}
	}
}

// reply answers a request of the server.
func (c *Client) reply(m message) {
	r := message{ID: m.ID}
	result, ok, err := c.host(m)
	if !ok {
		r.Result, err = c.respond(c.ctx, m.Method, m.Params)
	} else if err == nil {
		r.Result, err = json.Marshal(result)
	}
	if err != nil {
		r.Result, r.Error = nil, asError(err)
	}
	_ = c.send(r) // a server that is gone needs no answer
}

// answers returns the answers to the questions of a result. If the client fails to answer,
// it sends nothing, and the call returns the error.
func (c *Client) answers(ctx context.Context, questions mcp.InputRequests) (json.RawMessage, error) {
	given := mcp.InputResponses{}
	for key, q := range questions {
		result, err := c.respond(ctx, q.Method, q.Params)
		if err != nil {
			return nil, err
		}
		given[key] = result
	}
	return json.Marshal(given)
}

// respond lets the function of the options answer a question, one at a time.
func (c *Client) respond(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, err error) {
	select {
	case c.order <- struct{}{}:
		defer func() { <-c.order }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if failed := apart(func() { result, err = c.answer(ctx, method, params) }); failed != nil {
		return nil, failed
	}
	return result, err
}

// answer calls the function that answers a question.
func (c *Client) answer(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == mcp.MethodPing:
		return json.RawMessage(`{}`), nil
	case method == mcp.MethodElicitationCreate && c.o.Elicit != nil:
		return respond(ctx, params, c.o.Elicit)
	case method == mcp.MethodSamplingCreateMessage && c.o.Sample != nil:
		return respond(ctx, params, c.o.Sample)
	case method == mcp.MethodRootsList && c.o.Roots != nil:
		roots, err := c.o.Roots(ctx)
		if err != nil {
			return nil, err
		}
		if roots == nil {
			roots = []mcp.Root{}
		}
		return json.Marshal(mcp.ListRootsResult{Roots: roots})
	case c.o.Answer != nil:
		return c.o.Answer(ctx, method, params)
	}
	return nil, mcp.NewError(mcp.CodeMethodNotFound, "troupetest: nothing answers "+method)
}

// notice passes a notification to the function that sees its kind.
func (c *Client) notice(m message) {
	if m.Method == mcp.NotifySubscriptionsAcknowledged {
		pass(m.Params, c.acknowledge)
	}
	_ = apart(func() { c.tell(m) }) // the test has failed, and goes on
}

// tell calls the function that sees a notification.
func (c *Client) tell(m message) {
	switch {
	case m.Method == mcp.NotifyProgress && c.o.Progress != nil:
		pass(m.Params, c.o.Progress)
	case m.Method == mcp.NotifyMessage && c.o.Log != nil:
		pass(m.Params, c.o.Log)
	case c.o.Notify != nil:
		c.o.Notify(m.Method, m.Params)
	}
}

// acknowledge wakes the Subscribe whose request the server has accepted.
func (c *Client) acknowledge(p protocol.AcknowledgedParams) {
	id, ok := p.Meta.SubscriptionID()
	if !ok {
		return // never: the server tags all it sends
	}
	c.mu.Lock()
	acknowledged := c.waiting[id.String()].acknowledged
	c.mu.Unlock()
	select {
	case acknowledged <- struct{}{}:
	default: // it is acknowledged already, or nobody waits
	}
}
