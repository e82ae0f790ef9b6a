package task_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestOpenTasksAreLimited refuses tasks of a principal that has as many open as it may have, in both forms: the error says when to come
// back, and a cancelled task makes room.
func TestOpenTasksAreLimited(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User, Shared: troupe.SharedLimits{OpenTasksPerPrincipal: 2, OpenTasksPerNode: 3}}, nil)
		const long, of1, ofNode = `{"ms":600000}`, "too many tasks of this client have not ended: cancel some, or wait", "too many tasks of this node have not ended"
		ann, bob := host.As(h.Unchecked(), "ann").Initialize(`{}`), host.As(h.Unchecked(), "bob").Initialize(`{}`)
		later := client{&host.Stateless{T: t, Client: host.As(h.Unchecked(), "ann"), Capabilities: withTasks}}
		first := begin(t, ann, "work", long)
		later.begin("work", long)
		full := func(what, response string, code int, message string) {
			t.Helper()
			refused(t, what, response, code)
			host.Equal(t, what, str(t, response, "error", "message"), message)
			host.Equal(t, what+": when to come back", at(t, response, "error", "data"), `{"retryAfterMs":1000}`)
		}
		full("a third task of 2025-11-25", body(t, ann.Post(augmented("work", long, `{}`))), -32600, of1)
		full("a third task of the extension", later.call("must", long), -32600, of1)
		host.Equal(t, "a call that is no task", ann.Post(host.Call("3", "work", `{"text":"x"}`)).Body, host.TextResult("3", "x"))
		begin(t, bob, "work", long)
		full("a fourth task of the node", body(t, bob.Post(augmented("work", long, `{}`))), -32603, ofNode)
		if n, of := h.Gauge("troupe.tasks.open", ""), h.Gauge("troupe.tasks.open.most", ""); n != 3 || of != 2 {
			t.Errorf("%d are open, %d of one; want 3 and 2", n, of)
		}
		if a, b := h.Gauge("troupe.refusals", "principal-tasks"), h.Gauge("troupe.refusals", "node-tasks"); a != 2 || b != 1 {
			t.Errorf("%d and %d refusals are counted, want 2 and 1", a, b)
		}
		ann.Post(of("cancel", first))
		begin(t, ann, "work", long)
	})
}

// TestAFullShareOfTasks: one principal fills its share of what tasks may store with arguments of 4 MiB. Its next task is refused; the
// tasks that it has go on, and so do another's, which begin, run and end.
func TestAFullShareOfTasks(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	when.Long(t, "it fills the store of tasks")
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User, Store: troupe.StoreOptions{MaxStore: 1 << 30}}, nil)
		add(h, troupe.Tool{Name: "eat", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			return words(fmt.Sprint(len(in.Text))), host.Sleep(ctx, in.MS)
		})
		greedy := client{&host.Stateless{T: t, Client: host.As(h.Unchecked(), "greedy"), Capabilities: withTasks}}
		other := client{&host.Stateless{T: t, Client: host.As(h.Unchecked(), "other"), Capabilities: withTasks}}
		large := `{"ms":60000,"text":"` + strings.Repeat("x", 4<<20-4<<10) + `"}`
		var mine []string
		response := ""
		for range 100 {
			if response = greedy.call("eat", large); at(t, response, "error") != "" {
				break
			}
			mine = append(mine, str(t, response, "result", "taskId"))
			time.Sleep(time.Second)
		}
		refused(t, "one task too many", response, -32600)
		host.Equal(t, "one task too many", str(t, response, "error", "message"), "too much is stored for this client, and the store has little room")
		if len(mine) < 4 || len(mine) > 16 {
			t.Errorf("%d tasks of 4 MiB were taken", len(mine))
		}
		began := time.Now()
		for range 20 {
			id := other.begin("work", `{"ms":10,"text":"y"}`)
			polled(t, "completed", func() string { return other.of("get", id) })
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("20 tasks of another took %v", took)
		}
		synctest.Wait()
		for _, id := range mine {
			polled(t, "completed", func() string { return greedy.of("get", id) })
		}
	})
}

// TestStepsCountForTheShare: what a principal's tasks store counts for its share of the store. Beyond that its steps wait to be stored, its
// new tasks are refused, and another's tasks go on.
func TestStepsCountForTheShare(t *testing.T) {
	when.Unraced(t, "one goroutine does all of it")
	when.Long(t, "it fills the store of tasks")
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User, Store: troupe.StoreOptions{MaxStore: 1 << 30}}, nil)
		var stored atomic.Int64
		large := strings.Repeat("x", 1<<20)
		add(h, troupe.Tool{Name: "grow", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			for i := range 100 {
				if _, err := troupe.Step(ctx, call, fmt.Sprint(i), func(context.Context) (string, error) { return large, nil }); err != nil {
					return nil, err
				}
				stored.Add(1)
			}
			return words("all"), nil
		})
		greedy := client{&host.Stateless{T: t, Client: host.As(h.Unchecked(), "greedy"), Capabilities: withTasks}}
		other := client{&host.Stateless{T: t, Client: host.As(h.Unchecked(), "other"), Capabilities: withTasks}}
		id := greedy.begin("grow", `{}`)
		time.Sleep(time.Minute)
		if n := stored.Load(); n < 16 || n > 32 {
			t.Errorf("%d steps of 1 MiB are stored", n)
		}
		host.Equal(t, "the task that waits", str(t, greedy.of("get", id), "result", "status"), "working")
		refused(t, "one task more", greedy.call("grow", `{"text":"`+large+`"}`), -32600)
		for range 5 {
			small := other.begin("work", `{"ms":10,"text":"y"}`)
			polled(t, "completed", func() string { return other.of("get", small) })
		}
		greedy.of("cancel", id)
		polled(t, "cancelled", func() string { return greedy.of("get", id) })
	})
}
