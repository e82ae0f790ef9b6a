package everything

import (
	"context"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

func addLogging(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_tool_with_logging",
		Description: "Sends three log messages.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		for i, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			if i > 0 {
				if err := pause(ctx, millis(50)); err != nil {
					return "", err
				}
			}
			if err := call.Log(ctx, mcp.LevelInfo, "", message); err != nil {
				return "", err
			}
		}
		return "Tool with logging executed successfully", nil
	})
}
