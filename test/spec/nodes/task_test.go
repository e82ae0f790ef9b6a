package nodes_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// runs are the runs of a tool on all nodes.
type runs struct {
	mu    sync.Mutex // guards the rest
	nodes []*host.Host
	over  []error // why their contexts ended
}

// climb is a tool that makes progress each second, n times, as a task that any node may run.
func climb(all []*host.Host) *runs {
	r := &runs{}
	type in struct {
		N int `json:"n"`
	}
	for _, h := range all {
		troupe.AddTool(h.Server, troupe.Tool{Name: "climb", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, in in) (string, error) {
			r.mu.Lock()
			r.nodes = append(r.nodes, h)
			r.mu.Unlock()
			for i := range in.N {
				if err := host.Sleep(ctx, 1000); err != nil {
					r.mu.Lock()
					r.over = append(r.over, context.Cause(ctx))
					r.mu.Unlock()
					return "", err
				}
				if err := call.Progress(ctx, float64(i+1), float64(in.N), ""); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	}
	return r
}

// newest is the node of the newest run, once there are n runs.
func (r *runs) newest(n int) *host.Host {
	for {
		r.mu.Lock()
		if len(r.nodes) >= n {
			h := r.nodes[n-1]
			r.mu.Unlock()
			return h
		}
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

func (r *runs) ended() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.over)
}

// others returns the nodes but one.
func others(all []*host.Host, one *host.Host) (rest []*host.Host) {
	for _, h := range all {
		if h != one {
			rest = append(rest, h)
		}
	}
	return rest
}

// taskID is the task that a response tells of.
func taskID(t *testing.T, body string) string {
	t.Helper()
	var r struct {
		Result struct {
			TaskID string
			Task   struct{ TaskID string }
		}
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil || r.Result.TaskID+r.Result.Task.TaskID == "" {
		t.Fatalf("no task: %s", body)
	}
	return r.Result.TaskID + r.Result.Task.TaskID
}

// begun makes a task in a session of 2025-11-25.
func begun(t *testing.T, c *kit.Client, n string) string {
	t.Helper()
	return taskID(t, c.Post(host.Method("1", "tools/call", `{"name":"climb","arguments":{"n":`+n+`},"task":{},"_meta":{"progressToken":"p"}}`)).Body)
}

// TestTasksElsewhere follows a task at nodes that do not run it: whoever waits for it, or listens, hears of it at once, and a cancel
// reaches its handler at once.
func TestTasksElsewhere(t *testing.T) {
	nodes(t, 3, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		r := climb(all)
		const soon = 100 * time.Millisecond
		for round := 1; round <= 6; round += 2 {
			c := all[0].Unchecked().Initialize(host.EveryCapability) // the schema that answers are checked against lacks tasks
			id := begun(t, c, "5")
			runs := r.newest(round)
			rest := others(all, runs)
			stream := host.Listen(by(rest[0], c).Get(""))
			follow, _ := (&host.Stateless{T: t, Client: rest[1].Unchecked(), Capabilities: `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`}).Listen("7", `{"taskIds":["`+id+`"]}`)
			followed := host.Listen(follow)
			began := time.Now()
			result := by(rest[1], c).PostLater(host.Method("2", "tasks/result", `{"taskId":"`+id+`"}`))
			a := <-result
			var last string
			for e, ok := a.Next(); ok; e, ok = a.Next() {
				last = e.Data
			}
			took := time.Since(began)
			time.Sleep(soon)
			synctest.Wait()
			if !strings.Contains(last, "done") || took > 5*time.Second+soon {
				t.Errorf("the result came after %v: %s", took, last)
			}
			for what, l := range map[string]*host.Listening{"the session": stream, "the listener": followed} {
				got, _ := l.Now()
				if n := count(got, `"completed"`); n != 1 {
					t.Errorf("%s was told %d times that the task is completed: %q", what, n, got)
				}
			}
			if got, _ := stream.Now(); count(got, "notifications/progress") < 3 {
				t.Errorf("the session was told of little progress: %q", got)
			}
			second := begun(t, c, "60")
			runs = r.newest(round + 1)
			time.Sleep(time.Second / 2)
			before := r.ended()
			by(others(all, runs)[0], c).Post(host.Method("3", "tasks/cancel", `{"taskId":"`+second+`"}`))
			time.Sleep(soon)
			synctest.Wait()
			if n := r.ended() - before; n != 1 {
				t.Errorf("%v after the cancel %d handlers have ended", soon, n)
			}
			stream.Close()
			follow.Close()
		}
	})
}
