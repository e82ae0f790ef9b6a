package everything

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type tickInput struct {
	N       int64 `json:"n" jsonschema:"how many messages" form:"min=0;max=1000000"`
	EveryMS int64 `json:"every_ms" jsonschema:"milliseconds before each message" form:"min=0;max=60000;default=0"`
}

// addTick adds a tool that may not run again by itself: its
// messages belong to the session and not to the call, so that a second run would
// send them twice.
func addTick(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "tick",
		Description: "Sends numbered log messages on the session's own event stream, which the client must have opened with GET.",
		Rerun:       troupe.Never,
	}, func(ctx context.Context, call *troupe.Call, in tickInput) (string, error) {
		for n := int64(1); n <= in.N; n++ {
			if err := pause(ctx, millis(in.EveryMS)); err != nil {
				return "", err
			}
			if err := call.Peer().Log(ctx, mcp.LevelInfo, "tick", fmt.Sprintf("%d of %d", n, in.N)); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("ticked %d times", in.N), nil
	})
}
