package nodes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// status is that of a task.
func status(t *testing.T, c *kit.Client, id string) string {
	t.Helper()
	var r struct{ Result struct{ Status string } }
	a := c.Post(host.Method("9", "tasks/get", `{"taskId":"`+id+`"}`))
	if err := json.Unmarshal([]byte(a.Body), &r); err != nil {
		t.Fatalf("%s: %v", a.Body, err)
	}
	return r.Result.Status
}

// waits adds a tool whose tasks take 3 seconds, and returns how often it has run.
func waits(s *troupe.Server) *atomic.Int32 {
	var runs atomic.Int32
	troupe.AddTool(s, troupe.Tool{Name: "climb", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, _ *troupe.Call, _ struct {
		N int `json:"n"`
	}) (*mcp.CallToolResult, error) {
		runs.Add(1)
		return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("done")}}, host.Sleep(ctx, 3000)
	})
	return &runs
}

// refusedTask fails the test unless a task is refused for now.
func refusedTask(t *testing.T, c *kit.Client) {
	t.Helper()
	a := c.Post(host.Method("1", "tools/call", `{"name":"climb","arguments":{"n":1},"task":{}}`))
	if a.StatusCode != 503 && !strings.Contains(a.Body, "retryAfterMs") {
		t.Errorf("a task that nothing would run: %d %s", a.StatusCode, a.Body)
	}
}

// TestTasksOutliveTheStreamOfWork: somebody removes the stream of work while a task runs and others are queued. The one that runs goes on, and where its process ends, another process runs
// all within ten minutes, each once: only what that process gave back runs again.
func TestTasksOutliveTheStreamOfWork(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		o := host.Unhurried
		o.Store.NATS.URL, o.Shared.TasksPerNode = v.Line("a").URL(), 1
		o.Store.Node = "a"
		a := host.New(t, o, nil)
		runs := waits(a.Server)
		time.Sleep(time.Second)
		c := a.Unchecked().Initialize(host.EveryCapability)
		var ids []string
		for range 4 {
			ids = append(ids, begun(t, c, "1"))
		}
		time.Sleep(time.Second)
		v.DeleteStreams(t, "work")
		time.Sleep(30 * time.Second) // it is made again, empty
		host.Equal(t, "the task that ran", status(t, c, ids[0]), "completed")
		for range 4 {
			ids = append(ids, begun(t, c, "1"))
		}
		time.Sleep(time.Second) // one of them runs
		v.DeleteStreams(t, "work")
		if err := a.Runtime.Close(t.Context()); err != nil {
			t.Error(err)
		}
		o.Store.Node = "b"
		b := host.New(t, o, nil)
		more := waits(b.Server)
		c = by(b, c)
		time.Sleep(11 * time.Minute)
		for i, id := range ids {
			host.Equal(t, fmt.Sprintf("task %d", i), status(t, c, id), "completed")
		}
		if n := runs.Load() + more.Load(); int(n) != len(ids)+1 {
			t.Errorf("%d tasks ran %d times, want once more than that", len(ids), n)
		}
	})
}

// TestNoTaskWhereNothingRunsIt: the account allows no consumer for the work of a server. Its tasks are refused with 503, and /readyz says why; those of the server that has one run. Once the account
// allows it, tasks are taken.
func TestNoTaskWhereNothingRunsIt(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		v.AllowConsumers(t, 1, -1)
		o := host.Unhurried
		o.Store.NATS.URL, o.Store.Node = v.Line("a").URL(), "a"
		h := host.New(t, o, nil)
		waits(h.Server)
		time.Sleep(time.Second)
		other := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, &troupe.ServerOptions{ID: "other"})
		waits(other)
		if err := h.Runtime.Ready(); err != nil {
			t.Errorf("before the second server: %v", err)
		}
		h.Runtime.Mount("/other", other)
		time.Sleep(time.Second)
		if err := h.Runtime.Ready(); err == nil || !strings.Contains(err.Error(), "other") || !strings.Contains(err.Error(), "consumers") {
			t.Errorf("without a consumer for the second server: %v", err)
		}
		first := h.Unchecked().Initialize(host.EveryCapability)
		at := h.Unchecked()
		at.URL = strings.Replace(at.URL, "/mcp", "/other", 1)
		second := at.Initialize(host.EveryCapability)
		refusedTask(t, second)
		id := begun(t, first, "1")
		time.Sleep(5 * time.Second)
		host.Equal(t, "a task of the first server", status(t, first, id), "completed")
		v.AllowConsumers(t, -1, -1)
		time.Sleep(5 * time.Second)
		if err := h.Runtime.Ready(); err != nil {
			t.Errorf("with a consumer: %v", err)
		}
		id = begun(t, second, "1")
		time.Sleep(5 * time.Second)
		host.Equal(t, "a task of the second server", status(t, second, id), "completed")
	})
}

// TestTasksRunWithinTheLimitsOfTheAccount: servers, or an account, that allow 10,000 messages at a time have tasks run like any.
func TestTasksRunWithinTheLimitsOfTheAccount(t *testing.T) {
	for _, limits := range []string{"servers", "account"} {
		kit.BubbleNATS(t, func(o *kit.NATSOptions) {
			if limits == "servers" {
				o.JetStreamLimits.MaxAckPending = 10_000
			}
		}, func(t *testing.T, v *kit.VirtualNATS) {
			if limits == "account" {
				v.AllowConsumers(t, -1, 10_000)
			}
			o := host.Unhurried
			o.Store.NATS.URL, o.Store.Node = v.Line("a").URL(), "a"
			h := host.New(t, o, nil)
			waits(h.Server)
			time.Sleep(time.Second)
			c := h.Unchecked().Initialize(host.EveryCapability)
			id := begun(t, c, "1")
			time.Sleep(5 * time.Second)
			host.Equal(t, "a task within the limits of the "+limits, status(t, c, id), "completed")
			if err := h.Runtime.Ready(); err != nil {
				t.Errorf("within the limits of the %s: %v", limits, err)
			}
		})
	}
}

// TestConsumersComeAndGoWithTheirServers: a server has a consumer of work from when it has a tool with tasks, wherever it was added, or from when there is work for it; and none any more once all processes have
// unmounted it. One that is removed while servers use it comes again.
func TestConsumersComeAndGoWithTheirServers(t *testing.T) {
	nodes(t, 2, nil, func(t *testing.T, v *kit.VirtualNATS, all ...*host.Host) {
		has := func(what string, want ...string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			got := v.Consumers(t, "troupe_work")
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%s: the consumers are %v, want %v", what, got, want)
			}
		}
		mount := func(h *host.Host) *troupe.Server {
			s := troupe.NewServer(mcp.Implementation{Name: "t", Version: "1"}, &troupe.ServerOptions{ID: "late"})
			h.Runtime.Mount("/late", s)
			return s
		}
		a, b := mount(all[0]), mount(all[1])
		has("servers without tasks")
		waits(a)
		waits(b)
		has("with a tool whose calls may be tasks", "late")
		all[0].Runtime.Unmount("/late")
		has("mounted elsewhere", "late")
		at := all[1].Unchecked()
		at.URL = strings.Replace(at.URL, "/mcp", "/late", 1)
		c := at.Initialize(host.EveryCapability)
		id := begun(t, c, "1")
		time.Sleep(5 * time.Second)
		host.Equal(t, "a task where the server is still mounted", status(t, c, id), "completed")
		all[1].Runtime.Unmount("/late")
		has("unmounted everywhere")
	})
}
