package troupe_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// After a crash the client may answer as soon as it has its stream again, long
// before the handler that runs again has got to where it asks.
func TestAnswerBeforeTheRerunAsks(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		addAsklate := func(h *host) {
			troupe.AddTool(h.srv, troupe.Tool{Name: "asklate", Description: "Thinks when it runs again, and asks.", Rerun: troupe.Safe},
				func(ctx context.Context, call *troupe.Call, in askIn) (string, error) {
					if call.Attempt() > 1 {
						if err := sleep(ctx, 5000); err != nil {
							return "", err
						}
					}
					r, err := call.Elicit(ctx, in.Question, form)
					return string(r.Content), err
				})
		}
		dir := t.TempDir()
		h := newHost(t, troupe.Options{Dir: dir}, nil)
		addAsklate(h)
		c := h.session()
		asked := c.Post(call("1", "asklate", `{"question":"who?"}`))
		asked.Next()
		question, _ := asked.Next()

		after := newHost(t, troupe.Options{Dir: copyDir(t, dir)}, nil)
		addAsklate(after)
		m := after.moved(c)
		rest := m.Get(question.ID)
		if a := m.Post(answerTo(question.Data, `{"action":"accept","content":{"answer":"me"}}`)); a.StatusCode != 202 {
			t.Fatalf("answer: %s", a.Status)
		}
		begin := time.Now()
		if diff := cmp.Diff([]string{textResult("1", `{\"answer\":\"me\"}`)}, payloads(rest.All())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("answered after %v", d)
		}
		asked.Close()
		h.rt.Close(context.Background())
	})
}
