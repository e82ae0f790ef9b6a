package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A scenario is what a client does over and over, or what a crowd of them does once.
type scenario struct {
	what  string // in a sentence
	tool  string // that the server must have, "" for none
	needs string // what that tool must do
	do    func(ctx context.Context, c *client) (events int64, err error)
	whole func(ctx context.Context, o *Options, l *ledger) error // instead of do: the run from its beginning to its end

	bare   bool // do begins its own session
	legacy bool // it needs sessions
	modern bool // it needs a revision without sessions
	count  int  // how many sessions or streams there are by default, 0 if it has clients instead
}

// scenarios by name.
var scenarios map[string]*scenario

func init() {
	const counts = `takes {"to":20,"delay_ms":50} and reports progress for each number`
	scenarios = map[string]*scenario{
		"echo":     {what: "call a tool that returns the text it is given", tool: "echo", needs: "returns its argument text as it is", do: echo},
		"list":     {what: "list the tools", do: list},
		"progress": {what: "call a tool that reports progress 20 times, and read its event stream", tool: "count", needs: `takes {"to":20} and reports progress`, do: progress},
		"sessions": {what: "begin a session and end it", do: session, bare: true, legacy: true},
		"ask":      {what: "call a tool that asks the user, and answer", tool: "ask", needs: `takes {"question":"?"}, asks for {"answer":"..."} and returns that`, do: ask},
		"tasks":    {what: "begin a task of one step, and wait for its result", tool: "job", needs: `takes {"steps":1,"step_ms":0} and becomes a task`, do: task},
		"mixed":    {what: "of 50 operations 40 are echo, 5 list, 4 progress and 1 ask", tool: "echo", needs: "as echo, with the tools of progress and ask beside it", do: mixed},

		"hold":    {what: "begin sessions that stay, and look at the memory of the server", whole: hold, legacy: true, count: 10_000},
		"parked":  {what: "leave calls that ask the user without an answer, and look at the memory of the server", tool: "ask", needs: `takes {"question":"?"} and asks for {"answer":"..."}`, whole: hold, modern: true, count: 1000},
		"streams": {what: "keep idle event streams open, and look at the memory of the server", whole: idle, count: 1000},
		"resume":  {what: "cut event streams midway and resume all of them at once", tool: "count", needs: counts, whole: resume, legacy: true, count: 1000},
		"fanout":  {what: "update a resource, and wait until all who listen have heard of it", tool: "touch", needs: `takes {"uri": ...} and tells of an update of that resource`, whole: fanout, count: 1000},
		"slow":    {what: "echo, alone and then beside a client that hardly reads a long event stream", tool: "echo", needs: "as echo, with the tool count beside it", whole: slow},
		"noisy":   {what: "echo at a rate, alone and then beside a client of another address that calls far too often", tool: "echo", needs: "as echo", whole: noisy},
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
	if err := c.initialize(ctx); err != nil {
		return 0, err
	}
	return 0, c.end(ctx)
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

// probe looks with a client of its own whether the server can do the scenario.
func (s *scenario) probe(ctx context.Context, o *Options) error {
	if s.tool == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	c := newClient(o)
	defer c.close()
	if err := c.initialize(ctx); err != nil {
		return err
	}
	err := s.check(ctx, c)
	_ = c.end(ctx) // A session that is left expires.
	return err
}
