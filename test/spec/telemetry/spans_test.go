package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// The trace contexts of the tests: of messages, and of the HTTP requests that carry them.
const (
	ofMessage = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ofCarrier = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
)

// traced is a runtime whose spans are recorded.
type traced struct {
	*host.Host
	all *tracetest.SpanRecorder
}

// newTraced returns such a runtime, with the test tools and one that fails.
func newTraced(t *testing.T) *traced {
	all, tel := host.NewRecorder()
	return &traced{host.New(t, troupe.Options{Telemetry: tel, Authenticate: nil}, nil), all}
}

// told returns what the spans say that have ended, in the order of their ends: name, kind, and attributes
// but for those that all of them have, see shared.
func told(all *tracetest.SpanRecorder) []string {
	synctest.Wait()
	var lines []string
	for _, s := range all.Ended() {
		lines = append(lines, line(s))
	}
	return lines
}

// shared are the attributes that each span of a server over HTTP has.
var shared = map[attribute.Key]string{
	"network.transport": "tcp", "network.protocol.name": "http", "network.protocol.version": "1.1", "client.address": "*", "client.port": "*", "troupe.server": "main",
	"mcp.method.name": "*", "mcp.session.id": "*",
}

func line(s sdktrace.ReadOnlySpan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.SpanKind(), s.Name())
	attrs := map[string]string{}
	for _, kv := range s.Attributes() {
		if want, ok := shared[kv.Key]; !ok || want != "*" && want != kv.Value.String() {
			attrs[string(kv.Key)] = kv.Value.String()
		}
		if kv.Value.String() == "" {
			attrs["EMPTY "+string(kv.Key)] = "!"
		}
	}
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		fmt.Fprintf(&b, " %s=%s", k, attrs[k])
	}
	if s.Status().Code == codes.Error {
		fmt.Fprintf(&b, " ERROR %q", s.Status().Description)
	}
	return b.String()
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSpansOfASession: each request and notification of a session has one span, by the convention.
func TestSpansOfASession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newTraced(t)
		h.AddTool("fails", 0, func(context.Context, *troupe.Call) (string, error) { return "", errors.New("no") })
		troupe.AddTool(h.Server, troupe.Tool{Name: "says_so"}, func(context.Context, *troupe.Call, struct{}) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("no")}, IsError: true}, nil
		})
		c := h.Client()
		c.Initialize(`{}`)
		for i, m := range []string{
			host.Method(`"ping 1"`, "ping", `{}`),
			host.Call("2", "echo", `{"text":"x"}`),
			host.Call("3", "fails", `{}`),
			host.Call("33", "says_so", `{}`),
			host.Call("4", "made up", `{}`),
			host.Method("5", "prompts/get", `{"name":"greet","arguments":{"who":"x"}}`),
			host.Method("6", "resources/read", `{"uri":"test://one"}`),
			host.Method("7", "resources/read", `{"uri":"test://none"}`),
			host.Method("8", "made/up", `{}`),
			host.Method("9", "logging/setLevel", `{"level":"info"}`),
			host.Cancel("77"),
		} {
			if r := c.Post(m); r.StatusCode != 200 && r.StatusCode != 202 {
				t.Errorf("message %d: %s", i, r.Status)
			}
		}
		r := " mcp.protocol.version=2025-11-25"
		id := func(n string) string { return " jsonrpc.request.id=" + n }
		tool := func(name string) string { return " gen_ai.operation.name=execute_tool gen_ai.tool.name=" + name }
		failed := func(code string) string { return " error.type=" + code }
		status := func(code string) string { return " rpc.response.status_code=" + code }
		got := told(h.all)
		compare(t, "spans", got, []string{
			"server initialize" + id("0") + r,
			"server notifications/initialized" + r,
			"server ping" + id("ping 1") + r,
			"server tools/call echo" + tool("echo") + id("2") + r,
			"server tools/call fails" + failed("tool_error") + tool("fails") + id("3") + r + ` ERROR ""`,
			"server tools/call says_so" + failed("tool_error") + tool("says_so") + id("33") + r + ` ERROR ""`,
			"server tools/call" + failed("-32602") + " gen_ai.operation.name=execute_tool" + id("4") + r + status("-32602") + ` ERROR "Unknown tool: made up"`,
			"server prompts/get greet gen_ai.prompt.name=greet" + id("5") + r,
			"server resources/read" + id("6") + r + " mcp.resource.uri=test://one",
			"server resources/read" + failed("-32002") + id("7") + r + " mcp.resource.uri=test://none" + status("-32002") + ` ERROR "resource not found"`,
			"server _OTHER" + failed("-32601") + id("8") + r + status("-32601") + ` ERROR "method not found: made/up"`,
			"server logging/setLevel" + id("9") + r,
			"server notifications/cancelled" + r,
		})
	})
}

// TestSpansWithoutSessions is the same of 2026-07-28, with a listener, whose span ends when it has begun.
func TestSpansWithoutSessions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newTraced(t)
		m := h.Stateless(host.EveryCapability)
		m.Do("server/discover", `{}`)
		m.Tool("echo", `{"text":"x"}`)
		a, _ := m.Listen(`"l"`, `{"toolsListChanged":true}`)
		defer a.Close()
		told(h.all)
		for _, s := range h.all.Ended() {
			if labels := labels(s.Attributes()); strings.Contains(labels, "mcp.session.id") {
				t.Errorf("a span without a session has %s", labels)
			}
		}
		r := " mcp.protocol.version=2026-07-28"
		compare(t, "spans", told(h.all), []string{
			"server server/discover jsonrpc.request.id=1" + r,
			"server tools/call echo gen_ai.operation.name=execute_tool gen_ai.tool.name=echo jsonrpc.request.id=2" + r,
			"server subscriptions/listen jsonrpc.request.id=l" + r,
		})
	})
}

// TestSpansOfAPipe: the transport of standard input and output is pipe.
func TestSpansOfAPipe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all, tel := host.NewRecorder()
		p := host.NewPipe(t, troupe.Options{Telemetry: tel})
		p.Initialize("2025-06-18")
		p.Ask(host.Call("2", "echo", `{"text":"x"}`))
		p.Ask(host.Method("3", "ping", `{}`))
		_ = p.In.Close()
		p.End()
		r := " mcp.protocol.version=2025-06-18 network.transport=pipe"
		compare(t, "spans", told(all), []string{
			"server initialize jsonrpc.request.id=init" + r,
			"server notifications/initialized" + r,
			"server tools/call echo gen_ai.operation.name=execute_tool gen_ai.tool.name=echo jsonrpc.request.id=2" + r,
			"server ping jsonrpc.request.id=3" + r,
		})
	})
}

// parentOf names the parent of a span and its links.
func parentOf(s sdktrace.ReadOnlySpan) string {
	text := "parent " + s.Parent().SpanID().String()
	for _, l := range s.Links() {
		text += fmt.Sprintf(", %s %s", labels(l.Attributes), l.SpanContext.SpanID())
	}
	return text
}

func labels(attrs []attribute.KeyValue) string {
	set := attribute.NewSet(attrs...)
	return set.Encoded(attribute.DefaultEncoder())
}

// TestParents: the parent is the trace context in _meta, to which that of HTTP is linked, or else that of HTTP. What is malformed or
// too long counts as absent, and harms nothing. The handler's context has the span.
func TestParents(t *testing.T) {
	member := func(parent string) string { return `"traceparent":"` + parent + `"` }
	header := http.Header{"Traceparent": {ofCarrier}, "Tracestate": {"x=1"}}
	const message, carrier, none = "parent b7ad6b7169203331", "parent 00f067aa0ba902b7", "parent 0000000000000000"
	for name, tt := range map[string]struct {
		meta   string // members
		header http.Header
		want   string // the parent, and links
		state  string
	}{
		"of the message":              {meta: member(ofMessage) + `,"tracestate":"y=2"`, want: message, state: "y=2"},
		"of HTTP":                     {header: header, want: carrier, state: "x=1"},
		"of both":                     {meta: member(ofMessage) + `,"tracestate":"y=2"`, header: header, want: message + ", troupe.link=transport 00f067aa0ba902b7", state: "y=2"},
		"of none":                     {want: none},
		"malformed":                   {meta: member("00-xyz"), want: none},
		"malformed, HTTP's is good":   {meta: member("00-xyz"), header: header, want: carrier, state: "x=1"},
		"a number":                    {meta: `"traceparent":5`, want: none},
		"a megabyte":                  {meta: member(strings.Repeat("0", 1<<20)), want: none},
		"a megabyte that begins well": {meta: member(ofMessage + strings.Repeat("-0", 1<<19)), want: none},
		"long, of HTTP":               {header: http.Header{"Traceparent": {strings.Repeat("0", 5000)}}, want: none},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := newTraced(t)
				h.AddTool("trace", 0, func(ctx context.Context, _ *troupe.Call) (string, error) {
					c := trace.SpanContextFromContext(ctx)
					return fmt.Sprint(c.SpanID(), " ", c.TraceState()), nil
				})
				c := h.Session()
				c.Header = tt.header
				a := c.Post(host.Method("2", "tools/call", `{"name":"trace","_meta":{`+tt.meta+`}}`))
				told(h.all)
				all := h.all.Ended()
				last := all[len(all)-1]
				if got := parentOf(last); got != tt.want {
					t.Errorf("got %s, want %s", got, tt.want)
				}
				host.Equal(t, "the handler's span", a.Body, host.TextResult("2", last.SpanContext().SpanID().String()+" "+tt.state))
			})
		})
	}
}

// TestQuestionsAreSpans: a question to the client is a span of the kind client below the call's, and carries its trace context.
func TestQuestionsAreSpans(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newTraced(t)
		c := h.Client()
		c.Initialize(`{"elicitation":{}}`)
		a := c.Post(host.Call("2", "ask", `{"question":"?"}`))
		q := host.NextQuestion(t, a)
		host.Reply(c, q.ID, "result", `{"action":"accept","content":{"answer":"y"}}`)
		host.Last(t, a)
		lines := told(h.all)
		all := h.all.Ended()
		asked, call := all[len(all)-2], all[len(all)-1]
		if asked.SpanKind() != trace.SpanKindClient || asked.Name() != "elicitation/create" || asked.Parent().SpanID() != call.SpanContext().SpanID() {
			t.Errorf("the spans are\n%s", strings.Join(lines, "\n"))
		}
		if want := `"traceparent":"00-` + asked.SpanContext().TraceID().String() + "-" + asked.SpanContext().SpanID().String() + `-01"`; !strings.Contains(string(q.Params), want) {
			t.Errorf("the question has the params %s, without %s", q.Params, want)
		}
		if e := call.Events(); len(e) == 0 || e[0].Name != "troupe.stream" {
			t.Errorf("the events of the call are %v, want that it became a stream", e)
		}
	})
}

// TestRetriesAreLinked: a call of 2026-07-28 that waits for its client says so, and links the request that brings the answers.
func TestRetriesAreLinked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newTraced(t)
		m := h.Stateless(host.EveryCapability)
		a, id := m.Tool("ask", `{"question":"?"}`)
		state := m.Parked(a, id, "elicit")
		m.Send("tools/call", host.ToolParams("ask", `{"question":"?"}`, state, host.Given("elicit", "y")), `"traceparent":"`+ofMessage+`"`)
		told(h.all)
		all := h.all.Ended()
		call := all[len(all)-1]
		var events []string
		for _, e := range call.Events() {
			events = append(events, e.Name)
		}
		compare(t, "events", events, []string{"troupe.input_required", "troupe.sent_again"})
		if got := parentOf(call); !strings.HasSuffix(got, ", troupe.link=troupe.sent_again b7ad6b7169203331") {
			t.Errorf("the call has the %s", got)
		}
		if asked := all[len(all)-2]; asked.Name() != "elicitation/create" || asked.SpanKind() != trace.SpanKindClient {
			t.Errorf("before the call ended %s", line(asked))
		}
	})
}

// TestSecondRunsAreLinked: the run after a crash is a span of its own below the same parent, linked to the first run.
func TestSecondRunsAreLinked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all, tel := host.NewRecorder()
		o := troupe.Options{Dir: t.TempDir(), Telemetry: tel}
		h := host.New(t, o, nil)
		c := h.Session()
		c.Header = http.Header{"Traceparent": {ofCarrier}}
		a := c.Post(host.Call("2", "count", `{"to":100,"delay_ms":1000}`))
		first, _ := a.Next()
		time.Sleep(3 * time.Second)
		h2, c2 := host.Crashed(t, o.Dir, o, c)
		_ = h2
		before := all.Started()
		running := before[len(before)-1]
		b := c2.Get(first.ID)
		host.Last(t, b)
		told(all)
		var again sdktrace.ReadOnlySpan
		for _, s := range all.Ended() {
			if s.Name() == "tools/call count" && strings.Contains(line(s), "troupe.run=2") {
				again = s
			}
		}
		if again == nil {
			t.Fatalf("no span of a second run in\n%s", strings.Join(told(all), "\n"))
		}
		if got, want := parentOf(again), "parent 00f067aa0ba902b7, troupe.link=earlier run "+running.SpanContext().SpanID().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		a.Close()
	})
}

// TestSecondRunsOfABatchAreLinked is the same of the requests of a batch (2025-03-26): each is linked to its own first run.
func TestSecondRunsOfABatchAreLinked(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all, tel := host.NewRecorder()
		o := troupe.Options{Dir: t.TempDir(), Telemetry: tel}
		addLater := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "later", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				if call.Attempt() > 1 {
					return "again", nil
				}
				if err := host.Sleep(ctx, 1000); err != nil {
					return "", err
				}
				if err := call.Log(ctx, mcp.LevelInfo, "later", "x"); err != nil { // the client comes back with its id
					return "", err
				}
				return "", host.Sleep(ctx, 10_000)
			})
		}
		h := host.New(t, o, nil)
		addLater(h)
		c := h.BatchingSession()
		c.Header = http.Header{"Traceparent": {ofCarrier}}
		a := c.Post(host.Batch(host.Call("2", "later", `{}`), host.Call("3", "later", `{}`)))
		defer a.Close()
		first, _ := a.Next()
		time.Sleep(5 * time.Second)
		running := map[string]string{} // the span of the first run by the id of the request
		for _, s := range all.Started() {
			running[attr(s, "jsonrpc.request.id")] = s.SpanContext().SpanID().String()
		}
		h2, c2 := host.Crashed(t, o.Dir, o, c)
		addLater(h2)
		c2.Get(first.ID).All()
		told(all)
		again := 0
		for _, s := range all.Ended() {
			if attr(s, "troupe.run") != "2" {
				continue
			}
			again++
			if got, want := parentOf(s), "parent 00f067aa0ba902b7, troupe.link=earlier run "+running[attr(s, "jsonrpc.request.id")]; got != want {
				t.Errorf("the second run of %s has the %s, want %s", attr(s, "jsonrpc.request.id"), got, want)
			}
		}
		if again != 2 {
			t.Errorf("%d spans of second runs in\n%s", again, strings.Join(told(all), "\n"))
		}
	})
}

// TestRetriesAtAnotherNodeAreLinked: the request that brings the answers may reach another node than the one where the call waits. The
// trace context of its header goes along.
func TestRetriesAtAnotherNodeAreLinked(t *testing.T) {
	all, tel := host.NewRecorder()
	host.Fleet(t, 2, troupe.Options{Telemetry: tel}, nil, func(t *testing.T, hosts []*host.Host) {
		m := hosts[0].Stateless(host.EveryCapability)
		a, id := m.Tool("ask", `{"question":"?"}`)
		state := m.Parked(a, id, "elicit")
		m.Client = hosts[1].Moved(m.Client)
		m.Client.Header = http.Header{"Traceparent": {ofCarrier}}
		a, id = m.Tool("ask", `{"question":"?"}`, state, host.Given("elicit", "y"))
		host.Equal(t, "the result", m.Done(a, id), `accept {"answer":"y"}`)
		lines := told(all)
		ended := all.Ended()
		if got := parentOf(ended[len(ended)-1]); !strings.HasSuffix(got, ", troupe.link=troupe.sent_again 00f067aa0ba902b7") {
			t.Errorf("the call has the %s:\n%s", got, strings.Join(lines, "\n"))
		}
	})
}

// TestTakeoversAreLinked: the run at a node that has taken a call over is linked to the run at the one that was lost.
func TestTakeoversAreLinked(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var hosts []*host.Host
		var all []*tracetest.SpanRecorder
		for _, name := range []string{"a", "b"} {
			recorder, tel := host.NewRecorder()
			o := troupe.Options{Telemetry: tel, Store: troupe.StoreOptions{Node: name, NATS: troupe.NATSOptions{URL: v.Line(name).URL()}}}
			hosts, all = append(hosts, host.New(t, o, nil)), append(all, recorder)
		}
		c := hosts[0].Session()
		c.Header = http.Header{"Traceparent": {ofCarrier}}
		a := c.Post(host.Call("2", "count", `{"to":30,"delay_ms":1000}`))
		defer a.Close()
		first, _ := a.Next()
		time.Sleep(3 * time.Second)
		before := all[0].Started()
		running := before[len(before)-1]
		v.Line("a").Break()
		host.Last(t, hosts[1].Moved(c).Get(first.ID))
		v.Line("a").Heal()
		time.Sleep(10 * time.Second) // it connects again, and can then end
		lines := told(all[1])
		ended := all[1].Ended()
		if len(ended) == 0 {
			t.Fatal("the other node has no span")
		}
		again := ended[len(ended)-1]
		if got, want := attr(again, "troupe.run")+" "+parentOf(again), "2 parent 00f067aa0ba902b7, troupe.link=earlier run "+running.SpanContext().SpanID().String(); got != want {
			t.Errorf("got %s, want %s:\n%s", got, want, strings.Join(lines, "\n"))
		}
	})
}

// attr returns an attribute of a span as text, "" if it has none.
func attr(s sdktrace.ReadOnlySpan, key attribute.Key) string {
	for _, kv := range s.Attributes() {
		if kv.Key == key {
			return kv.Value.String()
		}
	}
	return ""
}

// TestHandlersThatDoNotReturn: the span of a call ends with an error, and its line is logged, also where the handler panics.
func TestHandlersThatDoNotReturn(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all, tel := host.NewRecorder()
		lines := &host.Lines{}
		tel.Requests = troupe.RequestLog{Errors: true, Log: slog.New(slog.NewJSONHandler(lines, nil))}
		h := host.New(t, troupe.Options{Telemetry: tel, Log: slog.New(slog.DiscardHandler)}, nil)
		h.AddTool("exits", 0, func(context.Context, *troupe.Call) (string, error) { runtime.Goexit(); return "", nil })
		c := h.Session()
		for i, tool := range []string{"panic", "exits"} {
			c.Post(host.Call(fmt.Sprint(i), tool, `{}`))
			got := told(all)
			if last := got[len(got)-1]; !strings.Contains(last, "error.type=-32603") || !strings.Contains(last, "tools/call "+tool) {
				t.Errorf("the last span is %s", last)
			}
			if !strings.Contains(lines.String(), `"target":"`+tool+`"`) {
				t.Errorf("the log has %s", lines)
			}
		}
	})
}

// TestTextOnSpansIsBounded: what a client writes is on spans as text that any exporter takes, and cut.
func TestTextOnSpansIsBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := newTraced(t)
		c := h.Session()
		c.Post(host.Call(`"`+strings.Repeat("x", 127)+`é"`, "echo", `{"text":"x"}`))
		c.Post(host.Method("2", "resources/read", `{"uri":"test://`+strings.Repeat("x", 100_000)+`"}`))
		told(h.all)
		for _, s := range h.all.Ended() {
			for _, kv := range s.Attributes() {
				if text := kv.Value.String(); len(text) > 1024 || !utf8.ValidString(text) {
					t.Errorf("%s has %d bytes of %s: %.200q", s.Name(), len(text), kv.Key, text)
				}
			}
			if text := s.Status().Description; len(text) > 256 || !utf8.ValidString(text) {
				t.Errorf("%s has a status of %d bytes", s.Name(), len(text))
			}
		}
	})
}

// TestPseudonyms: spans name principals by a pseudonym, if that is asked for.
func TestPseudonyms(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		all, tel := host.NewRecorder()
		tel.Principals = true
		h := host.New(t, troupe.Options{Telemetry: tel, Authenticate: host.User}, nil)
		for _, name := range []string{"ann", "bob", "ann"} {
			c := host.As(h.Client(), name)
			c.Initialize(`{}`)
			c.Post(host.Call("2", "echo", `{"text":"x"}`))
		}
		told(all)
		seen := map[string]int{}
		for _, s := range all.Ended() {
			for _, kv := range s.Attributes() {
				if kv.Key == "enduser.pseudo.id" && len(kv.Value.String()) == 16 {
					seen[kv.Value.String()]++
				}
			}
		}
		if len(seen) != 2 {
			t.Errorf("the pseudonyms are %v, want those of two", seen)
		}
		for id, n := range seen {
			if n%3 != 0 {
				t.Errorf("%d spans have the pseudonym %s, want three for each session", n, id)
			}
		}
	})
}
