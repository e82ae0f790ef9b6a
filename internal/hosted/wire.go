package hosted

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// maxID is the longest id of a client's task, in bytes.
var maxID = limits.HostedID.Value()

// Bounds of the time between two looks at a task.
var leastWait, mostWait = limits.LookEvery.Value(), limits.LookWithin.Value()

// The times between two looks at the task of a client that names no interval: each is twice the one before.
const (
	firstWait = time.Second
	slowest   = 30 * time.Second
)

// state is what a client says of its task. Its times are not read: nothing here depends on them.
type state struct {
	id     string
	status mcp.TaskStatus
	every  float64 // milliseconds between two looks, NaN if the client leaves that to the server
}

// The faults of a client's task.
var (
	errNeither = errors.New("it is neither an answer nor a task")
	errID      = fmt.Errorf("the task has no taskId of 1 to %d bytes", maxID)
	errStatus  = errors.New("the status of the task is none of working, input_required, completed, failed and cancelled")
	errOther   = errors.New("it is the state of another task")
)

// created reads the answer to a question that asked for a task. With an error, the state has the id if there is one.
func created(raw []byte) (state, error) {
	task := codec.Optional(raw, "task")
	if len(task) == 0 || task[0] != '{' {
		return state{}, errNeither
	}
	return read(task)
}

// read reads a task.
func read(raw []byte) (s state, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return s, errNeither
	}
	id, ok := codec.Str(codec.Optional(raw, "taskId"))
	if !ok || id == "" || len(id) > maxID {
		return s, errID
	}
	s = state{id: id, every: math.NaN()}
	status, _ := codec.Str(codec.Optional(raw, "status"))
	switch s.status = mcp.TaskStatus(status); s.status {
	case mcp.TaskWorking, mcp.TaskInputRequired, mcp.TaskCompleted, mcp.TaskFailed, mcp.TaskCancelled:
	default:
		return s, errStatus
	}
	if every := codec.Optional(raw, "pollInterval"); every != nil {
		if n, err := strconv.ParseFloat(string(every), 64); err == nil || math.IsInf(n, 1) {
			s.every = n
		}
	}
	return s, nil
}

// wait is the time until the next look at a task, after some looks at it. It is never less than leastWait: see pause.
func (s state) wait(looks int) time.Duration {
	if math.IsNaN(s.every) {
		return min(firstWait<<min(looks, 10), slowest)
	}
	return time.Duration(min(max(s.every, 0), float64(mostWait.Milliseconds()))) * time.Millisecond
}

// augment adds the wish for a task to params, a JSON object.
func augment(params []byte, ttl time.Duration) []byte {
	out := append([]byte(nil), params[:len(params)-1]...)
	if len(params) > len("{}") {
		out = append(out, ',')
	}
	return fmt.Appendf(out, `"task":{"ttl":%d}}`, ttl.Milliseconds())
}

// named is the params that name a task.
func named(id string) []byte {
	return append(codec.AppendString([]byte(`{"taskId":`), id), '}')
}
