package record

import (
	"encoding/binary"
	"math"

	"github.com/troupe-run/troupe/actors/internal/stream"
)

// Sent is how far the notifications of a call have got: the next run begins to send after
// that. The log alone does not say it, because it forgets its oldest events. So the log
// numbers messages, and each rewrite of the writer record keeps the count, before the
// events expire.
type Sent struct {
	Messages   int     `json:"messages,omitempty"`
	Progressed bool    `json:"progressed,omitempty"`
	Progress   float64 `json:"progress,omitempty"`
}

// Sents is how far each call of a stream has got, by its index in the record.
type Sents []Sent

// Of is how far the call at an index has got.
func (s Sents) Of(member int) Sent {
	if member < len(s) {
		return s[member]
	}
	return Sent{}
}

// NoteEntries adds stored entries.
func (s *Sents) NoteEntries(entries []stream.Entry) {
	for i := range entries {
		e := &entries[i]
		if member, ok := MemberOf(e); ok {
			for len(*s) <= member {
				*s = append(*s, Sent{})
			}
			(*s)[member].NoteEntry(e)
		}
	}
}

// AppendPush appends the meta of a message that another node sends to a session: a name, so that one that is sent twice is stored
// once. It belongs to no call, which MemberOf tells by a member that there cannot be.
func AppendPush(b []byte, name string) []byte {
	b = binary.AppendUvarint(append(b, 0), MaxMembers)
	return append(b, name...)
}

func (s *Sent) NoteEntry(e *stream.Entry) {
	if e.Kind == stream.Message {
		n, _ := binary.Uvarint(e.Meta)
		s.Messages = max(s.Messages, int(n))
		return
	}
	if v := math.Float64frombits(binary.BigEndian.Uint64(e.Meta)); !s.Progressed || v > s.Progress {
		s.Progressed, s.Progress = true, v
	}
}

// MaxMembers is more than a batch can hold.
const MaxMembers = 1 << 16

// MemberOf is the index of the call that a notification belongs to; ok is false for entries
// that belong to no call or name it otherwise.
func MemberOf(e *stream.Entry) (member int, ok bool) {
	var rest []byte
	switch {
	case e.Kind == stream.Message:
		_, k := binary.Uvarint(e.Meta)
		if k <= 0 {
			return 0, false
		}
		rest = e.Meta[k:]
	case e.Kind == stream.Progress && len(e.Meta) >= 8:
		rest = e.Meta[8:]
	default:
		return 0, false
	}
	if len(rest) == 0 {
		return 0, true
	}
	n, k := binary.Uvarint(rest)
	return int(n), k > 0 && n < MaxMembers
}

// AppendMember adds the index of a call to the meta of its notification.
func AppendMember(meta []byte, member int) []byte {
	if member == 0 {
		return meta
	}
	return binary.AppendUvarint(meta, uint64(member))
}
