package troupe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/telemetry"
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

// beforeRun reports whether calls become tasks before they run, where their clients ask for that or can handle it.
func (t TaskSupport) beforeRun() bool { return t == TaskOptional || t == TaskRequired }

// The causes that the context of a task's handler ends with, beside [ErrCancelled] and [ErrClosing].
var (
	// ErrTaskExpired reports that the task has been kept for as long as was promised.
	ErrTaskExpired = worker.ErrExpired
	// ErrTaskTakenOver reports that another process runs the task: nothing that this run does counts.
	ErrTaskTakenOver = worker.ErrTakenOver
)

// ErrStepUsed reports that a run of a handler uses the name of a step a second time. The step did not run again.
var ErrStepUsed = actors.ErrStepUsed

// permanentError is an error of a step that no run tries again.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error of a step as one that would come again: it is stored like a result, and every run of
// the call gets it. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

var stepTries = limits.StepTries.Value()

// Step runs fn once in the life of a call: its result is stored before Step returns it, and a run after a crash or a deploy gets the
// stored one, without running fn. A handler uses each name once: a second use is [ErrStepUsed]. Steps may run at once, and in each other.
//
// Where the result is stored depends on the call:
//
//   - In a task it is stored with the task, with at most 16 MiB.
//   - In a session over Streamable HTTP, up to 2025-11-25, it is stored in the log of the call's stream, if the call is safe to run again (Tool.Rerun).
//     The first step has the response become a stream. A call stores at most 1,000 results of together 256 KiB; a result beyond that is returned and not
//     stored. What is stored goes with the call.
//   - In a stateless call (2026-07-28) that is safe to run again it stays in memory, within the same limits. When the call becomes a
//     task, the task has it. When the call asks its client, the requestState carries results of together 64 KiB, and a run on another node finds them.
//   - In any other call, that of HTTP+SSE, of stdio or of a tool that may not run twice, nothing is stored: such a call has no second run.
//
// fn runs again, after 100 ms, 200 ms and so on up to 10 s, while it fails, ten times in all; then the handler gets the error, and a later
// run tries again. An error of [Permanent] is stored and returned at once. T must encode as JSON where the result may be needed again.
//
// If fn took effect and the process is lost before the result is stored, the step runs again: let fn find out whether it has
// run, for example by a key that it derives from the arguments of the call and the name of the step. A question that fn asks ([Call.Ask]) needs a key that
// the handler uses in no other place, as a run that finds the result does not ask it.
//
// After an error that is not fn's own the handler must end: the call has ended, or another process runs it, and whether the result is stored is unknown. The
// errors are those of the context, [ErrCancelled], [ErrTaskTakenOver] and the like, [ErrStreamLost], or say that the result does not encode.
func Step[T any](ctx context.Context, call *Call, name string, fn func(ctx context.Context) (T, error)) (T, error) {
	var out T
	found, run, err := call.c.BeginStep(ctx, name)
	switch {
	case err != nil:
		return out, forHandler(err)
	case found != nil:
		telemetry.Step(ctx, name, time.Duration(found.Took)*time.Millisecond, true)
		if found.Failed != "" {
			return out, Permanent(errors.New(found.Failed))
		}
		if err := codec.Unmarshal(found.Value, &out); err != nil {
			return out, fmt.Errorf("troupe: the stored result of step %q does not fit: %w", name, err)
		}
		return out, nil
	}
	defer run.End()
	began := time.Now()
	out, failed := tryStep(run.Context(ctx), fn)
	if !run.Keeps() {
		return out, failed
	}
	var value []byte
	text := ""
	if failed != nil {
		permanent, ok := errors.AsType[permanentError](failed)
		if !ok {
			return out, failed
		}
		text = cmp.Or(permanent.Error(), "failed")
	} else if value, err = codec.Marshal(&out); err != nil {
		return out, fmt.Errorf("troupe: step %q: %w", name, err)
	}
	if err := run.Keep(ctx, value, text); err != nil {
		return out, forHandler(err)
	}
	telemetry.Step(ctx, name, time.Since(began), false)
	return out, failed
}

// tryStep runs fn until it succeeds, fails for good or has failed often.
func tryStep[T any](ctx context.Context, fn func(ctx context.Context) (T, error)) (out T, err error) {
	wait := 100 * time.Millisecond
	for n := 1; ; n++ {
		out, err = fn(ctx)
		if _, permanent := errors.AsType[permanentError](err); err == nil || permanent || n == stepTries || ctx.Err() != nil {
			return out, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return out, err
		}
		wait = min(2*wait, 10*time.Second)
	}
}

// taskKey names a task of the call's client.
func (c *Call) taskKey(id string) worker.Key {
	return worker.Key{Tenant: c.c.Peer().Key().Tenant, Server: c.svc.id, ID: id}
}

// taskAttempt is the run of the call's task, nil if it has none.
func (c *Call) taskAttempt() *worker.Attempt {
	if d, ok := c.c.Detached().(*taskRun); ok {
		return d.Attempt
	}
	return nil
}

// becomesTask reports whether a call becomes a task, or why its client cannot call the tool.
func (c *Call) becomesTask(t *tool) (yes bool, refusal *mcp.Error) {
	if c.taskAttempt() != nil {
		return false, nil
	}
	switch r := c.revision(); {
	case protocol.Has(r, protocol.FeatureTasksExtension):
		if !t.Task.beforeRun() {
			return false, nil
		}
		caps := c.peer.Capabilities()
		can := caps.Has(mcp.CapClientTasksExtension)
		if t.Task == TaskRequired {
			if !can {
				return false, lackingError(mcp.CapClientTasksExtension, r)
			}
			return true, nil
		}
		// The server decides: a request that is too large for a task has its result, as it has from other clients.
		return can && (len(c.msg.Params) <= maxTaskRequest || t.Rerun == Safe), nil
	case protocol.Has(r, protocol.FeatureCoreTasks) && c.msg.Task != nil && c.svc.srv.hasTasks.Load():
		if !t.Task.beforeRun() {
			return false, mcp.Errorf(mcp.CodeMethodNotFound, "calls of tool %s cannot become tasks", protocol.Shown(t.Name))
		}
		return true, nil
	}
	if t.Task == TaskRequired && protocol.Has(c.revision(), protocol.FeatureCoreTasks) {
		return false, mcp.Errorf(mcp.CodeMethodNotFound, "calls of tool %s must become tasks: send params.task", protocol.Shown(t.Name))
	}
	return false, nil // a client of an older revision cannot ask for a task: it has the result
}

// taskTTL is how long a task is kept.
func (c *Call) taskTTL(t *tool) (time.Duration, *mcp.Error) {
	most := c.svc.rt.taskMax
	ttl := cmp.Or(t.TaskTTL, limits.TaskTTL.Value())
	if c.msg.Task != nil && protocol.Has(c.revision(), protocol.FeatureCoreTasks) {
		var asked struct {
			TTL json.RawMessage `json:"ttl"`
		}
		if codec.UnmarshalValid(c.msg.Task, &asked) != nil {
			return 0, mcp.NewError(mcp.CodeInvalidParams, "task must be an object")
		}
		switch {
		case asked.TTL == nil:
		case string(asked.TTL) == "null":
			ttl = most
		default:
			ms, err := strconv.ParseFloat(string(asked.TTL), 64)
			if err != nil || ms < 0 || ms != math.Trunc(ms) {
				return 0, mcp.NewError(mcp.CodeInvalidParams, "task.ttl must be a whole number of milliseconds, 0 or more")
			}
			ttl = most
			if ms < float64(most.Milliseconds()) {
				ttl = time.Duration(ms) * time.Millisecond
			}
		}
	}
	return min(max(ttl, time.Second), most), nil
}

// tooManyTasks is the client's error for an error of the tasks that says that there are too many, or that they store too much; nil for any other.
func (c *Call) tooManyTasks(err error) *mcp.Error {
	if full, ok := errors.AsType[*refusal.Refusal](err); ok {
		return c.c.Refuse(full)
	}
	switch {
	case errors.Is(err, worker.ErrTooMany):
		return c.c.Refuse(refusal.Of(limits.OpenTasksPerPrincipal.Row))
	case errors.Is(err, worker.ErrFull):
		return c.c.Refuse(refusal.Of(limits.OpenTasksPerNode.Row))
	}
	return nil
}

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
	return t.Record.Detailed(t.Key.ID, r, result), nil
}
