package troupe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// A middleware sees every request of a client and its result, on every transport.
func ExampleMethodMiddleware() {
	audit := func(next troupe.MethodHandler) troupe.MethodHandler {
		return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
			result, err := next(ctx, call, method, params)
			fmt.Println("audit:", method, string(params), err)
			return result, err
		}
	}
	weekdays := func(next troupe.MethodHandler) troupe.MethodHandler {
		return func(ctx context.Context, call *troupe.Call, method string, params json.RawMessage) (json.RawMessage, error) {
			if method == mcp.MethodPromptsList {
				return nil, mcp.NewError(-32001, "closed on Sundays")
			}
			return next(ctx, call, method, params)
		}
	}
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{MethodMiddleware: []troupe.MethodMiddleware{audit, weekdays}})
	troupe.AddTool(srv, troupe.Tool{Name: "greet"},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "Hello!", nil })

	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"greet"}`)
	v.request("prompts/list", `{}`)
	// Output:
	// audit: tools/call {"name":"greet"} <nil>
	// {"content":[{"type":"text","text":"Hello!"}]}
	// audit: prompts/list {} closed on Sundays (-32001)
	// {"code":-32001,"message":"closed on Sundays"}
}

// A method, and a notification, that the specification does not have.
func ExampleAddMethod() {
	type query struct {
		Text string `json:"text"`
	}
	type hits struct {
		Hits []string `json:"hits"`
	}
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{Experimental: map[string]mcp.Object{"acme/search": mcp.Object(`{}`)}})
	troupe.AddMethod(srv, troupe.Method{Name: "acme/search", Rerun: troupe.Safe},
		func(ctx context.Context, call *troupe.Call, in query) (hits, error) {
			return hits{[]string{"all about " + in.Text}}, call.Notify(ctx, "notifications/acme/searched", in)
		})

	v := visit(srv, `{}`)
	defer v.close()
	v.request("acme/search", `{"text":"actors"}`)
	// Output:
	// notifications/acme/searched {"text":"actors"}
	// {"hits":["all about actors"]}
}

func ExampleServerOptions_sessionBegan() {
	ended := make(chan struct{})
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{
		SessionBegan: func(_ context.Context, p *troupe.Peer) { fmt.Println("begun by", p.Client().Name) },
		SessionEnded: func(p *troupe.Peer, how troupe.SessionEnd) {
			fmt.Println(how, "by", p.Client().Name)
			close(ended)
		},
	})
	v := visit(srv, `{}`)
	defer v.close()
	v.end()
	<-ended
	// Output:
	// begun by example
	// deleted by example
}

// Each caller sees only the tools that it may use.
func ExampleServerOptions_visible() {
	srv := troupe.NewServer(anyone, &troupe.ServerOptions{Visible: func(p troupe.Principal, i troupe.Item) bool {
		return p.Subject == "admin" || i.Kind != troupe.ItemTool || i.Annotations != nil && i.Annotations.ReadOnlyHint
	}})
	troupe.AddTool(srv, troupe.Tool{Name: "show", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "shown", nil })
	troupe.AddTool(srv, troupe.Tool{Name: "erase"},
		func(context.Context, *troupe.Call, struct{}) (string, error) { return "erased", nil })

	v := visit(srv, `{}`) // as an anonymous client
	defer v.close()
	v.request("tools/call", `{"name":"show"}`)
	v.request("tools/call", `{"name":"erase"}`)
	// Output:
	// {"content":[{"type":"text","text":"shown"}]}
	// {"code":-32602,"message":"Unknown tool: erase"}
}

// A server whose tools come from a file, or from a client, gets an error for a bad tool.
func ExampleTryAddTool() {
	srv := troupe.NewServer(anyone, nil)
	for _, schema := range []string{`{"type":"object"}`, `{"type":"list"}`} {
		err := troupe.TryAddRawTool(srv, troupe.Tool{Name: "read", InputSchema: json.RawMessage(schema)},
			func(context.Context, *troupe.Call, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil })
		fmt.Println(err != nil)
	}
	fmt.Println(srv.Tools()[0].Name)
	// Output:
	// false
	// true
	// read
}

// The values of a session survive a crash of the process. Calls that count at the same time, on any nodes, miss none.
func ExampleUpdateValue() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "visit"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		visits, err := troupe.UpdateValue(ctx, call.Session(), "visits", func(n int) (int, error) { return n + 1, nil })
		return fmt.Sprintf("visit %d", visits), err
	})
	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"visit"}`)
	v.request("tools/call", `{"name":"visit"}`)
	// Output:
	// {"content":[{"type":"text","text":"visit 1"}]}
	// {"content":[{"type":"text","text":"visit 2"}]}
}

// A call sets what it has read only if no other call has set it meanwhile.
func ExampleCall_Session() {
	srv := troupe.NewServer(anyone, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "use"}, func(ctx context.Context, call *troupe.Call, in struct {
		Unit string `json:"unit"`
	}) (string, error) {
		var unit string
		if _, err := call.Session().Get(ctx, "unit", &unit); err != nil {
			return "", err
		}
		return fmt.Sprintf("%q before", unit), call.Session().Set(ctx, "unit", in.Unit)
	})
	v := visit(srv, `{}`)
	defer v.close()
	v.request("tools/call", `{"name":"use","arguments":{"unit":"m"}}`)
	v.request("tools/call", `{"name":"use","arguments":{"unit":"ft"}}`)
	// Output:
	// {"content":[{"type":"text","text":"\"\" before"}]}
	// {"content":[{"type":"text","text":"\"m\" before"}]}
}

// What a call of this tool needs depends on its arguments. The caller has files:read, and its client is told to ask for more.
func ExampleCall_Require() {
	rt, err := troupe.New(troupe.Options{Authenticate: func(*http.Request) (troupe.Principal, error) {
		return troupe.Principal{Subject: "ann", Scopes: []string{"files:read"}}, nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = rt.Close(context.Background()) }()
	srv := troupe.NewServer(mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	type arguments struct {
		Name   string `json:"name"`
		Delete bool   `json:"delete,omitempty"`
	}
	troupe.AddTool(srv, troupe.Tool{Name: "file", Scopes: []string{"files:read"}}, func(_ context.Context, call *troupe.Call, in arguments) (string, error) {
		if in.Delete {
			if err := call.Require("files:delete"); err != nil {
				return "", err
			}
			return "deleted " + in.Name, nil
		}
		return "the text of " + in.Name, nil
	})
	rt.Mount("/mcp", srv)

	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"file","arguments":{"name":"a.txt","delete":true},"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"example","version":"1"},
		"io.modelcontextprotocol/clientCapabilities":{}}}}`
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(call))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "file")
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	fmt.Println(string(body))
	// Output:
	// 403 Bearer error="insufficient_scope", error_description="the access token lacks a scope", scope="files:read files:delete"
	// {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the access token lacks a scope","data":{"scopes":["files:read","files:delete"]}}}
}
