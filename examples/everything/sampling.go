package everything

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type samplingInput struct {
	Prompt string `json:"prompt" jsonschema:"what to ask the client's model"`
}

// lookSchema is the schema of a tool that the client's model may use.
const lookSchema = `{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`

// addSampling adds a tool that asks the client's model for a message.
func addSampling(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_sampling",
		Description: "Asks the client's model.",
		Needs:       mcp.CapClientSampling,
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

// addDelegate adds a tool that asks the client's model which tool it would use.
func addDelegate(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "delegate",
		Description: "Asks the client's model which tool it would call.",
		Needs:       mcp.CapClientSamplingTools,
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, in samplingInput) (string, error) {
		answers, err := call.Ask(ctx, troupe.Sample("sample", mcp.CreateMessageParams{
			Messages:   []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks(mcp.Text(in.Prompt))}},
			MaxTokens:  100,
			Tools:      []mcp.Tool{{Name: "look", Description: "Looks something up.", InputSchema: json.RawMessage(lookSchema)}},
			ToolChoice: &mcp.ToolChoice{Mode: "required"},
		}).AsTask(time.Hour))
		if err != nil {
			return "", err
		}
		r, err := answers.Sampled("sample")
		if err != nil {
			return "", err
		}
		var uses []string
		for _, block := range r.Content.Blocks {
			if use, ok := block.(*mcp.ToolUseContent); ok {
				uses = append(uses, fmt.Sprintf("%s %s", use.Name, use.Input))
			}
		}
		return strings.Join(uses, "\n"), nil
	})
}
