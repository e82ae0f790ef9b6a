package task_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestATaskBeginsAsWorking makes tasks that end or ask at once: what their creator is told is "working".
func TestATaskBeginsAsWorking(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		old, now := session(h), stateless(h, withForms)
		for _, tool := range []string{"work", "fault", "refuse", "rich", "quiz", "two"} {
			host.Equal(t, tool, str(t, body(t, old.Post(augmented(tool, `{}`, `{}`))), "result", "task", "status"), "working")
			host.Equal(t, tool, str(t, now.call(tool, `{}`), "result", "status"), "working")
		}
	})
}

// TestIdsOfTasksAreTheServers: they are strings that are made here, whatever a client asks for, and no two tasks share one.
func TestIdsOfTasksAreTheServers(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, host.Unhurried, nil)
		old, now := session(h), stateless(h, withTasks)
		seen := make(map[string]bool)
		const own = `"taskId":"` + strange + `","id":"` + strange + `"`
		for range 100 {
			for _, id := range []string{
				str(t, body(t, old.Post(augmented("work", `{}`, `{`+own+`}`))), "result", "task", "taskId"),
				now.begin("work", `{}`, `"task":{`+own+`}`, own),
			} {
				if len(id) != 26 || seen[id] || id == strange {
					t.Fatalf("the id %q is short, another's or the client's", id)
				}
				seen[id] = true
			}
		}
	})
}

// TestStatusesGoOnlyWhereTheyMay polls tasks all the time, and for hours after their end.
func TestStatusesGoOnlyWhereTheyMay(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, host.Unhurried)
		old, now := session(h), stateless(h, withForms)
		open := map[string][]string{
			begin(t, old, "work", `{"ms":2000}`):    {"working", "completed"},
			begin(t, old, "fault", `{"ms":2000}`):   {"working", "failed"},
			begin(t, old, "refuse", `{}`):           {"working", "failed"},
			begin(t, old, "work", `{"ms":900000}`):  {"working", "cancelled"},
			begin(t, old, "quiz", `{"ms":2000}`):    {"working", "input_required", "working", "completed"},
			begin(t, old, "quiz", `{"ms":2001}`):    {"working", "input_required", "cancelled"},
			now.begin("quiz", `{"ms":2000}`):        {"working", "input_required", "working", "completed"},
			now.begin("quiz", `{"ms":3600000}`):     {"working", "input_required"},
			now.begin("work", `{"ms":5}`):           {"working", "completed"},
			now.begin("two", `{}`, `"task":"none"`): {"working", "input_required", "completed"},
		}
		got, step := make(map[string][]string), 100*time.Millisecond
		for i := range 115 {
			if i == 100 {
				step = 10 * time.Minute
			}
			for id, want := range open {
				status := str(t, old.Post(of("get", id)).Body, "result", "status")
				if before := got[id]; len(before) == 0 || before[len(before)-1] != status {
					got[id] = append(before, status)
				}
				last := want[len(want)-1]
				switch {
				case last == "cancelled" && len(got[id]) == len(want)-1 && i > 30:
					old.Post(of("cancel", id))
				case status == "input_required" && last == "completed":
					now.of("update", id, host.Given("elicit", "Ann", "name", "Ann", "age", "9"))
				}
				for range 2 { // whatever happens to it, what has ended stays
					if i > 105 && last != "input_required" {
						old.Post(of("cancel", id))
						now.of("update", id, host.Given("elicit", "Bob"))
					}
				}
			}
			time.Sleep(step)
		}
		for id, want := range open {
			if want[0] != got[id][0] { // a short one may have ended before it was looked at
				want = want[1:]
			}
			if diff := cmp.Diff(want, got[id]); diff != "" && !(len(want) == 2 && len(got[id]) == 1 && got[id][0] == want[1]) {
				t.Errorf("statuses (-want +got):\n%s", diff)
			}
		}
	})
}

// TestEveryAnswerAboutATaskIsDated compares what the answers about a task have in common: its times and how long it is kept.
func TestEveryAnswerAboutATaskIsDated(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User}, nil)
		c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
		l := host.Listen(c.Get(""))
		began := time.Now()
		made := at(t, c.Post(augmented("work", `{"ms":60000}`, `{"ttl":600000}`)).Body, "result", "task")
		id := str(t, made, "taskId")
		dated := func(what, object string) {
			t.Helper()
			created, err1 := time.Parse(time.RFC3339, str(t, object, "createdAt"))
			updated, err2 := time.Parse(time.RFC3339, str(t, object, "lastUpdatedAt"))
			if err1 != nil || err2 != nil || created.UnixMilli() != began.UnixMilli() || updated.Before(created) || updated.After(time.Now()) {
				t.Errorf("%s: the times of %s", what, object)
			}
			host.Equal(t, what+": its lifetime", at(t, object, "ttl"), "600000")
			host.Equal(t, what+": names no task beside itself", at(t, object, "_meta"), "")
		}
		dated("created", made)
		time.Sleep(5 * time.Second)
		dated("get", at(t, c.Post(of("get", id)).Body, "result"))
		page := at(t, c.Post(host.Method("3", "tasks/list", "")).Body, "result")
		dated("list", strings.Trim(at(t, page, "tasks"), "[]"))
		host.Equal(t, "list: its _meta", at(t, page, "_meta"), "")
		dated("cancel", at(t, c.Post(of("cancel", id)).Body, "result"))
		dated("get, cancelled", at(t, c.Post(of("get", id)).Body, "result"))
		got, _ := l.Now()
		if len(got) == 0 {
			t.Error("the session was told nothing")
		}
		for _, m := range got {
			host.Equal(t, "told", str(t, m, "method"), "notifications/tasks/status")
			dated("told", at(t, m, "params"))
		}
	})
}

// TestMessagesOfATaskNameIt looks at each kind of question of a task, and at its progress.
func TestMessagesOfATaskNameIt(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		asks := map[string]troupe.Question{
			"elicitation/create":     troupe.Elicit("q", "Who?", host.Form),
			"sampling/createMessage": troupe.Sample("q", mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("x"))}}}),
			"roots/list":             troupe.Roots("q"),
		}
		replies := map[string]string{
			"elicitation/create": accept("Ann"), "sampling/createMessage": `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`, "roots/list": `{"roots":[]}`,
		}
		add(h, troupe.Tool{Name: "any", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			if err := call.Progress(ctx, 1, 2, "half"); err != nil {
				return nil, err
			}
			_, err := call.Ask(ctx, asks[in.Text])
			return words(in.Text), err
		})
		c := session(h)
		l := host.Listen(c.Get(""))
		for method, reply := range replies {
			request := host.Method("1", "tools/call", `{"name":"any","arguments":{"text":"`+method+`"},"task":{},"_meta":{"progressToken":7}}`)
			id := str(t, body(t, c.Post(request)), "result", "task", "taskId")
			a := c.Post(result(id))
			q := host.NextQuestion(t, a)
			host.Equal(t, "asked", q.Method, method)
			same(t, method, at(t, string(q.Params), "_meta", related), `{"taskId":"`+id+`"}`)
			host.Reply(c, q.ID, "result", reply)
			host.Equal(t, "the result", host.Last(t, a), answerOf(id, method))
			told := 0
			got, _ := l.Now()
			for _, m := range got {
				if str(t, m, "method") == "notifications/progress" && strings.Contains(m, id) {
					told++
					same(t, "progress", m, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1,"total":2,"message":"half","_meta":{"`+related+`":{"taskId":"`+id+`"}}}}`)
				}
			}
			if told != 1 {
				t.Errorf("%s: %d notifications of progress name the task: %q", method, told, got)
			}
		}
	})
}

// TestWhatCanBeReadIsListed lists tasks of both eras in each state.
func TestWhatCanBeReadIsListed(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{Authenticate: host.User})
		old, now := host.As(h.Unchecked(), "ann").Initialize(host.EveryCapability), stateless(h, withForms).as("ann")
		want := make(map[string]string)
		for tool, status := range map[string]string{"rich": "completed", "fault": "failed", "refuse": "failed", "quiz": "input_required", "work": "working"} {
			for _, id := range []string{begin(t, old, tool, `{"ms":0}`), now.begin(tool, `{}`)} {
				want[id] = status
			}
		}
		for id, status := range want {
			if status == "working" {
				await(t, old, id, "completed") // the short one
				want[id] = "completed"
			}
		}
		running, gone := now.begin("work", `{"ms":600000}`), begin(t, old, "work", `{"ms":600000}`)
		old.Post(of("cancel", gone))
		want[running], want[gone] = "working", "cancelled"
		time.Sleep(10 * time.Second)
		got := make(map[string]string)
		list, _ := parsed(t, at(t, old.Post(host.Method("2", "tasks/list", "")).Body, "result", "tasks")).([]any)
		for _, x := range list {
			one := encoded(t, x)
			id := str(t, one, "taskId")
			got[id] = str(t, one, "status")
			same(t, "as in tasks/get", one, at(t, old.Post(of("get", id)).Body, "result"))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("listed (-want +got):\n%s", diff)
		}
	})
}

// TestProgressOfATaskIsBounded reports ten thousand times, in no order, and after the end: at most ten in a second are told, each is more
// than the one before, and none comes once the task has ended.
func TestProgressOfATaskIsBounded(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "eager", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			for i := range 10_000 {
				if err := call.Progress(ctx, float64(i+i%7*1000), 0, ""); err != nil && in.Text != "stubborn" {
					return nil, err
				}
				time.Sleep(time.Millisecond)
			}
			return words("x"), nil
		})
		c := session(h)
		l := host.Listen(c.Get(""))
		for _, text := range []string{"", "stubborn"} {
			before, _ := l.Now()
			began := time.Now()
			id := str(t, body(t, c.Post(host.Method("1", "tools/call", `{"name":"eager","arguments":{"text":"`+text+`"},"task":{},"_meta":{"progressToken":"p"}}`))), "result", "task", "taskId")
			if text != "" {
				time.Sleep(5 * time.Second)
				c.Post(of("cancel", id))
			}
			status := polled(t, map[string]string{"": "completed", "stubborn": "cancelled"}[text], func() string { return c.Post(of("get", id)).Body })
			took := time.Since(began)
			host.Contains(t, "its end", status, `"status"`)
			time.Sleep(time.Minute)
			last, ended, n := "", false, 0
			for _, m := range l.Since(len(before)) {
				switch str(t, m, "method") {
				case "notifications/progress":
					var a, b float64
					_, _ = fmt.Sscan(last, &a)
					_, _ = fmt.Sscan(at(t, m, "params", "progress"), &b)
					if n++; ended || n > 1 && b <= a {
						t.Errorf("%s after %s, ended: %t", m, last, ended)
					}
					last = at(t, m, "params", "progress")
				case "notifications/tasks/status":
					s := str(t, m, "params", "status")
					ended = ended || s == "completed" || s == "cancelled"
				}
			}
			if most := int(took/time.Second)*10 + 10; n < 10 || n > most || !ended {
				t.Errorf("%d notifications in %v, want 10 to %d; ended: %t", n, took, most, ended)
			}
		}
	})
}

// TestListenersHearNoProgress: the extension has neither progress nor log messages of tasks.
func TestListenersHearNoProgress(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "talks", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			for i := range 5 {
				time.Sleep(time.Second)
				if err := call.Progress(ctx, float64(i), 5, ""); err != nil {
					return nil, err
				}
				if err := call.Log(ctx, mcp.LevelError, "", "x"); err != nil {
					return nil, err
				}
			}
			return words("x"), nil
		})
		c := stateless(h, withTasks)
		request := c.Body(c.NextID(), "tools/call", `{"name":"talks","arguments":{}}`, `"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"`)
		id := str(t, body(t, c.Client.Post(request, c.Header("tools/call", request)...)), "result", "taskId")
		a, _ := c.Listen("77", `{"taskIds":["`+id+`"]}`)
		l := host.Listen(a)
		c.await(id, "completed")
		time.Sleep(10 * time.Second)
		got, _ := l.Now()
		if len(got) == 0 || slices.ContainsFunc(got, func(m string) bool { return str(t, m, "method") != "notifications/tasks" }) {
			t.Errorf("it heard %q", got)
		}
	})
}

// TestOtherRequestsDoNotBecomeTasks: only calls of tools were declared, so the member means nothing elsewhere, nor at a server without tasks.
func TestOtherRequestsDoNotBecomeTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, bare := serve(t, troupe.Options{}, nil), host.New(t, troupe.Options{}, nil)
		c := session(h)
		for method, params := range map[string]string{
			"prompts/get":    `{"name":"greet","arguments":{"who":"x"}`,
			"resources/read": `{"uri":"test://one"`,
			"tools/list":     `{"x":1`,
		} {
			plain := body(t, c.Post(host.Method("1", method, params+`}`)))
			if at(t, plain, "result") == "" {
				t.Fatalf("%s: %s", method, plain)
			}
			host.Equal(t, method, body(t, c.Post(host.Method("1", method, params+`,"task":{"ttl":60000}}`))), plain)
		}
		host.Equal(t, "no tasks here", body(t, session(bare).Post(augmented("echo", `{"text":"x"}`, `{}`))), host.TextResult("1", "x"))
		if n := h.Stored("tasks"); n != 0 {
			t.Errorf("%d messages are stored of tasks", n)
		}
	})
}

// TestATaskIsThereOnceItsIdIsTold ends the process as soon as a client has an id: the next one has the task, and runs it.
func TestATaskIsThereOnceItsIdIsTold(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h := serve(t, troupe.Options{Dir: dir}, nil)
		old, now := session(h), stateless(h, withTasks)
		for range 3 {
			for _, id := range []string{begin(t, old, "work", `{"ms":100,"text":"x"}`), now.begin("work", `{"ms":100,"text":"x"}`)} {
				if s := str(t, now.of("get", id), "result", "status"); s != "working" && s != "completed" {
					t.Errorf("read at once: %q", s)
				}
				next := serve(t, troupe.Options{Dir: host.CopyDir(t, dir)}, nil)
				host.Contains(t, "in the next process", stateless(next, withTasks).await(id, "completed"), `"text":"x"`)
			}
		}
	})
}

// TestACancelledRequestIsNoCancelledTask sends notifications/cancelled for the call that made a task, and for a wait for it.
func TestACancelledRequestIsNoCancelledTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		c := session(h)
		id := begin(t, c, "work", `{"ms":60000,"text":"x"}`)
		c.Post(host.Cancel("1")) // made the task
		waiting := host.Reading(c.Post(host.Method("7", "tasks/result", `{"taskId":"`+id+`"}`)))
		c.Post(host.Cancel("7"))
		c.Post(host.Note("notifications/cancelled", `{"taskId":"`+id+`"}`))
		c.Post(host.Note("notifications/cancelled", `{"requestId":"`+id+`"}`))
		waiting()
		synctest.Wait()
		host.Equal(t, "afterwards", str(t, c.Post(of("get", id)).Body, "result", "status"), "working")
		host.Contains(t, "its result", body(t, c.Post(of("result", id))), `"text":"x"`)
		now := stateless(h, withTasks)
		id = now.begin("work", `{"ms":60000,"text":"x"}`)
		note := strings.Replace(now.Body("0", "notifications/cancelled", `{"requestId":`+fmt.Sprint(now.N)+`}`, ""), `"id":0,`, "", 1)
		if a := now.Client.Post(note, now.Header("notifications/cancelled", note)...); a.StatusCode != http.StatusAccepted {
			t.Errorf("the notification: %s %s", a.Status, a.Body)
		}
		host.Contains(t, "its result", now.await(id, "completed"), `"text":"x"`)
	})
}

// TestQuestionsAboutTasksAreLimited: polling costs what any request does.
func TestQuestionsAboutTasksAreLimited(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User, Limits: troupe.Limits{CallRate: 10}}, nil)
		c := host.As(h.Unchecked(), "ann").Initialize(`{}`)
		for _, method := range []string{"get", "cancel", "list", "result"} {
			time.Sleep(time.Minute)
			refusals := 0
			for range 100 {
				if a := c.Post(of(method, strange)); host.TurnedAway(a) {
					refusals++
				}
			}
			if refusals < 70 || refusals > 90 {
				t.Errorf("%d of 100 tasks/%s at once were refused", refusals, method)
			}
		}
	})
}

// TestProgressIsNotToldAgain: progress only rises, and a run in the next process does not know what was told.
func TestProgressIsNotToldAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		start := func(dir string) *host.Host {
			h := host.New(t, troupe.Options{Dir: dir}, nil)
			srv := troupe.NewServer(mcp.Implementation{Name: "climb", Version: "1"}, &troupe.ServerOptions{ID: "climb"})
			troupe.AddTool(srv, troupe.Tool{Name: "climb", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, in WorkIn) (string, error) {
				for i := range 5 {
					if err := call.Progress(ctx, float64(i+1), 5, ""); err != nil {
						return "", err
					}
					if err := host.Sleep(ctx, 5000); err != nil {
						return "", err
					}
				}
				return "up", nil
			})
			h.Runtime.Mount("/climb", srv)
			return h
		}
		h := start(dir)
		c := h.Unchecked()
		c.URL = "http://127.0.0.1/climb"
		c.Initialize(`{}`)
		l := host.Listen(c.Get(""))
		id := str(t, body(t, c.Post(host.Method("1", "tools/call", `{"name":"climb","arguments":{},"task":{},"_meta":{"progressToken":"p"}}`))), "result", "task", "taskId")
		time.Sleep(12 * time.Second)
		progress := func(l *host.Listening) (n int) {
			got, _ := l.Now()
			for _, m := range got {
				if str(t, m, "method") == "notifications/progress" {
					n++
				}
			}
			return n
		}
		if n := progress(l); n != 3 {
			t.Errorf("%d notifications before the crash, want 3", n)
		}
		next := start(host.CopyDir(t, dir))
		m := next.Moved(c)
		again := host.Listen(m.Get(""))
		await(t, m, id, "completed")
		time.Sleep(time.Second)
		if n := progress(again); n != 0 {
			t.Errorf("%d notifications after the crash, which may not rise", n)
		}
		if got := heard(t, again, "notifications/tasks/status", id); !slices.Contains(got, "completed") {
			t.Errorf("of the task itself it heard %q", got)
		}
	})
}

// TestTasksAreLogged looks for the creation, the end and each retrieval of tasks in the log, with the tenant of who asked, and without ids.
func TestTasksAreLogged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		lines := new(host.Lines)
		h := serve(t, troupe.Options{Authenticate: host.User, Log: slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))}, nil)
		ann, bob := host.As(h.Unchecked(), "ann").Initialize(`{}`), host.As(h.Unchecked(), "bob").Initialize(`{}`)
		id := begin(t, ann, "work", `{}`)
		await(t, ann, id, "completed")
		ann.Post(of("result", id))
		bob.Post(of("get", id))
		tenants := make(map[string]bool)
		for _, want := range []struct{ what, attr string }{
			{"a task was created", "tool=work"}, {"a task has ended", "status=completed"}, {"a task was asked for", "method=tasks/get"}, {"a task was asked for", "method=tasks/result"},
		} {
			found := false
			for line := range strings.Lines(lines.String()) {
				if !strings.Contains(line, want.what) {
					continue
				}
				_, rest, _ := strings.Cut(line, "tenant=")
				tenant, _, _ := strings.Cut(rest, " ")
				tenants[tenant] = true
				found = found || strings.Contains(line, want.attr) && strings.Contains(line, "level=DEBUG") && strings.Contains(line, "task=")
			}
			if !found {
				t.Errorf("no line has %q with %s:\n%s", want.what, want.attr, lines)
			}
		}
		if len(tenants) != 2 {
			t.Errorf("the lines name %d tenants, want that of each of the two users", len(tenants))
		}
		if strings.Contains(lines.String(), id) {
			t.Error("the log has the id, with which the task could be read")
		}
	})
}
