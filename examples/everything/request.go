package everything

import (
	"context"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// regionInput makes clients repeat the argument in the header Mcp-Param-Region, so that
// a proxy between the client and the server can route by it.
type regionInput struct {
	Region string `json:"region,omitempty" jsonschema:"where to run" form:"header=Region"`
}

// addRequests adds tools that depend on what each request declares since 2026-07-28:
// capabilities, a log level, headers.
func addRequests(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_missing_capability",
		Description: "Refuses clients whose model cannot be asked.",
		Needs:       mcp.CapClientSampling,
		Rerun:       troupe.Safe,
	}, func(context.Context, *troupe.Call, struct{}) (string, error) {
		return "the client declares sampling", nil
	})
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_streaming_elicitation",
		Description: "Reports progress on the stream that ends with its answer.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		if err := call.Progress(ctx, 1, 2, "half of it"); err != nil {
			return "", err
		}
		return "streamed", nil
	})
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_logging_tool",
		Description: "Logs, for those requests that want it.",
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
		if err := call.Log(ctx, mcp.LevelInfo, "", "a message for who asked for one"); err != nil {
			return "", err
		}
		return "logged", nil
	})
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_x_mcp_header",
		Description: "Returns the region that is in a header of its request, too.",
		Rerun:       troupe.Safe,
	}, func(_ context.Context, _ *troupe.Call, in regionInput) (string, error) {
		return "region: " + in.Region, nil
	})
}
