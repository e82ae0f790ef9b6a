package hosting

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// A Task is what whoever runs a call does with the task that a backend makes of it. No two methods are called at the same time, but for Say.
type Task interface {
	// Wanted reports whether the call is that of a task of ours, or may become one.
	Wanted() bool
	// Begun returns what an earlier run of the call gave to Made, nil if none did.
	Begun(ctx context.Context) ([]byte, error)
	// Made stores for later runs which task the backend has made, and has the call become a task of ours if it may.
	Made(ctx context.Context, which []byte) error
	// Say tells people who look at the task of ours what the backend says of its own.
	Say(ctx context.Context, message string)
	// Leaves reports whether a later run goes on with the task of the backend where this one ends for a cause.
	Leaves(cause error) bool
}

// A Following is a call whose answer is followed at the instance that has given it, which *[backend.Following] is.
type Following interface {
	// Ask asks the same instance. The error is an *[upstream.Failure].
	Ask(ctx context.Context, method string, params []byte) (upstream.Response, error)
	// Task says that the answer is a task with this id.
	Task(id string, answer upstream.Response)
}

// Faults of a backend's tasks.
var (
	errTask          = errors.New("the backend answered with a task that cannot be read")
	errTaskCancelled = errors.New("the backend has cancelled its task")
	errTaskGone      = errors.New("the backend does not know the task any more that it has made of the call")
)

var (
	leastPoll = limits.BackendPoll.Value()
	mostPoll  = limits.BackendPollMost.Value()
	mostPolls = limits.BackendPolls.Value()
	// taskKept is for how long a backend is asked to keep a task (2025-11-25): as long as we keep ours.
	taskKept = limits.TaskTTL.Value()
)

const (
	// usualPoll is how long a look at a task waits where the task does not say that.
	usualPoll = time.Second
	// cancelTime bounds how long a backend may take to take the end of a task.
	cancelTime = 5 * time.Second
)

// backendTask is a task of a backend, as the end of a call.
type backendTask struct {
	x        *exchange
	on       Following
	id       string
	core     bool                // it is one of 2025-11-25
	begun    bool                // by an earlier run
	over     bool                // it has ended
	pause    time.Duration       // until the next look
	answered map[string]struct{} // the keys of its questions that were put
}

// prepareTask has the backend of a call make a task of it, as far as the backend and its tool do that, and finds the one that an earlier
// run of the call has begun.
func (x *exchange) prepareTask(ctx context.Context, out *Asked) error {
	in := x.Item.in
	if x.Task == nil || in == nil || !in.core && !in.extension {
		return nil
	}
	support := x.Item.TaskSupport()
	switch {
	case in.extension:
		out.Tasks = x.Task.Wanted()
	case support != mcp.TaskRequired && (support != mcp.TaskOptional || !x.Task.Wanted()):
		return nil
	default:
		out.Params = WithMember(out.Params, "task", append(strconv.AppendInt([]byte(`{"ttl":`), taskKept.Milliseconds(), 10), '}'))
	}
	out.Follow = x.follow
	which, err := x.Task.Begun(ctx)
	if err != nil || which == nil {
		return err
	}
	out.Tasks = in.extension
	out.Begun = &upstream.Response{Result: which}
	if in.extension {
		out.Begun.Kind = upstream.TaskCreated
	}
	return nil
}

// insistsOnTask reports whether a backend refuses a call only because it was not told that it may make a task of it. It may: we wait for the
// end in the stead of a client that cannot say so. One of the newer era could, and gets the refusal.
func (x *exchange) insistsOnTask(r *upstream.Response, out *Asked) bool {
	if out.Follow == nil || out.Tasks || x.Caller.Revision.Stateless() || x.Item.in.core || r.Err().Code != mcp.CodeMissingCapability {
		return false
	}
	lacking := codec.Optional(codec.Optional(r.Error, "data"), "requiredCapabilities")
	return codec.Field(codec.Optional(lacking, "extensions"), mcp.ExtensionTasks) != nil
}

// follow makes of the answer of a backend that of the call: the end of the task, if the answer is one. It implements [Asked].Follow.
func (x *exchange) follow(ctx context.Context, on Following, answer upstream.Response) (upstream.Response, error) {
	t, err := x.taskIn(on, &answer)
	if err == nil && t != nil {
		answer, err = t.awaitEnd(ctx, answer)
	}
	var f *upstream.Failure
	if err == nil || ctx.Err() != nil || errors.As(err, &f) {
		return answer, err
	}
	x.fault.Store(&err) // which is none of the instance
	return upstream.Response{Kind: upstream.Refused, Error: mcp.Raw(mcp.NewError(mcp.CodeInternalError, err.Error()))}, nil
}

// taskIn returns the task that an answer is, nil if it is none.
func (x *exchange) taskIn(on Following, answer *upstream.Response) (*backendTask, error) {
	raw := answer.Result
	core := x.Item.in.core
	switch {
	case core && answer.Kind == upstream.Complete && codec.Optional(raw, "task") != nil:
		raw = codec.Optional(raw, "task")
	case core || answer.Kind != upstream.TaskCreated:
		return nil, nil
	}
	id, ok := codec.Str(codec.Field(raw, "taskId"))
	if !ok || id == "" || len(id) > upstream.MostToken {
		return nil, mcp.NewError(mcp.CodeInternalError, errTask.Error())
	}
	t := &backendTask{x: x, on: on, id: id, core: core, begun: codec.Field(raw, "status") == nil, answered: make(map[string]struct{})}
	t.noteStatus(raw)
	return t, nil
}

// asAnswer is what a later run needs to know of the task: an answer that is one, without its status.
func (t *backendTask) asAnswer() []byte {
	if t.core {
		return append(append([]byte(`{"task":`), t.params()...), '}')
	}
	return WithMember(t.params(), "resultType", quoted(string(mcp.ResultTask)))
}

// params are those of a request that names the task.
func (t *backendTask) params() []byte { return WithMember([]byte("{}"), "taskId", quoted(t.id)) }

// noteStatus takes in when the task is to be looked at next, and what it says to people.
func (t *backendTask) noteStatus(raw []byte) {
	member := "pollIntervalMs"
	if t.core {
		member = "pollInterval"
	}
	t.pause = usualPoll
	if ms, err := strconv.ParseFloat(string(codec.Optional(raw, member)), 64); err == nil {
		t.pause = time.Duration(min(ms, float64(mostPoll.Milliseconds()))) * time.Millisecond
	}
	t.pause = min(max(t.pause, leastPoll), mostPoll)
	t.x.passTaskMessage(raw)
}

// awaitEnd waits for the end of the task, of which answer says that there is one. Whoever does not wait any more has it cancelled.
func (t *backendTask) awaitEnd(ctx context.Context, answer upstream.Response) (upstream.Response, error) {
	t.on.Task(t.id, upstream.Response{Kind: answer.Kind, Result: t.asAnswer()})
	end, err := upstream.Response{}, error(nil)
	if t.begun {
		err = t.checkExists(ctx)
	}
	if err == nil {
		err = t.x.Task.Made(ctx, t.asAnswer())
	}
	switch {
	case err != nil:
	case t.core:
		end, err = t.awaitResult(ctx)
	default:
		end, err = t.poll(ctx)
	}
	cause := err
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	if err != nil && !t.over && !errors.Is(err, errTaskGone) && !t.x.Task.Leaves(cause) {
		t.cancel()
	}
	return end, err
}

// checkExists looks whether the backend still has the task that an earlier run has begun.
func (t *backendTask) checkExists(ctx context.Context) error {
	r, err := t.askUntilAnswered(ctx, mcp.MethodTasksGet, t.params())
	if err == nil && r.Kind == upstream.Refused {
		return errTaskGone
	}
	return err
}

// cancel has the backend end the task. It waits for a while, so that the instance is nobody else's meanwhile.
func (t *backendTask) cancel() {
	capabilities := t.x.Item.in.settled.Capabilities
	if t.core && codec.Optional(codec.Optional(capabilities, "tasks"), "cancel") == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.x.ctx), cancelTime)
	defer cancel()
	_, _ = t.on.Ask(ctx, mcp.MethodTasksCancel, t.params()) // it may have ended
}

// noteFailure notes that the task could not be looked at. It returns why nobody does so again, nil if that is to be tried after the pause.
func (t *backendTask) noteFailure(ctx context.Context, err error, failed *int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f, ok := errors.AsType[*upstream.Failure](err)
	if !ok {
		return err
	}
	switch f.Why {
	case upstream.ReasonEnded, upstream.ReasonClosed, upstream.ReasonSessionGone:
		return err
	}
	if *failed++; *failed == mostPolls {
		t.x.hit(limits.BackendPolls.Row)
		return err
	}
	t.pause = min(max(t.pause, f.After), mostPoll)
	return nil
}

// askUntilAnswered asks the instance until it answers.
func (t *backendTask) askUntilAnswered(ctx context.Context, method string, params []byte) (upstream.Response, error) {
	for failed := 0; ; {
		r, err := t.on.Ask(ctx, method, params)
		if err == nil {
			return r, nil
		}
		if err = t.noteFailure(ctx, err, &failed); err == nil {
			err = sleep(ctx, t.pause)
		}
		if err != nil {
			return r, err
		}
	}
}

// awaitResult waits for the result of a task of 2025-11-25. Its questions come meanwhile.
func (t *backendTask) awaitResult(ctx context.Context) (upstream.Response, error) {
	r, err := t.askUntilAnswered(ctx, mcp.MethodTasksResult, t.params())
	if err == nil && r.Kind == upstream.Complete {
		r.Result = withoutTask(r.Result)
	}
	return r, err
}

// inquiry are questions of a task that are with the client. The methods of nil do nothing.
type inquiry struct {
	withdraw  context.CancelFunc
	over      chan struct{} // closed once the rest is set
	responses []byte
	err       error
}

// beginInquiry puts questions of the task to the client.
func (t *backendTask) beginInquiry(questions []byte) *inquiry {
	ctx, cancel := context.WithCancel(t.x.ctx)
	q := &inquiry{withdraw: cancel, over: make(chan struct{})}
	go func() {
		defer close(q.over)
		q.responses, q.err = t.x.gatherInput(ctx, questions, 0)
	}()
	return q
}

// answered is closed once the client has answered, or will not.
func (q *inquiry) answered() <-chan struct{} {
	if q == nil {
		return nil
	}
	return q.over
}

// end withdraws the questions.
func (q *inquiry) end() {
	if q != nil {
		q.withdraw()
		<-q.over
	}
}

// poll looks at a task of the extension until it has ended, and puts its questions.
func (t *backendTask) poll(ctx context.Context) (upstream.Response, error) {
	var asking *inquiry
	defer func() { asking.end() }()
	for failed, rounds := 0, 0; ; {
		timer := time.NewTimer(t.pause)
		select {
		case <-timer.C:
		case <-asking.answered():
			got := asking
			asking.end()
			if asking = nil; got.err != nil {
				return upstream.Response{}, got.err
			}
			if err := t.update(ctx, got.responses); err != nil {
				return upstream.Response{}, err
			}
		case <-ctx.Done():
		}
		timer.Stop()
		r, err := t.on.Ask(ctx, mcp.MethodTasksGet, t.params())
		if err != nil {
			if err := t.noteFailure(ctx, err, &failed); err != nil {
				return r, err
			}
			continue
		}
		failed = 0
		if r.Kind == upstream.Refused {
			t.over = true
			return r, nil
		}
		t.noteStatus(r.Result)
		status, _ := codec.Str(codec.Field(r.Result, "status"))
		var end upstream.Response
		if end, t.over, err = endOf(mcp.TaskStatus(status), r.Result); t.over {
			return end, err
		}
		if status != string(mcp.TaskInputRequired) { // others have answered, or it needs nothing any more
			asking.end()
			asking = nil
			continue
		}
		if asking != nil {
			continue
		}
		questions := t.questionsIn(r.Result)
		if questions == nil {
			continue
		}
		if rounds++; rounds > mostRounds {
			t.x.hit(limits.BackendRounds.Row)
			return r, mcp.NewError(mcp.CodeInternalError, errRounds.Error())
		}
		asking = t.beginInquiry(questions)
	}
}

// endOf returns the answer that a call gets from a task, if that has ended.
func endOf(status mcp.TaskStatus, raw []byte) (end upstream.Response, ended bool, err error) {
	switch status {
	case mcp.TaskCompleted:
		if result := codec.Optional(raw, "result"); len(result) > 0 && result[0] == '{' {
			return upstream.Response{Kind: upstream.Complete, Result: withoutTask(result)}, true, nil
		}
		return end, true, mcp.NewError(mcp.CodeInternalError, errTask.Error())
	case mcp.TaskFailed:
		if refusal := codec.Optional(raw, "error"); len(refusal) > 0 && refusal[0] == '{' {
			return upstream.Response{Kind: upstream.Refused, Error: refusal}, true, nil
		}
		return end, true, mcp.NewError(mcp.CodeInternalError, errTask.Error())
	case mcp.TaskCancelled:
		return end, true, mcp.NewError(mcp.CodeInternalError, errTaskCancelled.Error())
	}
	return end, false, nil
}

// questionsIn returns an object with the questions of a task that were not put before, as inputRequests; nil if there are none. A
// backend may go on to list those whose answers are on their way to it.
func (t *backendTask) questionsIn(raw []byte) []byte {
	asked := []byte{'{'}
	for key, one := range codec.Members(codec.Optional(raw, "inputRequests")) {
		if _, known := t.answered[string(key)]; !known {
			t.answered[string(key)] = struct{}{}
			asked = appendMember(asked, key, one)
		}
	}
	if len(asked) == 1 {
		return nil
	}
	return slices.Concat([]byte(`{"inputRequests":`), asked, []byte("}}"))
}

// update gives the backend answers to questions of its task.
func (t *backendTask) update(ctx context.Context, responses []byte) error {
	t.pause = leastPoll
	r, err := t.askUntilAnswered(ctx, mcp.MethodTasksUpdate, WithMember(t.params(), "inputResponses", responses))
	if err == nil && r.Kind == upstream.Refused {
		return errorOf(&r)
	}
	return err
}

// withoutTask returns an object whose `_meta` does not name a task of a backend: its id means nothing to anybody else.
func withoutTask(object []byte) []byte {
	meta := codec.Optional(object, "_meta")
	if codec.Field(meta, mcp.MetaRelatedTask) == nil {
		return object
	}
	if meta = Without(meta, mcp.MetaRelatedTask); len(meta) == len("{}") {
		meta = nil
	}
	return WithMember(object, "_meta", meta)
}
