package backend

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// Following is a call whose answer is followed at the instance that has given it. Its methods may be called until [Request].Follow returns.
type Following struct {
	in    *instance
	r     *running
	first upstream.Request // with which the call began
	task  bool
}

// followAnswer makes of an answer that of the call. Whatever is not answered from here on, the call has begun: it is not known not to have run.
func (f *Following) followAnswer(ctx context.Context, answer upstream.Response) (upstream.Response, error) {
	r, err := f.r.q.Follow(ctx, f, answer)
	if failure, ok := errors.AsType[*upstream.Failure](err); ok && failure.Outcome != upstream.Lost {
		lost := *failure
		lost.Outcome = upstream.Lost
		err = &lost
	}
	if f.task && err == nil {
		f.r.kept.noteTaskEnd()
	}
	return r, err
}

// Ask asks the same instance. What it says meanwhile is said to the call. The error is an *[upstream.Failure].
func (f *Following) Ask(ctx context.Context, method string, params []byte) (upstream.Response, error) {
	return f.in.conn.Do(ctx, upstream.Request{Method: method, Params: params, Capabilities: f.first.Capabilities, Level: f.first.Level, Progress: f.first.Progress, ProgressOf: f.first.ID, Event: f.first.Event})
}

// Task says that answer is a task with this id: what the instance says of it is said to the call, and the next process follows it.
func (f *Following) Task(id string, answer upstream.Response) {
	f.task = true
	_ = f.in.Post(&taskBegan{f.r, id}) // one that has ended says nothing
	f.r.kept.rememberTask(answer)
}

// followLeft follows the answer of a call that an earlier process has left.
func followLeft(ctx context.Context, b *Backends, in *instance, c *Caller, q *Request, answer upstream.Response) (upstream.Response, error) {
	l := in.newLease(q.Asks && in.of.hasLines() && in.session() == "")
	b.tellPool(&taken{l})
	q.told, q.Begun = c.toldCapabilities(&in.of.Options), &answer
	r, err := b.callOn(ctx, l, q)
	if err != nil {
		return upstream.Response{}, in.callError(ctx, err)
	}
	return r, nil
}

// taskOf is the task that something is said of, "" for none.
func taskOf(e *Event) string {
	of := codec.Field(codec.Optional(e.Params, "_meta"), mcp.MetaRelatedTask)
	if e.Method == mcp.NotifyTasksStatus {
		of = e.Params
	}
	id, _ := codec.Str(codec.Field(of, "taskId"))
	return id
}

// extension is how the member of capabilities begins that says that an answer may be a task.
const extension = `"extensions":{"` + mcp.ExtensionTasks + `":{}}}`

// capabilities are those that the backend is told of for this request (2026-07-28).
func (q *Request) capabilities() []byte {
	if !q.Tasks || len(q.told) == 0 {
		return q.told
	}
	out := append(make([]byte, 0, len(q.told)+len(extension)+1), q.told[:len(q.told)-1]...)
	if len(out) > 1 {
		out = append(out, ',')
	}
	return append(out, extension...)
}
