package troupe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// taskRun is what a call of a task has in place of a request.
type taskRun struct {
	*worker.Attempt
	s    *service
	long bool // the call became a task by itself: its handler does not know that there is one

	mu    sync.Mutex // guards the fields below
	uses  map[string]int
	asked actors.QuestionKeys // of a call that became a task by itself: its questions have the keys that they had, and would have had, before
	told  time.Time           // when progress was told last, zero: never
	value float64             // of that progress
	far   bool                // another node may have had to tell it
}

var _ actors.Detached = (*taskRun)(nil)

// questionKey makes the key of a question unique in the task. A later run that asks in the same order gets the same keys.
func (r *taskRun) questionKey(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.long {
		return r.asked.UniqueKey(key)
	}
	if r.uses == nil {
		r.uses = make(map[string]int)
	}
	if r.uses[key]++; r.uses[key] > 1 {
		return key + "#" + strconv.Itoa(r.uses[key])
	}
	return key
}

// Ask puts questions to the client, which answers whenever it looks at the task.
func (r *taskRun) Ask(ctx context.Context, qs []actors.Question) ([]actors.Answer, error) {
	asked := make([]worker.Question, len(qs))
	for i, q := range qs {
		request, err := codec.Marshal(mcp.InputRequest{Method: q.Method, Params: q.Params})
		if err != nil {
			return nil, err
		}
		asked[i] = worker.Question{Key: r.questionKey(q.Key), Request: request}
	}
	replies, err := r.Attempt.Ask(ctx, asked)
	if err != nil {
		return nil, err
	}
	answers := make([]actors.Answer, len(qs))
	for i, reply := range replies {
		if !reply.Refused {
			if r.long && qs[i].Valid != nil && !qs[i].Valid(reply.Value) { // the client has brought it before anybody asked
				again, err := r.Ask(ctx, qs[i:i+1])
				if err != nil {
					return nil, err
				}
				answers[i] = again[0]
				continue
			}
			answers[i].Result = reply.Value
			continue
		}
		answers[i].Err = new(mcp.Error)
		if err := codec.Unmarshal(reply.Value, answers[i].Err); err != nil {
			answers[i].Err = mcp.NewError(mcp.CodeInternalError, "")
		}
	}
	return answers, nil
}

// FindStep returns the result of a step that an earlier run of the task has stored.
func (r *taskRun) FindStep(ctx context.Context, name string) (*actors.Step, error) {
	s, err := r.Find(ctx, name)
	if s == nil || err != nil {
		return nil, err
	}
	return &actors.Step{Name: s.Name, Failed: s.Failed, Began: s.Began, Took: s.Took, Value: s.Value}, nil
}

// KeepStep stores the result of a step with the task.
func (r *taskRun) KeepStep(ctx context.Context, s actors.Step) error {
	return r.Keep(ctx, stepOf(&s), time.UnixMilli(s.Began))
}

// stepOf is the result of a step as a task stores it.
func stepOf(s *actors.Step) worker.Step {
	return worker.Step{Name: s.Name, Failed: s.Failed, Attempt: 1, Began: s.Began, Took: s.Took, Value: s.Value}
}

// Tell sends progress to the session that made the task, as long as that listens and the task runs (2025-11-25). A task has no other
// messages. Progress only rises, so a run after another, which does not know what was told, tells none.
func (r *taskRun) Tell(ctx context.Context, method string, params []byte) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if r.long && method == mcp.NotifyProgress {
		return r.sayProgress(ctx, params)
	}
	revision, _ := mcp.ParseRevision(r.Revision)
	if method != mcp.NotifyProgress || r.Request.Session == "" || r.Again() || !protocol.Has(revision, protocol.FeatureCoreTasks) {
		return nil
	}
	var p map[string]json.RawMessage
	if err := codec.Unmarshal(params, &p); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(string(p["progress"]), 64)
	if err != nil || !r.mayTellProgress(value) {
		return err
	}
	p["_meta"] = mcp.Raw(relatedTask(nil, r.Key.ID))
	raw, err := codec.Marshal(p)
	if err == nil {
		here := r.s.rt.taskNews.Tell(r.Key, r.Request.Session, 0, 0, method, raw)
		r.mu.Lock()
		r.far = !here
		r.mu.Unlock()
	}
	return err
}

// sayProgress has progress be the message for people, which is what clients see of a task.
func (r *taskRun) sayProgress(ctx context.Context, params []byte) error {
	var p struct {
		Progress json.Number `json:"progress"`
		Total    json.Number `json:"total"`
		Message  string      `json:"message"`
	}
	if err := codec.Unmarshal(params, &p); err != nil {
		return err
	}
	value, err := p.Progress.Float64()
	if err != nil || !r.mayTellProgress(value) {
		return err
	}
	text := p.Progress.String()
	if p.Total != "" {
		text += " of " + p.Total.String()
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return forHandler(r.Say(ctx, protocol.Shorten(text, maxProgressText))) // a record has less room than an event
}

// mayTellProgress reports whether progress may be told: it is more than before, and the last was told a while ago.
func (r *taskRun) mayTellProgress(value float64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, every := time.Now(), progressEvery
	if r.far || r.long {
		every = progressElsewhere
	}
	if !r.told.IsZero() && (value <= r.value || now.Sub(r.told) < every) {
		return false
	}
	r.told, r.value = now, value
	return true
}

var (
	// progressEvery is the least time between two progress notifications of a task.
	progressEvery = limits.TaskProgress.Value()
	// progressElsewhere is the same where another node may have to tell them, or the store has to keep them.
	progressElsewhere = limits.TaskProgressStored.Value()
)

// maxProgressText is how many bytes of a progress notification become the status message of a task.
const maxProgressText = 4 << 10

// A call of a tool that may become a task by itself is promised to do so while its handler runs:
//
//	promised ──it takes long, or its node ends──▶ becoming ──stored, and its client told──▶ a task ──the handler returns──▶ over
//	   │   ◀──there can be no task──────────────────┘
//	   └──the handler returns──▶ over
var promised, over = new(becoming), new(becoming)

// becoming is a call of which a task is being made, or was.
type becoming struct {
	done    chan struct{}   // closed when attempt is settled
	attempt *worker.Attempt // nil: it became none
}

// mayBecome reports whether the client of a call may be one that handles tasks which it has not asked for. It does not decode what the client declares.
func mayBecome(c *Call) bool {
	return protocol.Has(c.revision(), protocol.FeatureTasksExtension) && taskAttempt(c.c) == nil && codec.Optional(c.peer.p.Capabilities(), "extensions") != nil
}

// longCall is a call whose handler runs, as its node sees it.
type longCall Call

// TakesLong makes a task of the call, unless its handler has returned, its client handles none, or there are too many. If the node ends, it waits for a task that is just
// being made: there may be none, where this one gets its place anyway. It reports whether there may be one once there is room.
func (long *longCall) TakesLong(ending bool) (again bool) {
	c := (*Call)(long)
	b := &becoming{done: make(chan struct{})}
	for !c.fate.CompareAndSwap(promised, b) {
		other := c.fate.Load()
		if other == promised {
			continue
		}
		if !ending || other == over {
			return false
		}
		if <-other.done; other.attempt != nil {
			return false
		}
	}
	defer func() { // it may panic
		if b.attempt = taskAttempt(c.c); b.attempt == nil {
			c.fate.Store(promised)
		}
		close(b.done)
	}()
	return c.svc.tasks.adoptTask(c, ending)
}

// brokenResult is the result of a handler that has not returned.
func brokenResult() worker.Result {
	return worker.Result{Err: mcp.NewError(mcp.CodeInternalError, "")}
}

// concludeTask ends the promise, or has none be made any more, and gives the result to the task, if there is one: only then it asks for it.
func concludeTask(c *Call, result func() worker.Result) {
	for {
		switch b := c.fate.Load(); {
		case b == over:
			return
		case b == nil || b == promised:
			if c.fate.CompareAndSwap(b, over) {
				return
			}
		default:
			<-b.done
			if b.attempt != nil && c.fate.CompareAndSwap(b, over) {
				b.attempt.Conclude(result())
			}
		}
	}
}

// hostedTask is a call of a tool of a backend, as far as the backend makes a task of it. That is an attempt at the call, which the next run goes on with.
type hostedTask struct {
	call  *Call
	key   string                 // of the call over the processes that run it, "" for none
	which atomic.Pointer[[]byte] // which task the backend has made, nil for none
	found bool                   // by an earlier run
	step  *actors.StepRun        // which will say so, nil before an earlier run was looked for

	mu   sync.Mutex // guards the rest
	said string     // what was told to people last
	told time.Time  // and when
}

var _ hosting.Task = (*hostedTask)(nil)

// What a run of such a call stores: which task the backend has made, and the key of a call that has become a task.
const (
	backendTaskStep = "task of the backend"
	backendKeyStep  = "key at the backend"
)

// hostedKey names a call at its backend, over the processes that run it; "" is one whose client could come to no other process.
func hostedKey(ctx context.Context, call *Call) string {
	a := taskAttempt(call.c)
	if a == nil {
		return actors.CallKey(ctx, call.c)
	}
	if call.c.Attempt() > 1 {
		if step, err := call.c.Detached().FindStep(ctx, backendKeyStep); err == nil && step != nil {
			return decodeText(step.Value)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{"task", a.Key.Tenant, a.Key.Server, a.Key.ID}, "/"))) // the id may be a secret
	return hex.EncodeToString(sum[:16])
}

// Wanted implements hosting.Task.
func (h *hostedTask) Wanted() bool {
	if taskAttempt(h.call.c) != nil {
		return true
	}
	caps := h.call.peer.Capabilities()
	return mayBecome(h.call) && caps.Has(mcp.CapClientTasksExtension)
}

// Begun implements hosting.Task.
func (h *hostedTask) Begun(ctx context.Context) ([]byte, error) {
	if h.call.c.Attempt() < 2 {
		return nil, nil
	}
	found, step, err := h.call.c.BeginStep(ctx, backendTaskStep)
	if found == nil || err != nil {
		h.step = step
		return nil, err
	}
	h.found = true
	return found.Value, nil
}

// Made implements hosting.Task. A call that becomes a task now takes along which task of the backend it is.
func (h *hostedTask) Made(ctx context.Context, which []byte) error {
	if h.found {
		return nil
	}
	h.found = true
	if h.step != nil {
		defer h.step.End()
		return h.step.Keep(ctx, which, "")
	}
	h.which.Store(&which)
	(*longCall)(h.call.asItCame()).TakesLong(false)
	_, err := remember(ctx, h.call, backendTaskStep, which)
	return err
}

// steps are what a task that the call becomes has of it from the start.
func (h *hostedTask) steps() (all []worker.Step) {
	now := time.Now().UnixMilli()
	if h.key != "" {
		all = append(all, worker.Step{Name: backendKeyStep, Attempt: 1, Began: now, Value: mcp.Raw(h.key)})
	}
	if which := h.which.Load(); which != nil {
		all = append(all, worker.Step{Name: backendTaskStep, Attempt: 1, Began: now, Value: *which})
	}
	return all
}

// Say implements hosting.Task. What comes too soon is not told, and comes again if it still holds.
func (h *hostedTask) Say(ctx context.Context, message string) {
	h.mu.Lock()
	now := time.Now()
	if taskAttempt(h.call.c) == nil || message == h.said || !h.told.IsZero() && now.Sub(h.told) < progressElsewhere {
		h.mu.Unlock()
		return
	}
	h.said, h.told = message, now
	h.mu.Unlock()
	_ = h.call.TaskMessage(ctx, protocol.Shorten(message, maxProgressText)) // it fails when the task has ended
}

// Leaves implements hosting.Task.
func (h *hostedTask) Leaves(cause error) bool {
	if errors.Is(cause, ErrClosing) {
		return taskAttempt(h.call.c) != nil || h.key != "" || !h.call.revision().Stateless()
	}
	return errors.Is(cause, ErrTaskTakenOver) || errors.Is(cause, ErrStreamLost)
}

// remember is what an earlier run of a call has stored under the name of a step, or else value, which a later run finds.
func remember(ctx context.Context, call *Call, name string, value []byte) ([]byte, error) {
	found, run, err := call.c.BeginStep(ctx, name)
	if err != nil || found != nil {
		if found != nil {
			value = found.Value
		}
		return value, err
	}
	defer run.End()
	return value, run.Keep(ctx, value, "")
}

// taskAttempt is the run of a call's task, nil if it has none.
func taskAttempt(c *actors.Call) *worker.Attempt {
	if d, ok := c.Detached().(*taskRun); ok {
		return d.Attempt
	}
	return nil
}

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

// taskSupportOf is what a tool of a backend says, as one of the server's own would.
func taskSupportOf(support mcp.TaskSupport) TaskSupport {
	switch support {
	case mcp.TaskOptional:
		return TaskOptional
	case mcp.TaskRequired:
		return TaskRequired
	}
	return TaskAutomatic
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

// outcomeFor is the result of a tool that a task has stored, without its type, for a reader of the revision: with the bytes that the tool gave it, unless the
// revision says something in another way.
func outcomeFor(value []byte, r mcp.Revision) (json.RawMessage, error) {
	var x mcp.CallToolResult
	if err := codec.Unmarshal(value, &x); err != nil {
		return nil, err
	}
	x.ResultType = ""
	if y := protocol.CallResultFor(&x, r); y != &x {
		return codec.Marshal(y)
	}
	return hosting.Without(value, "resultType"), nil
}

// detailedTask is a task as a reader of the extension sees it, with its result.
func detailedTask(t worker.Snapshot, r mcp.Revision) (protocol.DetailedTask, error) {
	var result json.RawMessage
	if t.Record.Status(r) == mcp.TaskCompleted {
		own, err := outcomeFor(t.Record.Outcome.Value, r)
		if err != nil {
			return protocol.DetailedTask{}, err
		}
		result = hosting.WithMember(own, "resultType", mcp.Raw(mcp.ResultComplete))
	}
	return t.Record.DetailedTask(t.Key.ID, r, result), nil
}
