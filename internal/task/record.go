package task

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/unknown"
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
	Unfit     string     `json:"unfit,omitempty"`     // key of an open question whose last answer was none: see Answer
	Outcome   *Outcome   `json:"outcome,omitempty"`   // once it has ended

	// Unknown is what a newer release has stored beside that.
	Unknown unknown.Members `json:"-"`

	stored bool // the newest attempt has stored something: see Progressed
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

// KeptRuns is how many attempts a record tells of.
const KeptRuns = 10

// Run is what a record tells of an attempt. It decides nothing.
type Run struct {
	Epoch   uint64 `json:"epoch"`
	Attempt int    `json:"attempt"` // as handlers see it
	Node    string `json:"node"`
	Began   int64  `json:"began"`          // milliseconds since 1970
	Over    int64  `json:"over,omitempty"` // milliseconds since 1970; 0 while it runs
	End     End    `json:"end,omitempty"`
}

// End is how an attempt ended.
type End string

// The ends of attempts. The zero End is that of one that runs.
const (
	RunFinished  End = "finished"  // the task has its outcome
	RunCancelled End = "cancelled" // the task has
	RunAsked     End = "asked"     // the task waits for its client
	RunYielded   End = "yielded"   // its node ended, and gave the task back
	RunLost      End = "lost"      // its node was lost, or fell silent
)

// addRun returns the runs with one more, of which it keeps the newest.
func addRun(runs []Run, one Run) []Run {
	kept := runs[max(0, len(runs)+1-KeptRuns):]
	return append(slices.Clip(slices.Clone(kept)), one)
}

// endRun returns the runs with the end of the newest, if that has none.
func endRun(runs []Run, how End, now time.Time) []Run {
	i := len(runs) - 1
	if i < 0 || runs[i].End != "" {
		return runs
	}
	runs = slices.Clone(runs)
	runs[i].End, runs[i].Over = how, max(runs[i].Began, now.UnixMilli())
	return runs
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

// Question is one that a task has asked. Its key is never used again for another question
// of the task, so that an answer that comes late can only be one to it.
type Question struct {
	Key     string          `json:"key"`
	Request json.RawMessage `json:"request,omitempty"` // method and params; nil once the task has ended
	Answer  json.RawMessage `json:"answer,omitempty"`  // result, or error as an object with code and message; nil then, too
	Refused bool            `json:"refused,omitempty"` // Answer is an error
}

// isOpen reports whether the question has no answer.
func (q *Question) isOpen() bool { return q.Answer == nil }

// Open returns the questions that have no answer; a task that has ended waits for none.
func (r *Record) Open() (open []Question) {
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

// New returns the record of a task that is kept for ttl. The other fields are the caller's to
// set before it is stored.
func New(now time.Time, ttl time.Duration) Record {
	return Record{Version: Version, Created: now.UnixMilli(), Updated: now.UnixMilli(), TTL: ttl.Milliseconds()}
}

// Expires returns when the task goes, whatever it does then.
func (r *Record) Expires() time.Time { return time.UnixMilli(r.Created + r.TTL) }

// Left returns how long the task is still kept: the lifetime of each rewrite, of its work and of its
// steps, so that none outlives it. It is 0 for a task that has expired.
func (r *Record) Left(now time.Time) time.Duration { return max(0, r.Expires().Sub(now)) }
