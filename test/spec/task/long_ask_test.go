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
	"github.com/troupe-run/troupe/test/spec/host"
)

// interviews is a safe tool that asks the same question again and again, and works before each and after the last.
func interviews(h *host.Host, tool troupe.Tool, works ...time.Duration) {
	tool.Name, tool.Rerun, tool.Needs = "interview", troupe.Safe, mcp.CapClientElicitationForm
	add(h, tool, func(ctx context.Context, call *troupe.Call, _ WorkIn) (*mcp.CallToolResult, error) {
		var said []string
		for i, d := range works {
			if err := host.Sleep(ctx, int(d.Milliseconds())); err != nil {
				return nil, context.Cause(ctx)
			}
			if i == len(works)-1 {
				break
			}
			got, err := call.Ask(ctx, troupe.Elicit("name", "Who?", host.Form))
			if err != nil {
				return nil, err
			}
			r, err := got.Elicited("name")
			if err != nil {
				return nil, err
			}
			var c struct{ Answer string }
			if err := json.Unmarshal(r.Content, &c); err != nil {
				return nil, err
			}
			said = append(said, c.Answer)
		}
		return words(strings.Join(said, " and ")), nil
	})
}

// answered answers the question of a call, and returns the last message of what follows.
func answered(c client, state, key, answer string) string {
	c.T.Helper()
	a, _ := c.Do("tools/call", host.ToolParams("interview", `{}`, state, host.Given(key, answer)))
	if !a.Stream() {
		return a.Body
	}
	return host.Last(c.T, a)
}

// TestALongCallKeepsItsAnswers has a call that has asked its client become a task and lose its process: the next run has the answers, and
// asks only what was not asked before.
func TestALongCallKeepsItsAnswers(t *testing.T) {
	for how, row := range map[string]struct {
		works []time.Duration
		lives bool
	}{
		"asked before":                {[]time.Duration{0, time.Minute, time.Minute}, false},
		"asked before, and goes on":   {[]time.Duration{0, time.Minute, time.Minute}, true},
		"answered before it is asked": {[]time.Duration{15 * time.Second, time.Minute, time.Minute}, false},
	} {
		works := row.works
		t.Run(how, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				dir := t.TempDir()
				h := host.New(t, troupe.Options{Dir: dir}, nil)
				interviews(h, troupe.Tool{}, works...)
				c := stateless(h, withForms)
				var made string
				if works[0] == 0 {
					a, id := c.Tool("interview", `{}`)
					made = answered(c, c.Parked(a, id, "name"), "name", "Ada")
				} else { // as a call that runs again has the answers of its client
					made = last(c.call("interview", `{}`, host.Given("name", "Ada")))
				}
				id := str(t, made, "result", "taskId")
				if !row.lives {
					next := host.New(t, troupe.Options{Dir: host.CopyDir(t, dir)}, nil)
					interviews(next, troupe.Tool{}, works...)
					c.Client = next.Moved(c.Client)
				}
				waits := c.await(id, "input_required")
				if strings.Contains(waits, `"name":{`) {
					t.Errorf("the first question is asked again: %s", waits)
				}
				host.Contains(t, "the second question", waits, `"name-2":{`)
				c.of("update", id, host.Given("name-2", "Grace"))
				host.Contains(t, "its result", c.await(id, "completed"), `"text":"Ada and Grace"`)
			})
		})
	}
}

// TestALongCallIsOfferedAgain has a call that its client had no room for as a task ask a question: it becomes one later, once it has its answer and
// takes long again, or its process drains.
func TestALongCallIsOfferedAgain(t *testing.T) {
	for how, after := range map[string]time.Duration{"it takes long again": 12 * time.Second, "its process drains": 2 * time.Second} {
		t.Run(how, func(t *testing.T) {
			kit.Bubble(t, func(t *testing.T) {
				h := host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: -1, Shared: troupe.SharedLimits{OpenTasksPerPrincipal: 1}}, nil)
				long(h)
				interviews(h, troupe.Tool{}, 11*time.Second, time.Minute)
				c := stateless(h, withForms)
				first := str(t, last(c.call("safe", `{"ms":3600000}`)), "result", "taskId")
				state := fmt.Sprintf(`"requestState":%q`, str(t, last(c.call("interview", `{}`)), "result", "requestState"))
				c.of("cancel", first)
				time.Sleep(20 * time.Second)
				if how == "its process drains" {
					time.AfterFunc(time.Second, func() { _ = h.Runtime.Drain(context.Background()) })
				}
				began := time.Now()
				made := answered(c, state, "name", "Ada")
				host.Equal(t, fmt.Sprint("after ", time.Since(began)), str(t, made, "result", "resultType"), "task")
				if d := time.Since(began); d > after {
					t.Errorf("it became a task after %v", d)
				}
				if how != "its process drains" {
					host.Contains(t, "its result", c.await(str(t, made, "result", "taskId"), "completed"), `"text":"Ada"`)
				}
			})
		})
	}
}

// TestALongCallWithTooManyTasks has a client with as many tasks as it may have call on: its call stays a call, and becomes a task when its process drains and there is room again.
func TestALongCallWithTooManyTasks(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Dir: t.TempDir(), DrainDelay: -1, Shared: troupe.SharedLimits{OpenTasksPerPrincipal: 1}}, nil)
		runs := long(h)
		c := stateless(h, withTasks)
		str(t, last(c.call("safe", `{"ms":60300}`)), "result", "taskId") // which ends when the process has begun to drain
		host.Contains(t, "beyond the limit", last(c.call("safe", `{"ms":30000,"text":"x"}`)), `"text":"x"`)
		answer := make(chan string, 1)
		go func() { answer <- last(c.call("safe", `{"ms":60000,"text":"y"}`)) }()
		time.Sleep(20 * time.Second)
		if err := h.Runtime.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		got := <-answer
		host.Equal(t, "with room again: "+got, str(t, got, "result", "resultType"), "task")
		if n := runs.Load(); n != 3 {
			t.Errorf("handlers ran %d times for 3 calls", n)
		}
	})
}

// TestNoTaskOfAProcessThatEndsWithItsStore drains a process whose store is in memory: a task would be gone with it, so the call goes on and ends.
func TestNoTaskOfAProcessThatEndsWithItsStore(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: -1}, nil)
		long(h)
		c := stateless(h, withTasks)
		answers := make(chan string, 2)
		for tool, ms := range map[string]int{"safe": 13000, "soon": 3500} { // longer than the grace, and than TaskAfter
			go func() { answers <- last(c.call(tool, fmt.Sprintf(`{"ms":%d,"text":"x"}`, ms))) }()
		}
		time.Sleep(500 * time.Millisecond)
		if err := h.Runtime.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		for range 2 {
			host.Contains(t, "a call", <-answers, `"text":"x"`)
		}
	})
}
