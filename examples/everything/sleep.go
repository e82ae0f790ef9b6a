package everything

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe"
)

type sleepInput struct {
	MS int64 `json:"ms"`
}

const sleepSchema = `{"type":"object","properties":{
	"ms":{"type":"integer","minimum":0,"maximum":3600000,"description":"milliseconds"}
},"required":["ms"],"additionalProperties":false}`

func addSleep(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "sleep",
		Description: "Takes its time. Cancel it to see it end early.",
		InputSchema: json.RawMessage(sleepSchema),
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, _ *troupe.Call, in sleepInput) (string, error) {
		if err := pause(ctx, millis(in.MS)); err != nil {
			return "", err
		}
		return fmt.Sprintf("slept %d ms", in.MS), nil
	})
}
