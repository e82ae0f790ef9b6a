package host

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// NewParking is [New] with more tools that ask. It counts how often their handlers begin and end.
func NewParking(t *testing.T, o troupe.Options) (h *Host, begun, ended *atomic.Int64) {
	t.Helper()
	begun, ended = new(atomic.Int64), new(atomic.Int64)
	h = New(t, o, nil)
	add := func(name string, needs mcp.Capability, rerun troupe.Rerun, f func(ctx context.Context, call *troupe.Call) (string, error)) {
		troupe.AddTool(h.Server, troupe.Tool{Name: name, Needs: needs, Rerun: rerun},
			func(ctx context.Context, call *troupe.Call, _ map[string]any) (string, error) {
				begun.Add(1)
				defer ended.Add(1)
				return f(ctx, call)
			})
	}
	answer := func(a troupe.Answers, key string) string {
		r, err := a.Elicited(key)
		if err != nil {
			return err.Error()
		}
		var c struct{ Answer string }
		_ = json.Unmarshal(r.Content, &c)
		return c.Answer
	}
	one := func(ctx context.Context, call *troupe.Call) (string, error) {
		a, err := call.Ask(ctx, troupe.Elicit("name", "Who?", Form))
		if err != nil {
			return "", err
		}
		return "hello " + answer(a, "name"), Sleep(ctx, 500)
	}
	add("safe", mcp.CapClientElicitationForm, troupe.Safe, one)
	add("never", mcp.CapClientElicitationForm, troupe.Never, one)
	add("undeclared", 0, troupe.Never, one)
	add("twice", mcp.CapClientElicitationForm, troupe.Safe, func(ctx context.Context, call *troupe.Call) (string, error) {
		first, err := call.Elicit(ctx, "First?", Form)
		if err != nil {
			return "", err
		}
		second, err := call.Elicit(ctx, "Second?", Form)
		if err != nil {
			return "", err
		}
		return string(first.Content) + string(second.Content), nil
	})
	add("three", mcp.CapClientElicitationForm|mcp.CapClientRoots, troupe.Safe, func(ctx context.Context, call *troupe.Call) (string, error) {
		a, err := call.Ask(ctx, troupe.Elicit("a", "A?", Form), troupe.Elicit("b", "B?", Form), troupe.Roots("roots"))
		if err != nil {
			return "", err
		}
		roots, err := a.Roots("roots")
		return fmt.Sprintf("%s %s %d", answer(a, "a"), answer(a, "b"), len(roots)), err
	})
	return h, begun, ended
}
