package upstream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// A message is what a peer got, decoded.
type message struct {
	Raw    string          `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *mcp.Error      `json:"error"`
}

func parseMessage(raw []byte) (m message) {
	m.Raw = string(raw)
	_ = json.Unmarshal(raw, &m)
	return m
}

// result and failure are responses to m.
func (m message) result(result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (m message) failure(code int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, m.ID, code, text)
}

// A peer is a backend over lines. Its handler runs on the goroutine that reads.
type peer struct {
	in     *Feed          // what it reads
	out    *io.PipeWriter // what it writes
	handle func(p *peer, m message)

	mu    sync.Mutex
	got   []message
	wrote int // bytes that were taken from it
}

// newPeer returns a backend, and the process that a link speaks to.
func newPeer(t *testing.T, handle func(p *peer, m message)) (*peer, *Pipe) {
	in := NewFeed()
	theirs, out := io.Pipe()
	p := &peer{in: in, out: out, handle: handle}
	go func() {
		defer out.Close()
		rd := bufio.NewReader(in)
		for {
			line, err := rd.ReadBytes('\n')
			if err != nil {
				return
			}
			m := parseMessage(bytes.TrimSuffix(line, []byte("\n")))
			p.mu.Lock()
			p.got = append(p.got, m)
			p.mu.Unlock()
			handle(p, m)
		}
	}()
	process := NewPipe(theirs, in, theirs.Close)
	t.Cleanup(func() { _ = process.Close() })
	return p, process
}

// say writes lines, with their ends. It returns when they were read, or cannot be.
func (p *peer) say(lines ...string) {
	for _, line := range lines {
		p.write(line + "\n")
	}
}

func (p *peer) write(text string) {
	n, _ := io.WriteString(p.out, text)
	p.mu.Lock()
	p.wrote += n
	p.mu.Unlock()
}

// methods returns what came, by method; answers are "answer" or the code of their error.
func (p *peer) methods() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.got {
		all = append(all, m.kind())
	}
	return all
}

func (m message) kind() string {
	switch {
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return fmt.Sprint(m.Error.Code)
	}
	return "answer"
}

// count is how often something of a kind came.
func (p *peer) count(kind string) int {
	n := 0
	for _, one := range p.methods() {
		if one == kind {
			n++
		}
	}
	return n
}

// last returns the last message of a method.
func (p *peer) last(method string) message {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range slices.Backward(p.got) {
		if m.Method == method {
			return m
		}
	}
	return message{}
}

const (
	legacyInit     = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"}}`
	modernDiscover = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"peer","version":"1"}}}`
)

// polite answers the handshake of an era, and all other requests but tools/call with {}; those go to call. It keeps subscriptions open.
func polite(era Era, call func(p *peer, m message)) func(p *peer, m message) {
	return func(p *peer, m message) {
		switch {
		case m.Method == mcp.MethodServerDiscover && era == EraModern:
			p.say(m.result(modernDiscover))
		case m.Method == mcp.MethodServerDiscover:
			p.say(m.failure(mcp.CodeMethodNotFound, "what?"))
		case m.Method == mcp.MethodInitialize:
			p.say(m.result(legacyInit))
		case m.Method == mcp.MethodToolsCall:
			call(p, m)
		case m.Method == mcp.MethodSubscriptionsListen: // it stays open
		case m.Method != "" && m.ID != nil:
			p.say(m.result(`{}`))
		}
	}
}

// records is what a Conn told its owner.
type records struct {
	mu     sync.Mutex
	events []Event
	odd    []Oddity
	ended  []*Failure
}

func (r *records) options() Options {
	return Options{
		ClientInfo: []byte(`{"name":"test","version":"1"}`),
		Event: func(e Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		},
		Odd: func(o Oddity) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.odd = append(r.odd, o)
		},
		Ended: func(f *Failure) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended = append(r.ended, f)
		},
	}
}

// count is how many events of a method there were.
func (r *records) count(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.events {
		if e.Method == method {
			n++
		}
	}
	return n
}

// first returns the first event of a method.
func (r *records) first(method string) Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Method == method {
			return e
		}
	}
	return Event{}
}

func (r *records) endings() []*Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ended)
}

// minute is a context that ends after a minute.
func minute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// openLines opens a Conn over lines to a backend, until the test ends.
func openLines(t *testing.T, o Options, handle func(p *peer, m message)) (*peer, *Conn) {
	t.Helper()
	p, process := newPeer(t, handle)
	c, err := Open(minute(t), NewLines(process), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	return p, c
}

// toolCall is a request that asks for progress.
func toolCall(q Request) Request {
	q.Method, q.Params = mcp.MethodToolsCall, []byte(`{"name":"rude","arguments":{}}`)
	return q
}

// shorten returns text at a length that a failed test can show.
func shorten(text string) string {
	if len(text) > 400 {
		text = text[:400] + strings.Repeat(".", 3)
	}
	return text
}
