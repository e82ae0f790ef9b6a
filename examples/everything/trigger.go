package everything

import (
	"context"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// transient is the name of the items that the trigger tools add and remove.
const transient = "test_transient"

// untilAnnounced is how long an item stays, in milliseconds. The server announces changes
// within 50 ms as one, and does not announce an addition that is undone within them.
const untilAnnounced = 300

// addTriggers adds tools that change a list and change it back, so that listening
// clients get an announcement and the list stays as it was.
func addTriggers(s *troupe.Server) {
	trigger := func(name, description string, add, remove func()) {
		troupe.AddTool(s, troupe.Tool{Name: name, Description: description},
			func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
				add()
				defer remove()
				if err := pause(ctx, millis(untilAnnounced)); err != nil {
					return "", err
				}
				return "changed, and changed back", nil
			})
	}
	trigger("test_trigger_tool_change", "Adds a tool and takes it away again.", func() {
		troupe.AddTool(s, troupe.Tool{Name: transient, Description: "Is here for a moment."},
			func(context.Context, *troupe.Call, struct{}) (string, error) { return "still here", nil })
	}, func() { s.RemoveTools(transient) })
	trigger("test_trigger_prompt_change", "Adds a prompt and takes it away again.", func() {
		troupe.AddPrompt(s, troupe.Prompt{Name: transient, Description: "Is here for a moment."},
			func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Still here.")}}}, nil
			})
	}, func() { s.RemovePrompts(transient) })
}
