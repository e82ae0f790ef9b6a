package everything

import (
	"context"
	"strings"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// suggestions are what the arguments of one prompt complete to.
var suggestions = []string{"testing", "test value 1", "test value 2", "paris", "park", "party"}

// complete offers the suggestions that begin with the text typed so far, and none for
// prompts and resources without suggestions. It does not offer a value that another
// argument of the prompt has already.
func complete(_ context.Context, _ *troupe.Call, p mcp.CompleteParams) (mcp.Completion, error) {
	fits := []string{}
	if p.Ref.Type == mcp.RefPrompt && p.Ref.Name == promptWithArguments {
		for _, s := range suggestions {
			if strings.HasPrefix(s, p.Argument.Value) && !settled(p, s) {
				fits = append(fits, s)
			}
		}
	}
	return mcp.NewCompletion(fits), nil
}

// settled reports whether an argument of the context has the value.
func settled(p mcp.CompleteParams, value string) bool {
	if p.Context == nil {
		return false
	}
	for name, v := range p.Context.Arguments {
		if name != p.Argument.Name && v == value {
			return true
		}
	}
	return false
}
