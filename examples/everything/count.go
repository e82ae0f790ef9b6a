package everything

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type countInput struct {
	To      int64 `json:"to" jsonschema:"the last number" form:"min=0;max=1000000"`
	DelayMS int64 `json:"delay_ms" jsonschema:"milliseconds before each number" form:"min=0;max=60000;default=0"`
}

func addCount(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "count",
		Description: "Counts from 1, with a progress notification and a log message for each number.",
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
