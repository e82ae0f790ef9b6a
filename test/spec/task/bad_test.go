package task_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

var update = flag.Bool("update", false, "rewrite testdata/bad.txt")

// table are the answers to what a server should not get, a line each.
type table struct {
	t     *testing.T
	lines strings.Builder
}

func (b *table) title(what string) { fmt.Fprintf(&b.lines, "\n%s\n", what) }

// row adds the outcome of a request: the code, message and data of its error, or what the result says of the task.
func (b *table) row(what, response string) {
	b.t.Helper()
	outcome := "-"
	switch {
	case at(b.t, response, "error") != "":
		outcome = fmt.Sprintf("%s %s %s", at(b.t, response, "error", "code"), str(b.t, response, "error", "message"), at(b.t, response, "error", "data"))
	case at(b.t, response, "result", "tasks") != "":
		outcome = "a page"
	case at(b.t, response, "result", "isError") == "true":
		outcome = "a result that says it is an error"
	default:
		status := cmp.Or(str(b.t, response, "result", "status"), str(b.t, response, "result", "task", "status"))
		ttl := cmp.Or(at(b.t, response, "result", "ttl"), at(b.t, response, "result", "task", "ttl"))
		outcome = strings.TrimSpace("ok " + status + " " + ttl)
	}
	fmt.Fprintf(&b.lines, "  %-42s %s\n", what, strings.TrimSpace(outcome))
}

// TestBadRequestsAboutTasks compares the answers to requests that make no sense with testdata/bad.txt, in both eras. -update writes that.
func TestBadRequestsAboutTasks(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		o := host.Unhurried
		o.Authenticate, o.Limits.PageSize = host.User, 10
		h := asking(t, o)
		add(h, troupe.Tool{Name: "vast", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			return words(strings.Repeat("x", 17<<20)), nil
		})
		add(h, troupe.Tool{Name: "panics", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			panic("on purpose")
		})
		add(h, troupe.Tool{Name: "deaf", Task: troupe.TaskOptional, TaskTTL: 5 * time.Minute}, func(_ context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			time.Sleep(time.Duration(in.MS) * time.Millisecond)
			return words("done"), nil
		})
		old, now := host.As(h.Unchecked(), "ann").Initialize(host.EveryCapability), stateless(h, withForms).as("ann")
		bob := stateless(h, withForms).as("bob")
		foreign, expired := bob.begin("work", `{"ms":86000000}`), begin(t, old, "deaf", `{"ms":301000}`)
		time.Sleep(6 * time.Minute)
		ended := map[string]string{}
		for status, tool := range map[string]string{"completed": "work", "failed": "refuse", "cancelled": "deaf"} {
			ended[status] = now.begin(tool, `{"ms":1000}`)
		}
		now.of("cancel", ended["cancelled"])
		for status, id := range ended {
			now.await(id, status)
		}
		working, waiting := now.begin("work", `{"ms":86000000}`), now.begin("two", `{}`)
		now.await(waiting, "input_required")

		b := &table{t: t}
		send := func(method, params string) string {
			return body(t, old.Post(host.Method("2", method, params)))
		}
		eras := []struct {
			revision string
			methods  []string
			do       func(method, params string) string
		}{
			{host.R20251125, []string{"get", "result", "cancel"}, send},
			{host.R20260728, []string{"get", "update", "cancel"}, now.raw},
		}
		for _, era := range eras {
			for _, method := range era.methods {
				b.title(era.revision + " tasks/" + method)
				for _, row := range []struct{ what, id string }{
					{"unknown", quoted(strange)}, {"another's", quoted(foreign)}, {"expired", quoted(expired)}, {"empty", `""`}, {"short", `"x"`},
					{"capitals", quoted(strings.ToUpper(working))}, {"one letter more", quoted(working + "a")}, {"ten thousand letters", quoted(strings.Repeat("a", 10_000))},
					{"a wildcard", `"*"`}, {"all below", `">"`}, {"another subject", `"aaaaaaaaaaaaa.aaaaaaaaaaaa"`}, {"a path", quoted("../" + working)}, {"no ASCII", `"☃"`}, {"NUL", `"\u0000"`},
					{"a number", "1"}, {"null", "null"}, {"a list", "[" + quoted(working) + "]"}, {"an object", `{"taskId":` + quoted(working) + `}`},
				} {
					b.row("the id is "+row.what, era.do("tasks/"+method, `{"taskId":`+row.id+`,"inputResponses":{}}`))
				}
				b.row("no id", era.do("tasks/"+method, `{"inputResponses":{}}`))
				if method == "cancel" {
					for _, status := range []string{"completed", "failed", "cancelled"} {
						b.row("one that is "+status, era.do("tasks/cancel", `{"taskId":`+quoted(ended[status])+`}`))
					}
				}
			}
		}
		b.title(host.R20251125 + " tasks/result of what has ended")
		for _, status := range []string{"completed", "failed", "cancelled"} {
			b.row(status, send("tasks/result", `{"taskId":`+quoted(ended[status])+`}`))
		}
		b.title(host.R20251125 + " tasks/list")
		cursor := host.Cursor(t, old.Post(host.Method("2", "tools/list", "")))
		for _, bad := range []string{`"x"`, `""`, `1`, `null`, `{}`, quoted(cursor)} {
			b.row("cursor "+strings.Replace(bad, cursor, "of another list", 1), send("tasks/list", `{"cursor":`+bad+`}`))
		}
		b.title(host.R20251125 + " methods of the extension")
		b.row("tasks/update", send("tasks/update", `{"taskId":`+quoted(waiting)+`,"inputResponses":{}}`))
		b.title(host.R20260728 + " methods of the older revision")
		b.row("tasks/list", now.raw("tasks/list", `{}`))
		b.row("tasks/result", now.raw("tasks/result", `{"taskId":`+quoted(ended["completed"])+`}`))

		b.title(host.R20260728 + " tasks/update")
		for _, row := range []struct{ what, of, given string }{
			{"one that works", working, `{"name":` + accept("x") + `}`},
			{"one that is completed", ended["completed"], `{"name":` + accept("x") + `}`},
			{"one that is cancelled", ended["cancelled"], `{"name":` + accept("x") + `}`},
			{"no answers", waiting, ""},
			{"answers null", waiting, "null"},
			{"answers a list", waiting, "[]"},
			{"answers a string", waiting, `"name"`},
			{"an answer that is no object", waiting, `{"name":1,"age":"x"}`},
			{"unknown keys", waiting, `{"elicit":` + accept("x") + `,"":{}}`},
			{"a thousand and one answers", waiting, "{" + many(1001) + "}"},
			{"answers beyond what is stored", waiting, `{"name":` + accept(strings.Repeat("x", 300<<10)) + `}`},
		} {
			given := ""
			if row.given != "" {
				given = `,"inputResponses":` + row.given
			}
			b.row(row.what, now.raw("tasks/update", `{"taskId":`+quoted(row.of)+given+`}`))
		}
		b.row("what it asks is still open", now.of("get", waiting))
		host.Equal(t, "questions", fmt.Sprint(keys(t, now.of("get", waiting))), "[age name]")

		b.title(host.R20251125 + " tools/call with task")
		for _, task := range []string{`null`, `[]`, `"x"`, `1`, `true`, `{"ttl":"60000"}`, `{"ttl":-1}`, `{"ttl":-1e300}`, `{"ttl":0.5}`, `{"ttl":true}`, `{"ttl":[]}`, `{"ttl":{}}`,
			`{"ttl":0}`, `{"ttl":-0}`, `{"ttl":1e3}`, `{"ttl":60000.0}`, `{"ttl":1e300}`, `{"ttl":9223372036854775808}`, `{"ttl":null}`, `{"more":1}`} {
			b.row(task, body(t, old.Post(augmented("work", `{"ms":10}`, task))))
		}
		b.row("arguments that do not fit", body(t, old.Post(augmented("work", `{"ms":"x"}`, `{}`))))
		b.row("a tool that is not there", body(t, old.Post(augmented("none", `{}`, `{}`))))
		b.row("a tool without tasks", body(t, old.Post(augmented("echo", `{"text":"x"}`, `{}`))))

		b.title("handlers that go wrong: get, in both eras, and result")
		for _, tool := range []string{"vast", "panics", "fault", "refuse"} {
			status := "failed"
			if tool == "fault" {
				status = "completed" // its result says that it has failed
			}
			id := now.begin(tool, `{}`)
			b.row(tool+" in 2026-07-28", now.await(id, status))
			fmt.Fprintf(&b.lines, "  %-42s %s\n", "  its error", at(t, now.of("get", id), "result", "error"))
			b.row(tool+" in 2025-11-25", body(t, old.Post(of("get", id))))
			b.row(tool+", its result", body(t, old.Post(of("result", id))))
		}
		id := now.begin("deaf", `{"ms":120000}`)
		b.row("one that ignores its context, cancelled", send("tasks/cancel", `{"taskId":`+quoted(id)+`}`))
		time.Sleep(150 * time.Second)
		b.row("and when it has returned", body(t, old.Post(of("get", id))))
		id = now.begin("deaf", `{"ms":400000}`)
		time.Sleep(301 * time.Second)
		b.row("one that ignores the end of its time", body(t, old.Post(of("get", id))))
		time.Sleep(150 * time.Second)
		b.row("and when it has returned", body(t, old.Post(of("get", id))))

		const file = "testdata/bad.txt"
		got := strings.TrimPrefix(b.lines.String(), "\n")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
			t.Errorf("the answers differ (-want +got):\n%s", d)
		}
		for _, c := range []string{begin(t, old, "work", `{}`), now.begin("work", `{}`)} {
			await(t, old, c, "completed") // the server goes on
		}
	})
}

// raw is do for params whose id may be anything. The header has what is a string.
func (c client) raw(method, params string) string {
	c.T.Helper()
	request := c.Body(c.NextID(), method, params, "")
	header := c.Header(method, request)
	if p, ok := parsed(c.T, request).(map[string]any)["params"].(map[string]any); ok {
		if id, ok := p["taskId"].(string); ok {
			header = append(header, "Mcp-Name", headerValue(id))
		}
	}
	return body(c.T, c.Client.Post(request, header...))
}

// headerValue is a text as a header has it.
func headerValue(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) < 0 {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

func quoted(s string) string { return `"` + s + `"` }

// many are members of an object.
func many(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"k%d":{}`, i)
	}
	return strings.Join(all, ",")
}

// TestTaskHandlerEndsItsGoroutine has the handler of a task end its goroutine: the task fails, and its place is free.
func TestTaskHandlerEndsItsGoroutine(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		o := host.Unhurried
		o.Authenticate = host.User
		h := asking(t, o)
		add(h, troupe.Tool{Name: "exits", Task: troupe.TaskOptional}, func(context.Context, *troupe.Call, WorkIn) (*mcp.CallToolResult, error) {
			runtime.Goexit()
			return nil, nil
		})
		now := stateless(h, withForms).as("ann")
		id := now.begin("exits", `{}`)
		now.await(id, "failed")
		host.Contains(t, "its error", at(t, now.of("get", id), "result", "error"), "-32603")
		now.await(now.begin("work", `{"ms":10}`), "completed")
	})
}
