package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/bubble"
)

// A message is what a server got.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// A server is one instance of a backend of the older era in this process, for tests. It answers the handshake, pings and lists, and gives
// everything else to its maker's handler.
type server struct {
	number int // of the servers of its maker, from 1
	ctx    context.Context
	m      *maker
	mu     sync.Mutex // guards out and got
	out    io.Writer
	got    []message
}

func (s *server) say(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format+"\n", values...)
}

func (s *server) result(m message, result string) {
	s.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// count is how often a method came.
func (s *server) count(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.got {
		if m.Method == method {
			n++
		}
	}
	return n
}

// A maker makes servers.
type maker struct {
	handle func(s *server, m message) // on a goroutine of its own
	begin  func(s *server) error      // before anything is read; nil does nothing
	tools  func(s *server) string     // the items of its list; nil is one tool, echo
	mute   atomic.Bool                // it answers no pings
	mu     sync.Mutex                 // guards all
	all    []*server
}

func (mk *maker) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s := &server{ctx: ctx, m: mk, out: out}
	mk.mu.Lock()
	mk.all = append(mk.all, s)
	s.number = len(mk.all)
	mk.mu.Unlock()
	if mk.begin != nil {
		if err := mk.begin(s); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	defer cancel()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m message
		if err := json.Unmarshal(bytes.Clone(lines.Bytes()), &m); err != nil {
			return err
		}
		s.mu.Lock()
		s.got = append(s.got, m)
		s.mu.Unlock()
		switch m.Method {
		case "server/discover":
			s.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
		case "initialize":
			s.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"made","version":"1"}}`)
		case "ping":
			if !mk.mute.Load() {
				s.result(m, `{}`)
			}
		case "tools/list":
			tools := `{"name":"echo","inputSchema":{"type":"object"}}`
			if mk.tools != nil {
				tools = mk.tools(s)
			}
			s.result(m, `{"tools":[`+tools+`]}`)
		case "resources/list":
			s.result(m, `{"resources":[]}`)
		case "resources/templates/list":
			s.result(m, `{"resourceTemplates":[]}`)
		case "notifications/initialized":
		default:
			if mk.handle != nil {
				running.Go(func() { mk.handle(s, m) })
			}
		}
	}
	return nil
}

// servers are those that were made.
func (mk *maker) servers() []*server {
	mk.mu.Lock()
	defer mk.mu.Unlock()
	return append([]*server(nil), mk.all...)
}

// numbered answers each call with the number of the server.
func numbered(s *server, m message) {
	if m.ID != nil && m.Method != "" {
		s.result(m, `{"server":`+strconv.Itoa(s.number)+`}`)
	}
}

// made is a backend of a maker.
func made(name string, mk *maker, o host.Options) Backend {
	return Backend{Name: name, Digest: name + "-1", Target: host.Serve(name, mk.serve), Options: o.WithDefaults()}
}

// inBubble runs f in virtual time with Backends that have these, and closes them.
func inBubble(t *testing.T, c Config, all []Backend, f func(t *testing.T, b *Backends)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		c.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
		b := New(c)
		b.Configure(t.Context(), all)
		f(t, b)
		b.Close(t.Context(), 0)
		if n := b.c.Kernel.Live(b.c.InstanceKind); n != 0 {
			t.Errorf("%d instances are left after Close", n)
		}
	})
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// call asks a backend of a caller, and returns the result.
func call(t *testing.T, b *Backends, name string, c Caller, q Request) string {
	t.Helper()
	if q.Method == "" {
		q.Method = "tools/call"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r, err := b.Call(ctx, name, c, q)
	if err != nil {
		return "error: " + err.Error()
	}
	if r.Error != nil {
		return "refused: " + string(r.Error)
	}
	return string(r.Result)
}

// changes records what Backends tell.
type changes struct {
	mu   sync.Mutex // guards the rest
	said []string
}

func (c *changes) changed(backend, session string, lists []listing.Of) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range lists {
		c.said = append(c.said, fmt.Sprintf("%s %q %s", backend, session, of.Member()))
	}
}

func (c *changes) lost(backend, session string, reason pool.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, fmt.Sprintf("%s %q lost: %s", backend, session, reason))
}

func (c *changes) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.said...)
}
