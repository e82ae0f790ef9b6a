package loadgen

import (
	"context"
)

// askArguments are those of the tool that asks, and answerText is what it is answered with.
const (
	askArguments = `{"question":"?"}`
	answerText   = "42"
)

func ask(ctx context.Context, c *client) (int64, error) {
	tool := "ask"
	if c.o.Scenario == "ask" {
		tool = c.toolOr(tool)
	}
	answer := `{"action":"accept","content":{"answer":"` + answerText + `"}}`
	r, err := c.callTool(ctx, tool, askArguments, "", func(ctx context.Context, m *message) error {
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
		r, err = c.callTool(ctx, tool, askArguments, `,"requestState":`+quoted(r.State)+`,"inputResponses":{`+given[1:]+`}`, nil)
	}
	if err != nil {
		return 0, err
	}
	return 0, r.says(answerText)
}
