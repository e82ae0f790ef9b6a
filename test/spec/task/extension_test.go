package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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

// missing is the data of an error for a client without the extension.
const missing = `{"requiredCapabilities":{"extensions":{` + extension + `}}}`

// lacking fails the test unless a response says that the client must declare the extension.
func lacking(t *testing.T, what, response string) {
	t.Helper()
	refused(t, what, response, -32021)
	host.Equal(t, what, at(t, response, "error", "data"), missing)
}

// acknowledged is the response of tasks/update and tasks/cancel to the newest request.
func (c client) acknowledged() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}}`, c.N, host.Complete)
}

// TestAServerMakesTasksForThoseWhoCanHandleThem calls tools with each support with the extension and without.
func TestAServerMakesTasksForThoseWhoCanHandleThem(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		with, plain := stateless(h, withTasks), stateless(h, `{}`)
		host.Equal(t, "forbidden", with.call("echo", `{"text":"x"}`), host.StatelessText("1", "x"))
		host.Equal(t, "optional, without the extension", plain.call("work", `{"text":"x"}`), host.StatelessText("1", "x"))
		host.Equal(t, "params.task means nothing", plain.call("work", `{"text":"x"}`, `"task":{"ttl":1}`), host.StatelessText("2", "x"))
		host.Equal(t, "nor for a forbidden one", with.call("echo", `{"text":"x"}`, `"task":{}`), host.StatelessText("2", "x"))
		lacking(t, "required, without the extension", plain.call("must", `{}`))
		lacking(t, "other extensions", stateless(h, `{"extensions":{"example.com/tasks":{}}}`).call("must", `{}`))
		lacking(t, "tasks of 2025-11-25", stateless(h, `{"tasks":{"list":{},"cancel":{}}}`).call("must", `{}`))
		listed := plain.do("tools/list", `{}`)
		if strings.Contains(listed, "taskSupport") || strings.Contains(listed, `"execution"`) {
			t.Errorf("the list has what only 2025-11-25 knows: %s", listed)
		}

		for _, tool := range []string{"work", "must"} {
			now := time.Now()
			made := with.call(tool, `{"ms":3000,"text":"x"}`, `"task":{"ttl":60000}`)
			if d := time.Since(now); d != 0 {
				t.Errorf("%s: a task after %v", tool, d)
			}
			id, stamp := str(t, made, "result", "taskId"), now.UTC().Format("2006-01-02T15:04:05.000Z")
			if len(id) < 20 {
				t.Errorf("the id %q can be guessed", id)
			}
			want := `{"taskId":"` + id + `","status":"working","createdAt":"` + stamp + `","lastUpdatedAt":"` + stamp + `","ttlMs":86400000,"pollIntervalMs":1000`
			same(t, tool, at(t, made, "result"), want+`,"resultType":"task",`+host.StatelessMeta+`}`)

			got := at(t, with.of("get", id), "result")
			same(t, "working", without(t, got, "lastUpdatedAt"), without(t, want+`,"resultType":"complete",`+host.StatelessMeta+`}`, "lastUpdatedAt"))
			got = at(t, with.await(id, "completed"), "result")
			same(t, "its result", without(t, at(t, got, "result"), "_meta"), `{"resultType":"complete","content":[{"type":"text","text":"x"}]}`)
			same(t, "completed", without(t, got, "lastUpdatedAt", "result"), without(t, strings.Replace(want, "working", "completed", 1)+`,"resultType":"complete",`+host.StatelessMeta+`}`, "lastUpdatedAt"))
		}
	})
}

// TestMethodsOfTasksNeedTheExtension sends them without the capability, which counts before the task is looked up, and sends those
// that the extension does not have.
func TestMethodsOfTasksNeedTheExtension(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User}, nil)
		with, plain := stateless(h, withTasks).as("ann"), stateless(h, `{}`).as("ann")
		id := with.begin("work", `{"ms":60000}`)
		for _, method := range []string{"get", "update", "cancel"} {
			for _, of := range []string{id, strange, "x"} {
				lacking(t, method+" of "+of, plain.of(method, of))
			}
		}
		for _, method := range []string{"result", "list", "none"} {
			refused(t, method, with.of(method, id), host.NoMethod)
			refused(t, method, plain.of(method, id), host.NoMethod)
		}
		host.Equal(t, "the task runs", str(t, with.of("get", id), "result", "status"), "working")

		bob := stateless(h, withTasks).as("bob")
		for _, method := range []string{"get", "update", "cancel"} {
			bob.N = 100
			unknown := bob.of(method, strange, `"inputResponses":{}`)
			refused(t, method+" of nobody's", unknown, host.BadParam)
			bob.N = 100
			host.Equal(t, method+" of another's", bob.of(method, id, `"inputResponses":{}`), unknown)
			for _, bad := range []string{"x", strings.ToUpper(id), id + "a", "*", strings.Repeat("a", 4000)} {
				refused(t, method+" of "+bad, with.of(method, bad, `"inputResponses":{}`), host.BadParam)
			}
			// The header names the task, for those who route requests.
			for _, name := range []string{strange, ""} {
				request := with.Body(with.NextID(), "tasks/"+method, `{"taskId":"`+id+`","inputResponses":{}}`, "")
				a := with.Client.Post(request, append(with.Header("tasks/"+method, request), "Mcp-Name", name)...)
				if refused(t, "another name in the header", a.Body, -32020); a.StatusCode != http.StatusBadRequest {
					t.Errorf("%s with Mcp-Name %q: %s", method, name, a.Status)
				}
			}
		}
		host.Equal(t, "the task still runs", str(t, with.of("get", id), "result", "status"), "working")
	})
}

// TestHowTasksEnd looks at what belongs to each end.
func TestHowTasksEnd(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "panics", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			panic("on purpose")
		})
		c, plain := stateless(h, withTasks), stateless(h, `{}`)
		for tool, status := range map[string]string{"rich": "completed", "fault": "completed", "refuse": "failed", "panics": "failed"} {
			called := plain.call(tool, `{}`)
			got := at(t, c.await(c.begin(tool, `{}`), status), "result")
			host.Equal(t, tool+": result type", str(t, got, "resultType"), "complete")
			host.Equal(t, tool+": its error", at(t, got, "error"), at(t, called, "error"))
			host.Equal(t, tool+": no questions", at(t, got, "inputRequests")+at(t, got, "requestState"), "")
			if status == "failed" {
				host.Equal(t, tool+": no result", at(t, got, "result"), "")
				host.Equal(t, tool+": why", str(t, got, "statusMessage"), str(t, called, "error", "message"))
				continue
			}
			same(t, tool, without(t, at(t, got, "result"), "_meta"), without(t, at(t, called, "result"), "_meta"))
		}
	})
}

// TestACancelIsAcknowledged cancels tasks that run, that have ended, and that were cancelled before.
func TestACancelIsAcknowledged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		causes := make(chan error, 1)
		add(h, troupe.Tool{Name: "stubborn", Task: troupe.TaskOptional}, func(ctx context.Context, _ *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return words("done"), nil
		})
		c := stateless(h, withTasks)
		id := c.begin("stubborn", `{}`)
		time.Sleep(time.Second)
		for range 2 {
			host.Equal(t, "cancel", c.of("cancel", id), c.acknowledged())
		}
		if cause := <-causes; cause != troupe.ErrCancelled {
			t.Errorf("the handler's context: %v", cause)
		}
		synctest.Wait()
		got := at(t, c.of("get", id), "result")
		host.Equal(t, "status", str(t, got, "status"), "cancelled")
		host.Equal(t, "neither result nor error", at(t, got, "result")+at(t, got, "error"), "")
		for tool, status := range map[string]string{"work": "completed", "refuse": "failed"} {
			id := c.begin(tool, `{}`)
			c.await(id, status)
			host.Equal(t, "cancel of one that is "+status, c.of("cancel", id), c.acknowledged())
			host.Equal(t, "unchanged", str(t, c.of("get", id), "result", "status"), status)
		}
	})
}

// TestTaskAfter waits for a task before its client gets it.
func TestTaskAfter(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		var ran atomic.Int32
		add(h, troupe.Tool{Name: "soon", Task: troupe.TaskRequired, TaskAfter: 5 * time.Second}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			ran.Add(1)
			if in.Text == "refuse" {
				return nil, mcp.NewError(-31999, "out of paper")
			}
			return words(in.Text), host.Sleep(ctx, in.MS)
		})
		c := stateless(h, withTasks)
		now := time.Now()
		host.Equal(t, "in time", c.call("soon", `{"ms":4000,"text":"x"}`), host.StatelessText("1", "x"))
		if d := time.Since(now); d != 4*time.Second {
			t.Errorf("answered after %v, want 4s", d)
		}
		refused(t, "an error in time", c.call("soon", `{"text":"refuse"}`), -31999)
		now = time.Now()
		made := c.call("soon", `{"ms":6000,"text":"y"}`)
		if d := time.Since(now); d != 5*time.Second {
			t.Errorf("a task after %v, want 5s", d)
		}
		host.Equal(t, "too late", str(t, made, "result", "resultType"), "task")
		host.Contains(t, "its result", c.await(str(t, made, "result", "taskId"), "completed"), `"text":"y"`)
		if n := ran.Load(); n != 3 {
			t.Errorf("the handler ran %d times for 3 calls", n)
		}
	})
}

// TestTaskAfterIsNotForThoseWhoAskedForATask calls the same tool in 2025-11-25, where a call that is accepted as a task is answered with
// the task.
func TestTaskAfterIsNotForThoseWhoAskedForATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "soon", Task: troupe.TaskOptional, TaskAfter: 5 * time.Second}, func(ctx context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			return words(in.Text), host.Sleep(ctx, in.MS)
		})
		made := body(t, session(h).Post(augmented("soon", `{"ms":1000}`, `{}`)))
		if str(t, made, "result", "task", "taskId") == "" {
			t.Errorf("want a task, got %s", made)
		}
	})
}

// TestWhatEachEraIsToldOfTasks looks at the capabilities of servers with tasks and without.
func TestWhatEachEraIsToldOfTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		const tools = `"requests":{"tools":{"call":{}}}`
		for _, row := range []struct {
			what        string
			tasks, auth bool
			want        string
		}{
			{"tasks", true, false, `{"cancel":{},` + tools + `}`},
			{"tasks of known users", true, true, `{"list":{},"cancel":{},` + tools + `}`},
			{"no tasks", false, true, ""},
		} {
			var o troupe.Options
			if row.auth {
				o.Authenticate = host.User
			}
			start := host.New
			if row.tasks {
				start = serve
			}
			h := start(t, o, nil)
			if !row.tasks { // those of the other tests have safe tools, whose long calls become tasks
				h.Runtime.Mount("/none", troupe.NewServer(mcp.Implementation{Name: "none", Version: "1"}, nil))
				h.URL = strings.TrimSuffix(h.URL, "/mcp") + "/none"
			}
			for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
				said := h.Unchecked().Post(host.Initialize("1", `{"protocolVersion":"`+r+`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)).Body
				got, want := at(t, said, "result", "capabilities", "tasks"), row.want
				if r < host.R20251125 {
					want = ""
				}
				if got != want && (got == "" || want == "") {
					t.Errorf("%s in %s: %s, want %s", row.what, r, said, want)
				} else if want != "" {
					same(t, row.what+" in "+r, got, want)
				}
				host.Equal(t, row.what+": no extension in "+r, at(t, said, "result", "capabilities", "extensions"), "")
			}
			said, want := stateless(h, `{}`).do("server/discover", `{}`), ""
			if row.tasks {
				want = "{" + extension + "}"
			}
			host.Equal(t, row.what+": extensions", at(t, said, "result", "capabilities", "extensions"), want)
			host.Equal(t, row.what+": no core tasks", at(t, said, "result", "capabilities", "tasks"), "")
			if !row.tasks {
				refused(t, row.what, h.Unchecked().Initialize(`{}`).Post(of("get", strange)).Body, host.NoMethod)
				refused(t, row.what, stateless(h, withTasks).of("get", strange), host.NoMethod)
			}
		}
	})
}

// TestATaskIsReadInBothEras makes a task of each era and reads it in the other one. Each reader gets what it would have got
// for the call itself.
func TestATaskIsReadInBothEras(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User}, nil)
		add(h, troupe.Tool{Name: "list", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("[1]")}, StructuredContent: json.RawMessage(`[1]`)}, nil // no object, which 2025-11-25 does not know
		})
		old, plain := host.As(h.Unchecked(), "ann").Initialize(`{}`), stateless(h, `{}`).as("ann")
		now := stateless(h, withTasks).as("ann")
		for _, tool := range []string{"rich", "list", "fault"} {
			ended := []string{"completed", "completed"}
			if tool == "fault" {
				ended[0] = "failed"
			}
			for _, id := range []string{begin(t, old, tool, `{}`), now.begin(tool, `{}`)} {
				got := at(t, now.await(id, ended[1]), "result", "result")
				want := at(t, plain.call(tool, `{}`), "result")
				host.Equal(t, "result type", str(t, got, "resultType"), "complete")
				same(t, tool+" in 2026-07-28", without(t, got, "_meta"), without(t, want, "_meta"))
				host.Equal(t, "own _meta", at(t, got, "_meta", "example.com/own"), at(t, want, "_meta", "example.com/own"))

				host.Equal(t, "status", str(t, old.Post(of("get", id)).Body, "result", "status"), ended[0])
				answer := body(t, old.Post(of("result", id)))
				legal(t, answer, "CallToolResult")
				got, want = at(t, answer, "result"), at(t, body(t, old.Post(host.Call("2", tool, `{}`))), "result")
				same(t, tool+" in 2025-11-25", without(t, got, "_meta"), without(t, want, "_meta"))
				host.Equal(t, "own _meta", at(t, got, "_meta", "example.com/own"), at(t, want, "_meta", "example.com/own"))
				host.Equal(t, "related task", str(t, got, "_meta", related, "taskId"), id)
			}
		}
		for _, id := range []string{begin(t, old, "work", `{"ms":600000}`), now.begin("work", `{"ms":600000}`)} {
			refused(t, "another's", stateless(h, withTasks).as("bob").of("get", id), host.BadParam)
			host.Equal(t, "cancelled", str(t, old.Post(of("cancel", id)).Body, "result", "status"), "cancelled")
			now.await(id, "cancelled")
		}
	})
}
