package troupe

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
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
	told  time.Time // when progress was told last, zero: never
	value float64   // of that progress
	far   bool      // another node may have had to tell it
}

var _ actors.Detached = (*taskRun)(nil)

// key makes the key of a question unique in the task. A later run that asks in the same order gets the same keys.
func (r *taskRun) key(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
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
		asked[i] = worker.Question{Key: r.key(q.Key), Request: request}
	}
	replies, err := r.Attempt.Ask(ctx, asked)
	if err != nil {
		return nil, err
	}
	answers := make([]actors.Answer, len(qs))
	for i, reply := range replies {
		if !reply.Refused {
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
	if method != mcp.NotifyProgress || r.Request.Session == "" || r.Again() || !revision.Has(mcp.FeatureCoreTasks) {
		return nil
	}
	var p map[string]json.RawMessage
	if err := codec.Unmarshal(params, &p); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(string(p["progress"]), 64)
	if err != nil || !r.rises(value) {
		return err
	}
	p["_meta"] = json.RawMessage(mcp.Meta(nil).WithRelatedTask(r.Key.ID))
	raw, err := codec.Marshal(p)
	if err == nil {
		here := r.s.rt.tellSession(r.Key, r.Request.Session, 0, 0, method, raw)
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
	if err != nil || !r.rises(value) {
		return err
	}
	text := p.Progress.String()
	if p.Total != "" {
		text += " of " + p.Total.String()
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return forHandler(r.Say(ctx, text))
}

// rises reports whether progress may be told: it is more than before, and the last was told a while ago.
func (r *taskRun) rises(value float64) bool {
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

const (
	// progressEvery is the least time between two progress notifications of a task.
	progressEvery = 100 * time.Millisecond
	// progressElsewhere is the same where another node may have to tell them, or the store has to keep them.
	progressElsewhere = time.Second
)
