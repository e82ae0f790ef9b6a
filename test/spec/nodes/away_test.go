package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTheStoreFailsInAHandler: what a handler asks of the store fails, and it returns that error, wrapped, or says it in its own words. Its client gets
// the error of a request that may come again, and no text has the name of a subject, a key or a package.
func TestTheStoreFailsInAHandler(t *testing.T) {
	for name, tt := range map[string]struct {
		stream string // that is gone; without one the client has no session
		do     func(ctx context.Context, call *troupe.Call) error
	}{
		"a value is stored":      {"sessions", func(ctx context.Context, call *troupe.Call) error { return call.Session().Set(ctx, "k", 1) }},
		"what another call said": {"", func(context.Context, *troupe.Call) error { return fmt.Errorf("another: %w", troupe.ErrUnavailable) }},
	} {
		t.Run(name, func(t *testing.T) {
			nodes(t, 1, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
				h := all[0]
				h.AddTool("wrap", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
					err := tt.do(ctx, call)
					if err == nil || !errors.Is(err, troupe.ErrUnavailable) {
						t.Errorf("it fails with %v", err)
					}
					return "done", fmt.Errorf("while it worked: %w", err)
				})
				troupe.AddTool(h.Server, troupe.Tool{Name: "again", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
					return "", tt.do(ctx, call)
				})
				h.AddTool("tell", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
					return fmt.Sprint("it failed: ", tt.do(ctx, call)), nil
				})
				m := h.Stateless(`{"elicitation":{"form":{}}}`)
				sessions := map[string]*kit.Client{"wrap": h.Session(), "again": h.Session(), "tell": h.Session()}
				if tt.stream != "" {
					v.DeleteStreams(t, tt.stream)
					time.Sleep(5 * time.Second)
					synctest.Wait()
				}
				call := func(tool string) *kit.Answer {
					if tt.stream != "" {
						return sessions[tool].Post(host.Call("1", tool, `{}`))
					}
					a, _ := m.Tool(tool, `{}`)
					return a
				}
				// A proxy may send to another node what got 503, so that only a call that may run again gets that.
				for tool, want := range map[string]int{"wrap": 200, "again": map[string]int{"sessions": 200, "": 503}[tt.stream]} {
					a := call(tool)
					if a.StatusCode != want || !strings.Contains(a.Body, `"code":-32603`) || !strings.Contains(a.Body, `"retryAfterMs":1000`) || strings.Contains(a.Body, "isError") {
						t.Errorf("the error that %s returned: %s %s, want %d and an error that may come again", tool, a.Status, a.Body, want)
					}
				}
				host.Contains(t, "the handler's own words", call("tell").Body, `store unavailable: try again shortly`)
			})
		})
	}
}
