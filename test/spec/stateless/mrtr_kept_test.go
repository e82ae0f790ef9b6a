package stateless_test

import (
	"context"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestAnswersKeptAreBounded has more outcomes to keep than there is room for: clients
// that lost those of the newest calls get them again, and the oldest are forgotten before
// their time.
func TestAnswersKeptAreBounded(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	if testing.Short() {
		t.Skip("fills 16 MiB with answers")
	}
	kit.Bubble(t, func(t *testing.T) {
		const (
			calls, each = 300, 60 << 10
			room        = 16 << 20 / (each + 1<<10) // at least so many are kept
		)
		h := host.New(t, troupe.Options{Limits: troupe.Limits{CallRate: 1e6}, Shared: troupe.SharedLimits{PrincipalRate: 1e6}}, nil)
		runs := 0
		troupe.AddTool(h.Server, troupe.Tool{Name: "long", Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			runs++
			if _, err := call.Elicit(ctx, "?", host.Form); err != nil {
				return "", err
			}
			return strings.Repeat("x", each), nil
		})
		m := h.Stateless(host.EveryCapability)
		var retries []string
		for range calls {
			a, id := m.Tool("long", `{}`)
			retries = append(retries, host.ToolParams("long", `{}`, m.Parked(a, id, "elicit"), host.Given("elicit", "x")))
			if text := m.Done(m.Do("tools/call", retries[len(retries)-1])); len(text) != each {
				t.Fatalf("answered %.100s", text)
			}
		}
		kept := 0
		for i, params := range retries {
			a, id := m.Do("tools/call", params)
			switch got := m.Done(a, id); {
			case len(got) == each:
				kept++
			case !strings.HasPrefix(got, "error -32010:"):
				t.Errorf("call %d: %.100s", i, got)
			case i >= calls-room:
				t.Errorf("call %d of %d is forgotten", i, calls)
			}
		}
		if most := 16 << 20 / each; kept < room || kept > most {
			t.Errorf("%d answers of %d bytes are kept, want %d to %d", kept, each, room, most)
		}
		if runs != calls {
			t.Errorf("%d runs of %d calls", runs, calls)
		}
	})
}
