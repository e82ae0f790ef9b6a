package loadgen

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// echoing has clients call echo.
var echoing = scenario{what: "call a tool that returns the text it is given", tool: "echo", needs: "returns its argument text as it is", do: callEcho}

func callEcho(ctx context.Context, c *client) (int64, error) {
	if c.o.Arguments != "" { // of a tool that the generator knows nothing of
		_, err := c.callTool(ctx, c.toolOr("echo"), c.o.Arguments, "", nil)
		return 0, err
	}
	id := c.newID()
	text := id + " " + strings.Repeat("x", max(0, c.o.Size-len(id)-1))
	r, err := c.callAs(ctx, id, c.toolOr("echo"), `{"text":"`+text+`"}`, "", nil)
	if err != nil {
		return 0, err
	}
	return 0, r.checkText(text)
}

func listTools(ctx context.Context, c *client) (int64, error) {
	m, err := c.callMethod(ctx, c.newID(), "tools/list", "", "", nil)
	if err != nil {
		return 0, err
	}
	r, err := resultOf(m)
	if err == nil && len(r.Tools) == 0 {
		err = wrongAnswer("no tools are listed")
	}
	return 0, err
}

// steps is how often progress is reported.
const steps = 20

func callCount(ctx context.Context, c *client) (events int64, err error) {
	arguments := fmt.Sprintf(`{"to":%d}`, steps)
	if c.o.Arguments != "" && c.o.Scenario == "progress" {
		arguments = c.o.Arguments
	}
	tool := "count"
	if c.o.Scenario == "progress" {
		tool = c.toolOr(tool)
	}
	c.reports = true
	defer func() { c.reports = false }()
	_, err = c.callTool(ctx, tool, arguments, "", func(_ context.Context, m *message) error {
		if m.Method == "notifications/progress" {
			events++
		}
		return nil
	})
	if err == nil && events == 0 {
		err = wrongAnswer("no progress came before the answer")
	}
	return events, err
}

func cycleSession(ctx context.Context, c *client) (int64, error) {
	if err := c.initialize(ctx); err != nil {
		return 0, err
	}
	return 0, c.endSession(ctx)
}

func doMixed(ctx context.Context, c *client) (int64, error) {
	c.turn++
	switch n := c.turn % 50; {
	case n == 0:
		return callAsk(ctx, c)
	case n < 5:
		return callCount(ctx, c)
	case n < 10:
		return listTools(ctx, c)
	}
	return callEcho(ctx, c)
}

// askArguments are those of the tool that asks, and answerText is what it is answered with.
const (
	askArguments = `{"question":"?"}`
	answerText   = "42"
)

func callAsk(ctx context.Context, c *client) (int64, error) {
	tool := "ask"
	if c.o.Scenario == "ask" {
		tool = c.toolOr(tool)
	}
	answer := `{"action":"accept","content":{"answer":"` + answerText + `"}}`
	r, err := c.callTool(ctx, tool, askArguments, "", func(ctx context.Context, m *message) error {
		if m.Method != "elicitation/create" {
			return nil
		}
		return c.sendMessage(ctx, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+answer+`}`, "")
	})
	for rounds := 0; err == nil && r.Type == "input_required"; rounds++ {
		if rounds == 10 {
			return 0, wrongAnswer("asks for more after 10 rounds")
		}
		given := ""
		for key := range r.Asked {
			given += "," + quoteJSON(key) + ":" + answer
		}
		if given == "" {
			return 0, wrongAnswer("input is required, and none is asked for")
		}
		r, err = c.callTool(ctx, tool, askArguments, `,"requestState":`+quoteJSON(r.State)+`,"inputResponses":{`+given[1:]+`}`, nil)
	}
	if err != nil {
		return 0, err
	}
	return 0, r.checkText(answerText)
}

// taskPoll is how often a task is looked at whose server does not say how often.
const taskPoll = 10 * time.Millisecond

func runTask(ctx context.Context, c *client) (int64, error) {
	arguments := `{"steps":1,"step_ms":0}`
	if c.o.Arguments != "" {
		arguments = c.o.Arguments
	}
	more := ""
	if !c.o.stateless() {
		more = `,"task":{"ttl":60000}`
	}
	r, err := c.callTool(ctx, c.toolOr("job"), arguments, more, nil)
	if err != nil {
		return 0, err
	}
	if r.Task != nil {
		m, err := c.callMethod(ctx, c.newID(), "tasks/result", "", `"taskId":`+quoteJSON(r.Task.ID), nil)
		if err == nil {
			_, err = resultOf(m)
		}
		return 0, err
	}
	if r.TaskID == "" {
		return 0, wrongAnswer("the call did not become a task")
	}
	id := r.TaskID
	for {
		switch r.Status {
		case "completed":
			return 0, nil
		case "working", "":
		default:
			return 0, &Failure{"task " + r.Status, id}
		}
		pause := time.NewTimer(taskPoll)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return 0, context.Cause(ctx)
		}
		m, err := c.callMethod(ctx, c.newID(), "tasks/get", id, `"taskId":`+quoteJSON(id), nil)
		if err != nil {
			return 0, err
		}
		if r, err = resultOf(m); err != nil {
			return 0, err
		}
	}
}
