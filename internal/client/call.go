package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// Result is the result of a tool.
type Result struct {
	Content    []json.RawMessage `json:"content"`
	Structured json.RawMessage   `json:"structuredContent"`
	IsError    bool              `json:"isError"` // the tool says that it failed

	Raw json.RawMessage `json:"-"` // all of it
}

// mostRounds bounds how often a call may come back with questions.
const mostRounds = 100

// state is what of a result says that it is none yet.
type state struct {
	Kind      mcp.ResultType              `json:"resultType"`
	Questions map[string]mcp.InputRequest `json:"inputRequests"`
	State     json.RawMessage             `json:"requestState"`
	task
}

// task is how a task is.
type task struct {
	ID      string          `json:"taskId"`
	Status  mcp.TaskStatus  `json:"status"`
	Message string          `json:"statusMessage"`
	Poll    float64         `json:"pollIntervalMs"`
	Result  json.RawMessage `json:"result"`
	Error   *mcp.Error      `json:"error"`
}

// CallTool calls a tool and waits for its result, whatever becomes of the call meanwhile: it answers the questions of the server, and follows
// a task to its end. arguments is a JSON object, or nil for none. The error is an *[mcp.Error] if the server refuses the call, or lost it.
// [ErrLost] says that whether the call took effect is unknown. If ctx ends, CallTool cancels the call, as far as the server can be told, and returns
// the cause.
func (c *Client) CallTool(ctx context.Context, name string, arguments json.RawMessage) (*Result, error) {
	params := map[string]json.RawMessage{"name": encodeRaw(name)}
	if arguments != nil {
		params["arguments"] = arguments
	}
	q := request{method: mcp.MethodToolsCall, params: params, about: name}
	for range mostRounds {
		result, err := c.sendRepeated(ctx, q)
		if errors.Is(err, mcp.NewError(mcp.CodeHeaderMismatch, "")) && q.header == nil {
			if q.header, err = c.headersOf(ctx, name, arguments, err); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		var s state
		if err := json.Unmarshal(result, &s); err != nil {
			return nil, fmt.Errorf("the result of %s: %w", mcp.MethodToolsCall, err)
		}
		switch {
		case s.Kind == mcp.ResultInputRequired:
			responses, err := c.answerQuestions(s.Questions, nil)
			if err != nil {
				return nil, err
			}
			params["inputResponses"] = encodeRaw(responses)
			if delete(params, "requestState"); len(s.State) > 0 {
				params["requestState"] = s.State
			}
			continue
		case s.Kind == mcp.ResultTask:
			if result, err = c.finishTask(ctx, s.task); err != nil {
				return nil, err
			}
		}
		r := &Result{Raw: result}
		if err := json.Unmarshal(result, r); err != nil {
			return nil, fmt.Errorf("the result of %s: %w", mcp.MethodToolsCall, err)
		}
		return r, nil
	}
	return nil, fmt.Errorf("the server asked for input %d times in a row", mostRounds)
}

// headersOf returns the headers that repeat arguments of a call, which the server misses. It returns why the call was refused if there are none.
func (c *Client) headersOf(ctx context.Context, name string, arguments json.RawMessage, refused error) (http.Header, error) {
	all, err := c.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Name == name {
			if header := paramHeaders(t.InputSchema, arguments); header != nil {
				return header, nil
			}
		}
	}
	return nil, refused
}

// answerQuestions answers the questions of a result or of a task, by their keys, but for those that have an answer. It fails for a question that
// nobody answers here, as the call would wait for that.
func (c *Client) answerQuestions(questions map[string]mcp.InputRequest, had map[string]bool) (map[string]json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		q := questions[key]
		if had[key] {
			continue
		}
		if q.Method != mcp.MethodElicitationCreate || c.o.Answer == nil {
			return nil, fmt.Errorf("the server asks for %.60q, which this client does not answer", q.Method)
		}
		all[key] = encodeRaw(c.o.Answer(q.Method, q.Params))
	}
	return all, nil
}

const (
	// usualPoll is how often a task is looked at whose server does not say, and mostPoll how often at least.
	usualPoll = time.Second
	mostPoll  = time.Minute
)

// finishTask follows a task to its end, and returns the result of its call. If ctx ends before, it cancels the task.
func (c *Client) finishTask(ctx context.Context, t task) (json.RawMessage, error) {
	id := t.ID
	c.o.sayStatus("the call goes on as task " + id)
	told, had := "", make(map[string]bool)
	for {
		if t.Message != "" && t.Message != told && !t.Status.Terminal() {
			told = t.Message
			c.o.sayStatus(told)
		}
		switch t.Status {
		case mcp.TaskCompleted:
			return t.Result, nil
		case mcp.TaskFailed:
			if t.Error != nil {
				return nil, t.Error
			}
			return nil, fmt.Errorf("the task failed: %s", cmp.Or(t.Message, "the server does not say why"))
		case mcp.TaskCancelled:
			return nil, errors.New("the task was cancelled")
		}
		poll := time.Duration(min(t.Poll, 1e9)) * time.Millisecond
		if poll <= 0 {
			poll = usualPoll
		}
		err := sleepFor(ctx, min(poll, mostPoll))
		var result json.RawMessage
		if err == nil {
			result, err = c.sendRepeated(ctx, taskRequest(mcp.MethodTasksGet, id, nil))
		}
		if ctx.Err() != nil {
			c.abandonTask(id)
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", id, err)
		}
		var s state
		if err := json.Unmarshal(result, &s); err != nil {
			return nil, fmt.Errorf("task %s: %w", id, err)
		}
		t = s.task
		responses, err := c.answerQuestions(s.Questions, had)
		if err != nil {
			c.abandonTask(id)
			return nil, err
		}
		if len(responses) > 0 {
			if _, err := c.sendRepeated(ctx, taskRequest(mcp.MethodTasksUpdate, id, map[string]json.RawMessage{"inputResponses": encodeRaw(responses)})); err != nil {
				return nil, fmt.Errorf("task %s: %w", id, err)
			}
			for key := range responses {
				had[key] = true // the task may show it once more before it has taken the answer
			}
		}
	}
}

// abandonTask cancels a task that nobody waits for any more.
func (c *Client) abandonTask(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_, _ = c.sendOnce(ctx, taskRequest(mcp.MethodTasksCancel, id, nil)) // the task ends by itself, too
}
