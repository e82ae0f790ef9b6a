package everything

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type askInput struct {
	Question string `json:"question" jsonschema:"what to ask the user"`
}

// addAsk adds ask, whose calls may run again, and ask_once, which stands for actions
// that must not happen twice: if its process dies, a call of ask_once is lost, and its
// client gets error -32010.
func addAsk(s *troupe.Server) {
	form := mcp.FormSchema{
		Properties: []mcp.Property{{Name: "answer", Schema: &mcp.StringSchema{Title: "Answer"}}},
		Required:   []string{"answer"},
	}
	ask := func(ctx context.Context, call *troupe.Call, in askInput) (string, error) {
		// People take their time: a client that hosts tasks need not hold a request open for so long.
		answers, err := call.Ask(ctx, troupe.Elicit("elicit", in.Question, form).AsTask(time.Hour))
		if err != nil {
			return "", err
		}
		r, err := answers.Elicited("elicit")
		if err != nil {
			return "", err
		}
		if r.Action != mcp.ElicitAccept {
			return "", fmt.Errorf("the user did not answer: %s", r.Action)
		}
		var content struct {
			Answer string `json:"answer"`
		}
		if err := json.Unmarshal(r.Content, &content); err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		return content.Answer, nil
	}
	troupe.AddTool(s, troupe.Tool{
		Name:        "ask",
		Description: "Asks the user a question and returns the answer.",
		Needs:       mcp.CapClientElicitationForm,
		Rerun:       troupe.Safe,
	}, ask)
	troupe.AddTool(s, troupe.Tool{
		Name:        "ask_once",
		Description: "Asks the user a question and returns the answer. It does not run again by itself.",
		Needs:       mcp.CapClientElicitationForm,
		Rerun:       troupe.Never,
	}, ask)
}
