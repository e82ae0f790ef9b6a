package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A scenario is what a client does over and over.
type scenario struct {
	what  string // in a sentence
	tool  string // that the server must have, "" for none
	needs string // what that tool must do
	do    func(ctx context.Context, c *client) (events int64, err error)
	bare  bool // do begins its own session
}

// scenarios by name.
var scenarios map[string]*scenario

func init() {
	scenarios = map[string]*scenario{
		"echo":     {what: "call a tool that returns the text it is given", tool: "echo", needs: "returns its argument text as it is", do: echo},
		"list":     {what: "list the tools", do: list},
		"progress": {what: "call a tool that reports progress 20 times, and read its event stream", tool: "count", needs: `takes {"to":20} and reports progress`, do: progress},
		"sessions": {what: "begin a session and end it", do: session, bare: true},
		"ask":      {what: "call a tool that asks the user, and answer", tool: "ask", needs: `takes {"question":"?"}, asks for {"answer":"..."} and returns that`, do: ask},
		"tasks":    {what: "begin a task of one step, and wait for its result", tool: "job", needs: `takes {"steps":1,"step_ms":0} and becomes a task`, do: task},
		"mixed":    {what: "of 50 operations 40 are echo, 5 list, 4 progress and 1 ask", tool: "echo", needs: "as echo, with the tools of progress and ask beside it", do: mixed},
	}
}

// Scenarios tells what there is, by name.
func Scenarios() map[string]string {
	all := make(map[string]string)
	for name, s := range scenarios {
		all[name] = s.what
	}
	return all
}

// quoted is a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a text always can be
	return string(b)
}

// callTool calls a tool and returns its result.
func (c *client) callTool(ctx context.Context, tool, arguments, more string, seen func(context.Context, *message) error) (*toolResult, error) {
	return c.callAs(ctx, c.newID(), tool, arguments, more, seen)
}

func (c *client) callAs(ctx context.Context, id, tool, arguments, more string, seen func(context.Context, *message) error) (*toolResult, error) {
	m, err := c.call(ctx, id, "tools/call", tool, `"name":`+quoted(tool)+`,"arguments":`+arguments+more, seen)
	if err != nil {
		return nil, err
	}
	return resultOf(m)
}

// toolResult is what of a result is looked at.
type toolResult struct {
	Type    string `json:"resultType"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	IsError  bool                       `json:"isError"`
	Asked    map[string]json.RawMessage `json:"inputRequests"`
	State    string                     `json:"requestState"`
	TaskID   string                     `json:"taskId"`
	Status   string                     `json:"status"`
	Result   json.RawMessage            `json:"result"`
	Interval int                        `json:"pollIntervalMs"`
	Task     *struct {
		ID string `json:"taskId"`
	} `json:"task"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Cursor string `json:"nextCursor"`
}

func resultOf(m *message) (*toolResult, error) {
	r := new(toolResult)
	if err := json.Unmarshal(m.Result, r); err != nil {
		return nil, wrong("a result that is none: %v", err)
	}
	if r.IsError {
		text := ""
		if len(r.Content) > 0 {
			text = r.Content[0].Text
		}
		return nil, &Failure{"tool error", text}
	}
	return r, nil
}

// says checks that a result is one text.
func (r *toolResult) says(text string) error {
	if len(r.Content) != 1 || r.Content[0].Text != text {
		return wrong("want the text %.60q, got %d contents: %.100v", text, len(r.Content), r.Content)
	}
	return nil
}

// toolOr is the tool that the user has named, or the scenario's own.
func (c *client) toolOr(own string) string {
	if c.o.Tool != "" {
		return c.o.Tool
	}
	return own
}

func echo(ctx context.Context, c *client) (int64, error) {
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
	return 0, r.says(text)
}

func list(ctx context.Context, c *client) (int64, error) {
	m, err := c.call(ctx, c.newID(), "tools/list", "", "", nil)
	if err != nil {
		return 0, err
	}
	r, err := resultOf(m)
	if err == nil && len(r.Tools) == 0 {
		err = wrong("no tools are listed")
	}
	return 0, err
}

// steps is how often progress is reported.
const steps = 20

func progress(ctx context.Context, c *client) (events int64, err error) {
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
		err = wrong("no progress came before the answer")
	}
	return events, err
}

func session(ctx context.Context, c *client) (int64, error) {
	if c.o.stateless() {
		return 0, fmt.Errorf("%s has no sessions: choose another revision", Stateless)
	}
	if err := c.initialize(ctx); err != nil {
		return 0, err
	}
	return 0, c.end(ctx)
}

// answerText is what a question is answered with.
const answerText = "42"

func ask(ctx context.Context, c *client) (int64, error) {
	const arguments = `{"question":"?"}`
	tool := "ask"
	if c.o.Scenario == "ask" {
		tool = c.toolOr(tool)
	}
	answer := `{"action":"accept","content":{"answer":"` + answerText + `"}}`
	r, err := c.callTool(ctx, tool, arguments, "", func(ctx context.Context, m *message) error {
		if m.Method != "elicitation/create" {
			return nil
		}
		return c.send(ctx, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+answer+`}`, "")
	})
	for rounds := 0; err == nil && r.Type == "input_required"; rounds++ {
		if rounds == 10 {
			return 0, wrong("asks for more after 10 rounds")
		}
		given := ""
		for key := range r.Asked {
			given += "," + quoted(key) + ":" + answer
		}
		if given == "" {
			return 0, wrong("input is required, and none is asked for")
		}
		r, err = c.callTool(ctx, tool, arguments, `,"requestState":`+quoted(r.State)+`,"inputResponses":{`+given[1:]+`}`, nil)
	}
	if err != nil {
		return 0, err
	}
	return 0, r.says(answerText)
}

// taskPoll is how often a task is looked at whose server does not say how often.
const taskPoll = 10 * time.Millisecond

func task(ctx context.Context, c *client) (int64, error) {
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
		m, err := c.call(ctx, c.newID(), "tasks/result", "", `"taskId":`+quoted(r.Task.ID), nil)
		if err == nil {
			_, err = resultOf(m)
		}
		return 0, err
	}
	if r.TaskID == "" {
		return 0, wrong("the call did not become a task")
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
		m, err := c.call(ctx, c.newID(), "tasks/get", id, `"taskId":`+quoted(id), nil)
		if err != nil {
			return 0, err
		}
		if r, err = resultOf(m); err != nil {
			return 0, err
		}
	}
}

func mixed(ctx context.Context, c *client) (int64, error) {
	c.turn++
	switch n := c.turn % 50; {
	case n == 0:
		return ask(ctx, c)
	case n < 5:
		return progress(ctx, c)
	case n < 10:
		return list(ctx, c)
	}
	return echo(ctx, c)
}

// check says what the server lacks for a scenario, before it is begun.
func (s *scenario) check(ctx context.Context, c *client) error {
	tool := s.tool
	if tool == "" {
		return nil
	}
	tool = c.toolOr(tool)
	var there []string
	for cursor := ""; ; {
		params := ""
		if cursor != "" {
			params = `"cursor":` + quoted(cursor)
		}
		m, err := c.call(ctx, c.newID(), "tools/list", "", params, nil)
		if err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		r, err := resultOf(m)
		if err != nil {
			return err
		}
		for _, t := range r.Tools {
			if t.Name == tool {
				return nil
			}
			there = append(there, strconv.Quote(t.Name))
		}
		if cursor = r.Cursor; cursor == "" {
			break
		}
	}
	return fmt.Errorf("the server has no tool %q, which %s: name another one (--tool, --arguments); it has %s", tool, s.needs, strings.Join(there[:min(len(there), 20)], ", "))
}
