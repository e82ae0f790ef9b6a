package recovery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestLargeCallsOverACrash loses a process with calls of more than 256 KiB: those of a tool or method that says Safe run
// again, those of a tool that is only annotated do not.
func TestLargeCallsOverACrash(t *testing.T) {
	when.Long(t, "bodies of megabytes")
	type in struct {
		Pad string `json:"pad"`
	}
	add := func(h *host.Host) {
		work := func(ctx context.Context, call *troupe.Call) (string, error) {
			if call.Attempt() > 1 {
				return "again", nil
			}
			return "", host.Sleep(ctx, 60_000)
		}
		for _, tool := range []troupe.Tool{{Name: "safe", Rerun: troupe.Safe}, {Name: "annotated", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}} {
			troupe.AddTool(h.Server, tool, func(ctx context.Context, call *troupe.Call, _ in) (string, error) { return work(ctx, call) })
		}
		troupe.AddMethod(h.Server, troupe.Method{Name: "acme/safe", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ json.RawMessage) (map[string]string, error) {
			text, err := work(ctx, call)
			return map[string]string{"text": text}, err
		})
	}
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		add(h)
		c := h.Unchecked().Initialize(`{}`) // the schema has no method of a program's own
		type open struct{ name, cursor, want string }
		var calls []open
		for _, size := range []int{1000, limits.RerunBody.Value()} {
			pad := `{"pad":"` + strings.Repeat("x", size) + `"}`
			for name, body := range map[string]string{"safe": host.Call("1", "safe", pad), "annotated": host.Call("1", "annotated", pad), "acme/safe": host.Method("1", "acme/safe", pad)} {
				a := c.Post(strings.Replace(body, `"id":1`, fmt.Sprintf(`"id":"%s %d"`, name, size), 1))
				t.Cleanup(a.Close)
				first, _ := a.Next()
				want := "again"
				if name == "annotated" && size > 1000 {
					want = "-32010"
				}
				calls = append(calls, open{fmt.Sprintf("%s, %d bytes", name, size), first.ID, want})
			}
		}
		after := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir)}, nil)
		add(after)
		m := after.Moved(c)
		for _, call := range calls {
			host.Contains(t, call.name, host.Last(t, m.Get(call.cursor)), call.want)
		}
	})
}
