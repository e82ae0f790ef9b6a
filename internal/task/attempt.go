package task

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/internal/limits"
)

// MaxAttempts is how many attempts of a task may be lost in a row without having stored anything: such a task may be what ends its
// workers.
var MaxAttempts = limits.TaskAttempts.Value()

// Errors of changes that are refused; nothing has changed then.
var (
	// ErrEnded reports that the task has ended.
	ErrEnded = errors.New("task: it has ended")
	// ErrFenced reports that the change is that of an attempt which is not the newest one, or runs no more.
	ErrFenced = errors.New("task: another attempt has taken it over")
	// ErrWaiting reports that the task waits for answers, and has nothing to run.
	ErrWaiting = errors.New("task: it waits for input")
	// ErrNotWaiting reports that the task does not wait for answers.
	ErrNotWaiting = errors.New("task: it does not wait for input")
	// ErrKeyUsed reports that a question has the key of an earlier one.
	ErrKeyUsed = errors.New("task: the key of the question was used before")
	// ErrTooManyAttempts reports that the task was lost as often as it may be. It has ended.
	ErrTooManyAttempts = errors.New("task: lost too often")
)

// Begin begins an attempt on a node and returns its epoch, under which the attempt changes the task. An
// attempt that still runs has lost the task from then on. If too many were lost, the task ends with [Lost], and the error is
// ErrTooManyAttempts.
func (r *Record) Begin(node, boot string, now time.Time) (epoch uint64, err error) {
	switch {
	case r.State == Ended:
		return 0, ErrEnded
	case r.State == Waiting:
		return 0, ErrWaiting
	}
	if r.State == Running {
		if r.Lost++; r.stored {
			r.Lost = 0
		}
		r.Runs = endRun(r.Runs, RunLost, now)
		if r.Lost >= MaxAttempts {
			r.endTask(Outcome{Kind: Lost}, now)
			return 0, ErrTooManyAttempts
		}
	}
	r.stored = false
	r.Epoch++
	r.Attempt++
	r.Node, r.Boot = node, boot
	r.Holder, r.HolderBoot = "", ""
	r.Runs = addRun(r.Runs, Run{Epoch: r.Epoch, Attempt: r.Attempt, Node: node, Began: now.UnixMilli()})
	r.changeState(Running, now)
	return r.Epoch, nil
}

// Adopt begins the first attempt of a task whose handler runs already, on a node that is its holder until it ends: the attempt keeps the task though it
// was given no work of it yet.
func (r *Record) Adopt(node, boot string, now time.Time) (epoch uint64, err error) {
	if epoch, err = r.Begin(node, boot, now); err == nil {
		r.Holder, r.HolderBoot = node, boot
	}
	return epoch, err
}

// Progressed notes, before Begin, that the attempt that was lost has stored a step.
func (r *Record) Progressed() { r.stored = true }

// Yield gives a task back that its attempt does not go on with, to be queued again: its node ends.
func (r *Record) Yield(epoch uint64, now time.Time) error {
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	r.Attempt--
	r.Holder, r.HolderBoot = "", ""
	r.Runs = endRun(r.Runs, RunYielded, now)
	r.changeState(Queued, now)
	return nil
}

// Ask has the task wait for answers, or for more of them if it waits already. The attempt has ended; another one begins when all
// are there, and gets them by their keys. With no question, or one whose key was used before, nothing changes.
func (r *Record) Ask(epoch uint64, now time.Time, questions ...Question) error {
	waits := r.State == Waiting && r.Epoch == epoch
	if err := r.checkEpoch(epoch); err != nil && !waits {
		return err
	}
	if len(questions) == 0 {
		return ErrNotWaiting
	}
	all := slices.Clone(r.Questions)
	for _, q := range questions {
		if slices.ContainsFunc(all, func(old Question) bool { return old.Key == q.Key }) {
			return ErrKeyUsed
		}
		all = append(all, Question{Key: q.Key, Request: q.Request})
	}
	r.Questions = all
	if !waits {
		r.Attempt-- // it did what it could
		r.Runs = endRun(r.Runs, RunAsked, now)
		r.Holder, r.HolderBoot = r.Node, r.Boot
	}
	r.changeState(Waiting, now)
	return nil
}

// Release notes that the handler of an attempt waits no more, though the task does, or is queued with its answers.
func (r *Record) Release(epoch uint64) error {
	switch {
	case r.State == Ended:
		return ErrEnded
	case r.Epoch != epoch || r.HolderBoot == "":
		return ErrFenced
	}
	r.Holder, r.HolderBoot = "", ""
	return nil
}

// Reply is a client's answer to a question: a result, or an error if Refused is set.
type Reply struct {
	Value   json.RawMessage
	Refused bool
}

// Answer takes the answers to open questions, by key. Keys that nobody asked for are ignored, and so are answers to
// questions that have one: the first one counts. An answer without a value does not fit its question, which stays open; the task says so
// while it waits. ready reports that all questions have answers: the task is queued again.
func (r *Record) Answer(answers map[string]Reply, now time.Time) (ready bool, err error) {
	switch r.State {
	case Ended:
		return false, ErrEnded
	case Waiting:
	default:
		return false, ErrNotWaiting
	}
	taken, open, unfit := false, 0, r.Unfit
	questions := slices.Clone(r.Questions)
	for i := range questions {
		q := &questions[i]
		if !q.isOpen() {
			continue
		}
		switch a, ok := answers[q.Key]; {
		case !ok:
		case a.Value == nil:
			unfit = q.Key
		default:
			q.Answer, q.Refused, taken = slices.Clone(a.Value), a.Refused, true
			if unfit == q.Key {
				unfit = ""
			}
			continue
		}
		open++
	}
	if !taken && unfit == r.Unfit {
		return false, nil
	}
	r.Questions, r.Unfit = questions, unfit
	if open > 0 {
		r.changeState(Waiting, now)
		return false, nil
	}
	r.changeState(Queued, now)
	return true, nil
}

// Finish ends the task with the outcome of its attempt, also while it waits: its handler has not waited for the answers.
func (r *Record) Finish(epoch uint64, o Outcome, now time.Time) error {
	if r.State == Waiting && r.Epoch == epoch {
		r.endTask(o, now)
		return nil
	}
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	r.endTask(o, now)
	return nil
}

// Cancel ends the task for its client, whatever it does. An attempt that runs has lost it.
func (r *Record) Cancel(now time.Time) error {
	if r.State == Ended {
		return ErrEnded
	}
	r.endTask(Outcome{Kind: Cancelled}, now)
	return nil
}

// Say sets the message for people. An attempt may do so while it runs, and while it waits.
func (r *Record) Say(epoch uint64, message string, now time.Time) error {
	if err := r.checkEpoch(epoch); err != nil && (r.State != Waiting || r.Epoch != epoch) {
		return err
	}
	r.Message = message
	r.changeState(r.State, now)
	return nil
}

// checkEpoch reports whether the attempt with an epoch has the task.
func (r *Record) checkEpoch(epoch uint64) error {
	switch {
	case r.State == Ended:
		return ErrEnded
	case r.State != Running || r.Epoch != epoch:
		return ErrFenced
	}
	return nil
}

// endTask ends the task. Of its questions the keys stay, for operators: nobody reads the rest again.
func (r *Record) endTask(o Outcome, now time.Time) {
	r.Outcome = &o
	var asked []Question
	for _, q := range r.Questions {
		asked = append(asked, Question{Key: q.Key})
	}
	r.Questions = asked
	r.Holder, r.HolderBoot = "", ""
	how := RunFinished
	if o.Kind == Cancelled {
		how = RunCancelled
	}
	r.Runs = endRun(r.Runs, how, now)
	r.changeState(Ended, now)
}

// changeState moves to a state. Time does not go back, though the clocks of nodes differ.
func (r *Record) changeState(to State, now time.Time) {
	if r.State = to; to != Running {
		r.Node, r.Boot = "", ""
	}
	r.Updated = max(r.Updated, now.UnixMilli())
}
