package troupe_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/testkit"
)

// Calls of a batch that run again may be answered while others of it are still being
// begun.
func TestLargeBatchOverACrash(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		addAgain := func(h *host) {
			troupe.AddTool(h.srv, troupe.Tool{Name: "again", Rerun: troupe.Safe}, func(ctx context.Context, c *troupe.Call, _ struct{}) (string, error) {
				if c.Attempt() > 1 {
					return "again", c.Progress(ctx, 1, 1, "")
				}
				return "", sleep(ctx, 3600000)
			})
		}
		h := newHost(t, troupe.Options{Dir: dir}, nil)
		addAgain(h)
		c := h.batching()
		all := []string{callWith("0", "count", `{"to":1}`, "0")}
		want := map[string]bool{}
		for i := 1; i < 100; i++ {
			all = append(all, callWith(fmt.Sprint(i), "again", `{}`, fmt.Sprint(i)))
			want[textResult(fmt.Sprint(i), "again")] = true
		}
		a := c.Post(batch(all...))
		first, _ := a.Next()
		a.Next()
		a.Close()
		h2, m := crashed(t, dir, troupe.Options{}, c)
		addAgain(h2)
		for _, p := range payloads(m.Get(first.ID).All()) {
			delete(want, p)
		}
		if len(want) > 0 {
			t.Errorf("%d of the calls were not answered", len(want))
		}
	})
}
