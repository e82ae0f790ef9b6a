package actors

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// heldStore is a store in memory whose operations a test can hold up: what the real
// one does within microseconds lasts as long as the test likes.
type heldStore struct {
	Store // nil: what is not below is not used

	mu      sync.Mutex // guards the rest
	rev     uint64
	records map[string]record
	log     map[string]map[uint64][]byte
	held    map[string]chan struct{} // by operation
	done    map[string]int           // operations, by name
}

type record struct {
	data []byte
	rev  uint64
}

func newHeldStore() *heldStore {
	return &heldStore{records: map[string]record{}, log: map[string]map[uint64][]byte{}, held: map[string]chan struct{}{}, done: map[string]int{}}
}

// hold makes an operation wait until the returned function is called.
func (s *heldStore) hold(op string) (release func()) {
	c := make(chan struct{})
	s.mu.Lock()
	s.held[op] = c
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.held, op)
		s.mu.Unlock()
		close(c)
	}
}

// begin waits while op is held, and locks mu.
func (s *heldStore) begin(op string) {
	s.mu.Lock()
	for s.held[op] != nil {
		c := s.held[op]
		s.mu.Unlock()
		<-c
		s.mu.Lock()
	}
	s.done[op]++
}

func (s *heldStore) Get(_ context.Context, key string) ([]byte, uint64, error) {
	s.begin("get")
	defer s.mu.Unlock()
	r, ok := s.records[key]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return r.data, r.rev, nil
}

func (s *heldStore) put(op, key string, data []byte, rev uint64) (uint64, error) {
	s.begin(op)
	defer s.mu.Unlock()
	if s.records[key].rev != rev {
		return 0, ErrConflict
	}
	s.rev++
	s.records[key] = record{data, s.rev}
	return s.rev, nil
}

func (s *heldStore) Create(_ context.Context, key string, data []byte, _ time.Duration) (uint64, error) {
	return s.put("create", key, data, 0)
}

func (s *heldStore) Update(_ context.Context, key string, data []byte, rev uint64, _ time.Duration) (uint64, error) {
	return s.put("update", key, data, rev)
}

func (s *heldStore) Delete(_ context.Context, key string, _ uint64) error {
	s.begin("delete")
	defer s.mu.Unlock()
	delete(s.records, key)
	return nil
}

func (s *heldStore) OpenStream(_ context.Context, stream string, rec, _ []byte, _ time.Duration) (uint64, error) {
	return s.put("open", "ev."+stream, rec, 0)
}

func (s *heldStore) Append(stream string, _, num uint64, data []byte, done func(error)) {
	go func() {
		s.begin("append")
		if s.log[stream] == nil {
			s.log[stream] = map[uint64][]byte{}
		}
		s.log[stream][num] = slices.Clone(data)
		s.mu.Unlock()
		done(nil)
	}()
}

func (s *heldStore) EndStream(context.Context, string) error { return nil }
func (s *heldStore) NearFull() bool                          { return false }
func (s *heldStore) Suspended() bool                         { return false }

// logged is all that the logs hold.
func (s *heldStore) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, l := range s.log {
		for i := uint64(1); i <= uint64(len(l)); i++ {
			b.Write(l[i])
		}
	}
	return b.String()
}

// heldConn keeps what it is told.
type heldConn struct {
	mu     sync.Mutex // guards the rest
	status int
	body   string
	open   bool
	over   bool
	full   bool // the client does not read
	got    []string
	gone   []func()
	name   string
}

var _ Conn = (*heldConn)(nil)

func (c *heldConn) SetSession(id string) { c.name = id }
func (c *heldConn) Answer(status int, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != 0 || c.open {
		return false
	}
	c.status, c.body = status, string(body)
	return true
}
func (c *heldConn) Accepted() { c.Answer(202, nil) }
func (c *heldConn) Reject(status, code int, message string, data, id []byte, _ time.Duration) {
	c.Answer(status, codec.AppendError(nil, id, code, message, data))
}
func (c *heldConn) Open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = c.status == 0
	return c.open
}
func (c *heldConn) Event(_ string, _ int, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
		full, over := c.full, c.over
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

// events are the messages of the connection's stream so far.
func (c *heldConn) events() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// answer is what the request was answered with, 0 if it was not or as a stream.
func (c *heldConn) answer() (status int, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status, c.body
}

// heldHandler runs f for each request.
type heldHandler struct {
	f          func(ctx context.Context, c *Call) ([]byte, *mcp.Error)
	initialize func()
	opened     func(p *Peer, gap bool)
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
func (h *heldHandler) Notified(*Peer, string, []byte) {}
func (h *heldHandler) Safe([]byte, []byte) bool       { return false }
func (h *heldHandler) Opened(p *Peer, gap bool) {
	if h.opened != nil {
		h.opened(p, gap)
	}
}
func (h *heldHandler) Closed(*Peer) {}

// held is a node over a heldStore, with one service.
type held struct {
	*Node
	t       *testing.T
	store   *heldStore
	svc     *Service
	handler *heldHandler
}

// inBubble runs f on a node in virtual time.
func inBubble(t *testing.T, l Limits, f func(t *testing.T, h *held)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &held{t: t, store: newHeldStore(), handler: &heldHandler{}}
		h.Node = NewNode(Config{Name: "n", Boot: "b", Store: h.store})
		h.svc = NewService("s", h.handler, l)
		f(t, h)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		time.Sleep(time.Minute) // what is left behind and ends by itself
	})
}

// post sends a message, and returns once the node has taken it.
func (h *held) post(session, body string) *heldConn {
	h.t.Helper()
	var m codec.Message
	if err := codec.Scan([]byte(body), &m, codec.Limits{}); err != nil {
		h.t.Fatal(err)
	}
	c := &heldConn{}
	in := &Input{Tenant: "anon", Address: "192.0.2.1", Session: session, Conn: c}
	if _, _, live := strings.Cut(session, "."); live {
		h.Message(h.svc, in, nil, &m, []byte(body))
	} else {
		h.Post(h.svc, in, nil, &m, []byte(body))
	}
	return c
}

func initializeAs(revision string) string {
	return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `"}}`
}

// begin begins a session over Streamable HTTP.
func (h *held) begin(revision string) (session string) {
	return h.post("", initializeAs(revision)).name
}

// connect begins a session on a connection, and initializes it.
func (h *held) connect(revision string) *heldConn {
	c := &heldConn{}
	h.Connect(h.svc, &Input{Tenant: "anon", Address: "192.0.2.1", Conn: c})
	if revision != "" {
		h.post(c.name, initializeAs(revision))
		h.post(c.name, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return c
}
