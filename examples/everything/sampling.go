package everything

import (
	"context"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type samplingInput struct {
	Prompt string `json:"prompt" jsonschema:"what to ask the client's model"`
}

func addSampling(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_sampling",
		Description: "Asks the client's model.",
		Needs:       troupe.NeedsSampling,
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, in samplingInput) (string, error) {
		r, err := call.Sample(ctx, mcp.CreateMessageParams{
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text(in.Prompt))}},
			MaxTokens: 100,
		})
		if err != nil {
			return "", err
		}
		var said []string
		for _, block := range r.Content.Blocks {
			if text, ok := block.(*mcp.TextContent); ok {
				said = append(said, text.Text)
			}
		}
		return "LLM response: " + strings.Join(said, "\n"), nil
	})
}
