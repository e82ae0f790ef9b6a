package stateless_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestStatelessStatuses checks the status and the error of refused requests, all the way
// from the handler (2026-07-28, streamable HTTP; basic/index, _meta).
func TestStatelessStatuses(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "rash"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.Roots(ctx)
			return fmt.Sprint(len(r)), err
		})
		troupe.AddTool(h.Server, troupe.Tool{Name: "header", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
			func(context.Context, *troupe.Call, map[string]any) (string, error) { return "ran", nil })
		m := h.Stateless(`{}`)
		for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result",
			"roots/list", "sampling/createMessage", "elicitation/create", "unknown/method", "notifications/initialized"} {
			a := m.Post(method, `{"uri":"test://one","level":"info"}`)
			if want := `"id":` + fmt.Sprint(m.N) + `,"error":{"code":-32601,`; a.StatusCode != 404 || !strings.Contains(a.Body, want) {
				t.Errorf("%s: %s %s", method, a.Status, a.Body)
			}
		}
		for _, tt := range []struct {
			method, params string
			header         []string
			status, code   int // code 0 is a result
		}{
			{"tools/call", `{"name":"ask","arguments":{"question":"?"}}`, nil, 400, -32021},
			{"tools/call", `{"name":"rash"}`, nil, 400, -32021},
			{"tools/call", `{"name":"none"}`, nil, 200, -32602},
			{"tools/call", `{"name":"panic"}`, nil, 200, -32603},
			{"tools/call", `{"name":"echo","arguments":[]}`, nil, 200, -32602},
			{"tools/call", `{"name":"echo","arguments":{"text":1}}`, nil, 200, 0},
			{"tools/call", `{"name":"echo","arguments":{"text":""}}`, []string{"Mcp-Name", "other"}, 400, -32020},
			{"tools/call", `{"name":"echo","arguments":{"text":""}}`, []string{"Mcp-Method", "tools/list"}, 400, -32020},
			{"tools/call", `{"name":"echo","arguments":{"text":""}}`, []string{"MCP-Protocol-Version", "2025-11-25"}, 400, -32020},
			{"tools/call", `{"name":"header","arguments":{"region":"x"}}`, nil, 400, -32020},
			{"tools/call", `{"name":"header","arguments":{"region":"x"}}`, []string{"Mcp-Param-Region", "y"}, 400, -32020},
			{"tools/call", `{"name":"header","arguments":{"region":null}}`, nil, 200, 0},
			{"tools/call", `{"name":"header","arguments":{"region":"x","region":null}}`, nil, 400, -32020},
			{"tools/call", `{"name":"header","arguments":{"region":"x","region":"x"}}`, []string{"Mcp-Param-Region", "x"}, 400, -32020},
			{"tools/call", `{"name":"header","arguments":{"region":"x"}}`, []string{"mcp-param-REGION", "=?base64?eA==?="}, 200, 0},
			{"tools/call", `{"name":"header","arguments":{"region":"x"},"requestState":"AA"}`, []string{"Mcp-Param-Region", "y"}, 400, -32020},
			{"resources/read", `{"uri":"test://none"}`, nil, 200, -32602},
			{"prompts/get", `{"name":"greet"}`, nil, 200, -32602},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":""}}`, nil, 404, -32601},
			{"tools/call", `{"name":"echo","arguments":{"text":""},"task":{"ttl":1000,"pollInterval":1}}`, nil, 200, 0},
			{"tools/list", `{}`, []string{"Mcp-Name", "unasked", "Mcp-Param-Region", "x", "Mcp-Session-Id", "none such", "Last-Event-ID", "x.0.0"}, 200, 0},
			{"tools/list", `{}`, []string{"Origin", "https://evil.example.com"}, 403, -32600},
		} {
			a := m.Post(tt.method, tt.params, tt.header...)
			code := 0
			var r struct{ Error struct{ Code int } }
			if err := json.Unmarshal([]byte(a.Body), &r); err == nil {
				code = r.Error.Code
			}
			if a.StatusCode != tt.status || code != tt.code || a.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s %q: got %s, %s", tt.method, tt.params, tt.header, a.Status, a.Body)
			}
			if a.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s %s: a session id", tt.method, tt.params)
			}
		}
	})
}

// TestStatelessHasNoSessions checks that a client of 2026-07-28 can do nothing to the
// sessions of other clients on the same endpoint, and learns nothing of them.
func TestStatelessHasNoSessions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		session := h.Session()
		m := h.Stateless(host.EveryCapability)
		version := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Session-Id", session.Session}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			a := m.Client.Do(method, "", version...)
			if a.StatusCode != 405 || !strings.Contains(a.Header.Get("Allow"), "POST") || a.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("%s: %s %s", method, a.Status, a.Body)
			}
		}
		for _, n := range []string{"notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed", "notifications/unknown"} {
			a := m.Client.Post(`{"jsonrpc":"2.0","method":"`+n+`","params":{"requestId":1}}`, version...)
			if a.StatusCode != 202 || a.Body != "" {
				t.Errorf("%s: %s %q", n, a.Status, a.Body)
			}
		}
		// Two clients have the same id in flight, and a third one tries to cancel it.
		body := m.Body("1", "tools/call", host.ToolParams("sleep", `{"ms":1000}`), "")
		first, second := m.Client.PostLater(body, m.Header("tools/call", body)...), m.Client.PostLater(body, m.Header("tools/call", body)...)
		synctest.Wait()
		m.Client.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, version...)
		for _, a := range []*kit.Answer{<-first, <-second} {
			host.Equal(t, "sleep", a.Body, host.StatelessText("1", "slept"))
		}
		// The settings of the session do not apply to stateless requests, nor the other
		// way round.
		m.Capabilities = `{}`
		a := m.Post("tools/call", host.ToolParams("ask", `{"question":"?"}`), "Mcp-Session-Id", session.Session)
		host.Contains(t, "capabilities of the session", a.Body, `"code":-32021`)
		host.Equal(t, "the session", session.Post(host.Call("1", "echo", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
	})
}

// TestStatelessStreams checks that stateless event streams must not be buffered, cannot
// be resumed, and are kept alive.
func TestStatelessStreams(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		m := h.Stateless(host.EveryCapability)
		for name, tt := range map[string]struct {
			args, meta string
			want       []string
		}{
			"count": {`{"to":2,"delay_ms":60000}`, `"progressToken":"p"`, []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":2}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2,"total":2}}`,
				host.StatelessText(`"id"`, "counted to 2")}},
			"sleep": {`{"ms":60000}`, "", []string{host.StatelessText(`"id"`, "slept")}}, // a stream after the grace
		} {
			body := m.Body(`"id"`, "tools/call", host.ToolParams(name, tt.args), tt.meta)
			a := m.Client.Post(body, append(m.Header("tools/call", body), "Last-Event-ID", "x.1.0")...)
			if !a.Stream() || a.StatusCode != 200 || a.Header.Get("X-Accel-Buffering") != "no" || a.Header.Get("Mcp-Session-Id") != "" {
				t.Fatalf("%s: %s %v", name, a.Status, a.Header)
			}
			var got []string
			for _, e := range a.All() {
				if e.ID != "" || e.Retry != "" || e.Name != "" && e.Name != "message" {
					t.Errorf("%s: an event to be resumed from: %+v", name, e)
				}
				got = append(got, e.Data)
			}
			host.Equal(t, name, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			if a.Comments < 2 {
				t.Errorf("%s: %d comments", name, a.Comments)
			}
		}
		listener, _ := m.Listen("1", `{"toolsListChanged":true}`)
		if listener.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("listen: %v", listener.Header)
		}
	})
}

// TestListenersHearOnlyWhatTheyAskedFor checks that a listener gets nothing else: no
// other lists, no other resources, and no messages of calls.
func TestListenersHearOnlyWhatTheyAskedFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		m := h.Stateless(host.EveryCapability)
		nothing, filter := m.Listen("1", `{"toolsListChanged":false,"resourceSubscriptions":[]}`)
		host.Equal(t, "filter", filter, `{}`)
		prompts, filter := m.Listen("2", `{"promptsListChanged":true}`)
		host.Equal(t, "filter", filter, `{"promptsListChanged":true}`)
		body := m.Body("3", "tools/call", host.ToolParams("log", `{}`), `"io.modelcontextprotocol/logLevel":"debug","progressToken":1`)
		m.Client.Post(body, m.Header("tools/call", body)...).All()
		h.Server.RemoveTools("echo")
		h.Server.RemoveResources("test://one")
		h.Server.ResourceUpdated("test://one")
		time.Sleep(time.Second)
		h.Server.RemovePrompts("greet")
		host.NextEvent(t, "the first that the second hears", prompts, host.ListenNote("2", "prompts/list_changed", ""))
		h.Server.RemoveTools("count")
		time.Sleep(time.Second)
		for _, a := range []*kit.Answer{nothing, prompts} {
			heard := make(chan string, 1)
			go func() { e, _ := a.Next(); heard <- e.Data }()
			time.Sleep(time.Second)
			a.Close()
			host.Equal(t, "heard", <-heard, "")
		}
	})
}

// TestStatelessListsAreStable checks that lists have one order, whatever was added and
// removed and whoever asks.
func TestStatelessListsAreStable(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		names := func(h *host.Host, caps string) string {
			var r struct {
				Result struct{ Tools []struct{ Name string } }
			}
			if err := json.Unmarshal([]byte(h.Stateless(caps).Post("tools/list", `{}`).Body), &r); err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, x := range r.Result.Tools {
				all = append(all, x.Name)
			}
			return strings.Join(all, " ")
		}
		add := func(h *host.Host, names ...string) {
			for _, name := range names {
				troupe.AddTool(h.Server, troupe.Tool{Name: name}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
			}
		}
		h, other := host.New(t, troupe.Options{}, nil), host.New(t, troupe.Options{}, nil)
		mixed := []string{"zeta", "Zeta", "a.b", "a-b", "ab", "é"}
		add(h, mixed...)
		slices.Reverse(mixed)
		add(other, mixed...)
		want := names(h, `{}`)
		for range 3 {
			host.Equal(t, "again", names(h, host.EveryCapability), want)
		}
		host.Equal(t, "added in another order", names(other, `{}`), want)
		add(h, "brief")
		h.Server.RemoveTools("brief", "ab")
		add(h, "ab")
		host.Equal(t, "after others came and went", names(h, `{}`), want)
		if session := h.Session().Post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(session.Body, `"name":"a-b"`) {
			t.Errorf("the session: %s", session.Body)
		}
	})
}

// TestStatelessVersions checks that every refusal of a version names the versions of
// server/discover in its order, and that each of those is served.
func TestStatelessVersions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		m := h.Stateless(`{}`)
		var found struct {
			Result struct{ SupportedVersions []string }
		}
		if err := json.Unmarshal([]byte(m.Post("server/discover", `{}`).Body), &found); err != nil || !slices.Contains(found.Result.SupportedVersions, host.R20260728) {
			t.Fatalf("discover: %v, %q", err, found)
		}
		for _, requested := range []string{"v999.0.0", "1900-01-01", "2099-01-01"} {
			body := strings.ReplaceAll(m.Body("1", "tools/list", `{}`, ""), host.R20260728, requested)
			a := m.Client.Post(body, "MCP-Protocol-Version", requested, "Mcp-Method", "tools/list")
			var refused struct {
				Error struct {
					Code int
					Data struct {
						Supported []string
						Requested string
					}
				}
			}
			if err := json.Unmarshal([]byte(a.Body), &refused); err != nil || a.StatusCode != 400 || refused.Error.Code != -32022 || refused.Error.Data.Requested != requested {
				t.Errorf("%s: %s %s", requested, a.Status, a.Body)
			}
			if !slices.Equal(refused.Error.Data.Supported, found.Result.SupportedVersions) {
				t.Errorf("%s: %q are said to be supported, discovered were %q", requested, refused.Error.Data.Supported, found.Result.SupportedVersions)
			}
		}
		for _, v := range found.Result.SupportedVersions {
			if v != host.R20260728 {
				h.Client().InitializeAs(v, `{}`)
			}
		}
	})
}

// TestListenersOfAServerThatIsUnmounted checks that listeners learn that the server
// ended them (2026-07-28, basic/patterns/subscriptions, graceful closure).
func TestListenersOfAServerThatIsUnmounted(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		m := h.Stateless(`{}`)
		a, _ := m.Listen("7", `{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}`)
		h.Runtime.Unmount("/mcp")
		host.NextEvent(t, "cancelled", a, host.ListenNote("7", "cancelled", `,"requestId":7,"reason":"the server has been taken away"`))
		host.NextEvent(t, "response", a, `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`)
		if rest := a.All(); len(rest) != 0 || a.Broke {
			t.Errorf("after the response: %v", rest)
		}
	})
}
