package everything

import (
	"context"

	"github.com/troupe-run/troupe"
)

// addReconnection adds a tool that gives up its connection while it works; the
// client comes back for the result.
func addReconnection(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_reconnection",
		Description: "Closes the connection and answers on the one that the client resumes with.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		call.Disconnect()
		if err := pause(ctx, millis(100)); err != nil {
			return "", err
		}
		return "Reconnection test completed successfully", nil
	})
}
