package troupe_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
	"github.com/troupe-run/troupe/mcp"
)

// send POSTs a request with members of `_meta` of its own, and returns all that comes
// back: the messages before the response, and that.
func (m *modern) send(method, params, meta string) (before []string, response string) {
	m.t.Helper()
	body := m.body(m.id(), method, params, meta)
	a := m.c.Post(body, m.header(method, body)...)
	if !a.Stream() {
		return nil, a.Body
	}
	all := payloads(a.All())
	if len(all) == 0 {
		m.t.Fatalf("%s: no response", method)
	}
	return all[:len(all)-1], all[len(all)-1]
}

// TestRetrySpeaksForItself holds that a call which goes on by another request heeds
// what that one says of its client, not what the first one said (2026-07-28,
// basic/index, statelessness; server/utilities/logging).
func TestRetrySpeaksForItself(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		h := newHost(t, troupe.Options{}, nil)
		troupe.AddTool(h.srv, troupe.Tool{Name: "talk", Needs: troupe.NeedsElicitation}, func(ctx context.Context, call *troupe.Call, in struct {
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
			if _, err := call.Elicit(ctx, "One?", form); err != nil {
				return "", err
			}
			say()
			if in.More {
				if _, err := call.Elicit(ctx, "Two?", form); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		const (
			debug  = `"io.modelcontextprotocol/logLevel":"debug"`
			logged = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"talk","data":"testkit"}}`
		)
		progress := func(token string, n int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, n)
		}
		ask := func(m *modern, args, meta string) string {
			t.Helper()
			_, response := m.send("tools/call", toolParams("talk", args), meta)
			_, rest, ok := strings.Cut(response, `"requestState":"`)
			if !ok {
				t.Fatalf("not asked: %s", response)
			}
			state, _, _ := strings.Cut(rest, `"`)
			return `"requestState":"` + state + `"`
		}
		retry := func(m *modern, args, state, meta string) (string, string) {
			t.Helper()
			before, response := m.send("tools/call", toolParams("talk", args, state, given("elicit", "x")), meta)
			return strings.Join(before, "\n"), response
		}
		m := h.modern(everyCapability)

		before, response := retry(m, `{}`, ask(m, `{}`, debug+`,"progressToken":"first"`), "")
		equal(t, "with neither level nor token", before, "")
		contains(t, "with neither level nor token", response, `"text":"done"`)
		before, _ = retry(m, `{}`, ask(m, `{}`, ""), debug+`,"progressToken":7`)
		equal(t, "with level and token", before, logged+"\n"+progress("7", 1)+"\n"+progress("7", 2))
		before, _ = retry(m, `{}`, ask(m, `{}`, debug+`,"progressToken":"first"`), `"io.modelcontextprotocol/logLevel":"error","progressToken":"first"`)
		equal(t, "with a higher level", before, progress(`"first"`, 1)+"\n"+progress(`"first"`, 2))

		// A level that is none is refused, and the call still waits.
		state := ask(m, `{}`, "")
		_, response = retry(m, `{}`, state, `"io.modelcontextprotocol/logLevel":"loud"`)
		contains(t, "with a level that is none", response, `"error":{"code":-32602,"message":"_meta: io.modelcontextprotocol/logLevel must be`)
		_, response = retry(m, `{}`, state, "")
		contains(t, "after that", response, `"text":"done"`)

		// A client that has taken its capabilities back is not asked any more.
		state = ask(m, `{"more":true}`, "")
		m.caps = `{}`
		_, response = retry(m, `{"more":true}`, state, "")
		contains(t, "without capabilities", response, `"error":{"code":-32021,"message":"the client must declare: elicitation.form","data":{"requiredCapabilities":{"elicitation":{"form":{}}}}}`)
	})
}
