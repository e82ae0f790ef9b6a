package hosted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/mcp"
)

// Call is the call that asks.
type Call interface {
	Ask(ctx context.Context, qs []actors.Question) ([]actors.Answer, error)
	Wait(ctx context.Context, d time.Duration, hint <-chan struct{}) error
	Place() (giveBack func(), err error)
	Recorded(key string) bool
	Over(err error) bool
	Order(method string, params []byte)
}

var _ Call = (*actors.Call)(nil)

// Host asks the client of a call.
type Host struct {
	Call    Call
	Session actors.SessionKey
	Caps    mcp.ClientCapabilities
	Cancels bool          // the client takes tasks/cancel
	MaxAsk  time.Duration // for how long a question is hosted that the client takes only as a task
	Watch   *Watch        // of all calls of the process
	Log     *slog.Logger
	Sending func(ctx context.Context, method string) func(params []byte) ([]byte, func(*actors.Answer)) // see actors.Question; nil for nothing
}

// Question is one that the client may host.
type Question struct {
	actors.Question
	TTL    time.Duration     // for how long the answer is waited for, once the client has the task
	Hosted func(task string) // learns of the task, unless it is nil
}

// Outcome is what became of a question.
type Outcome struct {
	actors.Answer
	// Bad says why the client's task cannot be understood. The answer is then what it said last.
	Bad error
}

// failures is how often in a row a client may fail to say how its task is.
var failures = limits.LookTries.Value()

// lastLook is how long the client has to answer the last look at a task that was not done in time.
const lastLook = 10 * time.Second

// Ask asks the client to host a question, and returns the answer in the end. The errors are those of actors.Call.Ask; it also
// fails with actors.ErrNoAnswer if the task has no outcome in time.
func (h *Host) Ask(ctx context.Context, q Question) (Outcome, error) {
	giveBack, err := h.Call.Place()
	if err != nil {
		return Outcome{}, err
	}
	defer giveBack()
	first := q.Question
	first.Params, first.Late = augment(q.Params, q.TTL), h.late
	a, err := h.one(ctx, first)
	if err != nil {
		return Outcome{}, err
	}
	if a.Err != nil || q.Valid != nil && q.Valid(a.Result) {
		return Outcome{Answer: a}, nil // it takes no task, and need not say so
	}
	t, bad := created(a.Result)
	if bad != nil {
		h.cancel(t.id)
		return Outcome{a, bad}, nil
	}
	h.log(ctx, "the client hosts a question", q, t)
	if q.Hosted != nil {
		q.Hosted(t.id)
	}
	f := follower{Host: h, q: q, t: t, end: time.Now().Add(q.TTL)}
	out, err := f.follow(ctx)
	if !f.settled && !f.t.status.Terminal() && (err == nil || h.Call.Over(err)) {
		h.cancel(t.id)
	}
	h.log(ctx, "the client's task is over", q, f.t)
	return out, err
}

// one sends one request of a question.
func (h *Host) one(ctx context.Context, q actors.Question) (actors.Answer, error) {
	q.Part = true
	if q.Sending == nil && h.Sending != nil {
		q.Sending = h.Sending(ctx, q.Method)
	}
	answers, err := h.Call.Ask(ctx, []actors.Question{q})
	if err != nil {
		return actors.Answer{}, err
	}
	return answers[0], nil
}

// late cancels the task that a client made of a question that was given up meanwhile.
func (h *Host) late(a actors.Answer) {
	if t, _ := created(a.Result); t.id != "" {
		h.cancel(t.id)
	}
}

// cancel tells the client that nobody waits for its task any more. Without tasks/cancel there is no way to say so.
func (h *Host) cancel(id string) {
	if id != "" && h.Cancels {
		h.Call.Order(mcp.MethodTasksCancel, named(id))
	}
}

// log logs the course of a task. Its id may be all that it takes to read it.
func (h *Host) log(ctx context.Context, what string, q Question, t state) {
	sum := sha256.Sum256([]byte(t.id))
	h.Log.DebugContext(ctx, what, "server", h.Session.Server, "method", q.Method, "task", hex.EncodeToString(sum[:4]), "status", string(t.status))
}

// follower waits for the outcome of a task.
type follower struct {
	*Host
	q       Question
	t       state
	end     time.Time
	settled bool // the task has ended, or is forgotten

	looks, faults int
	result        bool            // tasks/result is to be sent whatever the status is
	asked         bool            // it was sent since the task began to need input
	refused       *actors.Answer  // an error that tasks/result was answered with before the end
	changed       <-chan struct{} // has a value when the client says that the task has changed
}

// follow looks at the task until there is an outcome.
func (f *follower) follow(ctx context.Context) (Outcome, error) {
	changed, stop := f.Watch.on(f.Session, f.t.id)
	defer stop()
	f.changed = changed
	ctx, cancel := context.WithDeadlineCause(ctx, f.end.Add(lastLook), actors.ErrNoAnswer)
	defer cancel()
	f.result = f.Call.Recorded(resultKey(f.t.id)) // an earlier run of the call has asked for it
	for {
		out, err := f.fetch(ctx)
		if out == nil && err == nil {
			if err = f.pause(ctx); err == nil {
				out, err = f.look(ctx)
			}
		}
		switch {
		case err != nil:
			return Outcome{}, err
		case out != nil:
			return *out, nil
		}
	}
}

// resultKey is the key of the request for a task's result. It is recorded, so that a second run of the call has the result
// though the client may have forgotten its task by then.
func resultKey(id string) string { return mcp.MethodTasksResult + " " + id }

// fetch asks for the result of a task that has ended, or that needs input: the client may want to ask something itself then
// (tasks, input required status). It returns nil if there is none yet.
func (f *follower) fetch(ctx context.Context) (*Outcome, error) {
	needs := f.t.status == mcp.TaskInputRequired && !f.asked
	if !f.result && !f.t.status.Terminal() && !needs {
		return nil, nil
	}
	f.result, f.asked = false, true
	a, err := f.one(ctx, actors.Question{Key: resultKey(f.t.id), Method: mcp.MethodTasksResult, Params: named(f.t.id)})
	switch {
	case errors.Is(err, actors.ErrNoAnswer) && ctx.Err() == nil: // only this request has waited for long enough
		return nil, nil
	case err != nil:
		return nil, err
	case a.Err != nil && !f.t.status.Terminal():
		f.refused = &a
		return nil, nil
	}
	f.settled = true
	return &Outcome{Answer: a}, nil
}

// pause waits until it is time to look at the task again.
func (f *follower) pause(ctx context.Context) error {
	left := time.Until(f.end)
	if left <= 0 {
		return actors.ErrNoAnswer
	}
	least := min(leastWait, left)
	if err := f.Call.Wait(ctx, least, nil); err != nil { // a client that often says that its task has changed is not asked more often
		return err
	}
	return f.Call.Wait(ctx, min(f.t.wait(f.looks), left)-least, f.changed)
}

// look asks the client how its task is. It returns an outcome if there will be none.
func (f *follower) look(ctx context.Context) (*Outcome, error) {
	f.looks++
	a, err := f.one(ctx, actors.Question{Key: mcp.MethodTasksGet, Method: mcp.MethodTasksGet, Params: named(f.t.id), Passing: true})
	switch {
	case errors.Is(err, actors.ErrNoAnswer) && ctx.Err() == nil: // the client may be away
		return nil, nil
	case err != nil:
		return nil, err
	}
	var t state
	if a.Err == nil {
		if t, err = read(a.Result); err == nil && t.id != f.t.id {
			err = errOther
		}
		if err == nil {
			if t.status != mcp.TaskInputRequired {
				f.asked = false
			}
			f.t, f.faults = t, 0
			return nil, nil
		}
	}
	f.faults++
	switch {
	case a.Err != nil && a.Err.Code == mcp.CodeInvalidParams: // it has forgotten the task
		f.settled = true
		if f.refused != nil {
			a = *f.refused
		}
		return &Outcome{Answer: a}, nil
	case f.faults == failures:
		return &Outcome{a, err}, nil
	case a.Err != nil && a.Err.Code == mcp.CodeMethodNotFound:
		f.result = true // its result may be all that it can be asked for
	}
	return nil, nil
}
