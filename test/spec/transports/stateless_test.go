package transports_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestStatelessProbes checks what a client gets over a pipe when it finds out which
// revisions the server speaks (2026-07-28, basic/transports/stdio, backward
// compatibility).
func TestStatelessProbes(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		const (
			version      = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
			capabilities = `"io.modelcontextprotocol/clientCapabilities":{}`
			noVersion    = `{"code":-32602,"message":"_meta must name the protocol version: io.modelcontextprotocol/protocolVersion"}`
		)
		unsupported := func(v string) string {
			return `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"` + v + `"}}`
		}
		for _, initialized := range []bool{false, true} {
			for _, tt := range []struct{ method, params, want string }{
				{"server/discover", ``, noVersion},
				{"server/discover", `,"params":{}`, noVersion},
				{"server/discover", `,"params":{"_meta":{` + capabilities + `}}`, noVersion},
				{"tools/list", `,"params":{"_meta":{` + capabilities + `}}`, noVersion},
				{"tools/list", `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":7,` + capabilities + `}}`, noVersion},
				{"server/discover", `,"params":{"_meta":{` + version + `}}`, `{"code":-32602,"message":"_meta must have the client's capabilities: io.modelcontextprotocol/clientCapabilities"}`},
				{"tools/list", `,"params":{"_meta":{` + version + `,` + capabilities + `,"io.modelcontextprotocol/clientInfo":"me"}}`,
					`{"code":-32602,"message":"_meta has a client info that is no object: io.modelcontextprotocol/clientInfo"}`},
				{"server/discover", `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}`, unsupported("2099-01-01")},
				{"tools/list", `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + capabilities + `}}`, unsupported("2025-11-25")},
				{"initialize", `,"params":{"_meta":{` + version + `,` + capabilities + `}}`, `{"code":-32601,"message":"method not found: initialize"}`},
			} {
				got := p.Ask(`{"jsonrpc":"2.0","id":1,"method":"` + tt.method + `"` + tt.params + `}`)
				host.Legal(t, got, tt.method)
				host.Equal(t, tt.method+tt.params, got, `{"jsonrpc":"2.0","id":1,"error":`+tt.want+`}`)
			}
			host.Contains(t, "without client info", p.Ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{`+version+`,`+capabilities+`}}}`), `"supportedVersions":["2026-07-28",`)
			if !initialized {
				p.Initialize(host.R20251125)
			}
		}
		// What one request says does not apply to the next one, and the session belongs
		// to another client.
		host.Equal(t, "a request of the session", p.Ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), `{"jsonrpc":"2.0","id":1,"result":{}}`)
		p.M.Capabilities = `{}`
		host.Contains(t, "a request that declares less than the session", p.Result("tools/call", host.ToolParams("ask", `{"question":"?"}`), ""), `{"code":-32021,`)
	})
}

// TestStatelessRequestsOnAPipe checks requests that share the one channel: ids in use,
// cancels, and messages that are not requests (2026-07-28, basic/transports/stdio;
// basic/patterns/cancellation).
func TestStatelessRequestsOnAPipe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		const inUse = `"error":{"code":-32600,"message":"the id is in use by a request in flight"}}`
		listen := p.M.Body(`"L"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`, "")
		acknowledged := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true}}}`
		host.Equal(t, "listen", p.Ask(listen), acknowledged)
		host.Equal(t, "listen with the same id", p.Ask(listen), `{"jsonrpc":"2.0","id":"L",`+inUse)
		p.Server.RemoveTools("echo")
		host.Equal(t, "told", p.Next(), host.ListenNote(`"L"`, "tools/list_changed", ""))
		sleeping := p.M.Body("1", "tools/call", host.ToolParams("sleep", `{"ms":1000}`), "")
		p.Send(sleeping)
		host.Equal(t, "a call with the same id", p.Ask(sleeping), `{"jsonrpc":"2.0","id":1,`+inUse)
		host.Equal(t, "the first of them", p.Next(), host.StatelessText("1", "slept"))

		// Arguments have no headers here.
		troupe.AddTool(p.Server, troupe.Tool{Name: "region", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)},
			func(_ context.Context, _ *troupe.Call, in map[string]string) (string, error) {
				return in["region"], nil
			})
		host.Equal(t, "told again", p.Next(), host.ListenNote(`"L"`, "tools/list_changed", ""))
		host.Equal(t, "an argument with a header", p.Ask(p.M.Body("3", "tools/call", host.ToolParams("region", `{"region":"x"}`), "")), host.StatelessText("3", "x"))

		// A notification after a cancel belongs to another request.
		p.Send(p.M.Body("2", "tools/call", host.ToolParams("count", `{"to":9,"delay_ms":1000}`), `"progressToken":"p"`))
		host.Contains(t, "progress", p.Next(), `"progress":1`)
		p.Send(host.Cancel("2"), host.Cancel(`"L"`), host.Cancel("99"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`)
		p.Server.RemoveTools("sleep")
		// A client sends no responses, and gets none to them.
		p.Send(`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}`)
		time.Sleep(time.Minute)
		host.Equal(t, "listen again", p.Ask(listen), acknowledged)
		p.Send(host.Cancel(`"L"`))
		p.In.Close()
		if rest := p.End(); len(rest) != 0 {
			t.Errorf("after all: %q", rest)
		}
	})
}

// TestCancelOfARetryOnAPipe checks that a call that goes on by another request is
// cancelled by the id of that request, and by no earlier one.
func TestCancelOfARetryOnAPipe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewStatelessPipe(t, troupe.Options{}, nil)
		ended := make(chan error, 1)
		troupe.AddTool(p.Server, troupe.Tool{Name: "hold", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			if _, err := call.Elicit(ctx, "?", host.Form); err != nil {
				return "", err
			}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", nil
		})
		asked := p.Ask(p.M.Body("1", "tools/call", host.ToolParams("hold", `{}`), ""))
		_, rest, _ := strings.Cut(asked, `"requestState":"`)
		state, _, _ := strings.Cut(rest, `"`)
		p.Send(host.Cancel("1")) // it has its response
		p.Send(p.M.Body("2", "tools/call", host.ToolParams("hold", `{}`, `"requestState":"`+state+`"`, host.Given("elicit", "x")), ""))
		time.Sleep(time.Second)
		p.Send(host.Cancel("1"))
		time.Sleep(time.Second)
		select {
		case err := <-ended:
			t.Errorf("ended by the first id: %v", err)
		default:
		}
		p.Send(host.Cancel("2"))
		if err := <-ended; !errors.Is(err, troupe.ErrCancelled) {
			t.Errorf("cause %v", err)
		}
		synctest.Wait() // until the handler has returned, which still has the id when it tells its cause
		// Both ids are free again.
		for _, id := range []string{"1", "2"} {
			host.Equal(t, "echo", p.Ask(p.M.Body(id, "tools/call", host.ToolParams("echo", `{"text":"x"}`), "")), host.StatelessText(id, "x"))
		}
	})
}
