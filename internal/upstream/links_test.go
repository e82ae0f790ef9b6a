package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/mcp"
)

// TestSSE speaks to a server of HTTP+SSE, found by its URL alone.
func TestSSE(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		var r records
		messages := make(chan string)
		s, h := serveHTTP(t, func(w http.ResponseWriter, q *http.Request, m message) {
			switch {
			case q.Method == http.MethodGet:
				stream(w, "event: endpoint\ndata: /messages?s=1\n\n")
				for {
					select {
					case text := <-messages:
						if text == "end" {
							return
						}
						stream(w, "event: message\n"+event("", text))
					case <-q.Context().Done():
						return
					}
				}
			case q.URL.Path != "/messages":
				w.WriteHeader(405)
			default:
				w.WriteHeader(202)
				_ = http.NewResponseController(w).Flush()
				switch {
				case m.Method == mcp.MethodInitialize:
					messages <- m.result(strings.Replace(legacyInit, "2025-11-25", "2024-11-05", 1))
				case m.Method == mcp.MethodToolsCall:
					messages <- `{"jsonrpc":"2.0","id":1,"method":"ping"}`
					messages <- m.result(done)
				case m.Method == mcp.MethodPromptsGet:
					messages <- "end"
				case m.Method != "" && m.ID != nil:
					messages <- m.result(`{}`)
				}
			}
		})
		h.Header = http.Header{"authorization": {"Bearer x"}}
		c, err := OpenURL(minute(t), h, r.options())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if got := c.Settled().Revision; got != mcp.Revision20241105 {
			t.Errorf("settled on %v", got)
		}
		answer, err := c.Do(minute(t), toolCall(Request{}))
		checkOutcome(t, answer, err, "", 0)
		synctest.Wait()
		if head, _ := s.sent(mcp.MethodToolsCall); head.Get("Authorization") != "Bearer x" {
			t.Errorf("it was sent %v", head)
		}
		if s.count("answer") != 1 {
			t.Errorf("it got %s", s.came())
		}
		checkNext(t, c, false)
		answer, err = c.Do(minute(t), Request{Method: mcp.MethodPromptsGet})
		checkOutcome(t, answer, err, ReasonEnded, mcp.CodeCallLost)
		if all := r.endings(); len(all) != 1 || all[0].Why != ReasonEnded {
			t.Errorf("the connection ended with %v", all)
		}
		checkNext(t, c, true)
	})
}

// TestSSEEndsWhilePosting has the stream end while the server is still at the request of a call, of which it never says anything.
func TestSSEEndsWhilePosting(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		messages := make(chan string)
		_, h := serveHTTP(t, func(w http.ResponseWriter, q *http.Request, m message) {
			switch {
			case q.Method == http.MethodGet:
				stream(w, "event: endpoint\ndata: /messages\n\n")
				stream(w, event("", <-messages))
				<-messages
			case m.Method == mcp.MethodInitialize:
				w.WriteHeader(202)
				_ = http.NewResponseController(w).Flush()
				messages <- m.result(strings.Replace(legacyInit, "2025-11-25", "2024-11-05", 1))
			case m.Method == mcp.MethodToolsCall:
				close(messages)
				<-q.Context().Done()
			}
		})
		c, err := Open(minute(t), NewSSE(h), Options{Known: EraLegacy})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		answer, err := c.Do(minute(t), toolCall(Request{}))
		checkOutcome(t, answer, err, ReasonEnded, mcp.CodeCallLost)
	})
}

// TestSSEEndpoints refuses endpoints of other origins, and streams that are none.
func TestSSEEndpoints(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		get func(w http.ResponseWriter)
		why Reason
	}{
		"another origin": {func(w http.ResponseWriter) { stream(w, "event: endpoint\ndata: http://other/messages\n\n") }, ReasonMalformed},
		"no endpoint":    {func(w http.ResponseWriter) { stream(w, strings.Repeat(event("", "{}"), MostBatch)) }, ReasonMalformed},
		"no stream":      {func(w http.ResponseWriter) { respond(w, 200, "{}") }, ReasonMalformed},
		"an end":         {func(w http.ResponseWriter) { stream(w, ":\n\n") }, ReasonEnded},
		"no such page":   {func(w http.ResponseWriter) { w.WriteHeader(404) }, ReasonStatus},
		"credentials":    {func(w http.ResponseWriter) { w.WriteHeader(401) }, ReasonCredentials},
		"silence":        {func(w http.ResponseWriter) { time.Sleep(2 * time.Minute) }, ReasonCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble.Test(t, func(t *testing.T) {
				_, h := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request, _ message) { tt.get(w) })
				_, err := Open(minute(t), NewSSE(h), Options{Known: EraLegacy})
				if f, _ := errors.AsType[*Failure](err); f == nil || f.Why != tt.why || f.Outcome != NotRun {
					t.Errorf("it has %+v, want %s", err, tt.why)
				}
			})
		})
	}
}

func TestEndpointOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ stream, endpoint, want string }{
		{"http://a/sse", "/messages?x=1", "http://a/messages?x=1"},
		{"http://a/x/sse", "messages", "http://a/x/messages"},
		{"http://a/sse", "http://A:80/m", "http://A:80/m"},
		{"https://u:p@a/sse", "/m#f", "https://u:p@a/m"},
		{"http://a/sse", "http://u:p@a/m", "http://a/m"},
		{"http://a/sse", "https://a/m", ""},
		{"http://a/sse", "//b/m", ""},
		{"http://a/sse", "http://a:81/m", ""},
		{"http://a/sse", "http://a@b/m", ""},
		{"http://a/sse", "javascript:1", ""},
		{"http://a/sse", "http://[", ""},
		{"http://a/sse", "/" + strings.Repeat("x", 9<<10), ""},
	} {
		if got, err := endpointOf(tt.stream, tt.endpoint); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s at %s is %q and %v, want %q", shorten(tt.endpoint), tt.stream, got, err, tt.want)
		}
	}
}

// TestOpenURL prefers the newer transport, and what it says where there is neither.
func TestOpenURL(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		_, h := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request, _ message) { w.WriteHeader(404) })
		_, err := OpenURL(minute(t), h, Options{})
		if f, _ := errors.AsType[*Failure](err); f == nil || f.Why != ReasonStatus || f.Status != 404 {
			t.Errorf("it has %+v", err)
		}
		h.URL = "ftp://x"
		if _, err := OpenURL(minute(t), h, Options{}); !errors.Is(err, ErrUnsent) {
			t.Errorf("it has %v", err)
		}
	})
}

// A queued process has taken all lines, but has written only so many.
type queued struct {
	*Pipe
	mu      sync.Mutex
	number  uint64
	written uint64 // lines after this number stay
}

func (q *queued) Put(ctx context.Context, line []byte) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.number++; q.number <= q.written {
		_, err := q.Pipe.Put(ctx, line)
		return q.number, err
	}
	return q.number, nil
}

func (q *queued) Unsent(number uint64) bool { return number > q.written }

// TestQueue ends a process that has not got all that was taken for it.
func TestQueue(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		p, process := newPeer(t, polite(EraLegacy, func(*peer, message) {}))
		c, err := Open(minute(t), NewLines(&queued{Pipe: process, written: 4}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		outcomes := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.Do(minute(t), toolCall(Request{}))
				outcomes <- err
			}()
			synctest.Wait()
		}
		_ = p.out.Close()
		one, two := <-outcomes, <-outcomes
		if errors.Is(one, ErrUnsent) == errors.Is(two, ErrUnsent) {
			t.Errorf("the calls have %v and %v", one, two)
		}
		if n := p.count(mcp.MethodToolsCall); n != 1 {
			t.Errorf("%d calls came", n)
		}
		checkNext(t, c, true)
	})
}

// TestHeaders repeats arguments in headers.
func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ schema, arguments, want string }{
		{`{"properties":{"a":{"type":"string","x-mcp-header":"Region"}}}`, `{"a":"us-west1"}`, `map[Mcp-Param-Region:[us-west1]]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, `{"a":"Hello, 世界"}`, `map[Mcp-Param-R:[=?base64?SGVsbG8sIOS4lueVjA==?=]]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, `{"a":" padded "}`, `map[Mcp-Param-R:[=?base64?IHBhZGRlZCA=?=]]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, `{"a":"=?base64?literal?="}`, `map[Mcp-Param-R:[=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=]]`},
		{`{"properties":{"a":{"properties":{"b\u0062":{"type":"integer","x-mcp-header":"N"}}},"c":{"type":"boolean","x-mcp-header":"C"}}}`, `{"a":{"bb":42},"c":true}`, `map[Mcp-Param-C:[true] Mcp-Param-N:[42]]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, `{"a":null}`, `map[]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, `{"a":{}}`, `map[]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, `{}`, `map[]`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}`, ``, `map[]`},
		{`{"properties":{"x-mcp-header":{"type":"string"}}}`, `{}`, `map[]`},
		{`{"properties":{"a":{"type":"string","default":{"x-mcp-header":"R"}}}}`, `{}`, `map[]`},
		{`true`, `{}`, `map[]`},
		{`{"properties":{"a":{"type":"number","x-mcp-header":"R"}}}`, `{}`, `error`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, `{}`, `error`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, `{}`, `error`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}`, `{}`, `error`},
		{`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`, `{}`, `error`},
		{`{"type":"string","x-mcp-header":"A"}`, `{}`, `error`},
		{`{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}`, `{}`, `error`},
		{`{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`, `{}`, `error`},
		{`{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}`, `{}`, `error`},
	} {
		params, err := HeaderParams([]byte(tt.schema))
		got := fmt.Sprint(ParamHeaders(params, []byte(tt.arguments)))
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("%s with %s: %s (%v), want %s", tt.schema, tt.arguments, got, err, tt.want)
		}
	}
}
