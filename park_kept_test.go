package troupe_test

import (
	"context"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// TestAnswersKeptAreBounded has more answers to keep than there is room for: those of the
// newest calls are sent again to clients that lost them, and the oldest are forgotten
// before their time.
func TestAnswersKeptAreBounded(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		const (
			calls, each = 300, 60 << 10
			room        = 16 << 20 / (each + 1<<10) // at least so many are kept
		)
		h := newHost(t, troupe.Options{CallRate: 1e6, PrincipalRate: 1e6}, nil)
		runs := 0
		troupe.AddTool(h.srv, troupe.Tool{Name: "long", Needs: troupe.NeedsElicitation}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			runs++
			if _, err := call.Elicit(ctx, "?", form); err != nil {
				return "", err
			}
			return strings.Repeat("x", each), nil
		})
		m := h.modern(everyCapability)
		var retries []string
		for range calls {
			a, id := m.tool("long", `{}`)
			retries = append(retries, toolParams("long", `{}`, m.parked(a, id, "elicit"), given("elicit", "x")))
			if text := m.done(m.do("tools/call", retries[len(retries)-1])); len(text) != each {
				t.Fatalf("answered %.100s", text)
			}
		}
		kept := 0
		for i, params := range retries {
			a, id := m.do("tools/call", params)
			switch got := m.done(a, id); {
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
