package transports_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestLargeMessages has a handler send messages of over half of what may wait for a connection, and return. The client reads
// once all has been sent, as no client reads a megabyte between two calls of a handler. One to which more is sent than that
// is cut off.
func TestLargeMessages(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", host.R20260728} {
		for _, row := range []struct {
			n, bytes int
			cut      int64
		}{{1, 1_100_000, 0}, {1, 5_000_000, 0}, {2, 600_000, 0}, {3, 1_100_000, 0}, {40, 600_000, 1}} {
			t.Run(fmt.Sprintf("%s, %d of %d", revision, row.n, row.bytes), func(t *testing.T) {
				kit.Bubble(t, func(t *testing.T) {
					h := host.New(t, troupe.Options{}, nil)
					begun, sent := make(chan bool), make(chan bool)
					h.AddTool("big", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
						defer close(sent)
						if err := call.Log(ctx, mcp.LevelError, "", "x"); err != nil { // with which the response begins
							return "", err
						}
						<-begun
						for range row.n {
							if err := call.Log(ctx, mcp.LevelError, "", strings.Repeat("y", row.bytes)); err != nil {
								return "", err
							}
						}
						return "done", nil
					})
					var a *kit.Answer
					if m := h.Stateless(`{}`); revision == host.R20260728 {
						body := m.Body("1", "tools/call", host.ToolParams("big", `{}`), `"io.modelcontextprotocol/logLevel":"error"`)
						a = m.Client.Post(body, m.Header("tools/call", body)...)
					} else {
						a = h.Unchecked().InitializeAs(revision, `{}`).Post(host.Call("1", "big", `{}`))
					}
					close(begun) // a response that is cut off before that has no head
					<-sent
					synctest.Wait()
					events := a.All()
					done := len(events) > 0 && strings.Contains(events[len(events)-1].Data, `"done"`)
					if cut := h.Gauge("troupe.stream.cut", "queue-full"); cut != row.cut || done != (row.cut == 0) || a.Broke == done {
						t.Errorf("%d events, done %t, broke %t, cut %d, want %d", len(events), done, a.Broke, cut, row.cut)
					}
				})
			})
		}
	}
}
