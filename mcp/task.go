package mcp

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

// GetTaskResult is the task itself, without a member around it.
type GetTaskResult struct {
	Task
	Meta Meta `json:"_meta,omitempty"`
}
