package hosting_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// task is what a run of a call has to do with the backend's task.
type task struct {
	begun  []byte
	made   []string
	leaves error // the one cause at which a later run goes on
}

func (k *task) Wanted() bool                          { return true }
func (k *task) Begun(context.Context) ([]byte, error) { return k.begun, nil }
func (k *task) Say(context.Context, string)           {}
func (k *task) Leaves(cause error) bool               { return k.leaves != nil && errors.Is(cause, k.leaves) }
func (k *task) Made(_ context.Context, w []byte) error {
	k.made = append(k.made, string(w))
	return nil
}

// instance is what the answer of a call is followed at.
type instance struct {
	answer func(method, params string) (upstream.Response, error)
	asked  []string
}

func (i *instance) Task(string, upstream.Response) {}

func (i *instance) Ask(ctx context.Context, method string, params []byte) (upstream.Response, error) {
	if ctx.Err() != nil {
		return upstream.Response{}, &upstream.Failure{Why: upstream.ReasonCancelled, Outcome: upstream.NotRun}
	}
	i.asked = append(i.asked, method)
	return i.answer(method, string(params))
}

const newTask = `{"resultType":"task","taskId":"theirs","status":"working","pollIntervalMs":1000}`

// tasking is a server with a backend of the newer era that makes a task of each call, at an instance.
func tasking(i *instance) (*hosting.Server, *fake) {
	s, f := echoing(func(ctx context.Context, q hosting.Asked) (upstream.Response, error) {
		first := upstream.Response{Kind: upstream.TaskCreated, Result: []byte(newTask)}
		if q.Begun != nil {
			first = *q.Begun
		}
		return q.Follow(ctx, i, first)
	})
	c := catalogue(mcp.Latest, []string{tool("echo")}, nil, nil, nil)
	c.Settled.Capabilities = []byte(`{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	f.set("one", c)
	return s, f
}

func callAsTask(ctx context.Context, t *testing.T, s *hosting.Server, to *client, k *task) ([]byte, error) {
	t.Helper()
	q := request(t, s, callerOf(""), to, listing.Tools, mcp.MethodToolsCall, echo)
	q.Task = k
	return s.Call(ctx, q)
}

// TestTaskThatCannotBeLookedAt gives up on a task whose backend does not answer for it again and again.
func TestTaskThatCannotBeLookedAt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		failing := &upstream.Failure{Why: upstream.ReasonBusy, Outcome: upstream.NotRun}
		looks := 0
		i := &instance{answer: func(method, _ string) (upstream.Response, error) {
			if looks++; method != mcp.MethodTasksGet || looks == 5 { // one answer, from which on it is counted anew
				return complete(`{"taskId":"theirs","status":"working","pollIntervalMs":1}`), nil
			}
			return upstream.Response{}, failing
		}}
		s, _ := tasking(i)
		to := &client{}
		began := time.Now()
		_, err := callAsTask(t.Context(), t, s, to, &task{})
		if f, ok := errors.AsType[*upstream.Failure](err); !ok || f != failing || to.hits[limits.BackendPolls.Row] != 1 {
			t.Errorf("%v after %d hits", err, to.hits[limits.BackendPolls.Row])
		}
		gets := strings.Count(strings.Join(i.asked, " "), mcp.MethodTasksGet)
		if want := 5 + limits.BackendPolls.Value(); gets != want {
			t.Errorf("it was looked at %d times, want %d", gets, want)
		}
		if i.asked[len(i.asked)-1] != mcp.MethodTasksCancel {
			t.Errorf("asked at last: %s", i.asked[len(i.asked)-1])
		}
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("it was looked at all the time: %s", took)
		}
	})
}

// TestPollIntervalHasBounds looks at a task as often as it asks for, and neither all the time nor never.
func TestPollIntervalHasBounds(t *testing.T) {
	for asked, want := range map[string]time.Duration{"2500": 2500 * time.Millisecond, "0": 100 * time.Millisecond, "-7": 100 * time.Millisecond, "1e300": 30 * time.Second, "null": time.Second} {
		bubble.Test(t, func(t *testing.T) {
			began := time.Now()
			var took time.Duration
			i := &instance{answer: func(string, string) (upstream.Response, error) {
				took = time.Since(began)
				return complete(`{"status":"completed","result":{"content":[]}}`), nil
			}}
			s, f := echoing(func(ctx context.Context, q hosting.Asked) (upstream.Response, error) {
				return q.Follow(ctx, i, upstream.Response{Kind: upstream.TaskCreated, Result: fmt.Appendf(nil, `{"resultType":"task","taskId":"theirs","status":"working","pollIntervalMs":%s}`, asked)})
			})
			c := catalogue(mcp.Latest, []string{tool("echo")}, nil, nil, nil)
			c.Settled.Capabilities = []byte(`{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
			f.set("one", c)
			if _, err := callAsTask(t.Context(), t, s, &client{}, &task{}); err != nil || took != want {
				t.Errorf("%s: %v after %s, want %s", asked, err, took, want)
			}
		})
	}
}

// TestTaskOfAnEarlierRun goes on with the task that an earlier run has begun; what the backend has forgotten runs anew if it is safe, and is lost
// otherwise.
func TestTaskOfAnEarlierRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		known := true
		i := &instance{answer: func(string, string) (upstream.Response, error) {
			if !known {
				return upstream.Response{Kind: upstream.Refused, Error: []byte(`{"code":-32602,"message":"no such task"}`)}, nil
			}
			return complete(`{"status":"completed","result":{"content":[]}}`), nil
		}}
		s, _ := tasking(i)
		one := &task{}
		if _, err := callAsTask(t.Context(), t, s, &client{}, one); err != nil || len(one.made) != 1 {
			t.Fatalf("%v, made %q", err, one.made)
		}
		if _, err := callAsTask(t.Context(), t, s, &client{}, &task{begun: []byte(one.made[0])}); err != nil {
			t.Error(err)
		}
		known = false
		_, err := callAsTask(t.Context(), t, s, &client{}, &task{begun: []byte(one.made[0])})
		if wire, ok := errors.AsType[*mcp.Error](err); !ok || wire.Code != mcp.CodeCallLost {
			t.Errorf("of one that is forgotten: %v", err)
		}
	})
}

// TestTaskIsLeft leaves the task to the run that goes on with it, and cancels it where there is none.
func TestTaskIsLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for cause, cancels := range map[error]bool{actors.ErrClosing: false, errors.New("the client has gone"): true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			i := &instance{answer: func(string, string) (upstream.Response, error) {
				return complete(`{"taskId":"theirs","status":"working"}`), nil
			}}
			s, _ := tasking(i)
			time.AfterFunc(10*time.Second, func() { cancel(cause) })
			if _, err := callAsTask(ctx, t, s, &client{}, &task{leaves: actors.ErrClosing}); !errors.Is(err, cause) {
				t.Errorf("%v, want %v", err, cause)
			}
			if got := i.asked[len(i.asked)-1] == mcp.MethodTasksCancel; got != cancels {
				t.Errorf("%v: cancelled %v", cause, got)
			}
		}
	})
}
