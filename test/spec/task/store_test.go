package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// smallStore is a store whose tasks may have 4 MiB together.
var smallStore = troupe.Options{Authenticate: host.User, Store: troupe.StoreOptions{MaxStore: 64 << 20}}

// tooMuch is the error for a client that has its share of the store.
const tooMuch = "too much is stored for this client, and the store has little room"

// user is a stateless client of a user.
func user(h *host.Host, name string) client {
	return client{&host.Stateless{T: h.T, Client: host.As(h.Unchecked(), name), Capabilities: withTasks}}
}

// keeper adds the tool keep, which takes large arguments and waits until ms are over.
func keeper(h *host.Host, before func()) {
	add(h, troupe.Tool{Name: "keep", Task: troupe.TaskOptional, Rerun: troupe.Safe, BeforeTask: func(_ context.Context, _ *troupe.Call, args json.RawMessage) (json.RawMessage, error) {
		if before != nil {
			before()
		}
		return args, nil
	}}, func(ctx context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		return words("kept"), host.Sleep(ctx, in.MS)
	})
}

// TestTasksAtOnceLeaveRoom: 24 requests for tasks of 256 KiB are about to be stored at the same moment, more than the store has. No two of
// them take the same room: less than half of it is in use then, and another client has its task.
func TestTasksAtOnceLeaveRoom(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, smallStore, nil)
		const n = 24
		var ready sync.WaitGroup
		ready.Add(n)
		keeper(h, func() {
			ready.Done()
			ready.Wait()
		})
		args := `{"ms":3600000,"text":"` + strings.Repeat("x", 256<<10) + `"}`
		answers := make(chan string, n)
		for range n {
			go func() { answers <- user(h, "greedy").call("keep", args) }()
		}
		made := 0
		for range n {
			if response := <-answers; at(t, response, "error") == "" {
				made++
			} else {
				host.Equal(t, "a task too many", str(t, response, "error", "message"), tooMuch)
			}
		}
		if made < 4 || made > 7 {
			t.Errorf("%d of %d tasks were made, want the 7 that half of the store has room for, or some less", made, n)
		}
		time.Sleep(time.Minute)
		if used, of := h.Gauge("troupe.store.used", "tasks"), h.Gauge("troupe.store.budget", "tasks"); used > of/2 {
			t.Errorf("%d of %d bytes are in use", used, of)
		}
		user(h, "other").begin("work", `{"ms":1}`)
	})
}

// TestWhatEndsGivesRoom: a client that has filled its share of the store has new tasks once it has cancelled some, and 40 tasks
// of 256 KiB one after the other, each of which has ended before the next.
func TestWhatEndsGivesRoom(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, smallStore, nil)
		keeper(h, nil)
		pad := strings.Repeat("x", 256<<10)
		c := user(h, "ann")
		for round := range 3 {
			var open []string
			for {
				response := c.call("keep", `{"ms":3600000,"text":"`+pad+`"}`)
				if at(t, response, "error") != "" {
					host.Equal(t, "a task too many", str(t, response, "error", "message"), tooMuch)
					break
				}
				open = append(open, str(t, response, "result", "taskId"))
			}
			if len(open) < 5 {
				t.Fatalf("round %d: %d tasks fill the share", round, len(open))
			}
			for _, id := range open {
				c.of("cancel", id)
			}
			time.Sleep(time.Minute) // the node looks at the store's use from time to time
		}
		for i := range 40 {
			response := c.call("keep", fmt.Sprintf(`{"ms":1,"text":"%s"}`, pad))
			id := str(t, response, "result", "taskId")
			if id == "" {
				t.Fatalf("task %d: %s", i, response)
			}
			c.await(id, "completed")
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		if used := h.Gauge("troupe.store.used", "tasks"); used > 256<<10 {
			t.Errorf("%d bytes are in use of tasks that have ended", used)
		}
	})
}

// TestAShortTaskHidesNoLongOne: what a client has stored for an hour counts against its share for as long, although its first task was kept for
// a second.
func TestAShortTaskHidesNoLongOne(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const size = 40 << 10
		h := serve(t, smallStore, nil)
		keeper(h, nil)
		pad := strings.Repeat("x", size)
		c := host.As(h.Unchecked(), "ann").Initialize(host.EveryCapability)
		if made := body(t, c.Post(augmented("keep", `{"ms":1,"text":"x"}`, `{"ttl":1000}`))); str(t, made, "result", "task", "taskId") == "" {
			t.Fatalf("no task: %s", made)
		}
		for n := range 100 {
			made := body(t, c.Post(augmented("keep", `{"ms":3600000,"text":"`+pad+`"}`, `{"ttl":7200000}`)))
			if at(t, made, "error") != "" {
				if n < 30 || n > 2<<20/size {
					t.Errorf("%d tasks of 40 KiB fill the half of 4 MiB that one client may have", n)
				}
				host.Equal(t, "a task too many", str(t, made, "error", "message"), tooMuch)
				return
			}
			time.Sleep(10 * time.Second)
		}
		t.Error("100 tasks of 40 KiB have room")
	})
}

// TestStepsOfACancelledTaskGo: a task that is cancelled gives back what its steps have stored; the steps of one that has a result stay.
func TestStepsOfACancelledTaskGo(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, smallStore, nil)
		large := strings.Repeat("x", 1<<20)
		add(h, troupe.Tool{Name: "store", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			if _, err := troupe.Step(ctx, call, "one", func(context.Context) (string, error) { return large, nil }); err != nil {
				return nil, err
			}
			return words("stored"), host.Sleep(ctx, in.MS)
		})
		used := func() int64 {
			time.Sleep(time.Minute)
			return h.Gauge("troupe.store.used", "tasks")
		}
		c := user(h, "ann")
		id := c.begin("store", `{"ms":3600000}`)
		if n := used(); n < 1<<20 {
			t.Fatalf("%d bytes are in use", n)
		}
		c.of("cancel", id)
		if n := used(); n > 64<<10 {
			t.Errorf("%d bytes are in use after the task was cancelled", n)
		}
		c.await(c.begin("store", `{}`), "completed")
		if n := used(); n < 1<<20 {
			t.Errorf("%d bytes are in use: the step of a task that has its result is not there", n)
		}
	})
}

// TestAnswersAreCharged: answers of 200 KiB to tasks count for the share of their client. Beyond it they are refused, and may come again; small
// ones are taken.
func TestAnswersAreCharged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, smallStore, nil)
		add(h, troupe.Tool{Name: "ask", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
			form := mcp.FormSchema{Properties: []mcp.Property{{Name: "note", Schema: &mcp.StringSchema{}}}}
			if _, err := call.Ask(ctx, troupe.Elicit("one", "Say", form), troupe.Elicit("two", "Say", form)); err != nil {
				return nil, err
			}
			return words("answered"), nil
		})
		c := client{&host.Stateless{T: h.T, Client: host.As(h.Unchecked(), "ann"), Capabilities: withForms}}
		answer := func(id, key string, size int) string {
			return c.of("update", id, `"inputResponses":{"`+key+`":{"action":"accept","content":{"note":"`+strings.Repeat("x", size)+`"}}}`)
		}
		taken, last, refusal := 0, "", ""
		for range 40 {
			last = c.begin("ask", `{}`)
			c.await(last, "input_required")
			if refusal = answer(last, "one", 200<<10); at(t, refusal, "error") != "" {
				break
			}
			taken++
			time.Sleep(10 * time.Second)
		}
		host.Equal(t, "the refusal", str(t, refusal, "error", "message"), tooMuch)
		host.Equal(t, "when to come back", at(t, refusal, "error", "data"), `{"retryAfterMs":1000}`)
		if taken < 4 || taken > 16 {
			t.Errorf("%d answers of 200 KiB were taken of a store with 4 MiB", taken)
		}
		for _, key := range []string{"one", "two"} {
			if got := answer(last, key, 10); at(t, got, "error") != "" {
				t.Errorf("a small answer: %s", got)
			}
		}
		c.await(last, "completed")
	})
}

// TestLargeRequestsBecomeNoTasks: a request of more than 256 KiB is no task unless its tool says that it may be stored. Where the server decides,
// the client has the result.
func TestLargeRequestsBecomeNoTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		for name, rerun := range map[string]troupe.Rerun{"plain": troupe.RerunDefault, "stored": troupe.Safe} {
			for kind, support := range map[string]troupe.TaskSupport{"-may": troupe.TaskOptional, "-must": troupe.TaskRequired} {
				add(h, troupe.Tool{Name: name + kind, Task: support, Rerun: rerun}, func(_ context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
					return words(fmt.Sprint(len(in.Text))), nil
				})
			}
		}
		args := func(size int) string { return `{"text":"` + strings.Repeat("x", size) + `"}` }
		const large, most = 257 << 10, 255 << 10
		core, now := session(h), stateless(h, withTasks)
		for _, kind := range []string{"-may", "-must"} {
			now.await(now.begin("plain"+kind, args(most)), "completed")
			now.await(now.begin("stored"+kind, args(large)), "completed")
			await(t, core, begin(t, core, "plain"+kind, args(most)), "completed")
			await(t, core, begin(t, core, "stored"+kind, args(large)), "completed")
			refused(t, "2025-11-25 plain"+kind, body(t, core.Post(augmented("plain"+kind, args(large), `{}`))), -32602)
		}
		refused(t, "plain-must", now.call("plain-must", args(large)), -32602)
		host.Contains(t, "plain-may", now.call("plain-may", args(large)), fmt.Sprint(large))
	})
}

// TestWhatATaskKeepsOfMeta: the handler of a task has the progress token and the trace of its request, and small members of others; what says
// how the request is to be read is not stored.
func TestWhatATaskKeepsOfMeta(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		got := make(chan string, 1)
		add(h, troupe.Tool{Name: "meta", Task: troupe.TaskOptional}, func(_ context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
			got <- string(mcp.Raw(call.Meta()))
			return words("x"), nil
		})
		c := stateless(h, withTasks)
		const trace = `"progressToken":"p","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
		for _, tt := range []struct{ name, sent, want string }{
			{"little", trace + `,"example.com/hint":[1]`, `{"example.com/hint":[1],` + trace + `}`},
			{"much", trace + `,"example.com/hint":"` + strings.Repeat("x", 9<<10) + `"`, `{` + trace + `}`},
		} {
			request := c.Body(c.NextID(), "tools/call", host.ToolParams("meta", `{}`), tt.sent)
			made := body(t, c.Client.Post(request, c.Header("tools/call", request)...))
			if str(t, made, "result", "taskId") == "" {
				t.Fatalf("%s: no task: %s", tt.name, made)
			}
			same(t, tt.name, <-got, tt.want)
		}
	})
}
