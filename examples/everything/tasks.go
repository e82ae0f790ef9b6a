package everything

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

type greetInput struct {
	Name string `json:"name"`
}

// askedInput has the name that BeforeTask asks for, and no client needs to send.
type askedInput struct {
	Name string `json:"name,omitempty"`
}

type computeInput struct {
	Seconds float64 `json:"seconds"`
	Label   string  `json:"label"`
}

type deleteInput struct {
	Filename string `json:"filename"`
}

// confirmation is the form of a question that is answered with yes or no.
var confirmation = mcp.FormSchema{Properties: []mcp.Property{{Name: "confirm", Schema: &mcp.BooleanSchema{Description: "whether to go on"}}}, Required: []string{"confirm"}}

// addTasks adds tools whose calls become tasks, and one whose calls do not.
func addTasks(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "greet", Description: "Greets at once."}, func(_ context.Context, _ *troupe.Call, in greetInput) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	troupe.AddTool(s, troupe.Tool{Name: "slow_compute", Description: "Takes as many seconds as it is asked to.", Task: troupe.TaskOptional, Rerun: troupe.Safe},
		func(ctx context.Context, _ *troupe.Call, in computeInput) (string, error) {
			if err := pause(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
				return "", err
			}
			return fmt.Sprintf("%s: computed for %g s", in.Label, in.Seconds), nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "failing_job", Description: "Fails after a second.", Task: troupe.TaskRequired, Rerun: troupe.Safe},
		func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			if err := pause(ctx, time.Second); err != nil {
				return "", err
			}
			return "", errors.New("the job failed, as it always does")
		})
	troupe.AddTool(s, troupe.Tool{Name: "protocol_error_job", Description: "Ends with a protocol error.", Task: troupe.TaskOptional, Rerun: troupe.Safe},
		func(context.Context, *troupe.Call, struct{}) (string, error) {
			return "", mcp.NewError(mcp.CodeInternalError, "the job broke down, as it always does")
		})
	addAskingTasks(s)
}

// addAskingTasks adds tools that ask their client, before or after their calls have become tasks.
func addAskingTasks(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{Name: "confirm_delete", Description: "Asks before it would delete a file.", Task: troupe.TaskOptional, Rerun: troupe.Safe, Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, in deleteInput) (string, error) {
			r, err := call.Elicit(ctx, "Delete "+in.Filename+"?", confirmation)
			if err != nil {
				return "", err
			}
			return answered(r), nil
		})
	troupe.AddTool(s, troupe.Tool{Name: "multi_input", Description: "Asks two questions at once.", Task: troupe.TaskOptional, Rerun: troupe.Safe, Needs: mcp.CapClientElicitationForm},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			got, err := call.Ask(ctx, troupe.Elicit("first", "The first question", confirmation), troupe.Elicit("second", "The second question", confirmation))
			if err != nil {
				return "", err
			}
			first, err := got.Elicited("first")
			if err != nil {
				return "", err
			}
			second, err := got.Elicited("second")
			if err != nil {
				return "", err
			}
			return answered(first) + "; " + answered(second), nil
		})
	troupe.AddTool(s, troupe.Tool{
		Name: "test_tool_with_task", Description: "Asks for a name first, and then greets in a task.", Task: troupe.TaskRequired, Rerun: troupe.Safe,
		Needs: mcp.CapClientElicitationForm, BeforeTask: askName,
	}, func(_ context.Context, _ *troupe.Call, in askedInput) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
}

// askName asks for the name that the task greets.
func askName(ctx context.Context, call *troupe.Call, _ json.RawMessage) (json.RawMessage, error) {
	form := mcp.FormSchema{Properties: []mcp.Property{{Name: "name", Schema: &mcp.StringSchema{Description: "your name"}}}, Required: []string{"name"}}
	r, err := call.Elicit(ctx, "What is your name?", form)
	if err != nil {
		return nil, err
	}
	var in askedInput
	if r.Action == mcp.ElicitAccept {
		if err := json.Unmarshal(r.Content, &in); err != nil {
			return nil, fmt.Errorf("the answer has no name: %w", err)
		}
	}
	return json.Marshal(in)
}
