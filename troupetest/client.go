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
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/origin"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// Options are what a client declares and how it answers. The zero value is a client of the
// newest revision that declares nothing, so no handler can ask it.
type Options struct {
	// Revision is the revision that the client speaks, which must be one of the server's. 0 means the newest of those.
	Revision mcp.Revision
	// Runtime are the options of the runtime that serves, for its limits. A DrainWait of 0
	// means 5 seconds here, and a Store.Lease of 0 a minute. A nil Log is the output of the
	// test, which go test shows if the test fails, or with -v.
	Runtime troupe.Options
	// Capabilities are declared in addition to those of the functions below.
	Capabilities mcp.ClientCapabilities

	// Header is what Call.Header returns, and what Runtime.Authenticate gets, as the header
	// of the HTTP request of every message. nil is an empty one.
	Header http.Header
	// Principal is what Call.Principal returns, unless Runtime.Authenticate is set, which
	// decides then. The zero Principal is anonymous.
	Principal troupe.Principal

	// Elicit answers elicitation/create, by form and by URL. nil declares no elicitation.
	Elicit func(ctx context.Context, p mcp.ElicitParams) (mcp.ElicitResult, error)
	// Sample answers sampling/createMessage. nil declares no sampling.
	Sample func(ctx context.Context, p mcp.CreateMessageParams) (mcp.CreateMessageResult, error)
	// Roots answers roots/list. nil declares no roots.
	Roots func(ctx context.Context) ([]mcp.Root, error)

	// HostTasks has the client host what Elicit and Sample answer as tasks of its own where the server asks for that
	// (troupe.Question.AsTask, 2025-11-25). The context of a function then ends when the server cancels the task. It does
	// nothing in other revisions.
	HostTasks bool

	// Answer answers the questions that no function above answers, with a raw result. It
	// declares nothing: see Capabilities. nil answers with an error.
	Answer func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	// Progress gets the progress of calls; it makes the client ask for progress.
	Progress func(p mcp.ProgressParams)
	// Log gets log messages from LogLevel up. A LogLevel of "" is info.
	Log      func(p mcp.LogParams)
	LogLevel mcp.LoggingLevel
	// Notify gets every other notification.
	Notify func(method string, params json.RawMessage)
}

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

// request is a request that waits for its response.
type request struct {
	answered     chan<- answer
	acknowledged chan<- struct{} // for subscriptions/listen alone
}

// answer is the response to a request.
type answer struct {
	result json.RawMessage
	err    *mcp.Error
}

// message is any JSON-RPC message.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *mcp.Error      `json:"error,omitempty"`
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

// object returns the members of a value that encodes to a JSON object.
func object(params any) (map[string]json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if params == nil {
		return members, nil
	}
	data, err := json.Marshal(params)
	if err == nil {
		err = json.Unmarshal(data, &members)
	}
	return members, err
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
