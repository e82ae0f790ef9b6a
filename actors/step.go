package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/internal/mrtr"
	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
)

// Step is the result of a step of a call: a part of its handler that does not run again once its
// result is stored.
type Step = record.Step

// ErrStepUsed reports that a run of a call uses the name of a step a second time. The step did not
// run again.
var ErrStepUsed = errors.New("the name of the step was used before")

// runState is what a run of a call has used so far, of names and numbers, and what it keeps in memory
// for a later run. Most calls have none.
type runState struct {
	questions useCounter
	steps     useCounter   // of names
	sure      atomic.Int64 // when the stream was certainly written here, unix nanoseconds
	moving    mrtr.Mutex   // held while a task is being made of the call: it takes over what is kept

	mu      sync.Mutex // guards the rest
	kept    []Step     // of a stateless call, those of earlier runs included
	bytes   int64      // of kept
	running []*StepRun // in the order in which they began
}

// StepRun is a step that runs now. A goroutine at a time may use it.
type StepRun struct {
	c      *Call
	name   string
	began  time.Time
	keeps  bool         // a later run, if there is one, has a use for the result
	on     *streamActor // stores the result; nil: it is kept in memory, or by the task
	parent *StepRun     // in which it runs, if any

	messages int // guarded by runState.mu
}

// stepRunKey is the key of the running step in the context of its function.
type stepRunKey struct{}

// Context is ctx for what runs in the step.
func (run *StepRun) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, stepRunKey{}, run)
}

// BeginStep begins a step, or returns the result that an earlier run of the call has stored. End
// must be called when it has run. A call of a session becomes a stream, as its record has to be
// stored. After an error the step must not run, and the call cannot go on: it was cancelled or lost
// its stream. ErrStepUsed leaves the call as it is.
func (c *Call) BeginStep(ctx context.Context, name string) (found *Step, run *StepRun, err error) {
	if cause := context.Cause(c.ctx); cause != nil {
		return nil, nil, cause
	}
	u := callSteps{c}.runState()
	if u.steps.countUse(name) > 1 {
		return nil, nil, fmt.Errorf("%w: %q", ErrStepUsed, name)
	}
	run = &StepRun{c: c, name: name}
	if found, err = (callSteps{c}).findStep(ctx, run); found != nil || err != nil {
		return found, nil, err
	}
	run.began = time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if run.parent = (callSteps{c}).stepOf(ctx); !slices.Contains(u.running, run.parent) {
		run.parent = nil
	}
	u.running = append(u.running, run)
	return nil, run, nil
}

// findStep returns the result of a step that an earlier run of a stateless call has kept.
func (u *runState) findStep(name string) *Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.IndexFunc(u.kept, func(s Step) bool { return s.Name == name }); i >= 0 {
		return &u.kept[i]
	}
	return nil
}

// assureEvery is how often a call asks whether it still has its stream, while the store says
// neither.
const assureEvery = time.Second

// Keeps reports whether a later run of the call, if there is one, has a use for the result.
func (run *StepRun) Keeps() bool { return run.keeps }

// Keep stores the result of the step: value, or the text of an error that no run tries again.
// Beyond the limits it is not stored, and the step runs again in a later run. After an error it is
// unknown whether it was, and the call cannot go on.
func (run *StepRun) Keep(ctx context.Context, value json.RawMessage, failed string) error {
	c := run.c
	s := Step{Name: run.name, Failed: failed, Began: run.began.UnixMilli(), Took: time.Since(run.began).Milliseconds(), Value: value}
	switch d := c.Detached(); {
	case !run.keeps:
		return nil
	case run.on != nil:
		return callSteps{c}.storeStep(ctx, run, s)
	case d != nil:
		return d.KeepStep(ctx, s)
	}
	return callSteps{c}.keepStep(ctx, s)
}

// End says that the step has run. Only the first call does anything.
func (run *StepRun) End() {
	u := callSteps{run.c}.runState()
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.running, run); i >= 0 {
		u.running = slices.Delete(u.running, i, i+1)
		if run.parent != nil {
			run.parent.messages += run.messages
		}
	}
}

// keepStep keeps a step in memory, or returns the limit that leaves no room.
func (u *runState) keepStep(s Step) *limits.Row {
	u.mu.Lock()
	defer u.mu.Unlock()
	bytes := int64(len(s.Name) + len(s.Failed) + len(s.Value))
	switch {
	case int64(len(u.kept)) >= maxSteps:
		return limits.CallSteps.Row
	case u.bytes+bytes > maxStepBytes:
		return limits.CallStepBytes.Row
	}
	u.kept, u.bytes = append(u.kept, s), u.bytes+bytes
	return nil
}

// MoveSteps returns the results of steps that a stateless call has kept, for a task that is being
// made of it. Results that come now wait until moved is called: if the call has a task by then,
// that stores them.
func (c *Call) MoveSteps(ctx context.Context) (kept []Step, moved func(), err error) {
	u := callSteps{c}.runState()
	if err := u.moving.Lock(ctx, c.ctx); err != nil {
		return nil, nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.kept), u.moving.Unlock, nil
}

// useCounter counts how often a call has asked with each key. The zero value is ready to use.
type useCounter struct {
	mu sync.Mutex // guards n
	n  map[string]int
}

// countUse counts a use of a key: a question's, or a step's name. A second run that asks in the same
// order gets the same numbers, whatever part of the first run is still in the log.
func (u *useCounter) countUse(key string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n == nil {
		u.n = make(map[string]int)
	}
	u.n[key]++
	return u.n[key]
}

// callSteps is a call as far as its steps go.
type callSteps struct{ *Call }

// runState returns what the run of the call has used, and may change it.
func (c callSteps) runState() *runState {
	u := c.run.Load()
	for u == nil {
		c.run.CompareAndSwap(nil, new(runState))
		u = c.run.Load()
	}
	return u
}

// stepOf returns the step of the call that a context belongs to, nil if it belongs to none.
func (c callSteps) stepOf(ctx context.Context) *StepRun {
	if run, _ := ctx.Value(stepRunKey{}).(*StepRun); run != nil && run.c == c.Call {
		return run
	}
	return nil
}

// findStep returns the result of a step of an earlier run, and else says where that of run will be
// kept.
func (c callSteps) findStep(ctx context.Context, run *StepRun) (*Step, error) {
	if d := c.Detached(); d != nil {
		run.keeps = true
		return d.FindStep(ctx, run.name)
	}
	if !c.peer.svc.runsAgain(c.msg.Method, c.msg.Name) { // there is no later run
		return nil, nil
	}
	switch who := c.client.(type) {
	case *stateless:
		run.keeps = true
		return c.runState().findStep(run.name), nil
	case sessionClient:
		if _, stored := who.home.(storedHome); stored {
			return c.findStored(ctx, run)
		}
	}
	return nil, nil
}

// findStored is findStep for a call whose stream stores the results.
func (c callSteps) findStored(ctx context.Context, run *StepRun) (*Step, error) {
	asked := time.Now().UnixNano()
	on := c.becomeStream()
	if on == nil {
		return nil, c.endCause(ErrStreamLost)
	}
	_ = on.Post(beginNow{}) // of a batch, which may still gather its responses
	select {
	case <-on.ready:
	default: // its record is being stored: by this process, and from now on
		select {
		case <-on.ready:
			c.runState().sure.Store(asked)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if on.unstored.Load() {
		select {
		case <-c.ctx.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return nil, cause
	}
	if !on.rec.MayRerun(c.member) { // its body is too large to be stored
		return nil, nil
	}
	run.keeps, run.on = true, on
	if s := c.journal.storedStep(run.name); s != nil {
		return s, nil
	}
	return nil, c.assureStream(ctx, on)
}

// assureStream returns nil if no other node has the call's stream, as far as is known: it was this
// node's a moment ago. A process that stood still may have lost it, and a step that another run has
// stored must not begin here. What stands still behind assureStream may still begin one, and cannot
// store it.
func (c callSteps) assureStream(ctx context.Context, on *streamActor) error {
	n, sure := c.peer.sessions, &c.runState().sure
	for n.fleet.mail != nil {
		now := time.Now().UnixNano() // by the wall clock: that of a machine that sleeps goes on
		if since := now - sure.Load(); since >= 0 && since < int64(n.fleet.sureFor) && !n.store.Suspended() {
			return nil
		}
		if here, err := n.streams.stillWrites(ctx, on); here && err == nil && !n.store.Suspended() {
			sure.Store(now)
			return nil
		}
		timer := time.NewTimer(assureEvery)
		select {
		case <-timer.C:
			continue
		case <-c.ctx.Done():
		case <-ctx.Done():
		}
		timer.Stop()
		return c.endCause(context.Cause(ctx))
	}
	return nil
}

// endCause is why the call has ended, or else err.
func (c callSteps) endCause(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}

// countMessage counts a message of the handler, sent with ctx or passed over, for the step in which
// it is: a run that finds the result of that step does not send it, and must not take another
// message for it.
func (c callSteps) countMessage(ctx context.Context) {
	u := c.run.Load()
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	run := c.stepOf(ctx)
	if n := len(u.running); n > 0 && !slices.Contains(u.running, run) {
		run = u.running[n-1]
	}
	if run != nil {
		run.messages++
	}
}

// storeStep has the stream of the call store the result of a step, and waits until it is.
func (c callSteps) storeStep(ctx context.Context, run *StepRun, s Step) error {
	u := c.runState()
	u.mu.Lock()
	s.Member, s.Messages = c.member, run.messages
	u.mu.Unlock()
	e, err := s.Entry()
	if err != nil {
		return err
	}
	if full := run.on.takeStepRoom(len(e.Data)); full != nil {
		c.peer.sessions.refusals.Refused(full)
		return nil
	}
	sent, stored := time.Now().UnixNano(), make(chan error, 1)
	e.Acked = func(err error) { stored <- err } // has room: it is called once
	if err := c.postMessage(&emitted{entry: e}); err != nil {
		return c.endCause(err)
	}
	select {
	case err := <-stored:
		if err != nil {
			return c.endCause(fmt.Errorf("%w: %w", ErrStreamLost, err))
		}
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	u.sure.Store(sent) // the answer may have waited for a process that stood still
	return nil
}

// keepStep keeps the result of a step of a stateless call in memory, unless the call becomes a task
// meanwhile, which stores it.
func (c callSteps) keepStep(ctx context.Context, s Step) error {
	u := c.runState()
	if err := u.moving.Lock(ctx, c.ctx); err != nil {
		return err
	}
	defer u.moving.Unlock()
	if d := c.Detached(); d != nil {
		return d.KeepStep(ctx, s)
	}
	if full := u.keepStep(s); full != nil {
		c.peer.sessions.refusals.Refused(full)
	}
	return nil
}

// carriedSteps are the results of steps that a requestState has for a run on another node: those
// that fit, the oldest first.
func (c callSteps) carriedSteps() (all []json.RawMessage) {
	u := c.run.Load()
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	room := maxStateSteps
	for i := range u.kept {
		raw, err := codec.Marshal(&u.kept[i])
		if err != nil || len(raw) > room {
			c.peer.sessions.refusals.Refused(limits.StateSteps.Row)
			continue
		}
		all, room = append(all, raw), room-len(raw)
	}
	return all
}

// takeCarried gives a call the results that a requestState has brought. The call has not begun.
func (c callSteps) takeCarried(all []json.RawMessage) {
	for _, raw := range all {
		var s Step
		if codec.Unmarshal(raw, &s) == nil {
			_ = c.runState().keepStep(s) // no more than another node has kept
		}
	}
}
