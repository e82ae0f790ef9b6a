package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// heard returns the statuses of a task that a listener was told of, each once in a row.
func heard(t *testing.T, l *host.Listening, method, task string) (statuses []string) {
	t.Helper()
	got, _ := l.Now()
	for _, m := range got {
		if str(t, m, "method") != method || str(t, m, "params", "taskId") != task {
			continue
		}
		if s := str(t, m, "params", "status"); len(statuses) == 0 || statuses[len(statuses)-1] != s {
			statuses = append(statuses, s)
		}
	}
	return statuses
}

// TestListenersHearOfTheirTasks follows tasks with subscriptions/listen: each notification is the task as tasks/get has it, and
// nothing is told of tasks that are another's, unknown, or not in the filter.
func TestListenersHearOfTheirTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{Authenticate: host.User}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "quiz", Task: troupe.TaskOptional, Rerun: troupe.Safe, Needs: mcp.CapClientElicitationForm},
			func(ctx context.Context, call *troupe.Call, _ WorkIn) (string, error) {
				r, err := call.Elicit(ctx, "?", mcp.FormSchema{Properties: []mcp.Property{{Name: "answer", Schema: &mcp.StringSchema{}}}})
				if err != nil {
					return "", err
				}
				return string(r.Action), host.Sleep(ctx, 1000) // two changes at once would be told as one
			})
		c, other := stateless(h, withForms).as("ann"), stateless(h, withForms).as("bob")
		foreign := other.begin("work", `{"ms":1000}`)
		quiz, work, apart := c.begin("quiz", `{}`), c.begin("work", `{"ms":3000,"text":"x"}`), c.begin("work", `{"ms":3000}`)
		a, filter := c.Listen("77", `{"taskIds":["`+quiz+`","`+strange+`","`+foreign+`","no id","`+work+`","`+quiz+`"]}`)
		host.Equal(t, "the filter", filter, `{"taskIds":["`+quiz+`","`+work+`"]}`)
		l := host.Listen(a)
		time.Sleep(5 * time.Second)
		asked := c.of("get", quiz)
		if _, keys, _ := strings.Cut(asked, `"inputRequests":{"`); keys == "" {
			t.Fatalf("the task asks nothing: %s", asked)
		} else {
			key, _, _ := strings.Cut(keys, `"`)
			c.of("update", quiz, `"inputResponses":{"`+key+`":`+accept("x")+`}`)
		}
		c.await(quiz, "completed")
		time.Sleep(time.Second)
		if got := strings.Join(heard(t, l, "notifications/tasks", quiz), " "); !strings.HasSuffix(got, "input_required working completed") {
			t.Errorf("of the quiz: %s", got)
		}
		if got := strings.Join(heard(t, l, "notifications/tasks", work), " "); got != "working completed" {
			t.Errorf("of the work: %s", got)
		}
		got, _ := l.Now()
		for _, m := range got {
			if strings.Contains(m, apart) || strings.Contains(m, foreign) {
				t.Errorf("it heard of another task: %s", m)
			}
			host.Equal(t, "the subscription", at(t, m, "params", "_meta", "io.modelcontextprotocol/subscriptionId"), "77")
		}
		last := got[len(got)-1]
		same(t, "the task, as it is told and as it is read", without(t, at(t, last, "params"), "_meta"), without(t, at(t, c.of("get", quiz), "result"), "_meta", "resultType"))
		plain := stateless(h, `{}`).as("ann")
		lacking(t, "without the extension", plain.do("subscriptions/listen", `{"notifications":{"taskIds":["`+quiz+`"]}}`))
	})
}

// TestTheSessionHearsOfItsTasks: a session of 2025-11-25 that listens is told how its tasks are, and of their progress while they run.
func TestTheSessionHearsOfItsTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		troupe.AddTool(h.Server, troupe.Tool{Name: "climb", Task: troupe.TaskOptional, Rerun: troupe.Safe},
			func(ctx context.Context, call *troupe.Call, in WorkIn) (string, error) {
				for i := range 5 {
					if err := call.Progress(ctx, float64(i+1), 5, ""); err != nil {
						return "", err
					}
					if err := host.Sleep(ctx, 1000); err != nil {
						return "", err
					}
				}
				return "up", call.TaskMessage(ctx, "at the top")
			})
		c, other := session(h), session(h)
		l, apart := host.Listen(c.Get("")), host.Listen(other.Get(""))
		time.Sleep(time.Second)
		id := str(t, body(t, c.Post(host.Method("1", "tools/call", `{"name":"climb","arguments":{},"task":{},"_meta":{"progressToken":"p"}}`))), "result", "task", "taskId")
		await(t, c, id, "completed")
		time.Sleep(10 * time.Second)
		if got := strings.Join(heard(t, l, "notifications/tasks/status", id), " "); got != "working completed" {
			t.Errorf("of the task: %s", got)
		}
		got, _ := l.Now()
		progress, ended := 0, false
		for _, m := range got {
			switch str(t, m, "method") {
			case "notifications/progress":
				progress++
				host.Equal(t, "the token", at(t, m, "params", "progressToken"), `"p"`)
				if ended {
					t.Errorf("progress after the end: %s", m)
				}
			case "notifications/tasks/status":
				ended = str(t, m, "params", "status") == "completed"
			}
		}
		if progress != 5 || !ended {
			t.Errorf("%d progresses, ended: %t", progress, ended)
		}
		if got, _ := apart.Now(); len(got) != 0 {
			t.Errorf("another session heard %q", got)
		}
	})
}

// TestASessionOnAPipeHearsOfItsTasks is the same for a session that lives with its connection.
func TestASessionOnAPipeHearsOfItsTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{})
		troupe.AddTool(p.Server, troupe.Tool{Name: "climb", Task: troupe.TaskOptional, Rerun: troupe.Safe},
			func(ctx context.Context, call *troupe.Call, _ WorkIn) (string, error) {
				if err := host.Sleep(ctx, 1000); err != nil {
					return "", err
				}
				if err := call.Progress(ctx, 1, 2, ""); err != nil {
					return "", err
				}
				return "up", host.Sleep(ctx, 1000)
			})
		p.Initialize(host.R20251125)
		p.Send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"climb","arguments":{},"task":{},"_meta":{"progressToken":"p"}}}`)
		time.AfterFunc(time.Minute, func() { _ = p.Out.Close() }) // it waits no longer
		id, heard, told := "", "", false
		for !strings.HasSuffix(heard, "completed") {
			m := p.Next()
			switch str(t, m, "method") {
			case "":
				id = str(t, m, "result", "task", "taskId")
			case "notifications/progress":
				told = true
				host.Equal(t, "the token", at(t, m, "params", "progressToken"), `"p"`)
			case "notifications/tasks/status":
				heard += " " + str(t, m, "params", "status")
			}
		}
		if heard != " working completed" || !told || id == "" {
			t.Errorf("of task %q it heard%s, and of its progress: %t", id, heard, told)
		}
		_ = p.In.Close()
		p.End()
	})
}
