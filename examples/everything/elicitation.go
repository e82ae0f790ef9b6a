package everything

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type elicitationInput struct {
	Message string `json:"message" jsonschema:"what to tell the user"`
}

func addElicitation(s *troupe.Server) {
	form := mcp.FormSchema{
		Properties: []mcp.Property{
			{Name: "username", Schema: &mcp.StringSchema{Description: "User's response"}},
			{Name: "email", Schema: &mcp.StringSchema{Description: "User's email address"}},
		},
		Required: []string{"username", "email"},
	}
	troupe.AddTool(s, troupe.Tool{
		Name:        "test_elicitation",
		Description: "Asks the user for a name and an address.",
		Needs:       mcp.CapClientElicitationForm,
		Rerun:       troupe.Safe,
	}, func(ctx context.Context, call *troupe.Call, in elicitationInput) (string, error) {
		r, err := call.Elicit(ctx, in.Message, form)
		if err != nil {
			return "", err
		}
		return "User response: " + answered(r), nil
	})
}

// answered writes an answer for a person to read.
func answered(r mcp.ElicitResult) string {
	if len(r.Content) == 0 {
		return fmt.Sprintf("action=%s, content={}", r.Action)
	}
	return fmt.Sprintf("action=%s, content=%s", r.Action, r.Content)
}
