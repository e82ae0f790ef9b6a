package main

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type faultInput struct {
	How string `json:"how" jsonschema:"panic for a handler that panics, error for an internal error"`
}

// addFault adds a tool that fails as the demo's tools do not, so that it shows what is told of such
// handlers.
func addFault(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "fault", Description: "Fails as it is asked to.", Rerun: troupe.Never},
		func(_ context.Context, _ *troupe.Call, in faultInput) (string, error) {
			switch in.How {
			case "panic":
				panic("the tool fault was asked to")
			case "error":
				return "", mcp.NewError(mcp.CodeInternalError, "the tool fault was asked to fail")
			}
			return "", fmt.Errorf("how is %q: want panic or error", in.How)
		})
}
