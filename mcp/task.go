package mcp

import "encoding/json"

// TaskStatus is the state of a task.
type TaskStatus string

// The states. The last three are terminal: a task in one of them never changes.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Terminal reports whether the state is final.
func (s TaskStatus) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// TaskMetadata asks the receiver to run a request as a task, and to keep it for TTL
// milliseconds after its creation if the receiver agrees.
type TaskMetadata struct {
	TTL *int64 `json:"ttl,omitempty"`
}

// Task is what the sender of a request sees of its task. The times are ISO 8601.
type Task struct {
	TaskID        string     `json:"taskId"`
	Status        TaskStatus `json:"status"`
	StatusMessage string     `json:"statusMessage,omitempty"`
	CreatedAt     string     `json:"createdAt"`
	LastUpdatedAt string     `json:"lastUpdatedAt"`
	TTL           *int64     `json:"ttl"`                    // milliseconds kept; nil is null, forever
	PollInterval  *int64     `json:"pollInterval,omitempty"` // milliseconds
}

// CreateTaskResult answers a request that became a task.
type CreateTaskResult struct {
	Task Task `json:"task"`
	Meta Meta `json:"_meta,omitempty"`
}

// GetTaskResult is the task itself, without a member around it.
type GetTaskResult struct {
	Task
	Meta Meta `json:"_meta,omitempty"`
}

// CancelTaskResult is the task as it is after tasks/cancel.
type CancelTaskResult = GetTaskResult

// TaskStatusParams are the params of notifications/tasks/status.
type TaskStatusParams = GetTaskResult

// ListTasksResult is a page of tasks.
type ListTasksResult struct {
	Tasks      []Task `json:"tasks"`
	NextCursor string `json:"nextCursor,omitempty"`
	Meta       Meta   `json:"_meta,omitempty"`
}

// TaskHandle is a task as the tasks extension has it (since 2026-07-28): flat, with times in
// milliseconds.
type TaskHandle struct {
	TaskID         string     `json:"taskId"`
	Status         TaskStatus `json:"status"`
	StatusMessage  string     `json:"statusMessage,omitempty"`
	CreatedAt      string     `json:"createdAt"`
	LastUpdatedAt  string     `json:"lastUpdatedAt"`
	TTLMs          *int64     `json:"ttlMs"`                    // kept since its creation; nil is null, forever
	PollIntervalMs *int64     `json:"pollIntervalMs,omitempty"` // suggested
}

// CreatedTask answers a request that became a task of the extension.
type CreatedTask struct {
	ResultType ResultType `json:"resultType"` // ResultTask
	TaskHandle
	Meta Meta `json:"_meta,omitempty"`
}

// DetailedTask is a task of the extension with what belongs to its status: the result of a
// completed one, the error of a failed one, the open questions of one that needs input. It is
// the result of tasks/get, and the params of notifications/tasks.
type DetailedTask struct {
	TaskHandle
	InputRequests InputRequests   `json:"inputRequests,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"`
	Error         json.RawMessage `json:"error,omitempty"`
}

// UpdateTaskParams answer questions of a task.
type UpdateTaskParams struct {
	TaskID         string         `json:"taskId"`
	InputResponses InputResponses `json:"inputResponses"`
	Meta           Meta           `json:"_meta,omitempty"`
}
