package everything

import (
	"context"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// addFailure adds a tool whose failure the model sees: a result with isError.
// Returning an error from the handler does the same.
func addFailure(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_error_handling",
		Description: "Always fails.",
		Rerun:       troupe.Safe,
	}, func(context.Context, *troupe.Call, struct{}) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{
			Content: mcp.Contents{mcp.Text("This tool intentionally returns an error for testing")},
			IsError: true,
		}, nil
	})
}
