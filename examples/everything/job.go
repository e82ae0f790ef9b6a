package everything

import (
	"context"
	"fmt"

	"github.com/troupe-run/troupe"
)

type jobInput struct {
	Steps  int   `json:"steps" jsonschema:"how many steps" form:"min=1;max=10000"`
	StepMS int64 `json:"step_ms" jsonschema:"milliseconds that each takes" form:"min=0;max=3600000"`
	FailAt int   `json:"fail_at,omitempty" jsonschema:"the step that fails for good; none if it is left out" form:"min=1"`
}

type jobOutput struct {
	Steps []jobStep `json:"steps"`
}

type jobStep struct {
	N       int    `json:"n"`
	Node    string `json:"node" jsonschema:"where the step ran"`
	Attempt int    `json:"attempt" jsonschema:"the run of the task that ran it"`
}

// addJob adds a tool whose calls become tasks. The steps that are stored do not run again, whatever happens to the process.
func addJob(s *troupe.Server) {
	troupe.AddTool(s, troupe.Tool{
		Name:        "job",
		Description: "Works in steps, and goes on behind the last of them after a crash.",
		Rerun:       troupe.Safe,
		Task:        troupe.TaskOptional,
		TaskNotice:  "The job has begun.",
	}, func(ctx context.Context, call *troupe.Call, in jobInput) (jobOutput, error) {
		var out jobOutput
		for i := 1; i <= in.Steps; i++ {
			done, err := troupe.Step(ctx, call, fmt.Sprintf("step %d", i), func(ctx context.Context) (jobStep, error) {
				if err := pause(ctx, millis(in.StepMS)); err != nil {
					return jobStep{}, err
				}
				if i == in.FailAt {
					return jobStep{}, troupe.Permanent(fmt.Errorf("step %d failed, as it was asked to", i))
				}
				return jobStep{N: i, Node: call.Node(), Attempt: call.Attempt()}, nil
			})
			if err != nil {
				return jobOutput{}, err
			}
			out.Steps = append(out.Steps, done)
			if err := call.Progress(ctx, float64(i), float64(in.Steps), ""); err != nil {
				return jobOutput{}, err
			}
		}
		return out, nil
	})
}
