package everything

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type countInput struct {
	To      int64 `json:"to"`
	DelayMS int64 `json:"delay_ms"`
}

// countSchema is written out because an inferred schema has no bounds.
const countSchema = `{"type":"object","properties":{
	"to":{"type":"integer","minimum":0,"maximum":1000000,"description":"the last number"},
	"delay_ms":{"type":"integer","minimum":0,"maximum":60000,"description":"milliseconds before each number, 0 if absent"}
},"required":["to"],"additionalProperties":false}`

func addCount(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "count",
		Description: "Counts from 1, with a progress notification and a log message for each number.",
		InputSchema: json.RawMessage(countSchema),
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, in countInput) (string, error) {
		for n := int64(1); n <= in.To; n++ {
			if err := pause(ctx, millis(in.DelayMS)); err != nil {
				return "", err
			}
			if err := call.Progress(ctx, float64(n), float64(in.To), ""); err != nil {
				return "", err
			}
			if err := call.Log(ctx, mcp.LevelInfo, "count", fmt.Sprintf("%d of %d", n, in.To)); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("counted to %d", in.To), nil
	})
}
