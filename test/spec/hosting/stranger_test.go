package hosting_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	theirs "github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/spec/host"
)

// message is what a stranger gets.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		Level     string          `json:"level"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
			Level string          `json:"io.modelcontextprotocol/logLevel"`
		} `json:"_meta"`
		Responses json.RawMessage `json:"inputResponses"`
		State     string          `json:"requestState"`
		RequestID json.RawMessage `json:"requestId"`
		News      json.RawMessage `json:"notifications"`
		TaskID    string          `json:"taskId"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
	raw    string
}

// stranger is a server that somebody else has written. What it is asked beyond the handshake and its lists it answers as the test says.
type stranger struct {
	modern bool
	more   string                        // capabilities beside the usual ones, with a comma in front
	lists  map[string]string             // the items by the members of results; tools has echo where it is nil
	call   func(t *talk, m message)      // answers everything else, on a goroutine of its own
	heard  func(t *talk, method string)  // gets notifications; nil ignores them
	began  atomic.Int64                  // how many instances have begun
	tools  atomic.Pointer[string]        // the list of tools in place of lists
	wanted func(t *talk, m message) bool // before anything else; true for what it has answered

	mu    sync.Mutex // guards the rest
	asked []string   // what it was asked about news, and the log levels that it was told
	talks []*talk    // the instances
}

func (s *stranger) note(format string, values ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, values...))
}

// notes are what it was asked about news since the last time.
func (s *stranger) notes() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.asked, ", ")
	s.asked = nil
	return all
}

// last is the instance that has begun last.
func (s *stranger) last() *talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.talks[len(s.talks)-1]
}

// talk is one instance of a stranger.
type talk struct {
	s   *stranger
	ctx context.Context
	end func()     // ends the instance
	mu  sync.Mutex // guards the rest
	out io.Writer
	n   int
	ask map[string]chan message
	// ears are the filters of the requests for news that are open, by their ids, or the resources that were subscribed to.
	ears map[string]string
}

// tell sends a notification to those who have asked for it: what names it in a filter of the newer era. In the older one lists are told unasked.
func (t *talk) tell(what, method, params string) {
	t.mu.Lock()
	ears := maps.Clone(t.ears)
	t.mu.Unlock()
	if !t.s.modern {
		if _, wanted := ears[what]; wanted || !strings.Contains(method, "updated") {
			t.say(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, method, params)
		}
		return
	}
	if params != "" {
		params = "," + params
	}
	for id, filter := range ears {
		if strings.Contains(filter, what) {
			t.say(`{"jsonrpc":"2.0","method":%q,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}%s}}`, method, id, params)
		}
	}
}

// changes tells that a resource has changed.
func (t *talk) changes(uri string) {
	t.tell(uri, "notifications/resources/updated", fmt.Sprintf(`"uri":%q`, uri))
}

// lists tells that the tools are others now.
func (t *talk) lists(tools string) {
	t.s.tools.Store(&tools)
	t.tell("toolsListChanged", "notifications/tools/list_changed", "")
}

// hears takes what is about news, and reports whether it was that.
func (t *talk) hears(m message) bool {
	t.mu.Lock()
	was, wanted := t.ears[string(m.Params.RequestID)]
	switch {
	case m.Method == "subscriptions/listen" && t.s.modern:
		t.ears[string(m.ID)] = string(m.Params.News)
	case m.Method == "notifications/cancelled" && wanted:
		delete(t.ears, string(m.Params.RequestID))
	case m.Method == "resources/subscribe":
		t.ears[m.Params.URI] = ""
	case m.Method == "resources/unsubscribe":
		delete(t.ears, m.Params.URI)
	}
	t.mu.Unlock()
	switch {
	case m.Method == "subscriptions/listen" && t.s.modern:
		t.s.note("listen %s", m.Params.News)
		t.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}}`, m.ID, m.Params.News)
	case m.Method == "notifications/cancelled" && wanted:
		t.s.note("end %s", was)
	case t.s.modern && (m.Method == "resources/subscribe" || m.Method == "resources/unsubscribe" || m.Method == "logging/setLevel"):
		t.s.note("%s, which it does not have", m.Method)
		t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
	case m.Method == "resources/subscribe", m.Method == "resources/unsubscribe":
		t.s.note("%s %s", strings.TrimPrefix(m.Method, "resources/"), m.Params.URI)
		t.result(m, `{}`)
	case m.Method == "logging/setLevel":
		t.s.note("level %s", m.Params.Level)
		t.result(m, `{}`)
	default:
		return false
	}
	return true
}

func (t *talk) say(format string, values ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, format+"\n", values...)
}

func (t *talk) result(m message, result string) {
	t.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}
func (t *talk) text(m message, text string) {
	t.result(m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, text))
}

// asks asks the client, and returns what it answers: the result, or the error.
func (t *talk) asks(method, params string) string {
	t.mu.Lock()
	t.n++
	id, answer := fmt.Sprintf(`"q%d"`, t.n), make(chan message, 1)
	t.ask[id] = answer
	t.mu.Unlock()
	t.say(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	select {
	case m := <-answer:
		if m.Error != nil {
			return string(m.Error)
		}
		return string(m.Result)
	case <-t.ctx.Done():
		return "the end"
	}
}

func (t *talk) elicits(message string) string {
	return t.asks("elicitation/create", fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}`, message))
}

const strangerInfo = `{"name":"stranger","version":"2","odd":true}`

// serve is the stranger as a server in this process.
func (s *stranger) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s.began.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	t := &talk{s: s, ctx: ctx, end: cancel, out: out, ask: make(map[string]chan message), ears: make(map[string]string)}
	s.mu.Lock()
	s.talks = append(s.talks, t)
	s.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for all := bufio.NewScanner(in); all.Scan(); {
			select {
			case lines <- all.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		var m message
		select {
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			m.raw = line
		case <-ctx.Done():
			return nil
		}
		if err := json.Unmarshal([]byte(m.raw), &m); err != nil {
			return err
		}
		if m.Method == "" {
			t.mu.Lock()
			answer := t.ask[string(m.ID)]
			delete(t.ask, string(m.ID))
			t.mu.Unlock()
			if answer != nil {
				answer <- m
			}
			continue
		}
		if s.wanted == nil || !s.wanted(t, m) {
			t.receive(&running, m)
		}
	}
}

func (t *talk) receive(running *sync.WaitGroup, m message) {
	capabilities := `{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}` + t.s.more + `}`
	switch {
	case t.hears(m):
	case m.ID == nil:
		if t.s.heard != nil {
			t.s.heard(t, m.Method)
		}
	case m.Method == "ping":
		t.result(m, `{}`)
	case m.Method == "server/discover" && t.s.modern:
		t.result(m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":`+capabilities+`,"instructions":"be kind","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":`+strangerInfo+`}}`)
	case m.Method == "server/discover", m.Method == "initialize" && t.s.modern:
		t.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
	case m.Method == "initialize":
		t.result(m, `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"serverInfo":`+strangerInfo+`,"instructions":"be kind"}`)
	case strings.HasSuffix(m.Method, "/list"):
		member := strings.TrimSuffix(m.Method, "/list")
		if member == "resources/templates" {
			member = "resourceTemplates"
		}
		items := t.s.lists[member]
		if own := t.s.tools.Load(); member == "tools" && own != nil {
			items = *own
		} else if member == "tools" && items == "" {
			items = `{"name":"echo","inputSchema":{"type":"object"}}`
		}
		rest := ""
		if t.s.modern {
			rest = `,"resultType":"complete","ttlMs":0,"cacheScope":"private"`
		}
		t.result(m, fmt.Sprintf(`{%q:[%s]%s}`, member, items, rest))
	default:
		running.Go(func() { t.s.call(t, m) })
	}
}

// backend is a stranger under a name.
type backend struct {
	name    string
	s       *stranger
	options theirs.Options
}

// hosting returns a host whose server has these backends, and nothing else.
func hosting(t *testing.T, o troupe.Options, so *troupe.ServerOptions, all ...backend) *host.Host {
	t.Helper()
	h := host.New(t, o, nil)
	h.Server = troupe.NewServer(mcp.Implementation{Name: "endpoint", Version: "9"}, so)
	for _, b := range all {
		troupe.AddBackend(h.Server, b.name, theirs.Serve(t.Name()+b.name, b.s.serve), b.options)
	}
	h.Runtime.Mount("/hosted", h.Server)
	h.URL = strings.TrimSuffix(h.URL, "/mcp") + "/hosted"
	return h
}

// alone is hosting for one backend without a prefix.
func alone(t *testing.T, s *stranger) *host.Host {
	t.Helper()
	return hosting(t, troupe.Options{}, nil, backend{"one", s, theirs.Options{Prefix: theirs.NoPrefix}})
}
