package task_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestManyThatWaitStallNobody has two thousand tasks wait for their clients at a server with sixteen places: calls and new tasks
// take no longer than before, each answered one completes, and what the others held is free once they have.
func TestManyThatWaitStallNobody(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	waiting := host.Sized(2000, 300)
	kit.Bubble(t, func(t *testing.T) {
		o := host.Unhurried
		o.Shared.TasksPerNode = 16
		h := asking(t, o)
		add(h, troupe.Tool{Name: "hold", Task: troupe.TaskOptional, Needs: mcp.CapClientElicitationForm}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			r, err := call.Elicit(ctx, "Who?", host.Form)
			return words(in.Text + " " + string(r.Content)), err
		})
		old, now := session(h), stateless(h, withForms)
		// others are those who are not asked anything: how long a call takes them, and two tasks of either era.
		others := func() (d time.Duration) {
			t.Helper()
			began := time.Now()
			host.Equal(t, "a call", body(t, old.Post(host.Call("1", "echo", `{"text":"x"}`))), host.TextResult("1", "x"))
			if d := time.Since(began); d > 10*time.Millisecond {
				t.Errorf("a call took %v", d)
			}
			one, two := begin(t, old, "work", `{"text":"x"}`), now.begin("work", `{"text":"x"}`)
			for _, id := range []string{one, two} {
				for str(t, old.Post(of("get", id)).Body, "result", "status") != "completed" {
					time.Sleep(time.Millisecond)
				}
			}
			return time.Since(began)
		}
		others()
		time.Sleep(time.Second)
		before := h.Leftovers(0)
		ids := make([]string, waiting)
		for i := range ids {
			args := fmt.Sprintf(`{"text":"%d"}`, i)
			if i%2 == 0 {
				ids[i] = begin(t, old, "hold", args)
			} else {
				ids[i] = now.begin("hold", args)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := h.Gauge("troupe.tasks.waiting", ""); n != int64(waiting) {
			t.Fatalf("%d tasks wait, want %d", n, waiting)
		}
		if n := h.Gauge("troupe.tasks.running", ""); n != 0 {
			t.Errorf("%d tasks run though all wait", n)
		}
		runtime.GC()
		during := h.Leftovers(before.Goroutines + waiting)
		if n := during.Goroutines - before.Goroutines; n > waiting+50 {
			t.Errorf("%d goroutines for %d that wait, want one each", n, waiting)
		}
		if each := (int64(during.Heap) - int64(before.Heap)) / int64(waiting); each > 48<<10 {
			t.Errorf("%d bytes for each that waits", each)
		}
		for range 20 {
			if d := others(); d > 100*time.Millisecond {
				t.Errorf("the tasks of others took %v", d)
			}
		}
		for i, id := range ids {
			host.Equal(t, "an answer", now.of("update", id, host.Given("elicit", fmt.Sprint("a", i))), now.acknowledged())
			if i%100 == 0 {
				if d := others(); d > time.Second {
					t.Errorf("the tasks of others took %v while answers come", d)
				}
			}
		}
		for i, id := range ids {
			host.Contains(t, "its result", now.await(id, "completed"), fmt.Sprintf(`"text":"%d {\"answer\":\"a%d\"}"`, i, i))
		}
		time.Sleep(time.Minute)
		after := h.Leftovers(before.Goroutines)
		if after.Goroutines > before.Goroutines {
			t.Errorf("%d goroutines are left, there were %d", after.Goroutines, before.Goroutines)
		}
		if left := int64(after.Heap) - int64(before.Heap); left > int64(waiting)*16<<10 { // what is stored of them is in memory here
			t.Errorf("%d bytes are left of %d", left, waiting)
		}
		if n, m := h.Gauge("troupe.tasks.waiting", ""), h.Stored("work"); n != 0 || m != 0 {
			t.Errorf("%d tasks wait, and %d have work", n, m)
		}
		t.Logf("%d bytes each while they wait, %d once they have ended", (int64(during.Heap)-int64(before.Heap))/int64(waiting), (int64(after.Heap)-int64(before.Heap))/int64(waiting))
	})
}
