package troupe

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// TaskSupport says whether a call of a tool becomes a task: the client gets the task's id at once,
// and the result later, from any node, whatever happens to the process meanwhile (2025-11-25,
// basic/utilities/tasks; since 2026-07-28 the extension io.modelcontextprotocol/tasks).
type TaskSupport uint8

const (
	// TaskAutomatic: a call that takes long becomes a task by itself, if the tool is safe to run again and its client handles tasks (since
	// 2026-07-28): after Tool.TaskAfter, and when its process is about to end, unless the store is in memory and ends with it. The handler
	// does not notice: its run is the task's first one. Any other call answers with its result. Tools do not list it, and clients of
	// 2025-11-25 cannot ask for it.
	TaskAutomatic TaskSupport = iota
	// TaskForbidden: calls answer with their result.
	TaskForbidden
	// TaskOptional: a call becomes a task if its client asks for one (2025-11-25) or can handle one
	// (since 2026-07-28). Any other client gets the result.
	TaskOptional
	// TaskRequired: every call becomes a task. A client that cannot handle one is refused, but one
	// of a revision before 2025-11-25, which has no tasks: it gets the result, as from TaskOptional.
	TaskRequired
)

// wire is the value in the lists of 2025-11-25.
func (t TaskSupport) wire() *mcp.ToolExecution {
	switch t {
	case TaskOptional:
		return &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}
	case TaskRequired:
		return &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}
	}
	return nil
}

// startsAsTask reports whether calls become tasks before they run, where their clients ask for that or can handle it.
func (t TaskSupport) startsAsTask() bool { return t == TaskOptional || t == TaskRequired }

// The causes that the context of a task's handler ends with, beside [ErrCancelled] and [ErrClosing].
var (
	// ErrTaskExpired reports that the task has been kept for as long as was promised.
	ErrTaskExpired = worker.ErrExpired
	// ErrTaskTakenOver reports that another process runs the task: nothing that this run does counts.
	ErrTaskTakenOver = worker.ErrTakenOver
)

// relatedTask is the `_meta` of a message, with the task that it belongs to.
func relatedTask(meta mcp.Meta, id string) mcp.Meta {
	return meta.With(mcp.MetaRelatedTask, mcp.Raw(protocol.RelatedTask{TaskID: id}))
}

// immediateMeta is the `_meta` of a task's creation, with what the model may be told meanwhile.
func immediateMeta(notice string) mcp.Meta {
	if notice == "" {
		return nil
	}
	return mcp.Meta{protocol.MetaModelImmediateResponse: mcp.Raw(notice)}
}

// maxTaskRequest is the largest request that is stored with a task, in bytes, unless its tool says more: see Tool.Task.
var maxTaskRequest = limits.TaskRequest.Value()

// errTaskTooLarge reports a request that is too large to become a task.
var errTaskTooLarge = errors.New("troupe: the request is too large for a task")

// envelope are the members of `_meta` that say how a request is to be read. What a task needs of them is stored in other places.
var envelope = [...]string{mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel}

// tracing are the members that belong to the trace of a request, and its progress token.
var tracing = [...]string{"progressToken", "traceparent", "tracestate", "baggage"}

// taskMeta returns what is stored with a task of the `_meta` of its request: the progress token, the trace, and whatever a handler may want, if that is little.
func taskMeta(meta []byte) (json.RawMessage, error) {
	if meta == nil {
		return nil, nil
	}
	var all mcp.Meta
	if err := codec.Unmarshal(meta, &all); err != nil {
		return nil, err
	}
	size := 0
	for name, value := range all {
		switch {
		case slices.Contains(envelope[:], name):
			delete(all, name)
		case !slices.Contains(tracing[:], name):
			size += len(name) + len(value)
		}
	}
	if size > limits.TaskMeta.Value() {
		maps.DeleteFunc(all, func(name string, _ json.RawMessage) bool { return !slices.Contains(tracing[:], name) })
	}
	if len(all) == 0 {
		return nil, nil
	}
	return codec.Marshal(all)
}

// detailedTask is a task as a reader of the extension sees it, with its result.
func detailedTask(t worker.Snapshot, r mcp.Revision) (protocol.DetailedTask, error) {
	var result json.RawMessage
	if t.Record.Status(r) == mcp.TaskCompleted {
		var x mcp.CallToolResult
		if err := codec.Unmarshal(t.Record.Outcome.Value, &x); err != nil {
			return protocol.DetailedTask{}, err
		}
		y := *protocol.CallResultFor(&x, r)
		y.ResultType = mcp.ResultComplete
		var err error
		if result, err = codec.Marshal(&y); err != nil {
			return protocol.DetailedTask{}, err
		}
	}
	return t.Record.DetailedTask(t.Key.ID, r, result), nil
}
