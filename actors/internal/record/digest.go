package record

import (
	"bytes"
	"slices"

	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/internal/limits"
)

// MaxDigest bounds the questions and answers that a writer record holds, in bytes.
var MaxDigest = limits.Recall.Value()

// Digest is what a writer record says of the log besides how much was sent: the log forgets
// by count, bytes and age, and the record does not. Together with the entries after the
// record's Tail it is all that is needed of the log by a second run of the calls, or by a client
// that comes back.
type Digest struct {
	Seen      Seen       `json:"seen,omitzero"`
	Done      []int      `json:"done,omitempty"` // indexes of the calls of a batch that were answered or cancelled
	Questions []Question `json:"asked,omitempty"`
}

// AnsweredIDs are the raw ids of those of a stream's calls that Done has.
func (d *Digest) AnsweredIDs(calls []Call) map[string]bool {
	answered := make(map[string]bool, len(d.Done))
	for _, i := range d.Done {
		answered[string(calls[i].ID)] = true
	}
	return answered
}

// Seen is the newest event that clients see. The zero value means no event: the beginning
// of a stream.
type Seen struct {
	Append uint64 `json:"a,omitempty"`
	Epoch  uint64 `json:"e,omitempty"`
	Entry  int    `json:"i,omitempty"`
}

// Is reports whether an event id names that event.
func (s Seen) Is(p stream.Position) bool { return s == Seen{p.Append, p.Epoch, p.Entry} }

// UnknownSeen stands for an event that no event id can name any more: it was append num or an
// earlier one.
func UnknownSeen(num uint64) Seen { return Seen{Append: num, Entry: -1} }

func (d Digest) Clone() Digest {
	d.Done, d.Questions = slices.Clone(d.Done), slices.Clone(d.Questions)
	return d
}

func (d *Digest) MarkDone(calls []Call, id []byte) {
	place := slices.IndexFunc(calls, func(c Call) bool { return string(c.ID) == string(id) })
	if place >= 0 && !slices.Contains(d.Done, place) {
		d.Done = append(d.Done, place)
	}
}

// addQuestion adds a question, and returns by how much the digest has grown.
func (d *Digest) addQuestion(rec *Stream, meta []byte) int {
	q := QuestionOf(meta)
	if q.Member >= len(rec.Calls) || !rec.MayRerun(q.Member) {
		return 0
	}
	if q.Use == 0 { // from a release that did not number questions
		q.Use = 1
		for i := range d.Questions {
			if d.Questions[i].Key == q.Key && d.Questions[i].Member == q.Member {
				q.Use++
			}
		}
	}
	d.Questions = append(d.Questions, q)
	return q.Size()
}

// addAnswer adds an answer, and returns by how much the digest has grown.
func (d *Digest) addAnswer(e *stream.Entry) int {
	for i := range d.Questions {
		if q := &d.Questions[i]; q.Answer == nil && q.ID == string(e.Meta) && len(e.Data) > 1 {
			q.Answer, q.Failed = bytes.Clone(e.Data[1:]), e.Data[0] == 'e'
			return len(q.Answer)
		}
	}
	return 0
}

// Size is about the size of the questions in a record, in bytes.
func (d *Digest) Size() (n int) {
	for i := range d.Questions {
		n += d.Questions[i].Size()
	}
	return n
}

// cutTo cuts the digest to at most limit bytes, and returns the indexes of the calls that it
// drops questions of: the largest ones.
func (d *Digest) cutTo(limit int) (dropped []int) {
	for {
		total, largest := 0, 0
		of := make(map[int]int)
		for i := range d.Questions {
			q := &d.Questions[i]
			total += q.Size()
			if of[q.Member] += q.Size(); of[q.Member] > of[largest] {
				largest = q.Member
			}
		}
		if total <= limit {
			return dropped
		}
		d.Questions = slices.DeleteFunc(slices.Clone(d.Questions), func(q Question) bool { return q.Member == largest })
		dropped = append(dropped, largest)
	}
}
