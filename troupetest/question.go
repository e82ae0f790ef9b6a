package troupetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

// reply answers a request of the server.
func (c *Client) reply(m message) {
	r := message{ID: m.ID}
	result, ok, err := c.host(m)
	if !ok {
		r.Result, err = c.respond(c.ctx, m.Method, m.Params)
	} else if err == nil {
		r.Result, err = json.Marshal(result)
	}
	if err != nil {
		r.Result, r.Error = nil, asError(err)
	}
	_ = c.send(r) // a server that is gone needs no answer
}

// asError returns err as a JSON-RPC error.
func asError(err error) *mcp.Error {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return e
	}
	return mcp.NewError(mcp.CodeInternalError, err.Error())
}

// answers returns the answers to the questions of a result. If the client fails to answer,
// it sends nothing, and the call returns the error.
func (c *Client) answers(ctx context.Context, questions mcp.InputRequests) (json.RawMessage, error) {
	given := mcp.InputResponses{}
	for key, q := range questions {
		result, err := c.respond(ctx, q.Method, q.Params)
		if err != nil {
			return nil, err
		}
		given[key] = result
	}
	return json.Marshal(given)
}

// respond lets the function of the options answer a question, one at a time.
func (c *Client) respond(ctx context.Context, method string, params json.RawMessage) (result json.RawMessage, err error) {
	select {
	case c.order <- struct{}{}:
		defer func() { <-c.order }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if failed := apart(func() { result, err = c.answer(ctx, method, params) }); failed != nil {
		return nil, failed
	}
	return result, err
}

// apart runs a function of the test, which may end its goroutine as t.FailNow does: then it returns an error. A panic goes on.
func apart(f func()) error {
	switch failure := guard.Apart(f); {
	case failure == nil:
		return nil
	case failure.Exited():
		return fmt.Errorf("troupetest: a function of the test %s: %v", failure.Did(), failure.Value)
	default:
		panic(fmt.Sprintf("%v\n\n%s", failure.Value, failure.Stack))
	}
}

// answer calls the function that answers a question.
func (c *Client) answer(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == mcp.MethodPing:
		return json.RawMessage(`{}`), nil
	case method == mcp.MethodElicitationCreate && c.o.Elicit != nil:
		return respond(ctx, params, c.o.Elicit)
	case method == mcp.MethodSamplingCreateMessage && c.o.Sample != nil:
		return respond(ctx, params, c.o.Sample)
	case method == mcp.MethodRootsList && c.o.Roots != nil:
		roots, err := c.o.Roots(ctx)
		if err != nil {
			return nil, err
		}
		if roots == nil {
			roots = []mcp.Root{}
		}
		return json.Marshal(mcp.ListRootsResult{Roots: roots})
	case c.o.Answer != nil:
		return c.o.Answer(ctx, method, params)
	}
	return nil, mcp.NewError(mcp.CodeMethodNotFound, "troupetest: nothing answers "+method)
}

func respond[P, R any](ctx context.Context, params json.RawMessage, f func(context.Context, P) (R, error)) (json.RawMessage, error) {
	var p P
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, err
	}
	r, err := f(ctx, p)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// notice passes a notification to the function that sees its kind.
func (c *Client) notice(m message) {
	if m.Method == mcp.NotifySubscriptionsAcknowledged {
		pass(m.Params, c.acknowledge)
	}
	_ = apart(func() { c.tell(m) }) // the test has failed, and goes on
}

// tell calls the function that sees a notification.
func (c *Client) tell(m message) {
	switch {
	case m.Method == mcp.NotifyProgress && c.o.Progress != nil:
		pass(m.Params, c.o.Progress)
	case m.Method == mcp.NotifyMessage && c.o.Log != nil:
		pass(m.Params, c.o.Log)
	case c.o.Notify != nil:
		c.o.Notify(m.Method, m.Params)
	}
}

// acknowledge wakes the Subscribe whose request the server has accepted.
func (c *Client) acknowledge(p protocol.AcknowledgedParams) {
	id, ok := p.Meta.SubscriptionID()
	if !ok {
		return // never: the server tags all it sends
	}
	c.mu.Lock()
	acknowledged := c.waiting[id.String()].acknowledged
	c.mu.Unlock()
	select {
	case acknowledged <- struct{}{}:
	default: // it is acknowledged already, or nobody waits
	}
}

func pass[P any](params json.RawMessage, f func(P)) {
	var p P
	if json.Unmarshal(params, &p) == nil { // never fails: the schema is checked for the server's messages
		f(p)
	}
}

// hostedTask is a question of the server that the client hosts as a task.
type hostedTask struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when the task has ended
	state mcp.Task      // guarded by Client.mu, as are the rest
	done  json.RawMessage
	err   error
}

// The errors of requests about tasks.
var (
	errNoTask    = mcp.NewError(mcp.CodeInvalidParams, "no such task")
	errEnded     = mcp.NewError(mcp.CodeInvalidParams, "the task has ended")
	errCancelled = mcp.NewError(mcp.CodeInternalError, "the task was cancelled")
)

// hosting says what a client that hosts questions declares.
func (o *Options) hosting() *mcp.ClientTasksCapability {
	requests := &mcp.ClientTaskRequests{}
	if o.Elicit != nil {
		requests.Elicitation = &mcp.ElicitationTaskRequests{Create: mcp.Declared()}
	}
	if o.Sample != nil {
		requests.Sampling = &mcp.SamplingTaskRequests{CreateMessage: mcp.Declared()}
	}
	return &mcp.ClientTasksCapability{Cancel: mcp.Declared(), Requests: requests}
}

// host makes a task of a question if the server wants one, or answers a request about a task. ok reports whether m is any of
// these.
func (c *Client) host(m message) (result any, ok bool, err error) {
	if !c.o.HostTasks {
		return nil, false, nil
	}
	var p struct {
		Task   *mcp.TaskMetadata `json:"task"`
		TaskID string            `json:"taskId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, false, nil
	}
	switch m.Method {
	case mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage:
		if p.Task == nil {
			return nil, false, nil
		}
		return protocol.CreateTaskResult{Task: c.begun(m, p.Task.TTL)}, true, nil
	case mcp.MethodTasksGet, mcp.MethodTasksCancel, mcp.MethodTasksResult:
	default:
		return nil, false, nil
	}
	c.mu.Lock()
	t := c.hosted[p.TaskID]
	c.mu.Unlock()
	if t == nil {
		return nil, true, errNoTask
	}
	switch m.Method {
	case mcp.MethodTasksCancel:
		if !c.end(t, mcp.TaskCancelled, nil, errCancelled) {
			return nil, true, errEnded
		}
		t.stop(errCancelled)
	case mcp.MethodTasksResult:
		select {
		case <-t.ended:
		case <-c.ctx.Done():
			return nil, true, context.Cause(c.ctx)
		}
		return relatedTo(t.done, p.TaskID), true, t.err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return mcp.GetTaskResult{Task: t.state}, true, nil
}

// begun begins a task that answers a question.
func (c *Client) begun(m message, ttl *int64) mcp.Task {
	now := time.Now().UTC().Format(time.RFC3339Nano)
	t := &hostedTask{ended: make(chan struct{})}
	t.ctx, t.stop = context.WithCancelCause(c.ctx)
	t.state = mcp.Task{Status: mcp.TaskWorking, CreatedAt: now, LastUpdatedAt: now, TTL: ttl}
	c.mu.Lock()
	if c.hosted == nil {
		c.hosted = make(map[string]*hostedTask)
	}
	t.state.TaskID = "hosted-" + strconv.Itoa(len(c.hosted)+1)
	c.hosted[t.state.TaskID] = t
	begun := t.state
	c.mu.Unlock()
	go func() {
		result, err := c.respond(t.ctx, m.Method, m.Params)
		status := mcp.TaskCompleted
		if err != nil {
			status = mcp.TaskFailed
		}
		if c.end(t, status, result, err) {
			c.mu.Lock()
			state := t.state
			c.mu.Unlock()
			_ = c.Send(mcp.NotifyTasksStatus, state) // a server that is gone needs no notification
		}
	}()
	return begun
}

// end ends a task. It reports whether the task had not ended.
func (c *Client) end(t *hostedTask, status mcp.TaskStatus, result json.RawMessage, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.state.Status.Terminal() {
		return false
	}
	t.state.Status, t.state.LastUpdatedAt = status, time.Now().UTC().Format(time.RFC3339Nano)
	if t.done, t.err = result, err; err != nil {
		t.state.StatusMessage = asError(err).Message
	}
	close(t.ended)
	return true
}

// relatedTo is the result of a task, which names it.
func relatedTo(result json.RawMessage, task string) any {
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil { // the task has failed
		return result
	}
	members["_meta"] = json.RawMessage(mcp.Object(members["_meta"]).With(mcp.MetaRelatedTask, mcp.Raw(protocol.RelatedTask{TaskID: task})))
	return members
}
