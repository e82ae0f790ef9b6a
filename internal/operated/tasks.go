package operated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/operator"
)

const (
	// Looks is how many tasks are looked at at a time.
	Looks = 2000
	// mostSteps is how many steps of a task are told of.
	mostSteps = 500
)

// Tasks implements [operator.Operator].
func (p *Process) Tasks(ctx context.Context, q operator.Query) (page operator.TaskPage, err error) {
	if q, err = q.Check(operator.TaskStates); err != nil {
		return operator.TaskPage{}, err
	}
	page.Tasks, page.Next = []operator.Task{}, q.From
	theirs := p.whose(q.Principal)
	for looked := 0; looked < Looks && len(page.Tasks) < q.Limit; {
		n := q.Limit - len(page.Tasks)
		all, next, err := p.Pool.All(ctx, page.Next, n)
		if err != nil {
			return operator.TaskPage{}, err
		}
		for _, t := range all {
			told := p.describeTask(t)
			if !q.WantsTask(told.State) || !p.isOf(t.Key.Server, q.Server) {
				continue
			}
			switch wanted, err := p.includesTask(ctx, theirs, &t); {
			case err != nil:
				return operator.TaskPage{}, err
			case wanted:
				page.Tasks = append(page.Tasks, told)
			}
		}
		looked += n
		if page.Next = next; next == 0 {
			break
		}
	}
	return page, nil
}

// describeTask is what is told of a task.
func (p *Process) describeTask(t worker.Snapshot) operator.Task {
	r := &t.Record
	out := operator.Task{
		ID: t.Key.ID, State: r.State.String(), Tool: r.Name, Server: p.pathOf(t.Key.Server), Tenant: t.Key.Tenant, Principal: r.Who, Address: r.From,
		Node: r.Node, Attempt: r.Attempt, Message: r.Message, Created: time.UnixMilli(r.Created), Updated: time.UnixMilli(r.Updated), Expires: r.Expires(),
	}
	if r.State == task.Ended && r.Outcome != nil {
		out.State = r.Outcome.Kind.String()
	}
	return out
}

// findTask reads a task by its id.
func (p *Process) findTask(ctx context.Context, id string) (t worker.Snapshot, err error) {
	key, err := p.Pool.Find(ctx, id)
	if err == nil {
		t, err = p.Pool.Get(ctx, key)
	}
	if errors.Is(err, worker.ErrUnknown) {
		err = operator.ErrNoTask
	}
	return t, err
}

// Task implements [operator.Operator].
func (p *Process) Task(ctx context.Context, id string, result bool) (operator.TaskDetail, error) {
	t, err := p.findTask(ctx, id)
	if err != nil {
		return operator.TaskDetail{}, err
	}
	r := &t.Record
	d := operator.TaskDetail{Task: p.describeTask(t), Lost: r.Lost, AllRuns: int(r.Epoch), Asked: len(r.Questions), Runs: []operator.Run{}, Steps: []operator.Step{}, Questions: []operator.Question{}}
	for _, run := range r.Runs {
		told := operator.Run{Number: run.Epoch, Attempt: run.Attempt, Node: run.Node, Began: time.UnixMilli(run.Began), How: string(run.End)}
		if run.End != "" {
			told.Ended = time.UnixMilli(run.Over)
		}
		d.Runs = append(d.Runs, told)
	}
	for _, q := range r.OpenQuestions() {
		var asked mcp.InputRequest
		_ = codec.Unmarshal(q.Request, &asked) // the rest of the task may be read all the same
		told := operator.Question{Key: q.Key, Method: asked.Method}
		if result {
			told.Params = json.RawMessage(asked.Params)
		}
		d.Questions = append(d.Questions, told)
	}
	if result && r.Outcome != nil {
		d.Result = r.Outcome.Value
	}
	steps, all, err := p.Pool.Steps(ctx, t.Key, mostSteps)
	d.AllSteps = all
	for _, s := range steps {
		d.Steps = append(d.Steps, operator.Step{Name: s.Name, Attempt: s.Attempt, Began: time.UnixMilli(s.Began), TookMS: s.Took, Bytes: s.Size, Failed: s.Failed != ""})
	}
	return d, err
}

// CancelTask implements [operator.Operator].
func (p *Process) CancelTask(ctx context.Context, id string) (operator.Task, error) {
	key, err := p.Pool.Find(ctx, id)
	var t worker.Snapshot
	if err == nil {
		t, err = p.Pool.Cancel(ctx, key)
	}
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return operator.Task{}, operator.ErrNoTask
	case errors.Is(err, task.ErrEnded):
		return operator.Task{}, fmt.Errorf("%w: it is %s", operator.ErrTaskEnded, p.describeTask(t).State)
	case err != nil:
		return operator.Task{}, err
	}
	p.Log.Info("an operator has cancelled a task", "server", key.Server, "task", telemetry.Hash(id))
	return p.describeTask(t), nil
}
