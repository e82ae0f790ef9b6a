package troupe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

func TestBothErasOnOnePipe(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := newPipe(t, troupe.Options{})
		m := &modern{t: t, caps: everyCapability}
		send := func(method, params string) string { return m.body(m.id(), method, params, "") }
		equal(t, "echo", p.ask(send("tools/call", toolParams("echo", `{"text":"x"}`))), modernText("1", "x"))
		asked := p.ask(send("tools/call", toolParams("ask", `{"question":"who?"}`)))
		contains(t, "a question", asked, `"resultType":"input_required"`)
		_, rest, _ := strings.Cut(asked, `"requestState":`)
		state, _, _ := strings.Cut(rest, `,"_meta"`)
		again := `"requestState":` + state
		got := p.ask(send("tools/call", toolParams("ask", `{"question":"who?"}`, again, given("elicit", "me"))))
		equal(t, "the answer", got, modernText("3", `accept {\"answer\":\"me\"}`))

		// A listener, on the same channel.
		got = p.ask(m.body(`"L"`, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}}`, ""))
		equal(t, "acknowledged", got, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://one"]}}}`)
		p.srv.ResourceUpdated("test://one")
		equal(t, "updated", p.next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"uri":"test://one"}}`)
		p.srv.RemoveTools("echo")
		equal(t, "list_changed", p.next(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
		p.send(cancel(`"L"`))
		p.srv.RemoveTools("count")
		time.Sleep(time.Second)

		// A call that is cancelled, and one whose id is that of a call that waits.
		p.send(send("tools/call", toolParams("sleep", `{"ms":3600000}`)))
		p.send(cancel("4"))
		// The legacy era of the same process.
		p.initialize("2025-06-18")
		equal(t, "legacy", p.ask(`{"jsonrpc":"2.0","id":7,"method":"ping"}`), `{"jsonrpc":"2.0","id":7,"result":{}}`)
		p.send(m.body(`"M"`, "subscriptions/listen", `{"notifications":{"promptsListChanged":true}}`, ""))
		contains(t, "acknowledged", p.next(), `subscriptionId":"M"`)
		// Nobody can bring an answer any more: what waits for one does not hold up the end.
		contains(t, "a question", p.ask(send("tools/call", toolParams("ask", `{"question":"who?"}`))), `"resultType":"input_required"`)
		begin := time.Now()
		defer func() {
			if d := time.Since(begin); d > time.Second {
				t.Errorf("the end took %v", d)
			}
		}()
		p.in.Close()
		equal(t, "the end of the listener", strings.Join(p.end(), "\n"),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"M"},"requestId":"M","reason":"the server is shutting down"}}
{"jsonrpc":"2.0","id":"M","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"M","io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}}}`)
	})
}
