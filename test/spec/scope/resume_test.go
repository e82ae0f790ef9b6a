package scope_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// resume resumes a stream after an event.
func resume(c *kit.Client, id string) *kit.Answer {
	return c.Do(http.MethodGet, "", "Last-Event-Id", id)
}

// begun calls tool with the scopes and returns the id of the first event of its stream, whose connection it breaks.
func begun(t *testing.T, c *kit.Client, message, scopes string) string {
	t.Helper()
	a := as(c, scopes).Post(message)
	if !a.Stream() {
		t.Fatalf("%s %s", a.Status, a.Body)
	}
	e, _ := a.Next()
	a.Close()
	return e.ID
}

// TestNarrowerTokenResumesNothing resumes the stream of a call with less than the call needs: while it runs, when its tool is gone, on the node after a
// crash, and when the call has ended. Who lacks a scope must not have the call run again either.
func TestNarrowerTokenResumesNothing(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		h, ran := guarded(t, troupe.Options{Dir: dir}, troupe.ServerOptions{})
		c := as(h.Unchecked(), "base tools").InitializeAs(host.R20251125, `{}`)
		call := host.CallWith("7", "tool", `{"wait":true}`, `"p"`)
		id := begun(t, c, call, "base tools more")
		denied(t, "runs", resume(as(c, "base"), id), "", "base tools")
		denied(t, "runs", resume(as(c, "tools"), id), "", "tools base")
		goesOn(t, resume(as(c, "base tools"), id))
		h.Server.RemoveTools("tool")
		denied(t, "the tool is gone", resume(as(c, "base"), id), "", "base tools")

		next := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir), Authenticate: user}, nil) // which needs no scope, but for the calls of before
		runs := new(counter)
		addGuarded(next.Server, runs)
		moved := next.Moved(c)
		denied(t, "after a crash", resume(as(moved, "base"), id), "", "base tools")
		synctest.Wait() // a call that has begun again runs by itself
		if n := runs.Load(); n != 0 {
			t.Errorf("the call has run again %d times", n)
		}
		a := resume(as(moved, "base tools"), id)
		if !a.Stream() {
			t.Fatalf("after a crash, with the scopes: %s %s", a.Status, a.Body)
		}
		a.Close()
		as(moved, "base tools").Post(host.Cancel("7"))
		denied(t, "ended", resume(as(moved, "base"), id), "", "base tools")
		if n := ran.Load(); n != 1 {
			t.Errorf("%d runs", n)
		}
	})
}

// goesOn fails unless a goes on with the stream that was resumed, and closes it.
func goesOn(t *testing.T, a *kit.Answer) {
	t.Helper()
	if !a.Stream() {
		t.Errorf("with the scopes: %s %s", a.Status, a.Body)
		return
	}
	a.Close()
}

// TestResumeOfABatch needs the scopes of all calls of the batch.
func TestResumeOfABatch(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20250326, `{}`)
		id := begun(t, c, host.Batch(host.Method("1", "prompts/get", `{"name":"prompt"}`), host.CallWith("2", "tool", `{"wait":true}`, `"p"`)), "base tools prompts")
		denied(t, "without prompts", resume(as(c, "base tools"), id), "", "base tools prompts")
		denied(t, "without tools", resume(as(c, "base prompts"), id), "", "base prompts tools")
		goesOn(t, resume(as(c, "base tools prompts"), id))
	})
}

// TestResumeNeedsWhatWasRequired resumes the stream of a call that has required a scope before it began.
func TestResumeNeedsWhatWasRequired(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		troupe.AddTool(h.Server, troupe.Tool{Name: "required"}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			if err := call.Require("delete"); err != nil {
				return "", err
			}
			_ = call.Progress(ctx, 1, 0, "")
			<-ctx.Done()
			return "", nil
		})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20251125, `{}`)
		id := begun(t, c, host.CallWith("1", "required", `{}`, `"p"`), "base delete")
		denied(t, "without delete", resume(as(c, "base"), id), "", "base delete")
		goesOn(t, resume(as(c, "base delete"), id))
	})
}

// TestNarrowerTokenSendsNothingAgain brings answers to a call of 2026-07-28 with less than the call needs.
func TestNarrowerTokenSendsNothingAgain(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		asks := func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			if err := call.Require("delete"); err != nil {
				return "", err
			}
			got, _, err := troupe.ElicitAs[struct {
				Answer string `json:"answer"`
			}](ctx, call, "Name?")
			return got.Answer, err
		}
		tool := troupe.Tool{Name: "ask", Needs: mcp.CapClientElicitationForm, Scopes: []string{"tools"}, Rerun: troupe.Safe}
		troupe.AddTool(h.Server, tool, asks)
		c := h.Stateless(`{"elicitation":{"form":{}}}`)
		as(c.Client, "base tools delete")
		a, id := c.Tool("ask", `{}`)
		state := c.Parked(a, id, "elicit")
		again := func(scopes string) (*kit.Answer, string) {
			as(c.Client, scopes)
			return c.Tool("ask", `{}`, state, host.Given("elicit", "x"))
		}
		a, id = again("base")
		denied(t, "without tools", a, id, "base tools")
		tool.Scopes = nil
		troupe.AddTool(h.Server, tool, asks)
		a, id = again("base delete")
		denied(t, "the tool needs less by now", a, id, "base delete tools")
		a, id = again("base tools")
		denied(t, "without what was required", a, id, "base tools delete")
		a, id = again("base tools delete")
		host.Equal(t, "with the scopes", c.Done(a, id), "x")
	})
}

// made is the id of the task in a response.
func made(t *testing.T, a *kit.Answer) string {
	t.Helper()
	var got struct {
		Result struct {
			TaskID string
			Task   struct{ TaskID string }
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil || got.Result.TaskID+got.Result.Task.TaskID == "" {
		t.Fatalf("no task: %s %s", a.Status, a.Body)
	}
	return got.Result.TaskID + got.Result.Task.TaskID
}

// TestNarrowerTokenReadsNoTask reads, answers, follows and cancels a task with less than its call needs, also when its tool is gone.
func TestNarrowerTokenReadsNoTask(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, ran := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		c := as(h.Unchecked(), "base").InitializeAs(host.R20251125, `{}`)
		augmented := host.Method("1", "tools/call", `{"name":"tool","arguments":{},"task":{}}`)
		denied(t, "create", as(c, "base").Post(augmented), "1", "base tools")
		if n := ran.Load(); n != 0 {
			t.Errorf("%d handlers have run", n)
		}
		of := `{"taskId":"` + made(t, as(c, "base tools").Post(augmented)) + `"}`
		s := h.Stateless(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		as(s.Client, "base tools")
		a, _ := s.Tool("tool", `{}`)
		taskID := made(t, a)
		modern := `{"taskId":"` + taskID + `","inputResponses":{}}`
		for ran.Load() < 2 { // a task whose tool goes before it has begun waits for the tool
			time.Sleep(time.Second)
		}
		synctest.Wait()
		for _, gone := range []bool{false, true} {
			if gone {
				h.Server.RemoveTools("tool")
			}
			for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
				denied(t, method, as(c, "base").Post(host.Method("2", method, of)), "2", "base tools")
			}
			as(s.Client, "base")
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				a := s.Post(method, modern, "Mcp-Name", taskID)
				denied(t, method, a, fmt.Sprint(s.N), "base tools")
			}
			a, id := s.Do("subscriptions/listen", `{"notifications":{"taskIds":["`+taskID+`"]}}`)
			denied(t, "listen", a, id, "base tools")
		}
		if a := as(c, "base tools").Post(host.Method("3", "tasks/result", of)); !strings.Contains(a.Body, `"ran"`) {
			t.Errorf("result: %s", a.Body)
		}
		as(s.Client, "base tools")
		if a := s.Post("tasks/get", modern, "Mcp-Name", taskID); !strings.Contains(a.Body, `"ran"`) {
			t.Errorf("get: %s", a.Body)
		}
	})
}

// TestNarrowerTokenReadsNoMessage lists a task with less than its call needs, and hears of its end: it is there, without what the call has said. What every token of the
// server may have is told.
func TestNarrowerTokenReadsNoMessage(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h, _ := guarded(t, troupe.Options{}, troupe.ServerOptions{})
		for name, scopes := range map[string][]string{"fails": {"tools"}, "fails for all": nil} {
			troupe.AddTool(h.Server, troupe.Tool{Name: name, Scopes: scopes, Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(context.Context, *troupe.Call, struct{}) (string, error) {
				return "", errors.New("what it says")
			})
		}
		c := as(h.Unchecked(), "base tools").InitializeAs(host.R20251125, `{}`)
		stream := with(c, "base").Get("")
		defer stream.Close()
		told := func() string {
			for {
				e, ok := stream.Next()
				if !ok {
					t.Fatal("the stream is over")
				}
				if strings.Contains(e.Data, `"status":"failed"`) {
					return e.Data
				}
			}
		}
		made(t, c.Post(host.Method("1", "tools/call", `{"name":"fails for all","arguments":{},"task":{}}`)))
		if data := told(); !strings.Contains(data, "what it says") {
			t.Errorf("of a task that every token may read: %s", data)
		}
		made(t, c.Post(host.Method("1", "tools/call", `{"name":"fails","arguments":{},"task":{}}`)))
		if data := told(); strings.Contains(data, "what it says") {
			t.Errorf("the stream of a narrower token: %s", data)
		}
		for scopes, want := range map[string]int{"base tools": 2, "base": 1} {
			a := as(c, scopes).Post(host.Method("2", "tasks/list", `{}`))
			if strings.Count(a.Body, `"status":"failed"`) != 2 || strings.Count(a.Body, "what it says") != want {
				t.Errorf("%s: %s", scopes, a.Body)
			}
		}
	})
}
