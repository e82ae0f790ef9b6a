package actors

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// holds makes operations of a store wait.
type holds struct {
	mu   sync.Mutex // guards held
	held map[string]chan struct{}
}

// hold makes an operation wait until the returned function is called.
func (h *holds) hold(op string) (release func()) {
	c := make(chan struct{})
	h.mu.Lock()
	h.held[op] = c
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		delete(h.held, op)
		h.mu.Unlock()
		close(c)
	}
}

// wait is a function for memory.before.
func (h *holds) wait(op, _ string) error {
	h.mu.Lock()
	c := h.held[op]
	h.mu.Unlock()
	if c != nil {
		<-c
	}
	return nil
}

// logged returns everything that the logs hold.
func (m *memory) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, l := range m.appends {
		for i := uint64(1); i <= uint64(len(l)); i++ {
			b.Write(l[i])
		}
	}
	return b.String()
}

// refused is how often refusals by the limit, and others with its label, were counted; 0 for none.
func (n *Node) refused(limit *limits.Row) (count int64) {
	n.refusals.ObserveRefusals(func(label string, n int64) {
		if limit != nil && label == limit.Counted {
			count = n
		}
	})
	return count
}

// heldConn keeps what the node sends to it.
type heldConn struct {
	mu     sync.Mutex // guards the rest
	status int
	body   string
	open   bool
	over   bool
	most   int           // most messages that may wait for the client to read them; 0 is no limit
	slow   time.Duration // before the answer begins
	got    []string
	id     string // of the newest event
	gone   []func()
	name   string
}

var _ Exchange = (*heldConn)(nil)

func (c *heldConn) SetSession(id string) { c.name = id }
func (c *heldConn) Answer(status int, body []byte) bool {
	time.Sleep(c.slow)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 || c.open {
		return false
	}
	c.status, c.body = status, string(body)
	return true
}
func (c *heldConn) Accepted() { c.Answer(202, nil) }
func (c *heldConn) Reject(no *refusal.Refusal) {
	c.Answer(no.Status, codec.AppendError(nil, no.ID, no.Code, no.Text, no.Data))
}
func (c *heldConn) Open() bool {
	time.Sleep(c.slow)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = c.status == 0
	return c.open
}
func (c *heldConn) Event(id string, _ int, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
	if c.open && !c.over && len(data) > 0 {
		c.got = append(c.got, string(data))
	}
}
func (c *heldConn) Comment() {}
func (c *heldConn) Flush()   {}
func (c *heldConn) Finish()  { c.Cut() }
func (c *heldConn) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	for _, f := range c.gone {
		go f()
	}
}
func (c *heldConn) Room(ctx context.Context) error {
	for {
		c.mu.Lock()
		full, over := c.most > 0 && len(c.got) >= c.most, c.over
		c.mu.Unlock()
		switch {
		case over:
			return errGone
		case !full:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
func (c *heldConn) Gone(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		go f()
		return
	}
	c.gone = append(c.gone, f)
}

func (c *heldConn) Context() context.Context                { return context.Background() }
func (c *heldConn) WhenGone(func()) (stop func() bool)      { return func() bool { return true } }
func (c *heldConn) AnswerLast(status int, body []byte) bool { return c.Answer(status, body) }

// events are the messages of the connection's stream so far.
func (c *heldConn) events() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// lastID is the newest event id.
func (c *heldConn) lastID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// read is events for a client that reads them.
func (c *heldConn) read() (got []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got, c.got = c.got, nil
	return got
}

// isOver reports whether the connection has ended.
func (c *heldConn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// begun reports whether the answer has begun.
func (c *heldConn) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open || c.status != 0
}

// answer is what the request was answered with, 0 if it was not or as a stream.
func (c *heldConn) answer() (status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, c.body
}

// heldHandler calls f for each request.
type heldHandler struct {
	plainHandler
	f          func(ctx context.Context, c *Call) ([]byte, *mcp.Error)
	initialize func()
	opened     func(p *Peer, gap bool)
	notified   func(p *Peer)
	listening  func() Listening
}

func (h *heldHandler) Initialize(_ context.Context, params []byte) (Settled, []byte, *mcp.Error) {
	if h.initialize != nil {
		h.initialize()
	}
	version, _ := codec.Str(codec.Field(params, "protocolVersion"))
	return Settled{Revision: version, Client: []byte("{}"), Capabilities: []byte("{}")}, []byte("{}"), nil
}

func (h *heldHandler) Serve(ctx context.Context, c *Call, dst []byte) ([]byte, *mcp.Error) {
	out, err := h.f(ctx, c)
	return append(dst, out...), err
}
func (*heldHandler) Observe(*Peer, Origin, *codec.Message) func(mcp.Revision, *mcp.Error) { return nil }

func (h *heldHandler) Notified(p *Peer, _ string, _ []byte) {
	if h.notified != nil {
		h.notified(p)
	}
}
func (h *heldHandler) Listening(ctx context.Context, c *Call) (said Listening, _ *mcp.Error) {
	if len(c.msg.Params) <= limits.TurnBytes.Value() {
		return h.listening(), nil
	}
	if err := c.Turn(ctx, func() error { said = h.listening(); return nil }); err != nil {
		return said, Unavailable
	}
	return said, nil
}
func (h *heldHandler) Safe([]byte, []byte) bool { return false }
func (h *heldHandler) Opened(p *Peer, gap bool) {
	if h.opened != nil {
		h.opened(p, gap)
	}
}

// held is a node with one service, over a store in memory whose operations a test can
// hold.
type held struct {
	*Node
	holds
	t       *testing.T
	mem     *memory
	svc     *Service
	handler *heldHandler
}

// inBubble runs f on a node in virtual time.
func inBubble(t *testing.T, l Limits, nl NodeLimits, f func(t *testing.T, h *held)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		h := &held{t: t, mem: newMemory(), holds: holds{held: make(map[string]chan struct{})}, handler: &heldHandler{}}
		h.mem.before = h.wait
		h.Node = NewNode(Config{Name: "n", Boot: "b", Store: h.mem, Limits: nl})
		h.svc = NewService("s", h.handler, l)
		f(t, h)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// keepCalls has the handler return, heeding nothing, once the channel is closed.
func (h *held) keepCalls() (over chan struct{}) {
	over = make(chan struct{})
	h.handler.f = func(context.Context, *Call) ([]byte, *mcp.Error) {
		<-over
		return []byte(`{}`), nil
	}
	return over
}

// input returns a request from an address.
func (h *held) input(session, address string, c Conn) *Input {
	return &Input{Tenant: "anon", Address: address, Session: session, Conn: c}
}

// post sends a message, and returns once the node has taken it.
func (h *held) post(session, body string) *heldConn {
	h.t.Helper()
	c := &heldConn{}
	h.postOn(c, session, body)
	return c
}

func (h *held) postOn(c *heldConn, session, body string) {
	h.t.Helper()
	h.postFrom(c, "192.0.2.1", session, body)
}

func (h *held) postFrom(c *heldConn, address, session, body string) {
	h.t.Helper()
	var m codec.Message
	if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
		panic(err) // not Fatal: the goroutine may not be that of the test
	}
	in := h.input(session, address, c)
	if _, _, live := strings.Cut(session, "."); live {
		h.Message(h.svc, in, nil, &m, []byte(body))
	} else {
		h.Post(h.svc, in, nil, &m, []byte(body))
	}
}

func initializeAs(revision string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `"}}`
}

// begin begins a session over Streamable HTTP.
func (h *held) begin(revision string) (session string) {
	return h.post("", initializeAs(revision)).name
}

// connect begins a session on a connection from an address, and initializes it.
func (h *held) connect(address, revision string) *heldConn {
	c := &heldConn{}
	h.Connect(h.svc, h.input("", address, c))
	if revision != "" {
		h.post(c.name, initializeAs(revision))
		h.post(c.name, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return c
}
