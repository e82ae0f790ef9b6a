package loadgen

import (
	"context"
	"encoding/json"
)

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
