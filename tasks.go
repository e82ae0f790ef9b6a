package troupe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/hosted"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/task"
	"github.com/troupe-run/troupe/internal/tasknews"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// errNoTask is the answer for a task that does not exist, is another's, or has expired.
func errNoTask() *mcp.Error {
	return mcp.NewError(mcp.CodeInvalidParams, "there is no such task: it may have expired")
}

// serviceTasks is what a service does with the tasks of its clients: it makes them of calls, and answers their methods.
type serviceTasks struct {
	*service
}

// tasksMethod answers the methods of tasks.
func (s *serviceTasks) tasksMethod(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	r := call.revision()
	caps := s.discovery.shownCapabilities()
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
	if err := call.decodeParams(ctx, m.Params, &p); err != nil {
		return nil, err
	}
	if p.TaskID == "" {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%s needs taskId", m.Method)
	}
	key := s.keyOf(call, p.TaskID)
	if !key.Valid() {
		return nil, errNoTask()
	}
	if string(m.Method) != mcp.MethodTasksGet { // which reads the task itself, and no more than once
		if refused := s.lacksTask(ctx, call, key); refused != nil {
			return nil, refused
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
func (s *serviceTasks) lacksTask(ctx context.Context, call *Call, key worker.Key) *mcp.Error {
	if !s.srv.scoped.Load() {
		return nil
	}
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return s.failedTask(call, err)
	}
	return call.requireScopes(t.Record.Scopes)
}

// failedTask is the answer for an error of the tasks.
func (s *serviceTasks) failedTask(call *Call, err error) *mcp.Error {
	if full, ok := errors.AsType[*refusal.Refusal](err); ok {
		return call.c.Refuse(full)
	}
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return errNoTask()
	case errors.Is(err, worker.ErrTooMuch):
		return mcp.Errorf(mcp.CodeInvalidParams, "the answers of a task may have %d bytes together, with its questions", limits.TaskAsked.Value())
	}
	return s.internalError(string(call.msg.Method), err)
}

func (s *serviceTasks) getTask(ctx context.Context, call *Call, m *codec.Message, key worker.Key, dst []byte) ([]byte, *mcp.Error) {
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return nil, s.failedTask(call, err)
	}
	if refused := call.requireScopes(t.Record.Scopes); refused != nil {
		return nil, refused
	}
	r := call.revision()
	if !protocol.Has(r, protocol.FeatureTasksExtension) {
		s.rt.reminders.Watch(key, &t.Record) // the process that ran it may be gone
		return s.encodeResult(dst, call, m, nil, mcp.GetTaskResult{Task: t.Record.CoreTask(key.ID, r)})
	}
	d, err := detailedTask(t, r)
	if err != nil {
		return nil, s.internalError(string(m.Method), err)
	}
	return s.encodeResult(dst, call, m, nil, d)
}

func (s *serviceTasks) cancelTask(ctx context.Context, call *Call, m *codec.Message, key worker.Key, dst []byte) ([]byte, *mcp.Error) {
	t, err := s.rt.tasks.Cancel(ctx, key)
	r := call.revision()
	if protocol.Has(r, protocol.FeatureTasksExtension) {
		if err != nil && !errors.Is(err, task.ErrEnded) {
			return nil, s.failedTask(call, err)
		}
		return s.encodeResult(dst, call, m, nil, struct{}{})
	}
	if errors.Is(err, task.ErrEnded) {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "the task has ended: it is %s", t.Record.Status(r))
	}
	if err != nil {
		return nil, s.failedTask(call, err)
	}
	return s.encodeResult(dst, call, m, nil, protocol.CancelTaskResult{Task: t.Record.CoreTask(key.ID, r)})
}

func (s *serviceTasks) updateTask(ctx context.Context, call *Call, m *codec.Message, key worker.Key, given mcp.InputResponses, dst []byte) ([]byte, *mcp.Error) {
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
	return s.encodeResult(dst, call, m, nil, struct{}{})
}

// taskResult waits for the end of a task, and answers as its call would have been (2025-11-25). Meanwhile it puts the task's
// questions to the client, on its own stream.
func (s *serviceTasks) taskResult(ctx context.Context, call *Call, key worker.Key, dst []byte) ([]byte, *mcp.Error) {
	var t worker.Snapshot
	asked := make(map[string]bool)
	for {
		var ask []task.Question
		err := s.rt.tasks.Follow(ctx, key, func(now worker.Snapshot) bool {
			t, ask = now, openFor(&call.peer, now, asked)
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
	if refused := call.requireScopes(t.Record.Scopes); refused != nil {
		return nil, refused
	}
	dst, _, failed := s.appendOutcome(call, t, true, dst)
	return dst, failed
}

// openFor returns the open questions of a task that a client can answer, and that asked does not have, which has them then.
func openFor(p *Peer, t worker.Snapshot, asked map[string]bool) (qs []task.Question) {
	if t.Record.State != task.Waiting {
		return nil
	}
	caps := p.Capabilities()
	for _, q := range t.Record.OpenQuestions() {
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
func (s *serviceTasks) askForTask(ctx context.Context, call *Call, key worker.Key, open []task.Question) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.rt.reminders.AskByCall(key, cancel)()
	return s.putForTask(ctx, cancel, key, open, func(ctx context.Context, qs []hosted.Question) ([]hosted.Outcome, error) {
		for i := range qs {
			qs[i].Sending = call.sendingOf(ctx, qs[i].Method)
		}
		return hosted.Put(ctx, call.c, hostOf(call), qs)
	})
}

// putForTask puts questions of a task to a client with put, and takes its answers.
func (s *serviceTasks) putForTask(ctx context.Context, cancel context.CancelCauseFunc, key worker.Key, open []task.Question, put func(context.Context, []hosted.Question) ([]hosted.Outcome, error)) error {
	go func() { // the task may end, or be answered by others
		err := s.rt.tasks.Follow(ctx, key, func(now worker.Snapshot) bool { return now.Record.State == task.Waiting })
		cancel(cmp.Or(err, tasknews.ErrAnswered))
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
	case errors.Is(cause, tasknews.ErrAnswered):
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

// listTasks lists the tasks of a principal. The cursor is the revision from which the next page goes on, sealed.
func (s *serviceTasks) listTasks(ctx context.Context, call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	tenant := call.c.Peer().Key().Tenant
	aad := []byte("tasks " + tenant + " " + s.id)
	from := uint64(0)
	if m.Cursor != nil {
		plain, err := s.rt.openSealed(decodeText(m.Cursor), aad)
		if err == nil {
			from, err = strconv.ParseUint(plain, 10, 64)
		}
		if errors.Is(err, store.ErrUnavailable) {
			return nil, s.internalError(mcp.MethodTasksList, err)
		}
		if err != nil {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "the cursor is not one of this list")
		}
	}
	all, next, err := s.rt.tasks.List(ctx, tenant, s.id, from, s.limits.PageSize)
	if err != nil {
		return nil, s.internalError(mcp.MethodTasksList, err)
	}
	out := protocol.ListTasksResult{Tasks: make([]mcp.Task, len(all))}
	for i, t := range all {
		out.Tasks[i] = t.Record.CoreTask(t.Key.ID, call.revision())
		if refused, _ := s.scopes.requireScopes(call.c.Principal(), t.Record.Scopes); refused != nil {
			out.Tasks[i].StatusMessage = "" // may have what the call has said
		}
	}
	if next != 0 {
		if out.NextCursor, err = s.rt.sealText(strconv.FormatUint(next, 10), aad); err != nil {
			return nil, s.internalError(mcp.MethodTasksList, err)
		}
	}
	return s.encodeResult(dst, call, m, nil, out)
}

// followableTasks returns the tasks that a listener follows: those of its filter that there are. The filter keeps their ids.
func (s *serviceTasks) followableTasks(ctx context.Context, call *Call, f *mcp.SubscriptionFilter, limit int) ([]worker.Key, *mcp.Error) {
	if len(f.TaskIDs) == 0 {
		return nil, nil
	}
	if lacking := refuseLacking(mcp.CapClientTasksExtension, &call.peer); lacking != nil {
		return nil, lacking
	}
	var keys []worker.Key
	asked := f.TaskIDs
	f.TaskIDs = nil
	for _, id := range asked {
		key := s.keyOf(call, id)
		if !key.Valid() || slices.Contains(keys, key) || limit >= 0 && len(keys) >= limit {
			continue
		}
		switch t, err := s.rt.tasks.Get(ctx, key); {
		case err == nil:
			if refused := call.requireScopes(t.Record.Scopes); refused != nil {
				return nil, refused
			}
			keys, f.TaskIDs = append(keys, key), append(f.TaskIDs, id)
		case !errors.Is(err, worker.ErrUnknown):
			return nil, s.internalError(mcp.MethodSubscriptionsListen, err)
		}
	}
	return keys, nil
}

// followTasks sends a listener each task as it is, and after each change (the extension's notifications/tasks).
func (s *serviceTasks) followTasks(keys []worker.Key) func(context.Context, func(string, []byte)) func() {
	return func(ctx context.Context, send func(method string, params []byte)) func() {
		again := make(chan struct{}, 1)
		go func() {
			_ = s.rt.tasks.FollowAll(ctx, keys, again, func(t worker.Snapshot) bool {
				if d, err := detailedTask(t, mcp.Latest); err == nil {
					if params, err := codec.Marshal(d); err == nil {
						send(mcp.NotifyTasks, params)
					}
				}
				return true
			})
		}()
		return func() {
			select {
			case again <- struct{}{}:
			default:
			}
		}
	}
}

// runTask runs the handler of a task.
func (s *serviceTasks) runTask(ctx context.Context, a *worker.Attempt) worker.Result {
	m := new(codec.Message)
	if err := codec.Scan(a.Request.Message, m, codec.Limits{MaxDepth: s.svc.Limits.Depth, MaxValues: math.MaxInt32}); err != nil {
		return worker.Result{Err: s.internalError("task", err)}
	}
	revision, _ := mcp.ParseRevision(a.Revision)
	t, ok := s.tools.findTool(m.Name)
	call := s.rt.node.NewCall(ctx, s.svc, m, actors.Apart{
		Tenant: a.Key.Tenant, Session: a.Request.Session, Revision: revision, Client: a.Request.Client, Capabilities: a.Request.Capabilities,
		Principal: a.Request.Principal, Attempt: a.Number,
	}, &taskRun{Attempt: a, s: s.service, long: ok && t.runsLong() || !ok && revision.Stateless()}) // a backend decides while the call runs
	out, err := s.Serve(ctx, call, nil)
	return worker.Result{Value: out, IsError: string(codec.Optional(out, "isError")) == "true", Err: err}
}

// createTask makes a task of a call, and appends the result that says so.
func (s *serviceTasks) createTask(ctx context.Context, call *Call, t *tool, args, dst []byte) ([]byte, int, *mcp.Error) {
	// Before anything is asked, charged or stored for it.
	if err := s.rt.tasks.Room(call.c.Peer().Key().Tenant, call.c.From()); err != nil {
		return nil, 0, tooManyTasks(call.c, err)
	}
	ttl, refusal := taskTTL(call, t)
	if refusal != nil {
		return nil, 0, refusal
	}
	if t.hosted == nil { // a backend judges them itself
		if err := t.readArguments(ctx, call, args, nil); err != nil {
			return s.tools.failedTool(call, t, dst, err)
		}
	}
	if t.BeforeTask != nil {
		changed, err := t.BeforeTask(ctx, call, bytes.Clone(args))
		if err != nil {
			return s.tools.failedTool(call, t, dst, err)
		}
		args = changed
	}
	made, err := s.storeTask(ctx, call, t, args, ttl)
	if refusal := tooManyTasks(call.c, err); refusal != nil {
		return nil, 0, refusal
	}
	if errors.Is(err, errTaskTooLarge) {
		return nil, 0, mcp.Errorf(mcp.CodeInvalidParams, "a request that becomes a task of tool %s may have %d bytes", protocol.Shown(t.Name), maxTaskRequest)
	}
	if err != nil {
		return nil, 0, s.handlerError(&call.peer, "tools/call "+t.Name, err)
	}
	s.rt.logTask("a task was created", made.Key, "tool", t.Name)
	if t.TaskAfter > 0 && protocol.Has(call.revision(), protocol.FeatureTasksExtension) { // who asked for a task gets one
		if made, err = s.awaitTask(ctx, made, t.TaskAfter); err == nil && made.Record.State == task.Ended {
			return s.appendOutcome(call, made, false, dst)
		}
	}
	r := call.revision()
	var out any = protocol.CreateTaskResult{Task: made.Record.CoreTask(made.Key.ID, r), Meta: immediateMeta(t.TaskNotice)}
	if protocol.Has(r, protocol.FeatureTasksExtension) {
		out = s.createdResult(made, r)
	}
	if dst, err = codec.AppendMarshal(dst, out); err != nil {
		return nil, 0, s.internalError("tools/call "+t.Name, err)
	}
	return dst, 0, nil
}

// createdResult is the result that says which task a call has become (2026-07-28).
func (s *serviceTasks) createdResult(made worker.Snapshot, r mcp.Revision) protocol.CreatedTask {
	return protocol.CreatedTask{ResultType: mcp.ResultTask, TaskHandle: made.Record.TaskHandle(made.Key.ID, r), Meta: mcp.Meta(nil).WithServerInfo(s.srv.impl)}
}

// newTask is the task of a call, which is to be stored.
func (s *serviceTasks) newTask(call *Call, t *tool, args []byte, ttl time.Duration) (worker.NewTask, error) {
	meta, err := taskMeta(call.msg.Meta)
	if span := call.c.Span(); span != "" && err == nil { // the runs are below the request that has made the task
		meta = json.RawMessage(mcp.Object(meta).With("traceparent", mcp.Raw(span)))
	}
	if err != nil {
		return worker.NewTask{}, err
	}
	raw, err := codec.Marshal(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
		Meta      json.RawMessage `json:"_meta,omitempty"`
	}{t.Name, args, meta})
	if err != nil {
		return worker.NewTask{}, err
	}
	principal, err := codec.Marshal(call.c.Principal())
	if err != nil {
		return worker.NewTask{}, err
	}
	p := call.c.Peer()
	message := append([]byte(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":`), raw...)
	request := worker.Request{Message: append(message, '}'), Principal: principal, Client: p.Client(), Capabilities: p.Capabilities(), Session: p.Key().ID}
	if t.Rerun != Safe && len(request.Message)+len(request.Client)+len(request.Capabilities) > maxTaskRequest {
		return worker.NewTask{}, errTaskTooLarge
	}
	return worker.NewTask{
		Tenant: p.Key().Tenant, From: call.c.From(), Who: protocol.Shown(call.Principal().String()), Scopes: call.c.Needs(), Server: s.id, Revision: p.Revision().String(), Method: mcp.MethodToolsCall, Name: t.Name, TTL: ttl,
		Request: request,
	}, nil
}

// storeTask stores the task of a call.
func (s *serviceTasks) storeTask(ctx context.Context, call *Call, t *tool, args []byte, ttl time.Duration) (worker.Snapshot, error) {
	n, err := s.newTask(call, t, args, ttl)
	if err != nil {
		return worker.Snapshot{}, err
	}
	made, err := s.rt.tasks.Create(ctx, n)
	if err == nil {
		s.rt.noteTask(ctx, call.c.Principal(), made.Key)
	}
	return made, err
}

// awaitTask waits until a task has ended, or for a time.
func (s *serviceTasks) awaitTask(ctx context.Context, made worker.Snapshot, d time.Duration) (worker.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := s.rt.tasks.Follow(ctx, made.Key, func(now worker.Snapshot) bool {
		made = now
		return now.Record.State != task.Ended
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	return made, err
}

// appendOutcome appends what the call of an ended task would have been answered with. If related is set, a result names the task.
func (s *serviceTasks) appendOutcome(call *Call, t worker.Snapshot, related bool, dst []byte) ([]byte, int, *mcp.Error) {
	switch o := t.Record.Outcome; o.Kind {
	case task.Done, task.ToolError:
		result, err := outcomeFor(o.Value, call.revision())
		if related {
			meta := mcp.Object(codec.Optional(result, "_meta")).With(mcp.MetaRelatedTask, mcp.Raw(protocol.RelatedTask{TaskID: t.Key.ID}))
			result = json.RawMessage(mcp.Object(result).With("_meta", json.RawMessage(meta)))
		}
		if err == nil {
			dst, err = call.svc.methods.appendResult(dst, call, result)
		}
		if err != nil {
			return nil, 0, s.internalError("the result of a task", err)
		}
		call.faulty = o.Kind == task.ToolError
		code := 0
		if call.faulty {
			code = 1
		}
		return dst, code, nil
	case task.Cancelled:
		return nil, 0, mcp.NewError(mcp.CodeInternalError, "the task was cancelled")
	}
	e := new(mcp.Error)
	if err := codec.Unmarshal(t.Record.Failure(), e); err != nil {
		return nil, 0, s.internalError("the error of a task", err)
	}
	return nil, 0, e
}

// concludeLong is concludeTask with the response of the call, which was appended to dst.
func (s *serviceTasks) concludeLong(call *Call, out, dst []byte, err *mcp.Error) {
	concludeTask(call, func() worker.Result { // the response is a copy: the task may store it once its bytes are another call's
		res := worker.Result{Err: err}
		if err == nil {
			res.Value = bytes.Clone(out[len(dst):])
			res.IsError = string(codec.Optional(res.Value, "isError")) == "true"
		}
		return res
	})
}

// adoptTask stores a task of a call that runs, and tells its client, if the call can become one. It reports whether it may become one once there is room.
func (s *serviceTasks) adoptTask(call *Call, ending bool) (later bool) {
	t := call.tool
	if s.rt.storesInMemory && (ending || s.rt.leaving.Load()) { // the task would end with the process, and the call may yet end before it
		return false
	}
	if caps := call.peer.Capabilities(); !caps.Has(mcp.CapClientTasksExtension) {
		return false
	}
	args, refusal := callArguments(call, t)
	ttl, wrong := taskTTL(call, t)
	if refusal != nil || wrong != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
	defer cancel()
	asked, goOn, ok := call.c.Still()
	if !ok { // it is offered again once it has its answer
		return false
	}
	defer goOn()
	n, err := s.newTask(call, t, args, ttl)
	for _, key := range slices.Sorted(maps.Keys(asked.Answers)) {
		n.Answered = append(n.Answered, task.Question{Key: key, Answer: asked.Answers[key]})
	}
	if err != nil {
		s.rt.hits.LogRarely(slog.LevelWarn, "a call that takes long becomes no task", slog.String("server", s.id), slog.String("tool", t.Name), slog.String("error", err.Error()))
		return false
	}
	n.Ending = ending
	kept, moved, err := call.c.MoveSteps(ctx)
	if err != nil {
		return false
	}
	defer moved()
	for i := range kept {
		n.Steps = append(n.Steps, stepOf(&kept[i]))
	}
	if t.hosted != nil {
		n.Steps = append(n.Steps, t.hosted.steps()...)
	}
	a, made, err := s.rt.tasks.Adopt(ctx, n)
	if err != nil {
		s.rt.log.Debug("a call that takes long becomes no task", "server", s.id, "tool", t.Name, "error", err)
		return errors.Is(err, worker.ErrNoPlace) || errors.Is(err, worker.ErrTooMany) || errors.Is(err, worker.ErrFull)
	}
	s.rt.noteTask(ctx, call.c.Principal(), made.Key)
	answer, err := codec.AppendMarshal([]byte(`,"result":`), s.createdResult(made, call.revision()))
	if err == nil {
		run := &taskRun{Attempt: a, s: s.service, long: true}
		for _, key := range asked.Keys {
			run.asked.UniqueKey(key)
		}
		if end, told := call.c.Detach(append(answer, '}'), run); told {
			context.AfterFunc(a.Context(), func() { end(context.Cause(a.Context())) })
			s.rt.logTask("a call that takes long became a task", made.Key, "tool", t.Name)
			return false
		}
	}
	_, _ = s.rt.tasks.Cancel(ctx, made.Key) // its client is gone, or was asked something
	a.Conclude(worker.Result{Err: mcp.NewError(mcp.CodeInternalError, "")})
	return false
}

// MaxAsk implements tasknews.Server.
func (s *serviceTasks) MaxAsk() time.Duration { return s.limits.MaxAsk }

// AskOnStream implements tasknews.Server.
func (s *serviceTasks) AskOnStream(ctx context.Context, cancel context.CancelCauseFunc, key worker.Key, p *actors.Peer, begins func() (over func())) error {
	t, err := s.rt.tasks.Get(ctx, key)
	if err != nil {
		return err
	}
	open := openFor(&Peer{p}, t, make(map[string]bool))
	if open == nil {
		return nil
	}
	defer begins()()
	return s.putForTask(ctx, cancel, key, open, func(ctx context.Context, qs []hosted.Question) ([]hosted.Outcome, error) {
		var err error
		outcomes, ends := make([]hosted.Outcome, len(qs)), make(chan error, len(qs))
		for i := range qs {
			go func() {
				q := qs[i].Question
				q.Sending = s.Asking(ctx, p, actors.ViaOf(p), q.Method)
				a, err := p.Ask(ctx, q)
				outcomes[i].Answer = a
				if err != nil {
					cancel(err)
				}
				ends <- err
			}()
		}
		for range qs {
			if e := <-ends; err == nil {
				err = e
			}
		}
		return outcomes, err
	})
}

// keyOf names a task of a call's client.
func (s *serviceTasks) keyOf(call *Call, id string) worker.Key {
	return worker.Key{Tenant: call.c.Peer().Key().Tenant, Server: s.id, ID: id}
}

// becomesTask reports whether a call becomes a task, or why its client cannot call the tool.
func (s *serviceTasks) becomesTask(c *Call, t *tool) (yes bool, refusal *mcp.Error) {
	if taskAttempt(c.c) != nil {
		return false, nil
	}
	switch r := c.revision(); {
	case protocol.Has(r, protocol.FeatureTasksExtension):
		if !t.Task.startsAsTask() {
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
	case protocol.Has(r, protocol.FeatureCoreTasks) && c.msg.Task != nil && s.srv.hasTasks.Load():
		if !t.Task.startsAsTask() {
			return false, mcp.Errorf(mcp.CodeMethodNotFound, "calls of tool %s cannot become tasks", protocol.Shown(t.Name))
		}
		return true, nil
	}
	if t.Task == TaskRequired && protocol.Has(c.revision(), protocol.FeatureCoreTasks) {
		return false, mcp.Errorf(mcp.CodeMethodNotFound, "calls of tool %s must become tasks: send params.task", protocol.Shown(t.Name))
	}
	return false, nil // a client of an older revision cannot ask for a task: it has the result
}

// noteHostedTasks notes that a backend lists tools whose calls may become tasks: by themselves, or with asks as clients ask. Its caller may hold the
// lock of the mount point.
func noteHostedTasks(s *service, asks bool) {
	switch {
	case !asks:
		s.srv.longTasks.Store(true)
	case !s.srv.hasTasks.Swap(true):
		s.rt.tasks.Serve(s.id)
	}
}

// callHosted calls a tool of a backend, which t stands for: as a task for a client that asks for one, and otherwise so that the call may become one.
func callHosted(ctx context.Context, s *service, call *Call, t *tool, dst []byte) ([]byte, int, *mcp.Error) {
	if refused := call.requireScopes(t.needs); refused != nil {
		return nil, 0, refused
	}
	if !call.revision().Stateless() {
		made, refusal := s.tasks.becomesTask(call, t)
		if made {
			var args []byte
			if args, refusal = callArguments(call, t); refusal == nil {
				return s.tasks.createTask(ctx, call, t, args, dst)
			}
		}
		if refusal != nil {
			return nil, 0, refusal
		}
	}
	run := t.run
	if mayBecome(call) {
		run = t.runLong
	}
	out, err := run(ctx, call, nil, dst)
	if err != nil {
		refused, ok := errors.AsType[*mcp.Error](err)
		if !ok {
			refused = s.internalError("tools/call "+t.Name, err)
		}
		return nil, 0, refused
	}
	if call.faulty {
		return out, telemetry.ToolError, nil
	}
	return out, 0, nil
}

// taskTTL is how long a task is kept.
func taskTTL(c *Call, t *tool) (time.Duration, *mcp.Error) {
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
func tooManyTasks(c *actors.Call, err error) *mcp.Error {
	if full, ok := errors.AsType[*refusal.Refusal](err); ok {
		return c.Refuse(full)
	}
	switch {
	case errors.Is(err, worker.ErrTooMany):
		return c.Refuse(refusal.Of(limits.OpenTasksPerPrincipal.Row))
	case errors.Is(err, worker.ErrFull):
		return c.Refuse(refusal.Of(limits.OpenTasksPerNode.Row))
	}
	return nil
}
