package everything

import (
	"context"

	"github.com/troupe-run/troupe"
)

type echoInput struct {
	Text string `json:"text" jsonschema:"what to return"`
}

func addEcho(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "echo",
		Description: "Returns the text as it is.",
		Rerun:       troupe.Safe,
	}, func(_ context.Context, _ *troupe.Call, in echoInput) (string, error) {
		return in.Text, nil
	})
}
