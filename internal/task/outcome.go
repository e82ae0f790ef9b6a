package task

import (
	"encoding/json"

	"github.com/troupe-run/troupe/mcp"
)

// Kind is how a task ended.
type Kind uint8

// The kinds. The zero Kind is none of them.
const (
	Done      Kind = iota + 1 // with a result
	ToolError                 // with a result that says isError
	Failed                    // with an error
	Cancelled                 // by its client
	Lost                      // its node was lost, and it may not run again, or was lost too often
)

// Outcome is how a task ended, and what its client gets.
type Outcome struct {
	Kind Kind `json:"kind"`
	// Value is the result as the newest revision has it, or the error with code, message and data. It is nil when it is
	// stored apart, in Parts messages, and where Kind says all.
	Value json.RawMessage `json:"value,omitempty"`
	Parts int             `json:"parts,omitempty"`
}

// statuses are the words of 2025-11-25 and, in its place, of 2026-07-28 for how a task ended. A tool's error
// is a failure of the task in the first, and a result like any other in the second.
var statuses = [...][2]mcp.TaskStatus{
	Done:      {mcp.TaskCompleted, mcp.TaskCompleted},
	ToolError: {mcp.TaskFailed, mcp.TaskCompleted},
	Failed:    {mcp.TaskFailed, mcp.TaskFailed},
	Cancelled: {mcp.TaskCancelled, mcp.TaskCancelled},
	Lost:      {mcp.TaskFailed, mcp.TaskFailed},
}

// String is the kind as operators see it.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return "unknown"
	}
	return kinds[k]
}

var kinds = [...]string{Done: "done", ToolError: "tool-error", Failed: "failed", Cancelled: "cancelled", Lost: "lost"}
