package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

var _ admin.Tasks = tasks{}

// tasks are the tasks of all principals, for the operator.
type tasks struct{ p *Process }

const (
	// Looks is how many tasks are looked at at a time.
	Looks = 2000
	// mostSteps is how many steps of a task are told of.
	mostSteps = 500
)

func (a tasks) List(ctx context.Context, q admin.Query) (page admin.Page, err error) {
	page.Tasks, page.Next = []admin.Task{}, q.From
	for looked := 0; looked < Looks && len(page.Tasks) < q.Limit; {
		n := q.Limit - len(page.Tasks)
		all, next, err := a.p.Tasks.All(ctx, page.Next, n)
		if err != nil {
			return admin.Page{}, err
		}
		for _, t := range all {
			if told := a.describeTask(t); admin.Matches(told.State, q.State) {
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
func (a tasks) describeTask(t worker.Snapshot) admin.Task {
	r := &t.Record
	out := admin.Task{
		ID: t.Key.ID, State: r.State.String(), Tool: r.Name, Server: a.p.pathOf(t.Key.Server), Tenant: t.Key.Tenant, Principal: r.Who, Address: r.From,
		Node: r.Node, Attempt: r.Attempt, Message: r.Message, Created: time.UnixMilli(r.Created), Updated: time.UnixMilli(r.Updated), Expires: r.Expires(),
	}
	if r.State == task.Ended && r.Outcome != nil {
		out.State = r.Outcome.Kind.String()
	}
	return out
}

// findTask reads a task by its id.
func (a tasks) findTask(ctx context.Context, id string) (t worker.Snapshot, err error) {
	key, err := a.p.Tasks.Find(ctx, id)
	if err == nil {
		t, err = a.p.Tasks.Get(ctx, key)
	}
	if errors.Is(err, worker.ErrUnknown) {
		err = admin.ErrUnknown
	}
	return t, err
}

func (a tasks) Show(ctx context.Context, id string, result bool) (admin.Detail, error) {
	t, err := a.findTask(ctx, id)
	if err != nil {
		return admin.Detail{}, err
	}
	r := &t.Record
	d := admin.Detail{Task: a.describeTask(t), Lost: r.Lost, AllRuns: int(r.Epoch), Asked: len(r.Questions), Runs: []admin.Run{}, Steps: []admin.Step{}, Questions: []admin.Question{}}
	for _, run := range r.Runs {
		told := admin.Run{Number: run.Epoch, Attempt: run.Attempt, Node: run.Node, Began: time.UnixMilli(run.Began), How: string(run.End)}
		if run.End != "" {
			told.Ended = time.UnixMilli(run.Over)
		}
		d.Runs = append(d.Runs, told)
	}
	for _, q := range r.OpenQuestions() {
		var asked mcp.InputRequest
		_ = codec.Unmarshal(q.Request, &asked) // the rest of the task may be read all the same
		told := admin.Question{Key: q.Key, Method: asked.Method}
		if result {
			told.Params = json.RawMessage(asked.Params)
		}
		d.Questions = append(d.Questions, told)
	}
	if result && r.Outcome != nil {
		d.Result = r.Outcome.Value
	}
	steps, all, err := a.p.Tasks.Steps(ctx, t.Key, mostSteps)
	d.AllSteps = all
	for _, s := range steps {
		d.Steps = append(d.Steps, admin.Step{Name: s.Name, Attempt: s.Attempt, Began: time.UnixMilli(s.Began), TookMS: s.Took, Bytes: s.Size, Failed: s.Failed != ""})
	}
	return d, err
}

func (a tasks) Cancel(ctx context.Context, id string) (admin.Task, error) {
	key, err := a.p.Tasks.Find(ctx, id)
	var t worker.Snapshot
	if err == nil {
		t, err = a.p.Tasks.Cancel(ctx, key)
	}
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return admin.Task{}, admin.ErrUnknown
	case errors.Is(err, task.ErrEnded):
		return admin.Task{}, fmt.Errorf("%w: it is %s", admin.ErrEnded, a.describeTask(t).State)
	case err != nil:
		return admin.Task{}, err
	}
	a.p.Log.Info("an operator has cancelled a task", "server", key.Server, "task", telemetry.Hash(id))
	return a.describeTask(t), nil
}
