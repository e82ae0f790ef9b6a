package nodes_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// naps is a safe tool that no client asks to become a task. It counts its runs at a node, which take a minute.
func naps(h *host.Host) (runs *atomic.Int32) {
	runs = new(atomic.Int32)
	troupe.AddTool(h.Server, troupe.Tool{Name: "nap", Rerun: troupe.Safe}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
		runs.Add(1)
		if err := host.Sleep(ctx, 60_000); err != nil {
			return "", context.Cause(ctx)
		}
		return "slept", nil
	})
	return runs
}

// TestALongCallOfALostNode: where no tool makes tasks as its clients ask, nobody takes work. From the first call on that becomes a task by itself the others do, and run at
// once what a lost node ran.
func TestALongCallOfALostNode(t *testing.T) {
	for what, wordLost := range map[string]bool{"the others are told": false, "the word is lost": true} {
		t.Run(what, func(t *testing.T) {
			nodes(t, 2, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
				here, there := naps(all[0]), naps(all[1])
				if got := v.Consumers(t, "troupe_work"); len(got) > 0 {
					t.Errorf("consumers of work without tasks: %v", got)
				}
				at := func(h *host.Host) *host.Stateless {
					return &host.Stateless{T: t, Client: h.Unchecked(), Capabilities: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
				}
				if wordLost {
					v.Line("b").Lose(func() bool { return true })
					time.AfterFunc(11*time.Second, func() { v.Line("b").Lose(nil) })
				}
				_, response := at(all[0]).Send("tools/call", host.ToolParams("nap", `{}`), "")
				id := taskID(t, response)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if here.Load() != 1 || there.Load() != 0 {
					t.Errorf("it has run %d and %d times", here.Load(), there.Load())
				}
				v.Line("a").Cut()
				time.Sleep(15 * time.Second)
				synctest.Wait()
				if n := there.Load(); n != 1 {
					t.Errorf("15 s after its node was lost, the other one has run it %d times", n)
				}
				time.Sleep(time.Minute)
				c := at(all[1])
				get := c.Body("2", "tasks/get", `{"taskId":"`+id+`"}`, "")
				host.Contains(t, "the task", c.Client.Post(get, append(c.Header("tasks/get", get), "Mcp-Name", id)...).Body, `"text":"slept"`)
				v.Line("a").Heal()
				time.Sleep(5 * time.Second)
			})
		})
	}
}
