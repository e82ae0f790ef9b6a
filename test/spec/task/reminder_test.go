package task_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
	"github.com/troupe-run/troupe/test/spec/host"
)

// asker adds the tool ask, which asks once and answers with what it got.
func asker(h *host.Host) {
	add(h, troupe.Tool{Name: "ask", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
		r, err := call.Elicit(ctx, "Which one?", host.Form)
		return words(string(r.Action)), err
	})
}

// questions are those among messages of a stream, and withdrawn how many cancellations there are.
func questions(messages []string) (asked []string, withdrawn int) {
	for _, m := range messages {
		switch {
		case strings.Contains(m, `"elicitation/create"`):
			asked = append(asked, m)
		case strings.Contains(m, `"notifications/cancelled"`):
			withdrawn++
		}
	}
	return asked, withdrawn
}

// listens reads a stream, and returns what has come on it so far.
func listens(t *testing.T, a *kit.Answer) func() []string {
	t.Helper()
	l := host.Listen(a)
	t.Cleanup(l.Close)
	return func() []string { return l.Since(0) }
}

// TestQuestionsOnTheStandaloneStream: a client of 2025-11-25 that calls no tasks/result gets the question of its task on its standalone stream
// after three seconds, once, with the task's id, and its answer lets the task end.
func TestQuestionsOnTheStandaloneStream(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		asker(h)
		c := session(h)
		stream := listens(t, c.Get(""))
		id := begin(t, c, "ask", `{}`)
		time.Sleep(2 * time.Second)
		if asked, _ := questions(stream()); len(asked) != 0 {
			t.Errorf("before it is time: %q", asked)
		}
		time.Sleep(2 * time.Minute)
		asked, withdrawn := questions(stream())
		if len(asked) != 1 || withdrawn != 0 {
			t.Fatalf("%d questions and %d withdrawals: %q", len(asked), withdrawn, asked)
		}
		host.Equal(t, "its task", str(t, asked[0], "params", "_meta", related, "taskId"), id)
		c.Post(`{"jsonrpc":"2.0","id":` + at(t, asked[0], "id") + `,"result":{"action":"decline"}}`)
		await(t, c, id, "completed")
		host.Contains(t, "its result", body(t, c.Post(of("result", id))), `"text":"decline"`)
		time.Sleep(5 * time.Minute)
		if asked, withdrawn := questions(stream()); len(asked) != 1 || withdrawn != 0 {
			t.Errorf("after the end: %d questions and %d withdrawals", len(asked), withdrawn)
		}
	})
}

// TestAResultTakesTheQuestions: while a tasks/result is open its stream has the questions, and the standalone stream none; one that comes
// after the reminder takes the question over, which is withdrawn from the standalone stream.
func TestAResultTakesTheQuestions(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		asker(h)
		c := session(h)
		stream := listens(t, c.Get(""))

		id := begin(t, c, "ask", `{}`)
		result := listens(t, c.Post(host.Method(`"result"`, "tasks/result", `{"taskId":"`+id+`"}`)))
		time.Sleep(5 * time.Minute)
		if asked, _ := questions(stream()); len(asked) != 0 {
			t.Errorf("beside a tasks/result: %q", asked)
		}
		q := result()[0]
		host.Contains(t, "the question of tasks/result", q, `"elicitation/create"`)
		c.Post(`{"jsonrpc":"2.0","id":` + at(t, q, "id") + `,"result":{"action":"decline"}}`)
		await(t, c, id, "completed")

		id = begin(t, c, "ask", `{}`)
		time.Sleep(10 * time.Second)
		if asked, _ := questions(stream()); len(asked) != 1 {
			t.Fatalf("the reminder has %d questions", len(asked))
		}
		result = listens(t, c.Post(host.Method(`"result"`, "tasks/result", `{"taskId":"`+id+`"}`)))
		time.Sleep(2 * time.Minute)
		q = result()[0]
		host.Contains(t, "the question of the second tasks/result", q, `"elicitation/create"`)
		if asked, withdrawn := questions(stream()); len(asked) != 1 || withdrawn != 1 {
			t.Errorf("%d questions and %d withdrawals, want one of each", len(asked), withdrawn)
		}
		c.Post(`{"jsonrpc":"2.0","id":` + at(t, q, "id") + `,"result":{"action":"cancel"}}`)
		await(t, c, id, "completed")
	})
}

// TestWhoIsNotReminded: the question of a task goes to no session but that which made it, and to none that cannot answer. A cancelled
// task withdraws it.
func TestWhoIsNotReminded(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		asker(h)
		other := listens(t, session(h).Get(""))
		c := session(h)
		id := begin(t, c, "ask", `{}`)
		time.Sleep(10 * time.Minute)
		stream := listens(t, c.Get("")) // later than the question
		time.Sleep(2 * time.Minute)
		if asked, _ := questions(stream()); len(asked) != 1 {
			t.Errorf("who listens later has %d questions", len(asked))
		}
		c.Post(of("cancel", id))
		time.Sleep(time.Minute)
		if _, withdrawn := questions(stream()); withdrawn != 1 {
			t.Errorf("the cancelled task has withdrawn its question %d times", withdrawn)
		}
		if asked, _ := questions(other()); len(asked) != 0 {
			t.Errorf("another session has %q", asked)
		}
	})
}

// TestEachQuestionIsReminded: a second question of a task is on the standalone stream as soon as the first one was, however late the first one was
// answered.
func TestEachQuestionIsReminded(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		h := serve(t, troupe.Options{}, nil)
		add(h, troupe.Tool{Name: "twice", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
			if _, err := call.Elicit(ctx, "Which file?", host.Form); err != nil {
				return nil, err
			}
			r, err := call.Elicit(ctx, "Sure?", host.Form)
			return words(string(r.Action)), err
		})
		c := session(h)
		stream := listens(t, c.Get(""))
		for _, late := range []time.Duration{4 * time.Second, 50 * time.Second, 4 * time.Minute} {
			before := len(stream())
			id := begin(t, c, "twice", `{}`)
			for _, text := range []string{"Which file?", "Sure?"} {
				time.Sleep(4 * time.Second)
				asked, _ := questions(stream()[before:])
				if len(asked) != 1 || !strings.Contains(asked[0], text) {
					t.Fatalf("4 s after the question %q, the stream has %q", text, asked)
				}
				before = len(stream())
				time.Sleep(late - 4*time.Second)
				if again, withdrawn := questions(stream()[before:]); len(again) != 0 || withdrawn != 0 {
					t.Fatalf("before the question %q was answered, the stream has %q, and %d withdrawals", text, again, withdrawn)
				}
				c.Post(`{"jsonrpc":"2.0","id":` + at(t, asked[0], "id") + `,"result":{"action":"decline"}}`)
			}
			await(t, c, id, "completed")
		}
	})
}

// TestQuestionsOverStdio: a client over stdio has one connection, and the question of its task comes there once.
func TestQuestionsOverStdio(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		p := host.NewPipe(t, troupe.Options{})
		troupe.AddTool(p.Server, troupe.Tool{Name: "ask", Task: troupe.TaskOptional}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.Elicit(ctx, "Which one?", host.Form)
			return string(r.Action), err
		})
		p.Initialize("2025-11-25")
		p.Send(augmented("ask", `{}`, `{}`))
		time.AfterFunc(2*time.Minute, func() { p.Send(`{"jsonrpc":"2.0","id":"late","method":"ping"}`) })
		var lines []string
		for len(lines) == 0 || !strings.Contains(lines[len(lines)-1], `"late"`) {
			lines = append(lines, p.Next())
		}
		asked, withdrawn := questions(lines)
		if len(asked) != 1 || withdrawn != 0 {
			t.Fatalf("%d questions and %d withdrawals: %q", len(asked), withdrawn, lines)
		}
		p.Send(`{"jsonrpc":"2.0","id":` + at(t, asked[0], "id") + `,"result":{"action":"decline"}}`)
		for line := ""; !strings.Contains(line, `"completed"`); line = p.Next() {
			if strings.Contains(line, `"elicitation/create"`) {
				t.Fatalf("it asks again: %s", line)
			}
		}
	})
}
