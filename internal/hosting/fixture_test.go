package hosting_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// fake are backends that do as a test says.
type fake struct {
	call  func(ctx context.Context, name string, c backend.Caller, q hosting.Asked) (upstream.Response, error)
	learn func(ctx context.Context, name string) (*backend.Catalogue, error)

	mu    sync.Mutex // guards the rest
	known map[string]*backend.Catalogue
	asked []string // what was asked of backends: name, method and params
	gone  []string
}

func (f *fake) Call(ctx context.Context, name string, c backend.Caller, q hosting.Asked) (upstream.Response, error) {
	f.mu.Lock()
	f.asked = append(f.asked, fmt.Sprintf("%s %s %s", name, q.Method, q.Params))
	f.mu.Unlock()
	if q.Method == mcp.MethodLoggingSetLevel || f.call == nil {
		return complete(`{}`), nil
	}
	return f.call(ctx, name, c, q)
}

func (f *fake) Notify(_ context.Context, name, session, method string, _ []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf("%s %s of %s", name, method, session))
	return nil
}

func (f *fake) Catalogue(name string, _ backend.Caller) (*backend.Catalogue, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.known[name]
	return c, ok
}

func (f *fake) Knows(name string, c backend.Caller) bool {
	_, ok := f.Catalogue(name, c)
	return ok
}

func (f *fake) Learn(ctx context.Context, name string, c backend.Caller) (*backend.Catalogue, error) {
	if known, ok := f.Catalogue(name, c); ok {
		return known, nil
	}
	if f.learn == nil {
		return nil, errors.New("nothing is known of it")
	}
	learned, err := f.learn(ctx, name)
	if err == nil {
		f.set(name, learned)
	}
	return learned, err
}

func (f *fake) Inherit(context.Context, string, backend.Caller) (bool, error) { return false, nil }

func (f *fake) SessionGone(session string, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = append(f.gone, session)
}

func (f *fake) set(name string, c *backend.Catalogue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = make(map[string]*backend.Catalogue)
	}
	f.known[name] = c
}

// requests are what was asked since the last time.
func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.asked
	f.asked = nil
	return all
}

func complete(result string) upstream.Response { return upstream.Response{Result: []byte(result)} }

// catalogue is what a backend of a revision lists. tools and the others are items as raw JSON.
func catalogue(r mcp.Revision, tools, prompts, resources, templates []string) *backend.Catalogue {
	capabilities := `{"tools":{},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}}`
	c := &backend.Catalogue{Settled: &upstream.Settled{Revision: r, Capabilities: []byte(capabilities), ServerInfo: []byte(`{"name":"hosted", "version":"7","odd":1}`),
		Result: fmt.Appendf(nil, "%q", [][]string{tools, prompts, resources, templates})}}
	for of, items := range [][]string{listing.Tools: tools, listing.Prompts: prompts, listing.Resources: resources, listing.Templates: templates} {
		for _, item := range items {
			c.Items[of] = append(c.Items[of], []byte(item))
		}
	}
	return c
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func toolsOf(names ...string) *backend.Catalogue {
	var all []string
	for _, name := range names {
		all = append(all, tool(name))
	}
	return catalogue(mcp.Revision20251125, all, nil, nil, nil)
}

// serve returns a server with backends of these names and options.
func serve(f *fake, all ...hosting.Backend) *hosting.Server {
	s := hosting.NewServer(f, 5*time.Second, slog.New(slog.DiscardHandler))
	for i := range all {
		all[i].Key, all[i].Digest, all[i].Options = all[i].Name, all[i].Name, all[i].Options.WithDefaults()
	}
	s.Configure(all)
	return s
}

// alone is a server with one backend, one, without a prefix.
func alone(f *fake) *hosting.Server {
	return serve(f, hosting.Backend{Name: "one", Options: host.Options{Prefix: host.NoPrefix}})
}

// client is a client of one call.
type client struct {
	token  string
	answer func(ctx context.Context, qs []actors.Question) ([]actors.Answer, error)
	slow   chan struct{} // each message waits for one; nil waits for nothing

	mu   sync.Mutex // guards the rest
	sent []string
	hits map[*limits.Row]int
}

func (c *client) hit(row *limits.Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hits == nil {
		c.hits = make(map[*limits.Row]int)
	}
	c.hits[row]++
}

func (c *client) note(format string, values ...any) {
	if c.slow != nil {
		<-c.slow
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, fmt.Sprintf(format, values...))
}

func (c *client) messages() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

func (c *client) Ask(ctx context.Context, qs []actors.Question) ([]actors.Answer, error) {
	return c.answer(ctx, qs)
}

func (c *client) Progress(_ context.Context, value float64, params []byte) error {
	c.note("progress %v %s", value, params)
	return nil
}

func (c *client) ProgressToken() []byte {
	if c.token == "" {
		return nil
	}
	return []byte(c.token)
}

func (c *client) Notify(_ context.Context, method string, params []byte) error {
	c.note("%s %s", method, params)
	return nil
}

// callerOf is the caller of a session, or without one of a request of 2026-07-28, which declares everything.
func callerOf(session string) *hosting.Caller {
	c := &hosting.Caller{Revision: mcp.Revision20251125}
	c.Session = session
	if session == "" {
		c.Revision, c.Modern = mcp.Latest, true
	}
	c.Declared = mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapability{Form: mcp.Declared(), URL: mcp.Declared()},
		Sampling:    &mcp.SamplingCapability{}, Roots: &mcp.ListChanged{},
	}
	return c
}

// call calls a tool of s for a caller.
func call(ctx context.Context, t *testing.T, s *hosting.Server, c *hosting.Caller, to *client, params string) ([]byte, error) {
	t.Helper()
	q := request(t, s, c, to, listing.Tools, mcp.MethodToolsCall, params)
	return s.Call(ctx, q)
}

func request(t *testing.T, s *hosting.Server, c *hosting.Caller, to *client, of listing.Of, method, params string) *hosting.Request {
	t.Helper()
	m := new(codec.Message)
	if err := codec.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`), m, codec.Limits{}); err != nil {
		t.Fatal(err)
	}
	name, _ := codec.Str(m.Name)
	if of == listing.Resources {
		name, _ = codec.Str(m.URI)
	}
	item, ok := s.FindItem(c, of, name)
	if !ok {
		t.Fatalf("nobody lists %q", name)
	}
	return &hosting.Request{
		Client: to, Caller: c, Item: item, Message: m,
		Log:      func(_ context.Context, params []byte) { to.note("log %s", params) },
		Missed:   func(_ context.Context, n int) { to.note("%d messages were dropped", n) },
		Complete: func(context.Context, *actors.Question) {}, Hit: to.hit,
		Remember: func(_ context.Context, _ string, value []byte) ([]byte, error) { return value, nil },
	}
}

// question is one that a backend asks in a test.
type question struct{ answers chan string }

func newQuestion() *question { return &question{make(chan string, 1)} }

func (q *question) Answer(_ context.Context, result []byte) error {
	q.answers <- string(result)
	return nil
}

func (q *question) Refuse(_ context.Context, refusal *mcp.Error) error {
	q.answers <- fmt.Sprintf("%d %s", refusal.Code, refusal.Message)
	return nil
}

func (q *question) PutOff() bool { return false }

// form are the params of an elicitation.
func form(message string) []byte {
	return fmt.Appendf(nil, `{"message":%q,"requestedSchema":{"type":"object","properties":{}}}`, message)
}

func (q *question) elicits(message string) hosting.Said {
	return hosting.Said{Method: mcp.MethodElicitationCreate, Params: form(message), Question: q}
}

func lines(all ...string) string { return strings.Join(all, "\n") }
