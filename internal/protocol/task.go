package protocol

import (
	"encoding/json"

	"github.com/troupe-run/troupe/mcp"
)

// MetaModelImmediateResponse is a string, in the response that creates a task, that a
// host may give to the model at once.
const MetaModelImmediateResponse = "io.modelcontextprotocol/model-immediate-response"

// CreateTaskResult answers a request that became a task.
type CreateTaskResult struct {
	Task mcp.Task `json:"task"`
	Meta mcp.Meta `json:"_meta,omitempty"`
}

// CancelTaskResult is the task as it is after tasks/cancel.
type CancelTaskResult = mcp.GetTaskResult

// TaskStatusParams are the params of notifications/tasks/status.
type TaskStatusParams = mcp.GetTaskResult

// ListTasksResult is a page of tasks.
type ListTasksResult struct {
	Tasks      []mcp.Task `json:"tasks"`
	NextCursor string     `json:"nextCursor,omitempty"`
	Meta       mcp.Meta   `json:"_meta,omitempty"`
}

// TaskHandle is a task as the tasks extension has it (since 2026-07-28): flat, with times in
// milliseconds.
type TaskHandle struct {
	TaskID         string         `json:"taskId"`
	Status         mcp.TaskStatus `json:"status"`
	StatusMessage  string         `json:"statusMessage,omitempty"`
	CreatedAt      string         `json:"createdAt"`
	LastUpdatedAt  string         `json:"lastUpdatedAt"`
	TTLMs          *int64         `json:"ttlMs"`                    // kept since its creation; nil is null, forever
	PollIntervalMs *int64         `json:"pollIntervalMs,omitempty"` // suggested
}

// CreatedTask answers a request that became a task of the extension.
type CreatedTask struct {
	ResultType mcp.ResultType `json:"resultType"` // ResultTask
	TaskHandle
	Meta mcp.Meta `json:"_meta,omitempty"`
}

// DetailedTask is a task of the extension with what belongs to its status: the result of a
// completed one, the error of a failed one, the open questions of one that needs input. It is
// the result of tasks/get, and the params of notifications/tasks.
type DetailedTask struct {
	TaskHandle
	InputRequests mcp.InputRequests `json:"inputRequests,omitempty"`
	Result        json.RawMessage   `json:"result,omitempty"`
	Error         json.RawMessage   `json:"error,omitempty"`
}

// UpdateTaskParams answer questions of a task.
type UpdateTaskParams struct {
	TaskID         string             `json:"taskId"`
	InputResponses mcp.InputResponses `json:"inputResponses"`
	Meta           mcp.Meta           `json:"_meta,omitempty"`
}

// RelatedTask is the value of [MetaRelatedTask].
type RelatedTask struct {
	TaskID string `json:"taskId"`
}
