package task_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// Capabilities of clients that host tasks.
const (
	hosting   = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"tasks":{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`
	noCancel  = `{"elicitation":{"form":{}},"tasks":{"requests":{"elicitation":{"create":{}}}}}`
	onlyModel = `{"elicitation":{"form":{}},"sampling":{},"tasks":{"cancel":{},"requests":{"sampling":{"createMessage":{}}}}}`
)

// hosts starts a host with tools that ask a client which may host the questions.
func hosts(t *testing.T, o troupe.Options) *host.Host {
	t.Helper()
	h := serve(t, o, nil)
	form := func(in WorkIn) troupe.Question {
		return troupe.Elicit("who", "Who?", host.Form).AsTask(time.Duration(in.MS) * time.Millisecond)
	}
	add(h, troupe.Tool{Name: "who", Rerun: troupe.Safe, Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		a, err := call.Ask(ctx, form(in))
		if err != nil {
			return nil, err
		}
		r, err := a.Elicited("who")
		return words(string(r.Action) + string(r.Content)), err
	})
	add(h, troupe.Tool{Name: "impatient"}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		short, cancel := context.WithTimeout(ctx, time.Duration(in.MS)*time.Millisecond)
		defer cancel()
		_, err := call.Ask(short, form(WorkIn{}))
		return words(fmt.Sprint(err)), host.Sleep(ctx, 60_000)
	})
	add(h, troupe.Tool{Name: "own context"}, func(_ context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
		_, err := call.Ask(context.Background(), form(WorkIn{}))
		return nil, err
	})
	add(h, troupe.Tool{Name: "model"}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		a, err := call.Ask(ctx, troupe.Sample("it", mcp.CreateMessageParams{MaxTokens: 9, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text("Hi"))}}}).AsTask(time.Hour))
		if err != nil {
			return nil, err
		}
		r, err := a.Sampled("it")
		return words(r.Model), err
	})
	add(h, troupe.Tool{Name: "plain"}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
		r, err := call.Elicit(ctx, "Who?", host.Form)
		return words(string(r.Action)), err
	})
	add(h, troupe.Tool{Name: "open"}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
		a, err := call.Ask(ctx, troupe.ElicitURL("url", "Open it", "u-1", "https://example.com/1").AsTask(time.Hour), troupe.Roots("roots").AsTask(time.Hour))
		if err != nil {
			return nil, err
		}
		r, err := a.Elicited("url")
		if err == nil {
			err = call.ElicitationComplete(ctx, "u-1")
		}
		return words(string(r.Action)), err
	})
	return h
}

// its is what a client says of its task t-1.
func its(status string, more ...string) string {
	return `{"taskId":"t-1","status":"` + status + `","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z","ttl":60000` + strings.Join(more, "") + `}`
}

// made answers a question with a task.
func made(c *kit.Client, id json.RawMessage, status string, more ...string) {
	c.T.Helper()
	host.Reply(c, id, "result", `{"task":`+its(status, more...)+`}`)
}

// next is the next request of the server, which must have a method and, except for a question, name the task alone.
func next(t *testing.T, a *kit.Answer, method string) host.Asked {
	t.Helper()
	q := host.NextQuestion(t, a)
	host.Equal(t, "method", q.Method, method)
	if strings.HasPrefix(method, "tasks/") {
		host.Equal(t, method, string(q.Params), `{"taskId":"t-1"}`)
	}
	return q
}

// TestAClientHostsAQuestion follows a question that a client makes a task of. The server asks how the task is until it has
// ended, and gets the result with tasks/result (tasks, getting tasks, retrieving task results).
func TestAClientHostsAQuestion(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		a := c.Post(host.Call("1", "who", `{"ms":3600000}`))
		q := next(t, a, "elicitation/create")
		host.Equal(t, "its ttl", at(t, string(q.Params), "task"), `{"ttl":3600000}`)
		same(t, "the question", without(t, string(q.Params), "task"), form("Who?"))
		made(c, q.ID, "working", `,"pollInterval":5000`)
		for range 3 {
			begin := time.Now()
			q = next(t, a, "tasks/get")
			host.Equal(t, "the interval", time.Since(begin).String(), "5s")
			host.Reply(c, q.ID, "result", its("working", `,"pollInterval":5000`))
		}
		host.Reply(c, next(t, a, "tasks/get").ID, "result", its("completed"))
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"accept","content":{"answer":"Ann"},"_meta":{"`+related+`":{"taskId":"t-1"}}}`)
		host.Equal(t, "the result", host.Last(t, a), host.TextResult("1", `accept{\"answer\":\"Ann\"}`))

		a = c.Post(host.Call("2", "model", `{}`))
		q = next(t, a, "sampling/createMessage")
		host.Equal(t, "its ttl", at(t, string(q.Params), "task"), `{"ttl":3600000}`)
		made(c, q.ID, "completed") // so quick a client needs no look
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"role":"assistant","content":{"type":"text","text":"x"},"model":"m-1"}`)
		host.Equal(t, "the message", host.Last(t, a), host.TextResult("2", "m-1"))
	})
}

// TestOnlyWhatIsDeclaredIsAugmented asks clients that host nothing, or not that (tasks, capability negotiation): they get plain
// questions, and so does each client where the handler wants no task.
func TestOnlyWhatIsDeclaredIsAugmented(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		for _, row := range []struct{ what, revision, capabilities, tool string }{
			{"no tasks", host.R20251125, `{"elicitation":{"form":{}}}`, "who"},
			{"tasks of nothing", host.R20251125, `{"elicitation":{"form":{}},"tasks":{"list":{},"cancel":{}}}`, "who"},
			{"tasks of sampling alone", host.R20251125, onlyModel, "who"},
			{"an older revision", host.R20250618, hosting, "who"},
			{"not wanted", host.R20251125, hosting, "plain"},
		} {
			c := h.Unchecked().InitializeAs(row.revision, row.capabilities)
			a := c.Post(host.Call("1", row.tool, `{}`))
			q := next(t, a, "elicitation/create")
			host.Equal(t, row.what, at(t, string(q.Params), "task"), "")
			host.Reply(c, q.ID, "result", `{"action":"decline"}`)
			host.Equal(t, row.what, host.Last(t, a), host.TextResult("1", "decline"))
		}
		c := h.Client().Initialize(onlyModel)
		a := c.Post(host.Call("1", "model", `{}`))
		host.Equal(t, "sampling, which is declared", at(t, string(next(t, a, "sampling/createMessage").Params), "task"), `{"ttl":3600000}`)
		a.Close()
	})
}

// TestAnAnswerInPlaceOfATask has a client ignore the wish for a task, as a receiver does that does not support it (tasks, task
// support and handling). Its answer may even have a member that looks like a task.
func TestAnAnswerInPlaceOfATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		for _, row := range []struct{ with, value, want string }{
			{"result", `{"action":"decline"}`, host.TextResult("1", "decline")},
			{"result", `{"action":"cancel","task":` + its("working") + `}`, host.TextResult("1", "cancel")},
			{"error", `{"code":-1,"message":"user rejected"}`, host.Fault("1", -1, "user rejected", "")},
			{"error", `{"code":-32600,"message":"no"}`, host.Fault("1", -32600, "no", "")},
		} {
			a := c.Post(host.Call("1", "who", `{}`))
			host.Reply(c, next(t, a, "elicitation/create").ID, row.with, row.value)
			host.Equal(t, row.value, host.Last(t, a), row.want)
		}
	})
}

// TestAClientMayInsistOnATask has a client refuse a plain question with -32600 because it takes such questions as tasks only
// (tasks, task support and handling).
func TestAClientMayInsistOnATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		for _, capabilities := range []string{hosting, `{"elicitation":{"form":{}}}`} {
			c := h.Client().Initialize(capabilities)
			a := c.Post(host.Call("1", "plain", `{}`))
			host.Reply(c, next(t, a, "elicitation/create").ID, "error", `{"code":-32600,"message":"Task augmentation required"}`)
			if capabilities != hosting {
				host.Equal(t, "without the capability it is an error", host.Last(t, a), host.Fault("1", -32600, "Task augmentation required", ""))
				continue
			}
			q := next(t, a, "elicitation/create")
			host.Equal(t, "its ttl is the time that a question has", at(t, string(q.Params), "task"), `{"ttl":600000}`)
			made(c, q.ID, "completed")
			host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
			host.Equal(t, "the result", host.Last(t, a), host.TextResult("1", "decline"))
		}
	})
}

// TestThePollIntervalIsHeeded measures the time between looks at a task whose client names an interval, sensible or not (tasks,
// getting tasks).
func TestThePollIntervalIsHeeded(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{Limits: troupe.Limits{MaxCall: 24 * time.Hour}})
		for _, row := range []struct{ interval, want string }{
			{`7000`, "7s 7s 7s"},
			{`1500.5`, "1.5s 1.5s 1.5s"},
			{`0`, "1s 1s 1s"},
			{`-1`, "1s 1s 1s"},
			{`-1e300`, "1s 1s 1s"},
			{`3600001`, "1h0m0s"},
			{`1e400`, "1h0m0s"},
			{``, "1s 2s 4s"},
			{`null`, "1s 2s 4s"},
			{`"5000"`, "1s 2s 4s"},
		} {
			every := row.interval
			if every != "" {
				every = `,"pollInterval":` + every
			}
			c := h.Unchecked().Initialize(hosting)
			a := c.Post(host.Call("1", "who", `{}`))
			made(c, next(t, a, "elicitation/create").ID, "working", every)
			var got []string
			for range strings.Fields(row.want) {
				begin := time.Now()
				q := next(t, a, "tasks/get")
				got = append(got, time.Since(begin).String())
				host.Reply(c, q.ID, "result", its("working", every))
			}
			host.Equal(t, "interval "+row.interval, strings.Join(got, " "), row.want)
			c.Do("DELETE", "")
			a.All()
		}
	})
}

// TestAStatusNotificationIsAHint has a client say that its task is done. The server looks at once, and not more than once a second,
// but believes only what it sees (tasks, task status notification).
func TestAStatusNotificationIsAHint(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c, other := h.Client().Initialize(hosting), h.Unchecked().Initialize(hosting)
		a := c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working", `,"pollInterval":600000`)
		begin := time.Now()
		time.Sleep(20 * time.Second)
		other.Post(host.Note("notifications/tasks/status", its("completed"))) // has a task of its own by that id
		c.Post(host.Note("notifications/tasks/status", `{"taskId":1}`))
		time.Sleep(20 * time.Second)
		c.Post(host.Note("notifications/tasks/status", its("completed")))
		q := next(t, a, "tasks/get")
		host.Equal(t, "a look", time.Since(begin).String(), "40s")
		c.Post(host.Note("notifications/tasks/status", its("completed")))
		host.Reply(c, q.ID, "result", its("working", `,"pollInterval":600000`)) // it has said so too early
		q = next(t, a, "tasks/get")
		host.Equal(t, "another", time.Since(begin).String(), "41s")
		host.Reply(c, q.ID, "result", its("completed"))
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
		host.Equal(t, "the result", host.Last(t, a), host.TextResult("1", "decline"))
	})
}

// TestATaskThatNeedsInputIsAskedForItsResult has a client's task be input_required, at which the server calls tasks/result at
// once (tasks, input required status). A client that refuses that is asked again when the task has ended.
func TestATaskThatNeedsInputIsAskedForItsResult(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		a := c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working")
		host.Reply(c, next(t, a, "tasks/get").ID, "result", its("input_required"))
		q := next(t, a, "tasks/result")
		rest := host.Reading(a)
		time.Sleep(5 * time.Minute) // it blocks, and nothing else is asked meanwhile
		host.Reply(c, q.ID, "result", `{"action":"decline"}`)
		only(t, "the result", rest(), host.TextResult("1", "decline"))

		a = c.Post(host.Call("2", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "input_required")
		host.Reply(c, next(t, a, "tasks/result").ID, "error", `{"code":-32603,"message":"not yet"}`)
		for _, status := range []string{"input_required", "working", "input_required"} {
			host.Reply(c, next(t, a, "tasks/get").ID, "result", its(status))
		}
		host.Reply(c, next(t, a, "tasks/result").ID, "error", `{"code":-32603,"message":"not yet"}`)
		host.Reply(c, next(t, a, "tasks/get").ID, "result", its("completed"))
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"cancel"}`)
		host.Equal(t, "the result", host.Last(t, a), host.TextResult("2", "cancel"))
	})
}

// TestTheOutcomeIsThatOfTheQuestion ends a client's task in each way: the handler gets what it would have got without a task.
func TestTheOutcomeIsThatOfTheQuestion(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		for _, row := range []struct{ status, with, value, want string }{
			{"completed", "result", `{"action":"accept","content":{}}`, host.TextResult("1", "accept{}")},
			{"completed", "result", `{"action":"maybe"}`, host.ToolFault("1", `troupe: answer to "who": the action is none of accept, decline and cancel`)},
			{"failed", "error", `{"code":-1,"message":"user rejected","data":[1]}`, host.Fault("1", -1, "user rejected", "[1]")},
			{"failed", "result", `{"action":"decline"}`, host.TextResult("1", "decline")},
			{"cancelled", "error", `{"code":-32603,"message":"cancelled"}`, host.Fault("1", -32603, "cancelled", "")},
			{"completed", "error", `{"code":-32602,"message":"Task has expired"}`, host.Fault("1", -32602, "Task has expired", "")},
		} {
			a := c.Post(host.Call("1", "who", `{}`))
			made(c, next(t, a, "elicitation/create").ID, "working")
			host.Reply(c, next(t, a, "tasks/get").ID, "result", its(row.status))
			host.Reply(c, next(t, a, "tasks/result").ID, row.with, row.value)
			host.Equal(t, row.status+" "+row.value, host.Last(t, a), row.want)
		}
		a := c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working")
		host.Reply(c, next(t, a, "tasks/get").ID, "error", `{"code":-32602,"message":"Task not found"}`)
		only(t, "forgotten", host.Payloads(a.All()), host.Fault("1", -32602, "Task not found", ""))

		a = c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "input_required")
		host.Reply(c, next(t, a, "tasks/result").ID, "error", `{"code":-1,"message":"user rejected"}`)
		host.Reply(c, next(t, a, "tasks/get").ID, "error", `{"code":-32602,"message":"Task not found"}`)
		only(t, "forgotten, once it had an outcome", host.Payloads(a.All()), host.Fault("1", -1, "user rejected", ""))

		a = c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working")
		host.Reply(c, next(t, a, "tasks/get").ID, "error", `{"code":-32601,"message":"no such method"}`)
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
		host.Equal(t, "a client without tasks/get", host.Last(t, a), host.TextResult("1", "decline"))
	})
}

// TestATaskThatCannotBeUnderstood has a client say of its task what is none, when it makes it and later. The handler learns of it,
// and a task that has an id is cancelled.
func TestATaskThatCannotBeUnderstood(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		const (
			neither = "it is neither an answer nor a task"
			id      = "the task has no taskId of 1 to 1024 bytes"
			status  = "the status of the task is none of working, input_required, completed, failed and cancelled"
		)
		fault := func(why string) string { return host.ToolFault("1", `troupe: answer to "who": `+why) }
		for _, row := range []struct {
			made, why string
			cancelled bool
		}{
			{`{}`, neither, false},
			{`null`, neither, false},
			{`[]`, neither, false},
			{`{"task":null}`, neither, false},
			{`{"task":"t-1"}`, neither, false},
			{`{"task":{}}`, id, false},
			{`{"task":{"status":"working"}}`, id, false},
			{`{"task":{"taskId":"","status":"working"}}`, id, false},
			{`{"task":{"taskId":1,"status":"working"}}`, id, false},
			{`{"task":{"taskId":"` + strings.Repeat("x", 1025) + `","status":"working"}}`, id, false},
			{`{"task":{"taskId":"t-1"}}`, status, true},
			{`{"task":{"taskId":"t-1","status":"WORKING"}}`, status, true},
			{`{"task":{"taskId":"t-1","status":1}}`, status, true},
		} {
			a := c.Post(host.Call("1", "who", `{}`))
			host.Reply(c, next(t, a, "elicitation/create").ID, "result", row.made)
			if row.cancelled {
				host.Reply(c, next(t, a, "tasks/cancel").ID, "result", its("cancelled"))
			}
			only(t, row.made, host.Payloads(a.All()), fault(row.why))
		}
		for _, odd := range []string{`"ttl":-5`, `"ttl":1e400`, `"ttl":null,"pollInterval":{}`, `"createdAt":7,"lastUpdatedAt":[]`, `"statusMessage":0`} {
			a := c.Post(host.Call("1", "who", `{}`))
			host.Reply(c, next(t, a, "elicitation/create").ID, "result", `{"task":{"taskId":"t-1","status":"completed",`+odd+`}}`)
			host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
			only(t, odd+", which does not matter", host.Payloads(a.All()), host.TextResult("1", "decline"))
		}
		for _, row := range []struct{ with, value, want string }{
			{"result", `{}`, fault(id)},
			{"result", `7`, fault(neither)},
			{"result", its("done"), fault(status)},
			{"result", strings.Replace(its("completed"), "t-1", "t-2", 1), fault("it is the state of another task")},
			{"error", `{"code":-32603,"message":"broken"}`, host.Fault("1", -32603, "broken", "")},
		} {
			a := c.Post(host.Call("1", "who", `{}`))
			made(c, next(t, a, "elicitation/create").ID, "working")
			for i := range 10 { // four failures and a success, and then five
				answer, with := row.value, row.with
				if i == 4 {
					answer, with = its("working"), "result"
				}
				host.Reply(c, next(t, a, "tasks/get").ID, with, answer)
			}
			next(t, a, "tasks/cancel")
			only(t, row.value, host.Payloads(a.All()), row.want)
		}
	})
}
