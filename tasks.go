package troupe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/admin"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// errNoTask is the answer for a task that does not exist, is another's, or has expired.
func errNoTask() *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "there is no such task: it may have expired")
}

// tasksMethod answers the methods of tasks.
func (s *service) tasksMethod(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	r := call.revision()
	caps := s.capabilities()
	if known, ok := protocol.LookupMethod(m.Method); !ok || !protocol.ServerHas(&caps, known.Needs(protocol.ToServer, r)) {
		return nil, methodNotFound(m)
	}
	if protocol.Has(r, protocol.FeatureTasksExtension) {
		if lacking := refuseLacking(mcp.CapClientTasksExtension, &call.peer); lacking != nil {
			return nil, lacking
		}
	}
	if string(m.Method) == mcp.MethodTasksList {
		return s.listTasks(ctx, call, m, dst)
	}
	var p protocol.UpdateTaskParams
	if err := call.decode(ctx, m.Params, &p); err != nil {
		return nil, err
	}
	if p.TaskID == "" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s needs taskId", m.Method)
	}
	key := call.taskKey(p.TaskID)
	if !key.Valid() {
		return nil, errNoTask()
	}
	if string(m.Method) != mcp.MethodTasksGet { // which reads the task itself, and no more than once
		if no := s.lacksTask(ctx, call, key); no != nil {
			return nil, no
		}
	}
	s.rt.logTask("a task was asked for", key, "method", string(m.Method))
	switch string(m.Method) {
	case mcp.MethodTasksGet:
		return s.getTask(ctx, call, m, key, dst)
	case mcp.MethodTasksCancel:
		return s.cancelTask(ctx, call, m, key, dst)
	case mcp.MethodTasksResult:
		return s.taskResult(ctx, call, key, dst)
	}
	return s.updateTask(ctx, call, m, key, p.InputResponses, dst)
}

// lacksTask refuses a client that lacks a scope of the call that a task is of, before anything is done with the task.
func (s *service) lacksTask(ctx context.Context, call *Call, key worker.Key) *mcp.Error {
	if !s.srv.scoped.Load() {
		return nil
	}
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return s.failedTask(call, err)
	}
	return call.lacking(t.Record.Scopes)
}

// failedTask is the answer for an error of the tasks.
func (s *service) failedTask(call *Call, err error) *mcp.Error {
	if full, ok := errors.AsType[*refusal.Refusal](err); ok {
		return call.c.Refuse(full)
	}
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return errNoTask()
	case errors.Is(err, worker.ErrTooMuch):
		return mcp.Errorf(mcp.CodeInvalidParams, "the answers of a task may have %d bytes together, with its questions", limits.TaskAsked.Value())
	}
	return s.internal(string(call.msg.Method), err)
}

func (s *service) getTask(ctx context.Context, call *Call, m *codec.Message, key worker.Key, dst []byte) ([]byte, *mcp.Error) {
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return nil, s.failedTask(call, err)
	}
	if no := call.lacking(t.Record.Scopes); no != nil {
		return nil, no
	}
	r := call.revision()
	if !protocol.Has(r, protocol.FeatureTasksExtension) {
		s.rt.reminders.begin(key, &t.Record) // the process that ran it may be gone
		return s.encode(dst, call, m, nil, mcp.GetTaskResult{Task: t.Record.Core(key.ID, r)})
	}
	d, err := detailed(t, r)
	if err != nil {
		return nil, s.internal(string(m.Method), err)
	}
	return s.encode(dst, call, m, nil, d)
}

func (s *service) cancelTask(ctx context.Context, call *Call, m *codec.Message, key worker.Key, dst []byte) ([]byte, *mcp.Error) {
	t, err := s.rt.tasks.Cancel(ctx, key)
	r := call.revision()
	if protocol.Has(r, protocol.FeatureTasksExtension) {
		if err != nil && !errors.Is(err, task.ErrEnded) {
			return nil, s.failedTask(call, err)
		}
		return s.encode(dst, call, m, nil, struct{}{})
	}
	if errors.Is(err, task.ErrEnded) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "the task has ended: it is %s", t.Record.Status(r))
	}
	if err != nil {
		return nil, s.failedTask(call, err)
	}
	return s.encode(dst, call, m, nil, protocol.CancelTaskResult{Task: t.Record.Core(key.ID, r)})
}

func (s *service) updateTask(ctx context.Context, call *Call, m *codec.Message, key worker.Key, given mcp.InputResponses, dst []byte) ([]byte, *mcp.Error) {
	switch most := limits.Responses.Value(); {
	case given == nil:
		return nil, mcp.NewError(mcp.CodeInvalidParams, "tasks/update needs inputResponses")
	case len(given) > most:
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses has more than %d members", most)
	}
	answers := make(map[string]task.Reply, len(given))
	for k, v := range given {
		answers[k] = task.Reply{} // does not fit
		if isObject(v) {
			answers[k] = task.Reply{Value: v}
		}
	}
	if _, err := s.rt.tasks.Answer(ctx, key, answers); err != nil {
		return nil, s.failedTask(call, err)
	}
	return s.encode(dst, call, m, nil, struct{}{})
}

// taskResult waits for the end of a task, and answers as its call would have been (2025-11-25). Meanwhile it puts the task's
// questions to the client, on its own stream.
func (s *service) taskResult(ctx context.Context, call *Call, key worker.Key, dst []byte) ([]byte, *mcp.Error) {
	var t worker.Snapshot
	asked := make(map[string]bool)
	for {
		var ask []task.Question
		err := s.rt.tasks.Follow(ctx, key, func(now worker.Snapshot) bool {
			t, ask = now, call.unasked(now, asked)
			return now.Record.State != task.Ended && ask == nil
		})
		if err == nil && ask != nil {
			err = s.askForTask(ctx, call, key, ask)
		}
		if err != nil {
			return nil, s.failedTask(call, err)
		}
		if t.Record.State == task.Ended {
			break
		}
	}
	if no := call.lacking(t.Record.Scopes); no != nil {
		return nil, no
	}
	dst, _, failed := s.outcome(call, t, true, dst)
	return dst, failed
}

// unasked returns the open questions of a task that its client can answer, and that the call has not asked.
func (c *Call) unasked(t worker.Snapshot, asked map[string]bool) []task.Question {
	return openFor(&c.peer, t, asked)
}

// openFor returns the open questions of a task that a client can answer, and that asked does not have, which has them then.
func openFor(p *Peer, t worker.Snapshot, asked map[string]bool) (qs []task.Question) {
	if t.Record.State != task.Waiting {
		return nil
	}
	caps := p.Capabilities()
	for _, q := range t.Record.Open() {
		var request mcp.InputRequest
		if asked[q.Key] || codec.Unmarshal(q.Request, &request) != nil || lackingOf(needsOf(request), &caps) != 0 {
			continue
		}
		asked[q.Key] = true
		qs = append(qs, q)
	}
	return qs
}

// needsOf is the capability that a question of a task needs.
func needsOf(q mcp.InputRequest) mcp.Capability {
	switch q.Method {
	case mcp.MethodSamplingCreateMessage:
		return mcp.CapClientSampling
	case mcp.MethodRootsList:
		return mcp.CapClientRoots
	}
	if mode, _ := codec.Str(codec.Field(q.Params, "mode")); mode == mcp.ElicitModeURL {
		return mcp.CapClientElicitationURL
	}
	return mcp.CapClientElicitationForm
}

// askForTask puts questions of a task to the client of a tasks/result, and takes its answers. A client that does not answer in time may still
// do so with another call.
func (s *service) askForTask(ctx context.Context, call *Call, key worker.Key, open []task.Question) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	me := &asker{cancel, callAsks}
	if before, ok := s.asking.Swap(key.ID, me); ok { // its client may be gone: the newest call asks
		before.(*asker).cancel(errAnswered)
	}
	defer s.asks(key, me)()
	return s.putForTask(ctx, cancel, key, open, call.put)
}

// putForTask puts questions of a task to a client with put, and takes its answers.
func (s *service) putForTask(ctx context.Context, cancel context.CancelCauseFunc, key worker.Key, open []task.Question, put func(context.Context, []hosted.Question) ([]hosted.Outcome, error)) error {
	go func() { // the task may end, or be answered by others
		err := s.rt.tasks.Follow(ctx, key, func(now worker.Snapshot) bool { return now.Record.State == task.Waiting })
		cancel(cmp.Or(err, errAnswered))
	}()
	qs := make([]hosted.Question, len(open))
	for i, q := range open {
		var asked mcp.InputRequest
		if err := codec.Unmarshal(q.Request, &asked); err != nil {
			return err
		}
		var params map[string]json.RawMessage
		if err := codec.Unmarshal(orEmpty(asked.Params), &params); err != nil {
			return err
		}
		params["_meta"] = json.RawMessage(mcp.Object(params["_meta"]).With(mcp.MetaRelatedTask, mcp.Raw(protocol.RelatedTask{TaskID: key.ID})))
		raw, err := codec.Marshal(params)
		if err != nil {
			return err
		}
		qs[i] = hosted.Question{Question: actors.Question{Key: q.Key, Method: asked.Method, Params: raw}}
	}
	answers, err := put(ctx, qs)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errAnswered):
		return nil
	case errors.Is(err, ErrNoAnswer):
		return nil // another call may ask again: the task waits as long as it lasts
	case err != nil:
		return err
	}
	replies := make(map[string]task.Reply, len(open))
	for i, a := range answers {
		reply := task.Reply{Value: a.Result}
		if a.Err != nil {
			if reply.Value, err = codec.Marshal(a.Err); err != nil {
				return err
			}
			reply.Refused = true
		}
		replies[open[i].Key] = reply
	}
	_, err = s.rt.tasks.Answer(context.WithoutCancel(ctx), key, replies)
	return err
}

// errAnswered reports that a call has no question of a task to put any more: the task waits no more, or another call asks.
var errAnswered = errors.New("troupe: the questions of the task are not this call's")

// asker is who puts a task's questions to its client.
type asker struct {
	cancel context.CancelCauseFunc
	how    uint8 // callAsks or streamAsks
}

// listTasks lists the tasks of a principal. The cursor is the revision from which the next page goes on, sealed.
func (s *service) listTasks(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	tenant := call.c.Peer().Key().Tenant
	aad := []byte("tasks " + tenant + " " + s.id)
	from := uint64(0)
	if m.Cursor != nil {
		plain, err := s.rt.unseal(text(m.Cursor), aad)
		if err == nil {
			from, err = strconv.ParseUint(plain, 10, 64)
		}
		if errors.Is(err, store.ErrUnavailable) {
			return nil, s.internal(mcp.MethodTasksList, err)
		}
		if err != nil {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "the cursor is not one of this list")
		}
	}
	all, next, err := s.rt.tasks.List(ctx, tenant, s.id, from, s.limits.PageSize)
	if err != nil {
		return nil, s.internal(mcp.MethodTasksList, err)
	}
	out := protocol.ListTasksResult{Tasks: make([]mcp.Task, len(all))}
	for i, t := range all {
		out.Tasks[i] = t.Record.Core(t.Key.ID, call.revision())
		if no, _ := s.require(call.c.Principal(), t.Record.Scopes); no != nil {
			out.Tasks[i].StatusMessage = "" // may have what the call has said
		}
	}
	if next != 0 {
		if out.NextCursor, err = s.rt.seal(strconv.FormatUint(next, 10), aad); err != nil {
			return nil, s.internal(mcp.MethodTasksList, err)
		}
	}
	return s.encode(dst, call, m, nil, out)
}

// adminTasks are the tasks of all principals, for the operator.
type adminTasks struct{ rt *Runtime }

var _ admin.Tasks = adminTasks{}

const (
	// adminLooks is how many tasks are looked at for a page.
	adminLooks = 2000
	// adminSteps is how many steps of a task are told of.
	adminSteps = 500
)

func (a adminTasks) List(ctx context.Context, q admin.Query) (page admin.Page, err error) {
	page.Tasks, page.Next = []admin.Task{}, q.From
	for looked := 0; looked < adminLooks && len(page.Tasks) < q.Limit; {
		n := q.Limit - len(page.Tasks)
		all, next, err := a.rt.tasks.All(ctx, page.Next, n)
		if err != nil {
			return admin.Page{}, err
		}
		for _, t := range all {
			if told := a.task(t); admin.Matches(told.State, q.State) {
				page.Tasks = append(page.Tasks, told)
			}
		}
		looked += n
		if page.Next = next; next == 0 {
			break
		}
	}
	return page, nil
}

// task is what is told of a task.
func (a adminTasks) task(t worker.Snapshot) admin.Task {
	r := &t.Record
	out := admin.Task{
		ID: t.Key.ID, State: r.State.String(), Tool: r.Name, Server: t.Key.Server, Tenant: t.Key.Tenant, Principal: r.Who, Address: r.From,
		Node: r.Node, Attempt: r.Attempt, Message: r.Message, Created: time.UnixMilli(r.Created), Updated: time.UnixMilli(r.Updated), Expires: r.Expires(),
	}
	if r.State == task.Ended && r.Outcome != nil {
		out.State = r.Outcome.Kind.String()
	}
	if here := a.rt.service(t.Key.Server); here != nil {
		out.Server = here.path
	}
	return out
}

// find reads a task by its id.
func (a adminTasks) find(ctx context.Context, id string) (t worker.Snapshot, err error) {
	key, err := a.rt.tasks.Find(ctx, id)
	if err == nil {
		t, err = a.rt.tasks.Get(ctx, key)
	}
	if errors.Is(err, worker.ErrUnknown) {
		err = admin.ErrUnknown
	}
	return t, err
}

func (a adminTasks) Show(ctx context.Context, id string, result bool) (admin.Detail, error) {
	t, err := a.find(ctx, id)
	if err != nil {
		return admin.Detail{}, err
	}
	r := &t.Record
	d := admin.Detail{Task: a.task(t), Lost: r.Lost, AllRuns: int(r.Epoch), Asked: len(r.Questions), Runs: []admin.Run{}, Steps: []admin.Step{}, Questions: []admin.Question{}}
	for _, run := range r.Runs {
		told := admin.Run{Number: run.Epoch, Attempt: run.Attempt, Node: run.Node, Began: time.UnixMilli(run.Began), How: string(run.End)}
		if run.End != "" {
			told.Ended = time.UnixMilli(run.Over)
		}
		d.Runs = append(d.Runs, told)
	}
	for _, q := range r.Open() {
		var asked mcp.InputRequest
		_ = codec.Unmarshal(q.Request, &asked) // the rest of the task may be read all the same
		told := admin.Question{Key: q.Key, Method: asked.Method}
		if result {
			told.Params = json.RawMessage(asked.Params)
		}
		d.Questions = append(d.Questions, told)
	}
	if result && r.Outcome != nil {
		d.Result = r.Outcome.Value
	}
	steps, all, err := a.rt.tasks.Steps(ctx, t.Key, adminSteps)
	d.AllSteps = all
	for _, s := range steps {
		d.Steps = append(d.Steps, admin.Step{Name: s.Name, Attempt: s.Attempt, Began: time.UnixMilli(s.Began), TookMS: s.Took, Bytes: s.Size, Failed: s.Failed != ""})
	}
	return d, err
}

func (a adminTasks) Cancel(ctx context.Context, id string) (admin.Task, error) {
	key, err := a.rt.tasks.Find(ctx, id)
	var t worker.Snapshot
	if err == nil {
		t, err = a.rt.tasks.Cancel(ctx, key)
	}
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return admin.Task{}, admin.ErrUnknown
	case errors.Is(err, task.ErrEnded):
		return admin.Task{}, fmt.Errorf("%w: it is %s", admin.ErrEnded, a.task(t).State)
	case err != nil:
		return admin.Task{}, err
	}
	a.rt.log.Info("an operator has cancelled a task", "server", key.Server, "task", telemetry.Hash(id))
	return a.task(t), nil
}
