package record

import (
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/unknown"
)

// Stream is the writer record of a stream; for a call it is the call record too. Its digest
// has what the log is about to forget.
type Stream struct {
	Version   int             `json:"v"`
	Node      string          `json:"node"`
	Boot      string          `json:"boot"`
	Epoch     uint64          `json:"epoch"`
	Attempt   int             `json:"attempt,omitempty"` // how often the calls have begun to run
	Tail      uint64          `json:"tail"`              // last append that Digest covers
	Low       uint64          `json:"low,omitempty"`     // first append that the log kept then
	Bytes     int             `json:"bytes,omitempty"`   // bytes that it kept then
	Revision  string          `json:"revision"`
	Calls     []Call          `json:"calls,omitempty"`
	Safe      bool            `json:"safe,omitempty"`
	Principal json.RawMessage `json:"principal,omitempty"`
	Scopes    []string        `json:"scopes,omitempty"` // that its calls need, and so who resumes it
	Sent      Sent            `json:"sent,omitzero"`    // of the first call
	More      Sents           `json:"more,omitempty"`   // Sent for the other calls of a batch
	Digest    Digest          `json:"digest,omitzero"`
	Steps     Steps           `json:"steps,omitempty"` // beside the digest, of which an earlier release keeps what it knows
	Earlier   []Watermark     `json:"marks,omitempty"` // of earlier records, oldest first

	// Unknown is what a newer release has stored beside that.
	Unknown unknown.Members `json:"-"`

	// End is the stream's last append; set only on the copy of a record whose stream is
	// known to have ended, otherwise 0.
	End uint64 `json:"-"`
}

// Decode reads a stored record.
func Decode(data []byte) (r Stream, err error) {
	if err = codec.Unmarshal(data, &r); err == nil {
		r.Unknown = unknown.Of[Stream](data)
	}
	return r, err
}

// Encode returns the record as it is stored.
func (r *Stream) Encode() ([]byte, error) {
	data, err := codec.Marshal(r)
	if err != nil {
		return nil, err
	}
	return r.Unknown.Append(data), nil
}

// Version is the version that this release writes. Version 1 had no digest, and its epochs
// were counted.
const Version = 2

type Call struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Token  json.RawMessage `json:"token,omitempty"`
	Never  bool            `json:"never,omitempty"` // this call may not run again, though others of its batch may

	// Trace context of what the request came in, and the span of the run; "" where nobody traces.
	Parent string `json:"parent,omitempty"`
	State  string `json:"state,omitempty"`
	Span   string `json:"span,omitempty"`
}

// Watermark is an event after which clients saw nothing up to an append. The event itself
// may have expired or been overwritten while the log still has what follows: then a client
// that has the event lacks nothing. Records are rewritten several times in the life of an
// event, so an event without a watermark was soon followed by another one.
type Watermark struct {
	Seen Seen   `json:"seen"`
	Upto uint64 `json:"upto"`
}

// maxWatermarks bounds the watermarks of a record. In the life of an event about five are
// made for age, or ten as the log goes round.
const maxWatermarks = 12

// Watermark is the watermark of the record itself.
func (r *Stream) Watermark() Watermark { return Watermark{r.Digest.Seen, r.Tail} }

// Watermarks are all watermarks that the record has. A record of an earlier release has
// none.
func (r *Stream) Watermarks() []Watermark {
	if r.Version < 2 {
		return nil
	}
	return append(slices.Clone(r.Earlier), r.Watermark())
}

// ClipMethod is a method as records store it: cut to 128 bytes, as an unknown one may be long.
func ClipMethod(method []byte) string { return string(method[:min(len(method), 128)]) }

// Sents is how far each call of the stream had got when the record was written.
func (r *Stream) Sents() Sents { return append(Sents{r.Sent}, r.More...) }

func (r *Stream) setSents(s Sents) {
	r.Sent, r.More = s.Of(0), nil
	if len(s) > 1 {
		r.More = append(Sents(nil), s[1:]...)
	}
}

// RunCount is how often the calls of the stream have begun to run.
func (r *Stream) RunCount() int {
	if r.Version < 2 {
		return int(r.Epoch)
	}
	return r.Attempt
}

// MayRerun reports whether the call at an index may run again.
func (r *Stream) MayRerun(place int) bool { return r.Safe && !r.Calls[place].Never }

// ForbidRerun marks the calls at these indexes as ones that may not run again. Copies of the
// record do not change.
func (r *Stream) ForbidRerun(places []int) {
	if len(places) == 0 {
		return
	}
	r.Calls = slices.Clone(r.Calls)
	for _, i := range places {
		r.Calls[i].Never = true
	}
}
