package actors

import (
	"encoding/json"
	"slices"
)

// streamRecord is the writer record of a stream; for a call it is the call
// record too. What the log is about to forget stands in its digest.
type streamRecord struct {
	Version   int             `json:"v"`
	Node      string          `json:"node"`
	Boot      string          `json:"boot"`
	Epoch     uint64          `json:"epoch"`
	Attempt   int             `json:"attempt,omitempty"` // how often the calls have begun to run
	Tail      uint64          `json:"tail"`              // last append that Digest tells of
	Low       uint64          `json:"low,omitempty"`     // first append that the log kept then
	Bytes     int             `json:"bytes,omitempty"`   // that it kept
	Revision  string          `json:"revision"`
	Calls     []callRecord    `json:"calls,omitempty"`
	Safe      bool            `json:"safe,omitempty"`
	Principal json.RawMessage `json:"principal,omitempty"`
	Sent      sent            `json:"sent,omitzero"`  // of the first call
	More      sents           `json:"more,omitempty"` // Sent for the other calls of a batch
	Digest    logDigest       `json:"digest,omitzero"`
	Marks     []mark          `json:"marks,omitempty"` // of earlier records, oldest first

	// end is the stream's last append, set on the copy of a record whose stream is known
	// to have ended; else 0.
	end uint64
}

// streamRecordVersion is what this release writes. Version 1 had no digest, and its
// epochs were counted.
const streamRecordVersion = 2

type callRecord struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Token  json.RawMessage `json:"token,omitempty"`
	Never  bool            `json:"never,omitempty"` // this one may not run again, though others of its batch may
}

// mark is an event after which clients saw nothing up to an append. The event itself may
// have expired, or been overwritten, while what came after that append is in the log:
// then a client that has the event lacks nothing. Records are rewritten several times in
// the life of an event, so that an event that is no mark was soon followed by another one.
type mark struct {
	Seen seen   `json:"seen"`
	Upto uint64 `json:"upto"`
}

// maxMarks bounds the marks of a record. An event outlives about five that are made for
// their age, or ten that are made as the log goes round.
const maxMarks = 12

// mark is that of the record itself.
func (r *streamRecord) mark() mark { return mark{r.Digest.Seen, r.Tail} }

// marks are all that the record knows of. One of an earlier release knows of none.
func (r *streamRecord) marks() []mark {
	if r.Version < 2 {
		return nil
	}
	return append(slices.Clone(r.Marks), r.mark())
}

// recorded is a method as records name it: one that nobody knows may be long.
func recorded(method []byte) string { return string(method[:min(len(method), 128)]) }

// sents is how far each call of the stream had got when the record was written.
func (r *streamRecord) sents() sents { return append(sents{r.Sent}, r.More...) }

func (r *streamRecord) setSents(s sents) {
	r.Sent, r.More = s.of(0), nil
	if len(s) > 1 {
		r.More = append(sents(nil), s[1:]...)
	}
}

// runs is how often the calls of the stream have begun to run.
func (r *streamRecord) runs() int {
	if r.Version < 2 {
		return int(r.Epoch)
	}
	return r.Attempt
}

// may reports whether the call at a place may run again.
func (r *streamRecord) may(place int) bool { return r.Safe && !r.Calls[place].Never }

// forbid makes the calls at these places ones that may not run again. Others who have a
// copy of the record keep what they have.
func (r *streamRecord) forbid(places []int) {
	if len(places) == 0 {
		return
	}
	r.Calls = slices.Clone(r.Calls)
	for _, i := range places {
		r.Calls[i].Never = true
	}
}

// past is what a stream's log and record tell together.
type past struct {
	sents  sents
	digest logDigest
	bulk   int // at least the size of digest
}

// past begins with what the record tells.
func (r *streamRecord) past() past {
	return past{sents: r.sents(), digest: r.Digest.clone(), bulk: r.Digest.size()}
}

func (p past) clone() past {
	return past{sents: append(sents(nil), p.sents...), digest: p.digest.clone(), bulk: p.bulk}
}

// tell makes the record tell what p does, of all up to append tail. What does not fit
// costs calls their right to run again: a run that was not told all that the one before
// was told could be told something else.
func (r *streamRecord) tell(tail uint64, p *past) (forbidden int) {
	if now := r.mark(); r.Version >= 2 && now.Upto > 0 && now.Seen != p.digest.Seen {
		r.Marks = append(slices.Clone(r.Marks[max(0, len(r.Marks)-maxMarks+1):]), now)
	}
	r.Version, r.Tail = streamRecordVersion, tail
	dropped := p.digest.fit(maxDigest)
	r.forbid(dropped)
	r.setSents(p.sents)
	r.Digest = p.digest.clone()
	return len(dropped)
}
