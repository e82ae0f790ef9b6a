package stateless_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRetrySpeaksForItself checks that a call that goes on by another request follows
// what that request says of its client, not what the first one said (2026-07-28,
// basic/index, statelessness; server/utilities/logging).
func TestRetrySpeaksForItself(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "talk", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, in struct {
			More bool `json:"more,omitempty"`
		}) (string, error) {
			say := func() {
				_ = call.Log(ctx, mcp.LevelInfo, "talk", call.Peer().Client().Name)
				_ = call.Progress(ctx, 1, 0, "")
				time.Sleep(time.Millisecond)
				_ = call.Progress(ctx, 2, 0, "")
			}
			if in.More {
				say()
			}
			if _, err := call.Elicit(ctx, "One?", host.Form); err != nil {
				return "", err
			}
			say()
			if in.More {
				if _, err := call.Elicit(ctx, "Two?", host.Form); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		const (
			debug  = `"io.modelcontextprotocol/logLevel":"debug"`
			logged = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"talk","data":"kit"}}`
		)
		progress := func(token string, n int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n)
		}
		ask := func(m *host.Stateless, args, meta string) string {
			t.Helper()
			_, response := m.Send("tools/call", host.ToolParams("talk", args), meta)
			_, rest, ok := strings.Cut(response, `"requestState":"`)
			if !ok {
				t.Fatalf("not asked: %s", response)
			}
			state, _, _ := strings.Cut(rest, `"`)
			return `"requestState":"` + state + `"`
		}
		retry := func(m *host.Stateless, args, state, meta string) (string, string) {
			t.Helper()
			before, response := m.Send("tools/call", host.ToolParams("talk", args, state, host.Given("elicit", "x")), meta)
			return strings.Join(before, "\n"), response
		}
		m := h.Stateless(host.EveryCapability)

		before, response := retry(m, `{}`, ask(m, `{}`, debug+`,"progressToken":"first"`), "")
		host.Equal(t, "with neither level nor token", before, "")
		host.Contains(t, "with neither level nor token", response, `"text":"done"`)
		before, _ = retry(m, `{}`, ask(m, `{}`, ""), debug+`,"progressToken":7`)
		host.Equal(t, "with level and token", before, logged+"\n"+progress("7", 1)+"\n"+progress("7", 2))
		before, _ = retry(m, `{}`, ask(m, `{}`, debug+`,"progressToken":"first"`), `"io.modelcontextprotocol/logLevel":"error","progressToken":"first"`)
		host.Equal(t, "with a higher level", before, progress(`"first"`, 1)+"\n"+progress(`"first"`, 2))

		// An invalid level is refused, and the call stays parked.
		state := ask(m, `{}`, "")
		_, response = retry(m, `{}`, state, `"io.modelcontextprotocol/logLevel":"loud"`)
		host.Contains(t, "with a level that is none", response, `"error":{"code":-32602,"message":"_meta: io.modelcontextprotocol/logLevel must be`)
		_, response = retry(m, `{}`, state, "")
		host.Contains(t, "after that", response, `"text":"done"`)

		// A client that has withdrawn a capability gets no more questions for it.
		state = ask(m, `{"more":true}`, "")
		m.Capabilities = `{}`
		_, response = retry(m, `{"more":true}`, state, "")
		host.Contains(t, "without capabilities", response, `"error":{"code":-32021,"message":"the client must declare: elicitation.form","data":{"requiredCapabilities":{"elicitation":{"form":{}}}}}`)
	})
}
