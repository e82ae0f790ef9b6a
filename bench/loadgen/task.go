package loadgen

import (
	"context"
	"time"
)

// taskPoll is how often a task is looked at whose server does not say how often.
const taskPoll = 10 * time.Millisecond

func task(ctx context.Context, c *client) (int64, error) {
	arguments := `{"steps":1,"step_ms":0}`
	if c.o.Arguments != "" {
		arguments = c.o.Arguments
	}
	more := ""
	if !c.o.stateless() {
		more = `,"task":{"ttl":60000}`
	}
	r, err := c.callTool(ctx, c.toolOr("job"), arguments, more, nil)
	if err != nil {
		return 0, err
	}
	if r.Task != nil {
		m, err := c.call(ctx, c.newID(), "tasks/result", "", `"taskId":`+quoted(r.Task.ID), nil)
		if err == nil {
			_, err = resultOf(m)
		}
		return 0, err
	}
	if r.TaskID == "" {
		return 0, wrong("the call did not become a task")
	}
	id := r.TaskID
	for {
		switch r.Status {
		case "completed":
			return 0, nil
		case "working", "":
		default:
			return 0, &Failure{"task " + r.Status, id}
		}
		pause := time.NewTimer(taskPoll)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return 0, context.Cause(ctx)
		}
		m, err := c.call(ctx, c.newID(), "tasks/get", id, `"taskId":`+quoted(id), nil)
		if err != nil {
			return 0, err
		}
		if r, err = resultOf(m); err != nil {
			return 0, err
		}
	}
}
