package troupetest

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/mcp"
)

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
