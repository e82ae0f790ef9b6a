package record

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
)

// Step is the result of a step: a part of a handler that does not run again once its result is stored.
type Step struct {
	Name     string          `json:"name"`
	Member   int             `json:"member,omitempty"`   // index of its call in a batch
	Failed   string          `json:"failed,omitempty"`   // the text of an error that no run tries again
	Began    int64           `json:"began,omitempty"`    // milliseconds since 1970
	Took     int64           `json:"took,omitempty"`     // milliseconds
	Messages int             `json:"messages,omitempty"` // that the step has sent to the client, or has passed over
	Value    json.RawMessage `json:"value,omitempty"`
}

// Steps are the results of the steps of a stream's calls as they are stored, in the order in which they were.
type Steps []json.RawMessage

// Of returns those of the call at an index, by their names. One that cannot be read is left out: that step runs again.
func (s Steps) Of(member int) map[string]*Step {
	var all map[string]*Step
	for _, raw := range s {
		step := new(Step)
		if codec.Unmarshal(raw, step) != nil || step.Member != member {
			continue
		}
		if all == nil {
			all = make(map[string]*Step)
		}
		if all[step.Name] == nil {
			all[step.Name] = step
		}
	}
	return all
}

// Size is how many bytes the steps take in a record.
func (s Steps) Size() (n int) {
	for _, raw := range s {
		n += len(raw)
	}
	return n
}

// stepMeta is the meta of an entry that has the result of a step. The entry has the kind of an answer, and answers no question: so a
// release that knows no steps reads over it.
var stepMeta = []byte{2}

// errStep reports a result that no reader of a log would take.
var errStep = errors.New("record: the result of a step is no valid JSON")

// Entry is the entry of a log that has the result of the step.
func (s *Step) Entry() (e stream.Entry, err error) {
	e = stream.Entry{Kind: stream.Answer, Meta: stepMeta}
	if e.Data, err = codec.Marshal(s); err == nil && !codec.Valid(e.Data) {
		err = errStep
	}
	return e, err
}

// stepOf returns the step whose result an entry has, as it is stored; nil if it has none.
func stepOf(e *stream.Entry) json.RawMessage {
	if e.Kind != stream.Answer || !bytes.Equal(e.Meta, stepMeta) || !codec.Valid(e.Data) {
		return nil
	}
	return bytes.Clone(e.Data)
}
