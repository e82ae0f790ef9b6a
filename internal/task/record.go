package task

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/unknown"
	"github.com/troupe-run/troupe/mcp"
)

// Version is the version that this release writes.
const Version = 1

// Record is what is stored of a task, beside its request, its steps and a large outcome, which
// are messages of their own.
type Record struct {
	Version  int      `json:"v"`
	Revision string   `json:"revision"`          // that its creator spoke
	Method   string   `json:"method"`            // of the request
	Name     string   `json:"name,omitempty"`    // of what it is of
	Session  string   `json:"session,omitempty"` // that made it; "" without
	Who      string   `json:"who,omitempty"`     // its principal, for people; "" for nobody in particular
	From     string   `json:"from,omitempty"`    // the address of its client, if others share the tenant
	Scopes   []string `json:"scopes,omitempty"`  // that the call needs that it is of, and so who reads it
	Created  int64    `json:"created"`           // milliseconds since 1970
	Updated  int64    `json:"updated"`           // when it last changed, in milliseconds since 1970
	TTL      int64    `json:"ttl"`               // how long it is kept after Created, in milliseconds
	State    State    `json:"state"`
	Message  string   `json:"message,omitempty"` // for people

	Epoch   uint64 `json:"epoch,omitempty"`   // of the newest attempt
	Attempt int    `json:"attempt,omitempty"` // how many attempts have begun and were not given back
	Lost    int    `json:"lost,omitempty"`    // how many in a row were lost without having stored anything
	Node    string `json:"node,omitempty"`    // that runs it
	Boot    string `json:"boot,omitempty"`    // of that node
	Work    uint64 `json:"work,omitempty"`    // the work that it has while it is queued or runs, as the queue numbers it; 0: not known

	// Holder and HolderBoot are where a handler waits in memory for the answers, or did when the last one came; of a task that runs, where a handler does that
	// ran before there was a task.
	Holder     string `json:"holder,omitempty"`
	HolderBoot string `json:"holderBoot,omitempty"`

	Runs      []Run      `json:"runs,omitempty"`      // the newest attempts, oldest first, at most KeptRuns
	Questions []Question `json:"questions,omitempty"` // all that it has asked, oldest first
	Unfit     string     `json:"unfit,omitempty"`     // key of an open question whose last answer was none: see TakeAnswers
	Outcome   *Outcome   `json:"outcome,omitempty"`   // once it has ended

	// Unknown is what a newer release has stored beside that.
	Unknown unknown.Members `json:"-"`

	stored bool // the newest attempt has stored something: see NoteProgress
}

// State is what a task does. The zero State is Queued.
type State uint8

// The states.
const (
	Queued  State = iota // it waits for a worker
	Running              // an attempt runs
	Waiting              // it waits for its client to answer
	Ended                // it has its outcome, and never changes
)

var states = [...]string{Queued: "queued", Running: "running", Waiting: "waiting", Ended: "ended"}

// String is the state as operators see it.
func (s State) String() string {
	if int(s) >= len(states) {
		return "unknown"
	}
	return states[s]
}

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

// New returns the record of a task that is kept for ttl. The other fields are the caller's to
// set before it is stored.
func New(now time.Time, ttl time.Duration) Record {
	return Record{Version: Version, Created: now.UnixMilli(), Updated: now.UnixMilli(), TTL: ttl.Milliseconds()}
}

// Decode reads a stored record.
func Decode(data []byte) (r Record, err error) {
	if err = json.Unmarshal(data, &r); err == nil {
		r.Unknown = unknown.Of[Record](data)
	}
	return r, err
}

// Encode returns the record as it is stored.
func (r *Record) Encode() ([]byte, error) {
	data, err := codec.Marshal(r) // as encoding/json has six bytes for each < in a text
	if err != nil {
		return nil, err
	}
	return r.Unknown.Append(data), nil
}

// Expires returns when the task goes, whatever it does then.
func (r *Record) Expires() time.Time { return time.UnixMilli(r.Created + r.TTL) }

// TimeLeft returns how long the task is still kept: the lifetime of each rewrite, of its work and of its
// steps, so that none outlives it. It is 0 for a task that has expired.
func (r *Record) TimeLeft(now time.Time) time.Duration { return max(0, r.Expires().Sub(now)) }

// BeginAttempt begins an attempt on a node and returns its epoch, under which the attempt changes the task. An
// attempt that still runs has lost the task from then on. If too many were lost, the task ends with [Lost], and the error is
// ErrTooManyAttempts.
func (r *Record) BeginAttempt(node, boot string, now time.Time) (epoch uint64, err error) {
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

// AdoptAttempt begins the first attempt of a task whose handler runs already, on a node that is its holder until it ends: the attempt keeps the task though it
// was given no work of it yet.
func (r *Record) AdoptAttempt(node, boot string, now time.Time) (epoch uint64, err error) {
	if epoch, err = r.BeginAttempt(node, boot, now); err == nil {
		r.Holder, r.HolderBoot = node, boot
	}
	return epoch, err
}

// NoteProgress notes, before BeginAttempt, that the attempt that was lost has stored a step.
func (r *Record) NoteProgress() { r.stored = true }

// YieldAttempt gives a task back that its attempt does not go on with, to be queued again: its node ends.
func (r *Record) YieldAttempt(epoch uint64, now time.Time) error {
	if err := r.checkEpoch(epoch); err != nil {
		return err
	}
	r.Attempt--
	r.Holder, r.HolderBoot = "", ""
	r.Runs = endRun(r.Runs, RunYielded, now)
	r.changeState(Queued, now)
	return nil
}

// AskQuestions has the task wait for answers, or for more of them if it waits already. The attempt has ended; another one begins when all
// are there, and gets them by their keys. With no question, or one whose key was used before, nothing changes.
func (r *Record) AskQuestions(epoch uint64, now time.Time, questions ...Question) error {
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

// ReleaseHolder notes that the handler of an attempt waits no more, though the task does, or is queued with its answers.
func (r *Record) ReleaseHolder(epoch uint64) error {
	switch {
	case r.State == Ended:
		return ErrEnded
	case r.Epoch != epoch || r.HolderBoot == "":
		return ErrFenced
	}
	r.Holder, r.HolderBoot = "", ""
	return nil
}

// TakeAnswers takes the answers to open questions, by key. Keys that nobody asked for are ignored, and so are answers to
// questions that have one: the first one counts. An answer without a value does not fit its question, which stays open; the task says so
// while it waits. ready reports that all questions have answers: the task is queued again.
func (r *Record) TakeAnswers(answers map[string]Reply, now time.Time) (ready bool, err error) {
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

// SetMessage sets the message for people. An attempt may do so while it runs, and while it waits.
func (r *Record) SetMessage(epoch uint64, message string, now time.Time) error {
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

// OpenQuestions returns the questions that have no answer; a task that has ended waits for none.
func (r *Record) OpenQuestions() (open []Question) {
	if r.State == Ended {
		return nil
	}
	for _, q := range r.Questions {
		if q.isOpen() {
			open = append(open, q)
		}
	}
	return open
}

// OutcomeKind is how the task ended, 0 if it has not.
func (r *Record) OutcomeKind() Kind {
	if r.State != Ended || r.Outcome == nil {
		return 0
	}
	return r.Outcome.Kind
}

// Status is what a reader of a revision sees of the task. An outcome of a kind that this release does not know is a
// failure.
func (r *Record) Status(reader mcp.Revision) mcp.TaskStatus {
	switch {
	case r.State == Waiting:
		return mcp.TaskInputRequired
	case r.State != Ended:
		return mcp.TaskWorking
	case r.Outcome == nil || r.Outcome.Kind == 0 || int(r.Outcome.Kind) >= len(statuses):
		return mcp.TaskFailed
	case protocol.Has(reader, protocol.FeatureTasksExtension):
		return statuses[r.Outcome.Kind][1]
	}
	return statuses[r.Outcome.Kind][0]
}

// PollInterval is how often a client is asked to look at a task.
const PollInterval = time.Second

// timeStamp is a time as tasks have it: ISO 8601, in UTC, with milliseconds.
func timeStamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// CoreTask is the task as a reader of 2025-11-25 sees it.
func (r *Record) CoreTask(id string, reader mcp.Revision) mcp.Task {
	ttl, poll := r.TTL, PollInterval.Milliseconds()
	return mcp.Task{TaskID: id, Status: r.Status(reader), StatusMessage: r.statusMessage(), CreatedAt: timeStamp(r.Created), LastUpdatedAt: timeStamp(r.Updated), TTL: &ttl, PollInterval: &poll}
}

// TaskHandle is the task as a reader of the tasks extension sees it when it is created.
func (r *Record) TaskHandle(id string, reader mcp.Revision) protocol.TaskHandle {
	ttl, poll := r.TTL, PollInterval.Milliseconds()
	return protocol.TaskHandle{TaskID: id, Status: r.Status(reader), StatusMessage: r.statusMessage(), CreatedAt: timeStamp(r.Created), LastUpdatedAt: timeStamp(r.Updated), TTLMs: &ttl, PollIntervalMs: &poll}
}

// DetailedTask is the task as a reader of the extension sees it later: with its open questions, its error, or the result, which the
// caller has projected for the reader.
func (r *Record) DetailedTask(id string, reader mcp.Revision, result json.RawMessage) protocol.DetailedTask {
	d := protocol.DetailedTask{TaskHandle: r.TaskHandle(id, reader)}
	switch d.Status {
	case mcp.TaskInputRequired:
		d.InputRequests = make(mcp.InputRequests)
		for _, q := range r.OpenQuestions() {
			var asked mcp.InputRequest
			if json.Unmarshal(q.Request, &asked) == nil {
				d.InputRequests[q.Key] = asked
			}
		}
	case mcp.TaskCompleted:
		d.Result = result
	case mcp.TaskFailed:
		d.Error = r.Failure()
	}
	return d
}

// lost is the error of a task that its worker has lost, and that may not run again.
var lost = func() json.RawMessage {
	data, _ := json.Marshal(mcp.NewError(mcp.CodeCallLost, "")) // a value of our own making
	return data
}()

// Failure is the error of a task that has failed, as an object with code and message.
func (r *Record) Failure() json.RawMessage {
	if r.Outcome == nil || r.Outcome.Kind == Lost || len(r.Outcome.Value) == 0 {
		return lost
	}
	return r.Outcome.Value
}

// statusMessage is the message for people. What a client has to know of its answer comes before what the handler says.
func (r *Record) statusMessage() string {
	if r.State == Waiting && r.Unfit != "" {
		return "the answer to " + strconv.Quote(r.Unfit) + " is no JSON object and was not taken"
	}
	if r.Message != "" || r.Outcome == nil {
		return r.Message
	}
	switch r.Outcome.Kind {
	case ToolError:
		var x struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		}
		if json.Unmarshal(r.Outcome.Value, &x) == nil && len(x.Content) > 0 {
			return x.Content[0].Text
		}
	case Cancelled:
		return "cancelled by the client"
	case Failed, Lost:
		var e mcp.Error
		if json.Unmarshal(r.Failure(), &e) == nil {
			return e.Message
		}
	}
	return ""
}
