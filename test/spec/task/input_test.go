package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// form is the params of a question, of which message is the text.
func form(message string) string {
	return `{"mode":"form","message":"` + message + `","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}}`
}

// accept is the result of a question.
func accept(answer string) string { return `{"action":"accept","content":{"answer":"` + answer + `"}}` }

// asking starts a host with tools that ask.
func asking(t *testing.T, o troupe.Options) *host.Host {
	t.Helper()
	h := serve(t, o, nil)
	const needs = mcp.CapClientElicitationForm
	add(h, troupe.Tool{Name: "quiz", Task: troupe.TaskOptional, Needs: needs}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		if err := host.Sleep(ctx, in.MS); err != nil {
			return nil, err
		}
		r, err := call.Elicit(ctx, "Who?", host.Form)
		if err != nil {
			return nil, err
		}
		return words(string(r.Action) + " " + string(r.Content)), host.Sleep(ctx, 5000)
	})
	add(h, troupe.Tool{Name: "two", Task: troupe.TaskOptional, Needs: needs}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		a, err := call.Ask(ctx, troupe.Elicit("name", "Who?", host.Form), troupe.Elicit("age", "How old?", host.Form))
		if err != nil {
			return nil, err
		}
		name, err1 := a.Elicited("name")
		age, err2 := a.Elicited("age")
		return words(fmt.Sprintf("%s %s", name.Content, age.Content)), errors.Join(err1, err2)
	})
	add(h, troupe.Tool{Name: "twice", Task: troupe.TaskOptional, Needs: needs}, func(ctx context.Context, call *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
		first, err1 := call.Elicit(ctx, "First?", host.Form)
		second, err2 := call.Elicit(ctx, "Second?", host.Form)
		return words(fmt.Sprintf("%s %s", first.Content, second.Content)), errors.Join(err1, err2)
	})
	return h
}

// answerOf is the response to tasks/result with the id 9.
func answerOf(task, text string) string {
	quoted, _ := json.Marshal(text) // a string
	return `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":` + string(quoted) + `}],"_meta":{"` + related + `":{"taskId":"` + task + `"}}}}`
}

// result is tasks/result with the id 9.
func result(task string) string { return host.Method("9", "tasks/result", `{"taskId":"`+task+`"}`) }

// only fails the test unless a stream had one more message.
func only(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if diff := cmp.Diff([]string{want}, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// keys are the questions of a task that needs input.
func keys(t *testing.T, message string) (all []string) {
	t.Helper()
	questions, _ := parsed(t, at(t, message, "result", "inputRequests")).(map[string]any)
	for k := range questions {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// TestTheResultBringsTheQuestions calls tasks/result before a task asks, and after.
func TestTheResultBringsTheQuestions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		c := session(h)
		for _, row := range []struct{ what, args, with, value, want string }{
			{"called after", `{}`, "result", accept("Ann"), `accept {"answer":"Ann"}`},
			{"called before", `{"ms":60000}`, "result", `{"action":"decline"}`, "decline "},
			{"refused", `{}`, "error", `{"code":-1,"message":"no","data":[1]}`, ""},
		} {
			id := begin(t, c, "quiz", row.args)
			if row.what != "called before" {
				legal(t, await(t, c, id, "input_required"), "GetTaskResult")
			}
			a := c.Post(result(id))
			q := host.NextQuestion(t, a)
			rest := host.Reading(a)
			host.Equal(t, "method", q.Method, "elicitation/create")
			same(t, "question", without(t, string(q.Params), "_meta"), form("Who?"))
			same(t, "which belongs to the task", at(t, string(q.Params), "_meta", related), `{"taskId":"`+id+`"}`)
			got := c.Post(of("get", id))
			if host.Equal(t, "meanwhile", str(t, body(t, got), "result", "status"), "input_required"); got.Stream() {
				t.Error("tasks/get is answered on a stream")
			}
			host.Reply(c, q.ID, row.with, row.value)
			time.Sleep(time.Second)
			if row.with == "error" {
				only(t, row.what, rest(), host.Fault("9", -1, "no", "[1]"))
				continue
			}
			host.Equal(t, "afterwards", str(t, c.Post(of("get", id)).Body, "result", "status"), "working")
			only(t, row.what, rest(), answerOf(id, row.want))
		}
		// One stream has one question after the other.
		id := begin(t, c, "twice", `{}`)
		a := c.Post(result(id))
		for _, message := range []string{"First", "Second"} {
			q := host.NextQuestion(t, a)
			same(t, message, without(t, string(q.Params), "_meta"), form(message+"?"))
			host.Reply(c, q.ID, "result", accept(message))
		}
		host.Equal(t, "both", host.Last(t, a), answerOf(id, `{"answer":"First"} {"answer":"Second"}`))
	})
}

// TestAnotherSessionMayAnswer has the session that was asked go away, in each way. The task waits on, and asks the next one.
func TestAnotherSessionMayAnswer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		for what, leave := range map[string]func(c *kit.Client, a *kit.Answer){
			"deleted":  func(c *kit.Client, _ *kit.Answer) { c.Do("DELETE", "") },
			"given up": func(c *kit.Client, _ *kit.Answer) { c.Post(host.Cancel("9")) },
		} {
			first, second, mute := session(h), session(h), h.Unchecked().Initialize(`{}`)
			id := begin(t, first, "quiz", `{}`)
			a := first.Post(result(id))
			late := host.NextQuestion(t, a)
			rest, never := host.Reading(a), host.Reading(mute.Post(result(id)))
			leave(first, a)
			rest()
			host.Equal(t, what+": it waits", str(t, second.Post(of("get", id)).Body, "result", "status"), "input_required")
			b := second.Post(result(id))
			q := host.NextQuestion(t, b)
			if what == "given up" {
				host.Reply(first, late.ID, "result", accept("forged"))
			}
			host.Reply(second, q.ID, "result", accept("Ann"))
			want := answerOf(id, `accept {"answer":"Ann"}`)
			host.Equal(t, what, host.Last(t, b), want)
			only(t, "a client that cannot be asked gets the result alone", never(), want)
		}
	})
}

// TestABrokenConnectionDoesNotKeepTheQuestion breaks the stream with the question, and calls tasks/result from another session: a client
// may leave such a stream at any time.
func TestABrokenConnectionDoesNotKeepTheQuestion(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		first, second := session(h), session(h)
		id := begin(t, first, "quiz", `{}`)
		a := first.Post(result(id))
		host.NextQuestion(t, a)
		a.Close()
		time.Sleep(time.Second)
		now := time.Now()
		b := second.Post(result(id))
		q := host.NextQuestion(t, b)
		host.Reply(second, q.ID, "result", accept("Ann"))
		host.Equal(t, "the second", host.Last(t, b), answerOf(id, `accept {"answer":"Ann"}`))
		if d := time.Since(now); d > time.Minute {
			t.Errorf("the second session was asked and answered after %v", d)
		}
	})
}

// TestATaskThatWaitsIsCancelled takes the question back.
func TestATaskThatWaitsIsCancelled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		c := session(h)
		id := begin(t, c, "quiz", `{}`)
		a := c.Post(result(id))
		q := host.NextQuestion(t, a)
		host.Equal(t, "cancel", str(t, c.Post(of("cancel", id)).Body, "result", "status"), "cancelled")
		got := host.Payloads(a.All())
		if len(got) < 2 || str(t, got[0], "method") != "notifications/cancelled" || at(t, got[0], "params", "requestId") != string(q.ID) || at(t, got[len(got)-1], "error") == "" {
			t.Errorf("after the cancel: %q", got)
		}
		host.Reply(c, q.ID, "result", accept("late"))
		synctest.Wait()
		host.Equal(t, "afterwards", str(t, c.Post(of("get", id)).Body, "result", "status"), "cancelled")

		now := stateless(h, withForms)
		id = now.begin("quiz", `{}`)
		now.await(id, "input_required")
		host.Equal(t, "cancel", now.of("cancel", id), now.acknowledged())
		host.Equal(t, "no questions", at(t, now.await(id, "cancelled"), "result", "inputRequests"), "")
		host.Equal(t, "an answer", now.of("update", id, host.Given("elicit", "late")), now.acknowledged())
		now.await(id, "cancelled")
	})
}

// TestATaskThatHasEndedAsksNothing reads the result of a task that was cancelled while it waited.
func TestATaskThatHasEndedAsksNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := session(asking(t, troupe.Options{}))
		id := begin(t, c, "quiz", `{}`)
		await(t, c, id, "input_required")
		a := c.Post(result(id))
		host.NextQuestion(t, a)
		c.Post(of("cancel", id))
		if got := host.Payloads(a.All()); len(got) != 2 {
			t.Errorf("after the cancel: %q, want that the question is not needed, and an error", got)
		}
		if a = c.Post(result(id)); a.Stream() {
			t.Errorf("called afterwards: %q", host.Payloads(a.All()))
		}
	})
}

// TestAnUpdateAnswersQuestions answers in parts, to keys that nobody asked for, twice, and to tasks that do not wait.
func TestAnUpdateAnswersQuestions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		c := stateless(h, withForms)
		id := c.begin("two", `{}`)
		asked := c.await(id, "input_required")
		same(t, "questions", at(t, asked, "result", "inputRequests"),
			`{"name":{"method":"elicitation/create","params":`+form("Who?")+`},"age":{"method":"elicitation/create","params":`+form("How old?")+`}}`)
		host.Equal(t, "result type", str(t, asked, "result", "resultType"), "complete")
		same(t, "asked again", at(t, c.of("get", id), "result"), at(t, asked, "result"))
		for _, bad := range []string{`"x":1`, `"inputResponses":null`, `"inputResponses":[]`, `"inputResponses":"name"`} {
			refused(t, bad, c.of("update", id, bad), host.BadParam)
		}
		for _, row := range []struct{ given, open string }{
			{`"inputResponses":{}`, "[age name]"},
			{host.Given("other", "x", "elicit", "y"), "[age name]"},
			{host.Given("age", "9", "other", "x"), "[name]"},
			{host.Given("age", "10"), "[name]"},
		} {
			host.Equal(t, row.given, c.of("update", id, row.given), c.acknowledged())
			host.Equal(t, "open after "+row.given, fmt.Sprint(keys(t, c.await(id, "input_required"))), row.open)
		}
		host.Equal(t, "the last one", c.of("update", id, host.Given("name", "Ann")), c.acknowledged())
		done := c.await(id, "completed")
		host.Contains(t, "both", done, `{\"answer\":\"Ann\"} {\"answer\":\"9\"}`)
		host.Equal(t, "an ended one", c.of("update", id, host.Given("name", "Bob")), c.acknowledged())
		same(t, "unchanged", at(t, c.of("get", id), "result"), at(t, done, "result"))
		id = c.begin("work", `{"ms":60000}`)
		host.Equal(t, "one that works", c.of("update", id, host.Given("name", "Bob")), c.acknowledged())
		host.Equal(t, "which goes on", str(t, c.of("get", id), "result", "status"), "working")

		// Keys are unique over the life of a task: an answer to an old one is none to a new one.
		id = c.begin("twice", `{}`)
		first := keys(t, c.await(id, "input_required"))
		if len(first) != 1 {
			t.Fatalf("questions %q, want one", first)
		}
		c.of("update", id, host.Given(first[0], "one"))
		synctest.Wait()
		second := keys(t, c.await(id, "input_required"))
		if len(second) != 1 || second[0] == first[0] {
			t.Fatalf("the second question has the keys %q, the first one had %q", second, first)
		}
		host.Equal(t, "the old key", c.of("update", id, host.Given(first[0], "again")), c.acknowledged())
		synctest.Wait()
		host.Equal(t, "still open", fmt.Sprint(keys(t, c.await(id, "input_required"))), fmt.Sprint(second))
		c.of("update", id, host.Given(second[0], "two"))
		host.Contains(t, "both", c.await(id, "completed"), `{\"answer\":\"one\"} {\"answer\":\"two\"}`)
	})
}

// TestQuestionsCrossTheEras answers in one era what a task of the other one asks.
func TestQuestionsCrossTheEras(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		old, now := session(h), stateless(h, withForms)
		id := begin(t, old, "quiz", `{}`)
		a := old.Post(result(id))
		host.NextQuestion(t, a)
		same(t, "asked in 2026-07-28", at(t, now.await(id, "input_required"), "result", "inputRequests"), `{"elicit":{"method":"elicitation/create","params":`+form("Who?")+`}}`)
		host.Equal(t, "answered there", now.of("update", id, host.Given("elicit", "Ann")), now.acknowledged())
		host.Equal(t, "read in 2025-11-25", host.Last(t, a), answerOf(id, `accept {"answer":"Ann"}`))

		id = now.begin("quiz", `{}`)
		a = old.Post(result(id))
		q := host.NextQuestion(t, a)
		same(t, "asked in 2025-11-25", without(t, string(q.Params), "_meta"), form("Who?"))
		host.Reply(old, q.ID, "result", accept("Bob"))
		host.Equal(t, "read there", host.Last(t, a), answerOf(id, `accept {"answer":"Bob"}`))
		host.Contains(t, "and in 2026-07-28", now.await(id, "completed"), `accept {\"answer\":\"Bob\"}`)
	})
}

// TestATaskIsOnlyForThoseWhoCanAnswer refuses clients that cannot be asked before there is a task.
func TestATaskIsOnlyForThoseWhoCanAnswer(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		const forms = `{"requiredCapabilities":{"elicitation":{"form":{}}}}`
		a := h.Unchecked().Initialize(`{}`).Post(augmented("quiz", `{}`, `{}`)).Body
		refused(t, "2025-11-25", a, host.Invalid)
		same(t, "2025-11-25", at(t, a, "error", "data"), forms)
		a = stateless(h, withTasks).call("quiz", `{}`)
		refused(t, "2026-07-28", a, -32021)
		same(t, "2026-07-28", at(t, a, "error", "data"), forms)
		if n := h.Stored("tasks"); n != 0 {
			t.Errorf("%d messages are stored of tasks that there are not", n)
		}
	})
}

// TestWhatIsAskedBeforeATask asks with the call itself: the task is made once the answer is there.
func TestWhatIsAskedBeforeATask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		var before, ran atomic.Int32
		add(h, troupe.Tool{Name: "order", Task: troupe.TaskRequired, Needs: mcp.CapClientElicitationForm,
			BeforeTask: func(ctx context.Context, call *troupe.Call, _ json.RawMessage) (json.RawMessage, error) {
				r, err := call.Elicit(ctx, "Sure?", host.Form)
				if err == nil && r.Action != mcp.ElicitAccept {
					err = errors.New("nothing was ordered")
				}
				before.Add(1)
				return json.RawMessage(`{"text":"changed"}`), err
			}}, func(_ context.Context, _ *troupe.Call, in WorkIn) (*mcp.CallToolResult, error) {
			ran.Add(1)
			return words(in.Text), nil
		})
		now, empty := stateless(h, withForms), func(when string) {
			t.Helper()
			synctest.Wait()
			if n, m := ran.Load(), h.Stored("tasks"); n != 0 || m != 0 {
				t.Errorf("%s: the handler ran %d times, and %d messages are stored of tasks", when, n, m)
			}
		}
		a, id := now.Tool("order", `{"text":"x"}`)
		state := now.Parked(a, id, "elicit")
		empty("asked")
		refusal := now.call("order", `{"text":"x"}`, state, `"inputResponses":{"elicit":{"action":"decline"}}`)
		host.Contains(t, "declined", refusal, "nothing was ordered")
		empty("declined")
		a, id = now.Tool("order", `{"text":"x"}`)
		task := now.begin("order", `{"text":"x"}`, now.Parked(a, id, "elicit"), host.Given("elicit", "yes"))
		host.Contains(t, "2026-07-28", now.await(task, "completed"), `"text":"changed"`)

		old := session(h)
		stream := old.Post(augmented("order", `{"text":"x"}`, `{}`))
		host.Reply(old, host.NextQuestion(t, stream).ID, "result", accept("yes"))
		made := host.Last(t, stream)
		task = str(t, made, "result", "task", "taskId")
		host.Contains(t, "2025-11-25", body(t, old.Post(result(task))), `"text":"changed"`)
		if n, m := before.Load(), ran.Load(); n != 3 || m != 2 {
			t.Errorf("the question was answered %d times and the handler ran %d times, want 3 and 2", n, m)
		}
		bad := now.call("order", `{"ms":"x"}`)
		if at(t, bad, "result", "isError") != "true" || strings.Contains(bad, "inputRequests") {
			t.Errorf("arguments that do not fit: %s", bad)
		}
	})
}

// TestAnAnswerThatDoesNotFit: an answer that is no object is acknowledged and not taken, and the task says so to both eras until that question has one.
func TestAnAnswerThatDoesNotFit(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := asking(t, troupe.Options{})
		c, core := stateless(h, withForms), session(h)
		id := c.begin("two", `{}`)
		message := func() string {
			time.Sleep(time.Second)
			return str(t, c.of("get", id), "result", "statusMessage")
		}
		c.await(id, "input_required")
		host.Equal(t, "before an answer", message(), "")
		c.of("update", id, `"inputResponses":{"age":"yes","strange":1}`)
		const unfit = `the answer to "age" is no JSON object and was not taken`
		host.Equal(t, "after one that does not fit", message(), unfit)
		host.Equal(t, "in 2025-11-25", str(t, core.Post(of("get", id)).Body, "result", "statusMessage"), unfit)
		c.of("update", id, `"inputResponses":{"name":`+accept("ann")+`}`)
		host.Equal(t, "after the answer to another question", message(), unfit)
		c.of("update", id, `"inputResponses":{"age":`+accept("7")+`}`)
		c.await(id, "completed")
		host.Equal(t, "at the end", message(), "")
	})
}
