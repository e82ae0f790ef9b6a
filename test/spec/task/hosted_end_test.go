package task_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// methods are the methods of messages, and "response" for those that have none.
func methods(t *testing.T, messages []string) (all []string) {
	t.Helper()
	for _, m := range messages {
		method := str(t, m, "method")
		if method == "" {
			method = "response"
		}
		all = append(all, method)
	}
	return all
}

// came fails the test unless messages have these methods.
func came(t *testing.T, what string, messages []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, methods(t, messages)); diff != "" {
		t.Errorf("%s (-want +got):\n%s\n%s", what, diff, strings.Join(messages, "\n"))
	}
}

// TestATaskThatNobodyWaitsForIsCancelled gives up a question whose client has a task of it: because the handler does, because the
// time that it wanted to wait is over, and because the client cancels the call. tasks/cancel must be used for that, and never
// notifications/cancelled (cancellation, behavior requirements).
func TestATaskThatNobodyWaitsForIsCancelled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{Limits: troupe.Limits{MaxCall: 2 * time.Minute}})
		for _, capabilities := range []string{hosting, noCancel} {
			cancel := []string{"tasks/cancel"}
			if capabilities == noCancel { // there is no way to say it
				cancel = nil
			}
			c := h.Client().Initialize(capabilities)
			a := c.Post(host.Call("1", "impatient", `{"ms":5000}`))
			made(c, next(t, a, "elicitation/create").ID, "working", `,"pollInterval":60000`)
			all := host.Payloads(a.All())
			came(t, "the handler gives up", all, append(cancel, "response")...)
			host.Equal(t, "the handler gives up", all[len(all)-1], host.TextResult("1", "context deadline exceeded"))

			a = c.Post(host.Call("1", "who", `{"ms":9000}`))
			made(c, next(t, a, "elicitation/create").ID, "working", `,"pollInterval":6000`)
			host.Reply(c, next(t, a, "tasks/get").ID, "result", its("working", `,"pollInterval":6000`))
			begin := time.Now()
			host.Reply(c, next(t, a, "tasks/get").ID, "result", its("working", `,"pollInterval":6000`))
			host.Equal(t, "it looks for a last time when the time is over", time.Since(begin).String(), "3s")
			all = host.Payloads(a.All())
			came(t, "the time is over", all, append(cancel, "response")...)
			host.Equal(t, "the time is over", all[len(all)-1], host.ToolFault("1", "the client did not answer in time"))

			a = c.Post(host.Call("1", "who", `{}`))
			made(c, next(t, a, "elicitation/create").ID, "working", `,"pollInterval":600000`)
			all = host.Payloads(a.All())
			came(t, "the call has taken too long", all, append(cancel, "response")...)
			host.Equal(t, "the call has taken too long", all[len(all)-1], host.ToolFault("1", "the call ran for too long"))

			for _, tool := range []string{"who", "own context"} {
				listening := host.Listen(c.Get(""))
				a = c.Post(host.Call("1", tool, `{}`))
				made(c, next(t, a, "elicitation/create").ID, "working", `,"pollInterval":60000`)
				time.Sleep(time.Second)
				c.Post(host.Cancel("1"))
				came(t, "nothing comes on the stream of a cancelled call", host.Payloads(a.All()))
				time.Sleep(time.Second)
				came(t, "the client cancels the call of "+tool, listening.Since(0), cancel...)
			}
		}
	})
}

// TestATaskThatComesTooLateIsCancelled has a client make its task when the question was given up.
func TestATaskThatComesTooLateIsCancelled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		for _, row := range []struct {
			what, with, value string
			after             time.Duration
			want              []string
		}{
			{"a task", "result", `{"task":` + its("working") + `}`, 10 * time.Second, []string{"tasks/cancel", "response"}},
			{"an answer", "result", `{"action":"decline"}`, 10 * time.Second, []string{"response"}},
			{"an error", "error", `{"code":-1,"message":"no"}`, 10 * time.Second, []string{"response"}},
			{"a task, far too late", "result", `{"task":` + its("working") + `}`, 40 * time.Second, []string{"response"}},
		} {
			c := h.Client().Initialize(hosting)
			a := c.Post(host.Call("1", "impatient", `{"ms":5000}`))
			q := next(t, a, "elicitation/create")
			rest := host.Reading(a)
			time.Sleep(row.after)
			host.Reply(c, q.ID, row.with, row.value)
			came(t, row.what, rest(), row.want...)
		}
		// The call may be over by then: the client hears of it on the other stream. A call that may run again stores its answers,
		// and this one need not be.
		c := h.Client().Initialize(hosting)
		listening := host.Listen(c.Get(""))
		a := c.Post(host.Call("1", "who", `{}`))
		q := next(t, a, "elicitation/create")
		c.Post(host.Cancel("1"))
		a.All()
		time.Sleep(10 * time.Second)
		made(c, q.ID, "working")
		time.Sleep(time.Second)
		synctest.Wait()
		came(t, "after the call", listening.Since(0), "tasks/cancel")
	})
}

// TestATaskThatComesWithTheCancelIsCancelled has a client make its task while it cancels the call: whichever is first, it
// hears that nobody waits for the task.
func TestATaskThatComesWithTheCancelIsCancelled(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		listening := host.Listen(c.Get(""))
		const rounds = 200
		for i := range rounds {
			id := strconv.Itoa(i)
			a := c.Post(host.Call(id, "who", `{}`))
			q := next(t, a, "elicitation/create")
			var both sync.WaitGroup
			both.Go(func() { c.Post(host.Cancel(id)) })
			both.Go(func() { made(c, q.ID, "working") })
			both.Wait()
			a.All()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		came(t, "one for each call", listening.Since(0), slices.Repeat([]string{"tasks/cancel"}, rounds)...)
	})
}

// TestALookWithoutAnswerIsRepeated has a client lose a tasks/get, and a tasks/result: the server asks again.
func TestALookWithoutAnswerIsRepeated(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{Limits: troupe.Limits{MaxAsk: 5 * time.Second}})
		c := h.Client().Initialize(hosting)
		a := c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working")
		lost := next(t, a, "tasks/get")
		host.Reply(c, next(t, a, "tasks/get").ID, "result", its("completed"))
		host.Reply(c, lost.ID, "result", its("working")) // late, and unheard
		next(t, a, "tasks/result")
		host.Reply(c, next(t, a, "tasks/get").ID, "result", its("completed"))
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
		host.Equal(t, "the result", host.Last(t, a), host.TextResult("1", "decline"))
	})
}

// TestARerunGoesOnWithTheClientsTask loses the process at each step of a hosted question. The client is not asked to host it
// again, and not for a result that it has given.
func TestARerunGoesOnWithTheClientsTask(t *testing.T) {
	when.Unraced(t, "virtual time that is long under the race detector")
	kit.Bubble(t, func(t *testing.T) {
		add := func(h *host.Host) *host.Host {
			add(h, troupe.Tool{Name: "then", Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
				a, err := call.Ask(ctx, troupe.Elicit("who", "Who?", host.Form).AsTask(time.Hour))
				if err != nil {
					return nil, err
				}
				r, err := a.Elicited("who")
				if err == nil {
					err = host.Sleep(ctx, 30_000)
				}
				return words(string(r.Action)), err
			})
			return h
		}
		answer := map[string]string{"elicitation/create": `{"task":` + its("working") + `}`, "tasks/get": its("completed"), "tasks/result": `{"action":"decline"}`}
		for _, row := range []struct {
			lost     string // the step at which the process is lost
			answered bool
			then     []string
		}{
			{"elicitation/create", false, []string{"tasks/get", "tasks/result", "response"}},
			{"elicitation/create", true, []string{"tasks/get", "tasks/result", "response"}},
			{"tasks/get", false, []string{"tasks/get", "tasks/result", "response"}},
			{"tasks/get", true, []string{"tasks/result", "response"}},
			{"tasks/result", false, []string{"response"}},
			{"tasks/result", true, []string{"response"}},
		} {
			what := fmt.Sprintf("lost at %s, answered: %v", row.lost, row.answered)
			dir := t.TempDir()
			one := troupe.Limits{PendingPerSession: 1} // which a second run has, too
			h := add(host.New(t, troupe.Options{Dir: dir, Limits: one}, nil))
			c := h.Unchecked().Initialize(hosting)
			a := c.Post(host.Call("1", "then", `{}`))
			last, q := kit.Event{}, host.Asked{}
			for q.Method != row.lost {
				if q.Method != "" {
					host.Reply(c, q.ID, "result", answer[q.Method])
				}
				if last, _ = a.Next(); last.Data != "" {
					q = host.ParseAsked(t, last.Data)
				}
			}
			if row.answered {
				host.Reply(c, q.ID, "result", answer[q.Method])
			}
			synctest.Wait()
			after := add(host.New(t, troupe.Options{Dir: host.CopyDir(t, dir), Limits: one}, nil))
			m := after.Moved(c)
			rest := m.Get(last.ID)
			if !row.answered {
				host.Reply(m, q.ID, "result", answer[q.Method])
			}
			var got []string
			for e, ok := rest.Next(); ok; e, ok = rest.Next() {
				if e.Data == "" {
					continue
				}
				got = append(got, e.Data)
				if q := host.ParseAsked(t, e.Data); q.Method != "" {
					host.Reply(m, q.ID, "result", answer[q.Method])
				}
			}
			came(t, what, got, row.then...)
			host.Equal(t, what, got[len(got)-1], host.TextResult("1", "decline"))
			a.Close()
			h.Runtime.Close(context.Background())
		}
	})
}

// TestADrainLeavesTheClientsTask ends a process in an orderly way while a client hosts a question of a call that may run again:
// the task is not cancelled.
func TestADrainLeavesTheClientsTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Unchecked().Initialize(hosting)
		listening := host.Listen(c.Get(""))
		a := c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working", `,"pollInterval":60000`)
		rest := host.Listen(a)
		time.Sleep(time.Second)
		h.Runtime.Close(context.Background())
		synctest.Wait()
		for _, messages := range [][]string{listening.Since(0), rest.Since(0)} {
			if all := strings.Join(messages, "\n"); strings.Contains(all, "cancel") {
				t.Errorf("told: %s", all)
			}
		}
	})
}

// TestHostedQuestionsCount bounds the questions of a session: one that the client hosts counts once, from its beginning to its end,
// however many requests it takes.
func TestHostedQuestionsCount(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{Limits: troupe.Limits{PendingPerSession: 1}})
		c := h.Client().Initialize(hosting)
		for range 2 {
			a := c.Post(host.Call("1", "who", `{}`))
			made(c, next(t, a, "elicitation/create").ID, "working")
			for _, tool := range []string{"who", "plain"} {
				host.Equal(t, tool, body(t, c.Post(host.Call("2", tool, `{}`))), host.ToolFault("2", "too many calls wait for the client"))
			}
			host.Reply(c, next(t, a, "tasks/get").ID, "result", its("completed"))
			host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
			host.Equal(t, "the result", host.Last(t, a), host.TextResult("1", "decline"))
		}
		// A client that has not said whether it has a task may still make one.
		a := c.Post(host.Call("1", "who", `{}`))
		q := next(t, a, "elicitation/create")
		c.Post(host.Cancel("1"))
		a.All()
		host.Equal(t, "after a question that was given up", body(t, c.Post(host.Call("2", "who", `{}`))), host.ToolFault("2", "too many calls wait for the client"))
		made(c, q.ID, "working")
		synctest.Wait()
		a = c.Post(host.Call("1", "plain", `{}`))
		q = next(t, a, "elicitation/create")
		host.Reply(c, q.ID, "result", `{"action":"decline"}`)
		host.Equal(t, "once it has said so", host.Last(t, a), host.TextResult("1", "decline"))
	})
}

// TestMessagesOfAClientsTaskNameIt has a client host the opening of a URL: the notification that the interaction there has ended
// belongs to the task (tasks, associating task-related messages). Roots, which no client hosts, are asked for at the same time.
func TestMessagesOfAClientsTaskNameIt(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := hosts(t, troupe.Options{})
		c := h.Client().Initialize(hosting)
		a := c.Post(host.Call("1", "open", `{}`))
		for range 3 { // in any order but for the result
			switch q := host.NextQuestion(t, a); q.Method {
			case "roots/list":
				host.Equal(t, "roots", string(q.Params), "")
				host.Reply(c, q.ID, "result", `{"roots":[]}`)
			case "tasks/result":
				host.Reply(c, q.ID, "result", `{"action":"accept"}`)
			default:
				made(c, q.ID, "completed")
			}
		}
		all := host.Payloads(a.All())
		came(t, "afterwards", all, "notifications/elicitation/complete", "response")
		same(t, "afterwards", at(t, all[0], "params"), `{"elicitationId":"u-1","_meta":{"`+related+`":{"taskId":"t-1"}}}`)
	})
}

// TestQuestionsOfATaskAreNotHosted asks from a task of the server, which waits for as long as it lasts: its questions are plain. A
// client that insists gets them as tasks.
func TestQuestionsOfATaskAreNotHosted(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := hosts(t, troupe.Options{}).Unchecked().Initialize(hosting) // for the check, a call has no task
		id := begin(t, c, "who", `{}`)
		a := c.Post(result(id))
		q := next(t, a, "elicitation/create")
		host.Equal(t, "its task", at(t, string(q.Params), "task"), "")
		host.Reply(c, q.ID, "error", `{"code":-32600,"message":"Task augmentation required"}`)
		q = next(t, a, "elicitation/create")
		host.Equal(t, "its task", at(t, string(q.Params), "task"), `{"ttl":600000}`)
		host.Equal(t, "and the task that it is for", str(t, string(q.Params), "_meta", related, "taskId"), id)
		made(c, q.ID, "completed")
		host.Reply(c, next(t, a, "tasks/result").ID, "result", `{"action":"decline"}`)
		host.Equal(t, "the result", host.Last(t, a), answerOf(id, "decline"))
	})
}

// TestTasksOfClientsAreLogged has the log tell of a client's task and of the request that it answers, without its id, which may be
// all that it takes to read the task (tasks, audit and logging).
func TestTasksOfClientsAreLogged(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		lines := new(host.Lines)
		h := hosts(t, troupe.Options{Log: slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		c := h.Client().Initialize(hosting)
		a := c.Post(host.Call("1", "who", `{}`))
		made(c, next(t, a, "elicitation/create").ID, "working")
		host.Reply(c, next(t, a, "tasks/get").ID, "result", its("failed"))
		host.Reply(c, next(t, a, "tasks/result").ID, "error", `{"code":-1,"message":"no"}`)
		a.All()
		synctest.Wait()
		for _, want := range []string{
			`msg="the client hosts a question" server=main method=elicitation/create task=46e9bc34 status=working`,
			`msg="the client's task is over" server=main method=elicitation/create task=46e9bc34 status=failed`,
		} {
			host.Contains(t, "the log", lines.String(), want)
		}
	})
}
