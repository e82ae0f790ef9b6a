package operator

import (
	"encoding/json"
	"slices"
	"time"
)

// TaskPage is a part of a list.
type TaskPage struct {
	Tasks []Task `json:"tasks"`
	Next  uint64 `json:"next,omitempty"` // 0: there are no more
}

// Task is what a list tells of a task.
type Task struct {
	ID        string    `json:"id"`
	State     string    `json:"state"` // queued, running or waiting, or how it ended
	Tool      string    `json:"tool"`
	Server    string    `json:"server"`              // the path where it is mounted, or its id
	Tenant    string    `json:"tenant"`              // a hash of the principal; anon for all anonymous clients
	Principal string    `json:"principal,omitempty"` // "" for an anonymous client
	Address   string    `json:"address,omitempty"`   // of an anonymous client
	Node      string    `json:"node,omitempty"`      // that runs it
	Attempt   int       `json:"attempt"`
	Message   string    `json:"message,omitempty"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	Expires   time.Time `json:"expires"`
}

// TaskDetail is all that is told of a task.
type TaskDetail struct {
	Task
	Lost      int             `json:"lost"` // attempts in a row that were lost before they stored a step
	Runs      []Run           `json:"runs"` // the newest, oldest first
	AllRuns   int             `json:"allRuns"`
	Steps     []Step          `json:"steps"` // in the order in which they began
	AllSteps  int             `json:"allSteps"`
	Questions []Question      `json:"questions"` // without an answer
	Asked     int             `json:"asked"`     // all questions
	Result    json.RawMessage `json:"result,omitempty"`
}

// Run is a time that the handler of a task ran.
type Run struct {
	Number  uint64    `json:"number"`
	Attempt int       `json:"attempt"`
	Node    string    `json:"node"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"` // zero while it runs
	How     string    `json:"how,omitempty"`
}

// Step is a step whose result is stored.
type Step struct {
	Name    string    `json:"name"`
	Attempt int       `json:"attempt"`
	Began   time.Time `json:"began"`
	TookMS  int64     `json:"tookMs"`
	Bytes   int       `json:"bytes"`
	Failed  bool      `json:"failed,omitempty"`
}

// Question is one that waits for the client.
type Question struct {
	Key    string          `json:"key"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"` // with the result
}

// TaskStates are what a list of tasks may be restricted to: states of tasks, and open for all that have
// not ended, ended and all. "" is open.
var TaskStates = []string{"open", "queued", "running", "waiting", "ended", "done", "tool-error", "failed", "cancelled", "lost", "all"}

// WantsTask reports whether a task in a state belongs to the list that q asks for.
func (q Query) WantsTask(state string) bool {
	open := slices.Contains(TaskStates[1:4], state)
	switch q.State {
	case "all":
		return true
	case "", "open":
		return open
	case "ended":
		return !open
	}
	return state == q.State
}
