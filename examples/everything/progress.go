package everything

import (
	"context"

	"github.com/troupe-run/troupe"
)

func addProgress(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_tool_with_progress",
		Description: "Reports progress three times.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		for done := 0.0; done <= 100; done += 50 {
			if done > 0 {
				if err := pause(ctx, millis(50)); err != nil {
					return "", err
				}
			}
			if err := call.Progress(ctx, done, 100, ""); err != nil {
				return "", err
			}
		}
		return "Tool with progress completed", nil
	})
}
