package recovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestAnswerBeforeTheRerunAsks has the client answer as soon as it has its stream again
// after a crash, long before the handler that runs again asks the question.
func TestAnswerBeforeTheRerunAsks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		addAsklate := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "asklate", Description: "Thinks when it runs again, and asks.", Rerun: troupe.Safe},
				func(ctx context.Context, call *troupe.Call, in host.AskIn) (string, error) {
					if call.Attempt() > 1 {
						if err := host.Sleep(ctx, 5000); err != nil {
							return "", err
						}
					}
					r, err := call.Elicit(ctx, in.Question, host.Form)
					return string(r.Content), err
				})
		}
		dir := t.TempDir()
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		addAsklate(h)
		c := h.Session()
		asked := c.Post(host.Call("1", "asklate", `{"question":"who?"}`))
		asked.Next()
		question, _ := asked.Next()

		after := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir)}, nil)
		addAsklate(after)
		m := after.Moved(c)
		rest := m.Get(question.ID)
		if a := m.Post(host.AnswerTo(question.Data, `{"action":"accept","content":{"answer":"me"}}`)); a.StatusCode != 202 {
			t.Fatalf("answer: %s", a.Status)
		}
		begin := time.Now()
		if diff := cmp.Diff([]string{host.TextResult("1", `{\"answer\":\"me\"}`)}, host.Payloads(rest.All())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("answered after %v", d)
		}
		asked.Close()
		h.Runtime.Close(context.Background())
	})
}
