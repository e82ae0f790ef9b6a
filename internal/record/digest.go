package record

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/stream"
)

// MaxDigest bounds the questions and answers that a writer record holds, in bytes.
var MaxDigest = limits.Recall.Value()

// Digest is what a writer record tells of the log besides how much was sent: the log
// forgets by count, bytes and age, and the record does not. With the entries that came
// after the record's Tail it says all that a second run of the calls, and a client that
// comes back, needs to know.
type Digest struct {
	Seen  Seen       `json:"seen,omitzero"`
	Done  []int      `json:"done,omitempty"` // places of the calls of a batch that were answered or cancelled
	Asked []Question `json:"asked,omitempty"`
}

// Seen is the newest event that clients see; the zero value is none, which is where a
// stream begins.
type Seen struct {
	Append uint64 `json:"a,omitempty"`
	Epoch  uint64 `json:"e,omitempty"`
	Entry  int    `json:"i,omitempty"`
}

// Is reports whether an event id names that event.
func (s Seen) Is(p stream.Position) bool { return s == Seen{p.Append, p.Epoch, p.Entry} }

// Unseen stands for an event that nobody can name any more: it was append num or one
// before.
func Unseen(num uint64) Seen { return Seen{Append: num, Entry: -1} }

// Question is a question that a call has put to its client.
type Question struct {
	ID     string          `json:"id"` // raw token
	Key    string          `json:"key"`
	Use    int             `json:"use"`              // how often the call had asked with that key then, this time included
	Member int             `json:"member,omitempty"` // place of its call
	Answer json.RawMessage `json:"answer,omitempty"` // what the client answered, nil if it has not
	Failed bool            `json:"failed,omitempty"` // the answer is an error
}

// Size is about what the question has in a record.
func (q *Question) Size() int { return len(q.ID) + len(q.Key) + len(q.Answer) + 64 }

func (d Digest) Clone() Digest {
	d.Done, d.Asked = slices.Clone(d.Done), slices.Clone(d.Asked)
	return d
}

// Note takes account of an append that has got to the log. rec says which calls there
// are: questions are only of interest where a call may run again. What no record has room
// for is not kept in memory either: it costs calls that right at once.
func (p *Past) Note(rec *Stream, num, epoch uint64, entries []stream.Entry) (forbidden int) {
	p.Sents.Note(entries)
	d := &p.Digest
	for i := range entries {
		e := &entries[i]
		if e.Kind.Visible() {
			d.Seen = Seen{num, epoch, i}
		}
		switch e.Kind {
		case stream.Final, stream.End:
			if len(rec.Calls) > 1 { // the end of one that is alone is that of its stream
				d.MarkDone(rec.Calls, e.Meta)
			}
		case stream.Request:
			if rec.Safe {
				p.bulk += d.asked(rec, e.Meta)
			}
		case stream.Answer:
			p.bulk += d.answered(e)
		}
	}
	if p.bulk > MaxDigest {
		dropped := d.fit(MaxDigest)
		rec.Forbid(dropped)
		forbidden, p.bulk = len(dropped), d.Size()
	}
	return forbidden
}

func (d *Digest) MarkDone(calls []Call, id []byte) {
	place := slices.IndexFunc(calls, func(c Call) bool { return string(c.ID) == string(id) })
	if place >= 0 && !slices.Contains(d.Done, place) {
		d.Done = append(d.Done, place)
	}
}

// asked adds a question, and returns by how much the digest has grown.
func (d *Digest) asked(rec *Stream, meta []byte) int {
	q := AskedMeta(meta)
	if q.Member >= len(rec.Calls) || !rec.May(q.Member) {
		return 0
	}
	if q.Use == 0 { // of a release that did not number them
		q.Use = 1
		for i := range d.Asked {
			if d.Asked[i].Key == q.Key && d.Asked[i].Member == q.Member {
				q.Use++
			}
		}
	}
	d.Asked = append(d.Asked, q)
	return q.Size()
}

// answered adds an answer, and returns by how much the digest has grown.
func (d *Digest) answered(e *stream.Entry) int {
	for i := range d.Asked {
		if q := &d.Asked[i]; q.Answer == nil && q.ID == string(e.Meta) && len(e.Data) > 1 {
			q.Answer, q.Failed = bytes.Clone(e.Data[1:]), e.Data[0] == 'e'
			return len(q.Answer)
		}
	}
	return 0
}

// Size is about what the questions have in a record.
func (d *Digest) Size() (n int) {
	for i := range d.Asked {
		n += d.Asked[i].Size()
	}
	return n
}

// fit makes the digest take at most so many bytes, and returns the places of the calls
// that it tells too little of from now on: those with the most to tell.
func (d *Digest) fit(limit int) (dropped []int) {
	for {
		total, largest := 0, 0
		of := make(map[int]int)
		for i := range d.Asked {
			q := &d.Asked[i]
			total += q.Size()
			if of[q.Member] += q.Size(); of[q.Member] > of[largest] {
				largest = q.Member
			}
		}
		if total <= limit {
			return dropped
		}
		d.Asked = slices.DeleteFunc(slices.Clone(d.Asked), func(q Question) bool { return q.Member == largest })
		dropped = append(dropped, largest)
	}
}
