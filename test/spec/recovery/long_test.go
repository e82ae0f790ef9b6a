package recovery_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestRerunSendsNothingThatTheLogForgot has the log forget its oldest events, by number
// and by age. A call that runs again must not send them again.
func TestRerunSendsNothingThatTheLogForgot(t *testing.T) {
	when.Long(t, "long logs")
	for name, tt := range map[string]struct{ n, delayMS, before int }{
		"more than it holds":    {1500, 1, 1200},
		"longer than it lasts":  {8, 60 * 1000, 5},
		"nothing of it is left": {4, 6 * 60 * 1000, 2},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				addChatter := func(h *host.Host) {
					troupe.AddTool(h.Server, troupe.Tool{Name: "chatter", Description: "Logs.", Rerun: troupe.Safe},
						func(ctx context.Context, call *troupe.Call, in host.CountIn) (string, error) {
							for i := 1; i <= in.To; i++ {
								if err := call.Progress(ctx, float64(i), 0, ""); err != nil {
									return "", err
								}
								if err := call.Log(ctx, mcp.LevelInfo, "", i); err != nil {
									return "", err
								}
								if err := host.Sleep(ctx, in.DelayMS); err != nil {
									return "", err
								}
							}
							return "done", nil
						})
				}
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir, Store: troupe.StoreOptions{ReplayAge: 2 * time.Minute}}, nil)
				addChatter(h)
				c := h.Session()
				chat := c.Post(host.CallWith("1", "chatter", fmt.Sprintf(`{"to":%d,"delay_ms":%d}`, tt.n, tt.delayMS), "1"))
				var got []string
				last := ""
				message := func(i int) string {
					return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i)
				}
				for logged := 0; logged < tt.before; {
					e, ok := chat.Next()
					if !ok {
						t.Fatal("the stream ended")
					}
					if last = e.ID; e.Data == message(logged+1) {
						logged++
						got = append(got, e.Data)
					}
				}
				if err := host.Sleep(t.Context(), tt.delayMS*9/10); err != nil {
					t.Fatal(err)
				}
				after := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir), Store: troupe.StoreOptions{ReplayAge: 2 * time.Minute}}, nil)
				addChatter(after)
				for _, e := range after.Moved(c).Get(last).All() {
					if len(e.Data) > 0 && e.Data[17:50] != `"method":"notifications/progress"` {
						got = append(got, e.Data)
					}
				}
				var want []string
				for i := 1; i <= tt.n; i++ {
					want = append(want, message(i))
				}
				want = append(want, host.TextResult("1", "done"))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				chat.Close()
				h.Runtime.Close(context.Background())
			})
		})
	}
}
