package everything

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

const (
	simplePrompt        = "test_simple_prompt"
	promptWithArguments = "test_prompt_with_arguments"
)

func addPrompts(s *troupe.Server) {
	add := func(p troupe.Prompt, messages func(args map[string]string) []mcp.Content) {
		troupe.AddPrompt(s, p, func(_ context.Context, call *troupe.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			if p.Name == simplePrompt {
				if err := requireOfSuite(call, "prompts:get", simplePrompt); err != nil {
					return nil, err
				}
			}
			r := &mcp.GetPromptResult{Description: p.Description}
			for _, content := range messages(args) {
				r.Messages = append(r.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: content})
			}
			return r, nil
		})
	}
	add(troupe.Prompt{Name: simplePrompt, Title: "Simple prompt", Description: "A prompt without arguments."},
		func(map[string]string) []mcp.Content {
			return []mcp.Content{mcp.Text("This is a simple prompt for testing.")}
		})
	add(troupe.Prompt{Name: promptWithArguments, Title: "Prompt with arguments", Description: "A prompt that repeats its arguments.",
		Arguments: []mcp.PromptArgument{
			{Name: "arg1", Description: "The first argument", Required: true},
			{Name: "arg2", Description: "The second argument", Required: true},
		}},
		func(args map[string]string) []mcp.Content {
			return []mcp.Content{mcp.Text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))}
		})
	add(troupe.Prompt{Name: "test_prompt_with_embedded_resource", Title: "Prompt with a resource", Description: "A prompt that carries a resource.",
		Arguments: []mcp.PromptArgument{{Name: "resourceUri", Description: "The URI of the resource", Required: true}}},
		func(args map[string]string) []mcp.Content {
			return []mcp.Content{
				mcp.Embed(mcp.TextResource(args["resourceUri"], typeText, "Embedded resource content for testing.")),
				mcp.Text("Please process the embedded resource above."),
			}
		})
	add(troupe.Prompt{Name: "test_prompt_with_image", Title: "Prompt with an image", Description: "A prompt that carries an image."},
		func(map[string]string) []mcp.Content {
			return []mcp.Content{mcp.Image(redPixel, typePNG), mcp.Text("Please analyze the image above.")}
		})
}
