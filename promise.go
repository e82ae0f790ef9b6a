package troupe

import (
	"bytes"
	"context"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

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

// long reports whether a call that takes long becomes a task by itself.
func (t *tool) long() bool { return t.Task == TaskAutomatic && t.safe }

// mayBecome reports whether the client may be one that handles tasks which it has not asked for.
func (c *Call) mayBecome() bool {
	return c.revision().Has(mcp.FeatureTasksExtension) && c.attempt() == nil
}

// runLong runs the tool, and has the call become a task if that takes long.
func (t *tool) runLong(ctx context.Context, call *Call, args, dst []byte) (out []byte, err error) {
	call.tool = t
	call.fate.Store(promised)
	call.c.WhenLong((*longCall)(call))
	if t.TaskAfter > 0 && t.TaskAfter < call.svc.svc.Limits.StatelessGrace {
		defer time.AfterFunc(t.TaskAfter, call.become).Stop()
	}
	returned := false
	defer func() { // the handler may panic, or end the goroutine
		if !returned {
			call.conclude(worker.Result{Err: mcp.NewError(mcp.CodeInternalError, "")})
		}
	}()
	out, err = t.run(ctx, call, args, dst)
	returned = true
	return out, err
}

// longCall is a call whose handler runs, as its node sees it.
type longCall Call

func (c *longCall) TakesLong(ending bool) {
	call := (*Call)(c)
	if wait := call.tool.TaskAfter - call.svc.svc.Limits.StatelessGrace; wait > 0 && !ending {
		time.AfterFunc(wait, call.become)
		return
	}
	call.become()
}

// become makes a task of the call, unless its handler has returned, its client handles none, or there are too many.
func (c *Call) become() {
	b := &becoming{done: make(chan struct{})}
	if !c.fate.CompareAndSwap(promised, b) {
		return
	}
	defer close(b.done)
	if b.attempt = c.svc.adopt(c); b.attempt == nil {
		c.fate.Store(promised)
	}
}

// conclude ends the promise, and gives the result to the task, if there is one.
func (c *Call) conclude(res worker.Result) {
	for {
		switch b := c.fate.Load(); {
		case b == over:
			return
		case b == promised:
			if c.fate.CompareAndSwap(promised, over) {
				return
			}
		default:
			<-b.done
			if b.attempt != nil && c.fate.CompareAndSwap(b, over) {
				b.attempt.Conclude(res)
			}
		}
	}
}

// concludeLong is conclude with the response of the call, which was appended to dst.
func (s *service) concludeLong(call *Call, out, dst []byte, err *mcp.Error) {
	res := worker.Result{Err: err}
	if call.attempt() != nil && err == nil {
		res.Value = bytes.Clone(out[len(dst):])
		res.IsError = string(codec.Optional(res.Value, "isError")) == "true"
	}
	call.conclude(res)
}

// adopt stores a task of a call that runs, and tells its client; nil if it can become none.
func (s *service) adopt(call *Call) *worker.Attempt {
	t := call.tool
	if caps := call.peer.Capabilities(); !caps.Has(mcp.CapClientTasksExtension) {
		return nil
	}
	args, refusal := callArguments(call, t)
	ttl, wrong := call.taskTTL(t)
	if refusal != nil || wrong != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.svc.Limits.StoreWait)
	defer cancel()
	n, err := s.newTask(call, t, args, ttl)
	if err != nil {
		s.rt.log.Warn("a call that takes long becomes no task", "server", s.id, "tool", t.Name, "error", err)
		return nil
	}
	a, made, err := s.rt.tasks.Adopt(ctx, n)
	if err != nil {
		s.rt.log.Debug("a call that takes long becomes no task", "server", s.id, "tool", t.Name, "error", err)
		return nil
	}
	answer, err := codec.AppendMarshal([]byte(`,"result":`), s.created(made, call.revision()))
	if err == nil {
		if end, told := call.c.Detach(append(answer, '}'), &taskRun{Attempt: a, s: s, long: true}); told {
			context.AfterFunc(a.Context(), func() { end(context.Cause(a.Context())) })
			s.rt.logTask("a call that takes long became a task", made.Key, "tool", t.Name)
			return a
		}
	}
	_, _ = s.rt.tasks.Cancel(ctx, made.Key) // its client is gone, or was asked something
	a.Conclude(worker.Result{Err: mcp.NewError(mcp.CodeInternalError, "")})
	return nil
}
