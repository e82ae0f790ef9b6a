package everything

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
)

type sleepInput struct {
	MS int64 `json:"ms" jsonschema:"milliseconds" form:"min=0;max=3600000"`
}

func addSleep(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "sleep",
		Description: "Takes its time. Cancel it to see it end early.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, _ *troupe.Call, in sleepInput) (string, error) {
		if err := pause(ctx, millis(in.MS)); err != nil {
			return "", err
		}
		return fmt.Sprintf("slept %d ms", in.MS), nil
	})
}
