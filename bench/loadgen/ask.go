package loadgen

import (
	"context"
)

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
