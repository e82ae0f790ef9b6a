package transports_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

func TestBothErasOnOnePipe(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{})
		m := &host.Stateless{T: t, Capabilities: host.EveryCapability}
		send := func(method, params string) string { return m.Body(m.NextID(), method, params, "") }
		host.Equal(t, "echo", p.Ask(send("tools/call", host.ToolParams("echo", `{"text":"x"}`))), host.StatelessText("1", "x"))
		asked := p.Ask(send("tools/call", host.ToolParams("ask", `{"question":"who?"}`)))
		host.Contains(t, "a question", asked, `"resultType":"input_required"`)
		_, rest, _ := strings.Cut(asked, `"requestState":`)
		state, _, _ := strings.Cut(rest, `,"_meta"`)
		again := `"requestState":` + state
		got := p.Ask(send("tools/call", host.ToolParams("ask", `{"question":"who?"}`, again, host.Given("elicit", "me"))))
		host.Equal(t, "the answer", got, host.StatelessText("3", `accept {\"answer\":\"me\"}`))

		// A listener on the same channel.
		got = p.Ask(m.Body(`"L"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}}`, ""))
		host.Equal(t, "acknowledged", got, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}}}`)
		p.Server.ResourceUpdated("test://one")
		host.Equal(t, "updated", p.Next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"uri":"test://one"}}`)
		p.Server.RemoveTools("echo")
		host.Equal(t, "list_changed", p.Next(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
		p.Send(host.Cancel(`"L"`))
		p.Server.RemoveTools("count")
		time.Sleep(time.Second)

		// A call that is cancelled, and one whose id is that of a running call.
		p.Send(send("tools/call", host.ToolParams("sleep", `{"ms":3600000}`)))
		p.Send(host.Cancel("4"))
		// A client with a session in the same process.
		p.Initialize("2025-06-18")
		host.Equal(t, "legacy", p.Ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`), `{"jsonrpc":"2.0","id":7,"result":{}}`)
		p.Send(m.Body(`"M"`, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`, ""))
		host.Contains(t, "acknowledged", p.Next(), `subscriptionId":"M"`)
		// No client can bring an answer any more: a call that waits for one does not hold
		// up the end.
		host.Contains(t, "a question", p.Ask(send("tools/call", host.ToolParams("ask", `{"question":"who?"}`))), `"resultType":"input_required"`)
		begin := time.Now()
		defer func() {
			if d := time.Since(begin); d > time.Second {
				t.Errorf("the end took %v", d)
			}
		}()
		p.In.Close()
		host.Equal(t, "the end of the listener", strings.Join(p.End(), "\n"),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"M"},"requestId":"M","reason":"the server is shutting down"}}
{"jsonrpc":"2.0","id":"M","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"M","io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`)
	})
}
