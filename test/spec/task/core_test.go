package task_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTaskSupportOfTools calls tools with each support, with params.task and without.
func TestTaskSupportOfTools(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		for _, r := range []string{host.R20241105, host.R20250326, host.R20250618, host.R20251125} {
			c := h.Unchecked().InitializeAs(r, `{}`)
			_, tools, _ := host.ToolsOf(t, c)
			for tool, want := range map[string]string{"echo": "", "work": "optional", "must": "required"} {
				if r < host.R20251125 {
					want = ""
				}
				if want != "" {
					want = `{"taskSupport":"` + want + `"}`
				}
				host.Equal(t, tool+" in "+r, at(t, tools[tool], "execution"), want)
			}
			host.Equal(t, "optional, no task, "+r, c.Post(host.Call("1", "work", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
			if r < host.R20251125 {
				host.Equal(t, "required, no task, "+r, c.Post(host.Call("1", "must", `{"text":"x"}`)).Body, host.TextResult("1", "x"))
			} else {
				refused(t, "required, no task, "+r, c.Post(host.Call("1", "must", `{}`)).Body, host.NoMethod)
			}
			if r < host.R20251125 { // which does not know params.task
				host.Equal(t, "forbidden, "+r, c.Post(augmented("echo", `{"text":"x"}`, `{}`)).Body, host.TextResult("1", "x"))
				host.Equal(t, "optional, "+r, c.Post(augmented("work", `{"text":"x"}`, `{}`)).Body, host.TextResult("1", "x"))
				host.Equal(t, "required, "+r, c.Post(augmented("must", `{"text":"x"}`, `{}`)).Body, host.TextResult("1", "x"))
				for _, method := range []string{"get", "result", "cancel", "list"} {
					refused(t, method+", "+r, c.Post(of(method, strange)).Body, host.NoMethod)
				}
				continue
			}
			refused(t, "forbidden", c.Post(augmented("echo", `{"text":"x"}`, `{}`)).Body, host.NoMethod)
			refused(t, "unknown", c.Post(augmented("none", `{}`, `{}`)).Body, host.BadParam)
			refused(t, "task is no object", c.Post(augmented("work", `{}`, `1`)).Body, host.BadParam)
			bad := c.Post(augmented("work", `{"ms":"x"}`, `{}`)).Body
			if at(t, bad, "result", "task") != "" || at(t, bad, "result", "isError") != "true" {
				t.Errorf("arguments that do not fit: %s", bad)
			}
			refused(t, "tasks/update is of a later revision", c.Post(of("update", strange)).Body, host.NoMethod)
		}
	})
}

// TestACallBecomesATask follows a task from its creation to its result.
func TestACallBecomesATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		c := session(h)
		now := time.Now()
		for _, tool := range []string{"work", "must"} {
			made := c.Post(augmented(tool, `{"ms":3000,"text":"x"}`, `{"ttl":60000}`))
			if made.Stream() || time.Since(now) != 0 {
				t.Fatalf("%s: the answer did not come at once", tool)
			}
			legal(t, made.Body, "CreateTaskResult")
			id := str(t, made.Body, "result", "task", "taskId")
			stamp := now.UTC().Format("2006-01-02T15:04:05.000Z")
			want := `{"taskId":"` + id + `","status":"working","createdAt":"` + stamp + `","lastUpdatedAt":"` + stamp + `","ttl":60000,"pollInterval":1000}`
			same(t, tool, at(t, made.Body, "result", "task"), want)
			notice := ""
			if tool == "must" {
				notice = "It is being done."
			}
			host.Equal(t, tool+": what the model is told", str(t, made.Body, "result", "_meta", immediate), notice)

			a := c.Post(of("get", id))
			legal(t, a.Body, "GetTaskResult")
			same(t, "working", without(t, at(t, a.Body, "result"), "lastUpdatedAt"), without(t, want, "lastUpdatedAt"))
			ended := await(t, c, id, "completed")
			same(t, "completed", without(t, at(t, ended, "result"), "lastUpdatedAt"), strings.Replace(without(t, want, "lastUpdatedAt"), "working", "completed", 1))
			host.Equal(t, "updated", str(t, ended, "result", "lastUpdatedAt"), now.Add(3*time.Second).UTC().Format("2006-01-02T15:04:05.000Z"))
			host.Equal(t, "its result", c.Post(of("result", id)).Body,
				`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"x"}],"_meta":{"`+related+`":{"taskId":"`+id+`"}}}}`)
			host.Equal(t, "once more", str(t, c.Post(of("result", id)).Body, "result", "_meta", related, "taskId"), id)
			now = time.Now()
		}
	})
}

// TestResultsOfTasksAreThoseOfTheirCalls compares tasks/result with the answer to the plain call.
func TestResultsOfTasksAreThoseOfTheirCalls(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "huge", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			return words(strings.Repeat("☃", 100_000)), nil
		})
		add(h, troupe.Tool{Name: "panics", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			panic("on purpose")
		})
		c := session(h)
		for tool, status := range map[string]string{"work": "completed", "rich": "completed", "huge": "completed", "fault": "failed", "refuse": "failed", "panics": "failed"} {
			plain := body(t, c.Post(host.Call("2", tool, `{}`)))
			id := begin(t, c, tool, `{}`)
			ended := await(t, c, id, status)
			got := body(t, c.Post(of("result", id)))
			if at(t, plain, "error") != "" {
				host.Equal(t, tool+": the same error", got, plain)
				host.Equal(t, tool+": the message", str(t, ended, "result", "statusMessage"), str(t, plain, "error", "message"))
				continue
			}
			legal(t, got, "CallToolResult")
			same(t, tool, without(t, at(t, got, "result"), "_meta"), without(t, at(t, plain, "result"), "_meta"))
			same(t, tool+": the task", at(t, got, "result", "_meta", related), `{"taskId":"`+id+`"}`)
			host.Equal(t, tool+": its own _meta", at(t, got, "result", "_meta", "example.com/own"), at(t, plain, "result", "_meta", "example.com/own"))
		}
	})
}

// TestAFailedTaskSaysWhy looks for the text of a tool's error in the status.
func TestAFailedTaskSaysWhy(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		c := session(h)
		host.Contains(t, "why", str(t, await(t, c, begin(t, c, "fault", `{}`), "failed"), "result", "statusMessage"), "no luck")
	})
}

// TestTheResultIsWaitedFor calls tasks/result before the end, from two sessions. Leaving it, or giving it up, does not end the task.
func TestTheResultIsWaitedFor(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		one, two := session(h), session(h)
		now := time.Now()
		id := begin(t, one, "work", `{"ms":300000,"text":"x"}`)
		given := one.Post(host.Method("7", "tasks/result", `{"taskId":"`+id+`"}`))
		one.Post(host.Cancel("7"))
		if rest := host.Payloads(given.All()); len(rest) != 0 {
			t.Errorf("after it was given up: %v", rest)
		}
		left := one.Post(host.Method("8", "tasks/result", `{"taskId":"`+id+`"}`))
		left.Close()
		wait := host.Method("9", "tasks/result", `{"taskId":"`+id+`"}`)
		first, second := host.Reading(one.Post(wait)), host.Reading(two.Post(wait))
		time.Sleep(4 * time.Minute)
		host.Equal(t, "meanwhile", str(t, one.Post(of("get", id)).Body, "result", "status"), "working")
		want := `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"x"}],"_meta":{"` + related + `":{"taskId":"` + id + `"}}}}`
		if diff := cmp.Diff([]string{want}, first()); diff != "" {
			t.Errorf("the first (-want +got):\n%s", diff)
		}
		if d := time.Since(now); d != 5*time.Minute {
			t.Errorf("answered after %v, want 5m", d)
		}
		if diff := cmp.Diff([]string{want}, second()); diff != "" {
			t.Errorf("the second (-want +got):\n%s", diff)
		}
	})
}

// TestACancelledTaskStaysSo cancels a task whose handler does not care, and goes on to return a result.
func TestACancelledTaskStaysSo(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		causes := make(chan error, 1)
		add(h, troupe.Tool{Name: "stubborn", Task: troupe.TaskOptional}, func(ctx context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			time.Sleep(time.Minute)
			causes <- context.Cause(ctx)
			return words("done"), nil
		})
		c := session(h)
		id := begin(t, c, "stubborn", `{}`)
		time.Sleep(time.Second)
		waiting := c.PostLater(host.Method("9", "tasks/result", `{"taskId":"`+id+`"}`))
		synctest.Wait()
		now := time.Now()
		a := c.Post(of("cancel", id))
		if d := time.Since(now); d != 0 {
			t.Errorf("cancelled after %v", d)
		}
		legal(t, a.Body, "CancelTaskResult")
		host.Equal(t, "cancel", str(t, a.Body, "result", "status"), "cancelled")
		host.Equal(t, "the same task", str(t, a.Body, "result", "taskId"), id)
		host.Equal(t, "no _meta", at(t, a.Body, "result", "_meta"), "")
		if r := body(t, <-waiting); at(t, r, "error") == "" || time.Since(now) > 5*time.Second {
			t.Errorf("tasks/result of a cancelled task after %v: %s", time.Since(now), r)
		}
		if cause := <-causes; cause != troupe.ErrCancelled {
			t.Errorf("the handler's context: %v", cause)
		}
		time.Sleep(time.Minute)
		host.Equal(t, "afterwards", str(t, c.Post(of("get", id)).Body, "result", "status"), "cancelled")
		refused(t, "cancelled twice", c.Post(of("cancel", id)).Body, host.BadParam)
		for tool, status := range map[string]string{"work": "completed", "fault": "failed"} {
			id := begin(t, c, tool, `{}`)
			await(t, c, id, status)
			refused(t, "cancel of one that is "+status, c.Post(of("cancel", id)).Body, host.BadParam)
			host.Equal(t, "unchanged", str(t, c.Post(of("get", id)).Body, "result", "status"), status)
		}
	})
}

// TestIdsThatNameNoTask sends ids that nobody has, that another has, and that are none. Another's is answered as nobody's.
func TestIdsThatNameNoTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User}, nil)
		ann, bob := host.As(h.Unchecked(), "ann").Initialize(`{}`), host.As(h.Unchecked(), "bob").Initialize(`{}`)
		nobody := h.Unchecked().Initialize(`{}`)
		id, other := begin(t, ann, "work", `{"ms":60000}`), begin(t, ann, "work", `{}`)
		await(t, ann, other, "completed")
		for _, method := range []string{"get", "result", "cancel"} {
			for _, c := range []*kit.Client{bob, nobody} {
				unknown := c.Post(of(method, strange))
				refused(t, method+" of nobody's", unknown.Body, host.BadParam)
				for _, theirs := range []string{id, other} {
					foreign := c.Post(of(method, theirs))
					host.Equal(t, method+" of another's", foreign.Body, unknown.Body)
					host.Equal(t, "its status", foreign.Status, unknown.Status)
				}
			}
			for _, bad := range []string{`{"taskId":""}`, `{"taskId":"x"}`, `{"taskId":"` + strings.ToUpper(id) + `"}`, `{"taskId":"` + id + `a"}`, `{"taskId":"*"}`, `{"taskId":">"}`,
				`{"taskId":"aaaaaaaaaaaaa.aaaaaaaaaaaa"}`, `{"taskId":"` + strings.Repeat("a", 10_000) + `"}`, `{"taskId":"../` + id + `"}`, `{"taskId":"☃"}`,
				`{"taskId":1}`, `{"taskId":null}`, `{"taskId":["` + id + `"]}`, `{}`, ""} {
				refused(t, method+" "+bad, ann.Post(host.Method("2", "tasks/"+method, bad)).Body, host.BadParam)
			}
		}
		// The parameter names the task, whatever _meta says.
		a := ann.Post(host.Method("2", "tasks/get", `{"taskId":"`+id+`","_meta":{"`+related+`":{"taskId":"`+other+`"}}}`)).Body
		host.Equal(t, "the task of the parameter", str(t, a, "result", "taskId"), id)
		host.Equal(t, "which nobody has cancelled", str(t, a, "result", "status"), "working")
	})
}

// TestHowLongATaskIsKept asks for each kind of ttl.
func TestHowLongATaskIsKept(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Store: troupe.StoreOptions{TaskMax: 48 * time.Hour}}, nil)
		for name, ttl := range map[string]time.Duration{"hour": time.Hour, "week": 7 * 24 * time.Hour} {
			add(h, troupe.Tool{Name: name, Task: troupe.TaskOptional, TaskTTL: ttl}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
				return words("x"), nil
			})
		}
		c := session(h)
		for _, row := range []struct{ tool, task, want string }{
			{"work", `{}`, "86400000"},
			{"hour", `{}`, "3600000"},
			{"week", `{}`, "172800000"},
			{"hour", `{"ttl":60000}`, "60000"},
			{"work", `{"ttl":60000.0}`, "60000"},
			{"work", `{"ttl":6e4}`, "60000"},
			{"work", `{"ttl":null}`, "172800000"},
			{"hour", `{"ttl":null}`, "172800000"},
			{"work", `{"ttl":172800001}`, "172800000"},
			{"work", `{"ttl":9223372036854775808}`, "172800000"},
			{"work", `{"ttl":1e300}`, "172800000"},
			{"work", `{"ttl":-1}`, ""},
			{"work", `{"ttl":-1e300}`, ""},
			{"work", `{"ttl":0.5}`, ""},
			{"work", `{"ttl":60000.5}`, ""},
			{"work", `{"ttl":"60000"}`, ""},
			{"work", `{"ttl":true}`, ""},
			{"work", `{"ttl":{}}`, ""},
			{"work", `{"ttl":[]}`, ""},
		} {
			a := c.Post(augmented(row.tool, `{}`, row.task)).Body
			if row.want == "" {
				refused(t, row.task, a, host.BadParam)
				continue
			}
			host.Equal(t, row.tool+" "+row.task, at(t, a, "result", "task", "ttl"), row.want)
			host.Equal(t, "tasks/get of it", at(t, c.Post(of("get", str(t, a, "result", "task", "taskId"))).Body, "result", "ttl"), row.want)
		}
	})
}

// TestATaskExpires lets the time of a task pass while its handler runs, and while a client waits for it.
func TestATaskExpires(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		expired := make(chan error, 1)
		add(h, troupe.Tool{Name: "hour", Task: troupe.TaskOptional}, func(ctx context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			err := host.Sleep(ctx, in.MS)
			expired <- err
			return words("x"), err
		})
		c := session(h)
		made := c.Post(augmented("hour", `{"ms":600000}`, `{"ttl":60000}`)).Body
		id := str(t, made, "result", "task", "taskId")
		time.Sleep(59 * time.Second)
		host.Equal(t, "just before", str(t, c.Post(of("get", id)).Body, "result", "status"), "working")
		if h.Stored("tasks") == 0 || h.Stored("work") == 0 {
			t.Error("a task that nothing is stored of")
		}
		waiting := c.PostLater(host.Method("9", "tasks/result", `{"taskId":"`+id+`"}`))
		time.Sleep(2 * time.Second)
		for _, method := range []string{"get", "result", "cancel"} {
			unknown := c.Post(of(method, strange)).Body
			host.Equal(t, method+" of an expired one", c.Post(of(method, id)).Body, unknown)
			refused(t, method+" of an expired one", unknown, host.BadParam)
		}
		if err := <-expired; err != troupe.ErrTaskExpired {
			t.Errorf("the handler got %v, want ErrTaskExpired", err)
		}
		refused(t, "a tasks/result that waited", body(t, <-waiting), host.BadParam)
		time.Sleep(time.Minute)
		if n, m := h.Stored("tasks"), h.Stored("work"); n != 0 || m != 0 {
			t.Errorf("%d messages of tasks and %d of their work are left", n, m)
		}
	})
}

// TestTasksAreListedInPages lists what a principal has, two at a time.
func TestTasksAreListedInPages(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		so := &troupe.ServerOptions{Limits: troupe.Limits{PageSize: 2}}
		h := serve(t, troupe.Options{Authenticate: host.User}, so)
		ann, again := host.As(h.Unchecked(), "ann").Initialize(`{}`), host.As(h.Unchecked(), "ann").Initialize(`{}`)
		bob := host.As(h.Unchecked(), "bob").Initialize(`{}`)
		var want, got []string
		for i := range 5 {
			c := []*kit.Client{ann, again}[i%2]
			want = append(want, begin(t, c, "work", fmt.Sprintf(`{"ms":%d}`, i%2*600_000)))
		}
		foreign := begin(t, bob, "work", `{}`)
		time.Sleep(time.Second)
		var sizes []int
		params, cursor := "", ""
		for {
			a := ann.Post(host.Method("2", "tasks/list", params))
			legal(t, a.Body, "ListTasksResult")
			page, _ := parsed(t, at(t, a.Body, "result", "tasks")).([]any)
			sizes = append(sizes, len(page))
			for _, x := range page {
				id, _ := x.(map[string]any)["taskId"].(string)
				same(t, "as in tasks/get", encoded(t, x), at(t, ann.Post(of("get", id)).Body, "result"))
				got = append(got, id)
			}
			if at(t, a.Body, "result", "nextCursor") == "" || len(sizes) > 5 {
				break
			}
			cursor = host.Cursor(t, a)
			params = `{"cursor":"` + cursor + `"}`
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2, 2, 1}, sizes); diff != "" {
			t.Errorf("pages (-want +got):\n%s", diff)
		}
		theirs := bob.Post(host.Method("2", "tasks/list", "")).Body
		host.Contains(t, "the other's", theirs, foreign)
		if strings.Count(theirs, "taskId") != 1 || at(t, theirs, "result", "nextCursor") != "" {
			t.Errorf("another's list: %s", theirs)
		}
		host.Equal(t, "nothing", h.Unchecked().Initialize(`{}`).Post(host.Method("2", "tasks/list", "")).Body, `{"jsonrpc":"2.0","id":2,"result":{"tasks":[]}}`)
		refused(t, "another's cursor", bob.Post(host.Method("2", "tasks/list", `{"cursor":"`+cursor+`"}`)).Body, host.BadParam)
		tools := host.Cursor(t, ann.Post(host.Method("2", "tools/list", "")))
		for _, bad := range []string{`"x"`, `"` + cursor + `x"`, `"` + tools + `"`, `1`} {
			refused(t, "cursor "+bad, ann.Post(host.Method("2", "tasks/list", `{"cursor":`+bad+`}`)).Body, host.BadParam)
		}
		refused(t, "where nobody is known", session(serve(t, troupe.Options{}, nil)).Post(host.Method("2", "tasks/list", "")).Body, host.NoMethod)
	})
}

// TestATaskOutlivesItsSession deletes the session of a task that runs.
func TestATaskOutlivesItsSession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User}, nil)
		ann := func() *kit.Client { return host.As(h.Unchecked(), "ann").Initialize(`{}`) }
		first := ann()
		id := begin(t, first, "work", `{"ms":60000,"text":"x"}`)
		time.Sleep(time.Second)
		if a := first.Do("DELETE", ""); a.StatusCode != 200 {
			t.Fatalf("DELETE: %s", a.Status)
		}
		if a := first.Post(of("get", id)); a.StatusCode != 404 {
			t.Errorf("in the deleted session: %s %s", a.Status, a.Body)
		}
		second := ann()
		host.Equal(t, "status", str(t, second.Post(of("get", id)).Body, "result", "status"), "working")
		host.Contains(t, "result", body(t, second.Post(of("result", id))), `"text":"x"`)
	})
}
