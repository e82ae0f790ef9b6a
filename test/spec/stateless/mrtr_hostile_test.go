package stateless_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestHostileRetries sends too much in the members that only requests of 2026-07-28
// have: each request gets an error of its own, at once, and leaves nothing behind.
func TestHostileRetries(t *testing.T) {
	when.Long(t, "states of megabytes")
	kit.Bubble(t, func(t *testing.T) {
		h, _, _ := host.NewParking(t, troupe.Options{})
		m := h.Stateless(host.EveryCapability)
		nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
		long := func(n int) string { return strconv.Quote(strings.Repeat("A", n)) }
		var many strings.Builder
		for i := range host.Brief(host.Sized(50_000, 20_000), 5000) {
			fmt.Fprintf(&many, `,"k%d":{}`, i)
		}
		const (
			asked = iota // asked for the missing answers
			ended        // ended with a result that says so
		)
		for name, tt := range map[string]struct {
			more         string
			status, code int
		}{
			"a long state":                {`"requestState":` + long(3<<20), 200, -32602},
			"a state beyond the body":     {`"requestState":` + long(5<<20), 413, -32600},
			"a state of escapes":          {`"requestState":"` + strings.Repeat(`\u0041`, 1<<18) + `"`, 200, -32602},
			"a state that is deep":        {`"requestState":` + nested(100), 200, -32602},
			"a state that is too deep":    {`"requestState":` + nested(100_000), 400, -32700},
			"two states":                  {`"requestState":"a","requestState":"b"`, 400, -32600},
			"deep answers":                {`"inputResponses":{"elicit":` + nested(100) + `}`, 200, asked},
			"answers that are too deep":   {`"inputResponses":{"elicit":` + nested(100_000) + `}`, 400, -32700},
			"answers twice":               {`"inputResponses":{},"inputResponses":{}`, 400, -32600},
			"answers beyond the body":     {`"inputResponses":{"elicit":` + long(5<<20) + `}`, 413, -32600},
			"answers that are no object":  {`"inputResponses":[{}]`, 200, -32602},
			"many answers":                {`"inputResponses":{` + many.String()[1:] + `}`, 200, -32602},
			"a long answer to nothing":    {`"inputResponses":{"other":` + long(1<<20) + `}`, 200, asked},
			"a long answer that is none":  {`"inputResponses":{"elicit":` + long(1<<20) + `}`, 200, asked},
			"a long answer":               {`"inputResponses":{"elicit":{"action":"accept","content":{"answer":` + long(1<<20) + `}}}`, 200, ended},
			"a long key":                  {`"inputResponses":{` + long(1<<20) + `:{}}`, 200, asked},
			"an answer that is not UTF-8": {`"inputResponses":{"elicit":"` + "\xff" + `"}`, 400, -32700},
			"_meta twice":                 {`"_meta":{}`, 400, -32600},
			"a long name of a member":     {long(1<<20) + `:1`, 200, asked},
		} {
			id := m.NextID()
			body := m.Body(id, "tools/call", host.ToolParams("twice", `{}`, tt.more), "")
			a := m.Client.Post(body, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "twice")
			var r host.Required
			if err := json.Unmarshal([]byte(a.Body), &r); err != nil {
				t.Errorf("%s: %s %.200s: %v", name, a.Status, a.Body, err)
				continue
			}
			code := asked
			switch {
			case r.Error != nil:
				code = r.Error.Code
			case r.Result.IsError:
				code = ended
			case r.Result.ResultType != "input_required":
				t.Errorf("%s: not asked: %.300s", name, a.Body)
			}
			if a.StatusCode != tt.status || code != tt.code || len(a.Body) > 4096 {
				t.Errorf("%s: %s %.300s", name, a.Status, a.Body)
			}
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if n := h.Actors("request"); n != 0 {
			t.Errorf("%d request actors are left", n)
		}
	})
}

// TestEndlessQuestionsEnd checks that a call cannot ask forever.
func TestEndlessQuestionsEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, _ := host.NewParking(t, troupe.Options{})
		troupe.AddTool(h.Server, troupe.Tool{Name: "curious", Description: "d", Needs: mcp.CapClientElicitationForm},
			func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
				for i := 1; ; i++ {
					_, err := call.Ask(ctx, troupe.Elicit(fmt.Sprint(i), "?", host.Form))
					if errors.Is(err, troupe.ErrTooManyRounds) {
						return fmt.Sprint("gave up at question ", i), nil
					}
					if err != nil {
						return "", err
					}
				}
			})
		m := h.Stateless(host.EveryCapability)
		a, id := m.Tool("curious", `{}`)
		for i := 1; i <= 100; i++ {
			state := m.Parked(a, id, fmt.Sprint(i))
			a, id = m.Tool("curious", `{}`, state, host.Given(fmt.Sprint(i), "x"))
		}
		host.Equal(t, "at last", m.Done(a, id), "gave up at question 101")
		if n := h.Gauge("troupe.refusals", "ask-rounds"); n != 1 {
			t.Errorf("%d refusals are counted, want 1", n)
		}
	})
}

// TestTooMuchInputHoldsNoPlace checks that a call that may not go on asking frees its
// place among the parked calls.
func TestTooMuchInputHoldsNoPlace(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _, _ := host.NewParking(t, troupe.Options{Shared: troupe.SharedLimits{PendingPerPrincipal: 1}})
		m := h.Stateless(host.EveryCapability)
		for range 3 {
			a, id := m.Tool("twice", `{}`, host.Given("elicit", strings.Repeat("A", 64<<10)))
			host.Equal(t, "too much", m.Done(a, id), "the answers so far are too large to go on asking")
		}
		if n := h.Gauge("troupe.refusals", "ask-input"); n != 3 {
			t.Errorf("%d refusals are counted, want 3", n)
		}
		a, id := m.Tool("twice", `{}`)
		m.Parked(a, id, "elicit")
	})
}

// TestLongTokens checks that no client can make a server repeat a long id or token with
// every message.
func TestLongTokens(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, p := host.New(t, troupe.Options{}, nil), host.NewStatelessPipe(t, troupe.Options{}, nil)
		m := h.Stateless(host.EveryCapability)
		token := func(n int) string { return strconv.Quote(strings.Repeat("x", n-2)) }
		const long = `"error":{"code":-32600,"message":"the id or the progress token is too long"}}`
		for method, params := range map[string]string{"tools/list": `{}`, "tools/call": host.ToolParams("echo", `{"text":"x"}`),
			"subscriptions/listen": `{"notifications":{}}`, "resources/read": `{"uri":"test://one","requestState":"x"}`} {
			for _, body := range []string{m.Body(token(2049), method, params, ""), m.Body("1", method, params, `"progressToken":`+token(2049)), m.Body("1", method, params, `"progressToken":1`+strings.Repeat("0", 2048))} {
				a := m.Client.Post(body, m.Header(method, body)...)
				if a.StatusCode != 400 || !strings.HasSuffix(a.Body, long) {
					t.Errorf("%s: %s %.200s", method, a.Status, a.Body)
				}
				if got := p.Ask(body); !strings.HasSuffix(got, long) {
					t.Errorf("%s over a pipe: %.200s", method, got)
				}
			}
		}
		id := token(2048)
		body := m.Body(id, "tools/call", host.ToolParams("count", `{"to":1}`), `"progressToken":`+id)
		all := host.Payloads(m.Client.Post(body, m.Header("tools/call", body)...).All())
		if len(all) != 2 || !strings.Contains(all[0], `"progressToken":`+id) || all[1] != host.StatelessText(id, "counted to 1") {
			t.Errorf("as long as they may be: %.200q", all)
		}
	})
}
