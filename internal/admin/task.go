package admin

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// The errors about a task.
var (
	// ErrUnknown reports that there is no such task. It may have expired.
	ErrUnknown = errors.New("there is no such task: it may have expired")
	// ErrEnded reports that a task cannot be cancelled any more.
	ErrEnded = errors.New("the task has ended")
)

// Tasks are those of a node.
type Tasks interface {
	// List returns tasks from a cursor on. It looks at a bounded number: a page may have fewer than q.Limit, and still a Next.
	List(ctx context.Context, q Query) (Page, error)
	// Show returns a task, with its result if that is asked for. ErrUnknown: there is none.
	Show(ctx context.Context, id string, result bool) (Detail, error)
	// Cancel ends a task. ErrUnknown, ErrEnded.
	Cancel(ctx context.Context, id string) (Task, error)
}

// Query says which tasks to list.
type Query struct {
	State string // one of States
	Limit int    // at most MaxPage
	From  uint64 // Next of the page before; 0 for the first one
}

// MaxPage is how many tasks a page has at most.
const MaxPage = 1000

// Page is a part of a list.
type Page struct {
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

// Detail is all that is told of a task.
type Detail struct {
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

// States are what lists may be restricted to: states of tasks, and open for all that have not ended, ended and all.
var States = []string{"open", "queued", "running", "waiting", "ended", "done", "tool-error", "failed", "cancelled", "lost", "all"}

// Matches reports whether a task in a state belongs to a list of want, which is one of States.
func Matches(state, want string) bool {
	open := slices.Contains(States[1:4], state)
	switch want {
	case "all":
		return true
	case "open":
		return open
	case "ended":
		return !open
	}
	return state == want
}
