package transports_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestLargeBatchOverACrash has calls of a batch that run again get their responses
// while others of the batch still begin.
func TestLargeBatchOverACrash(t *testing.T) {
	when.Long(t, "a body of megabytes")
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		addAgain := func(h *host.Host) {
			troupe.AddTool(h.Server, troupe.Tool{Name: "again", Rerun: troupe.Safe}, func(ctx context.Context, c *troupe.Call, _ struct{}) (string, error) {
				if c.Attempt() > 1 {
					return "again", c.Progress(ctx, 1, 1, "")
				}
				return "", host.Sleep(ctx, 3600000)
			})
		}
		h := host.New(t, troupe.Options{Dir: dir}, nil)
		addAgain(h)
		c := h.BatchingSession()
		all := []string{host.CallWith("0", "count", `{"to":1}`, "0")}
		want := map[string]bool{}
		for i := 1; i < 100; i++ {
			all = append(all, host.CallWith(fmt.Sprint(i), "again", `{}`, fmt.Sprint(i)))
			want[host.TextResult(fmt.Sprint(i), "again")] = true
		}
		a := c.Post(host.Batch(all...))
		first, _ := a.Next()
		a.Next()
		a.Close()
		h2, m := host.Crashed(t, dir, troupe.Options{}, c)
		addAgain(h2)
		for _, p := range host.Payloads(m.Get(first.ID).All()) {
			delete(want, p)
		}
		if len(want) > 0 {
			t.Errorf("%d of the calls were not answered", len(want))
		}
	})
}
