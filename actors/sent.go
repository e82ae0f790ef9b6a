package actors

import (
	"encoding/binary"
	"math"

	"github.com/troupe-run/troupe/internal/stream"
)

// sent is how far the notifications of a call have got: a run after the first
// begins to send where it ends. The log alone does not tell, because it forgets
// its oldest events; so messages are numbered in the log, and the writer record
// keeps what is known whenever it is rewritten, which is before the events it
// stands for expire.
type sent struct {
	Messages   int     `json:"messages,omitempty"`
	Progressed bool    `json:"progressed,omitempty"`
	Progress   float64 `json:"progress,omitempty"`
}

// sents is how far each call of a stream has got, by its place in the record.
type sents []sent

// of is how far the call at a place has got.
func (s sents) of(member int) sent {
	if member < len(s) {
		return s[member]
	}
	return sent{}
}

// note takes account of entries that have got to the log.
func (s *sents) note(entries []stream.Entry) {
	for i := range entries {
		e := &entries[i]
		if member, ok := memberOf(e); ok {
			for len(*s) <= member {
				*s = append(*s, sent{})
			}
			(*s)[member].note(e)
		}
	}
}

func (s *sent) note(e *stream.Entry) {
	if e.Kind == stream.Message {
		n, _ := binary.Uvarint(e.Meta)
		s.Messages = max(s.Messages, int(n))
		return
	}
	if v := math.Float64frombits(binary.BigEndian.Uint64(e.Meta)); !s.Progressed || v > s.Progress {
		s.Progressed, s.Progress = true, v
	}
}

// maxMembers is more than a batch can hold.
const maxMembers = 1 << 16

// memberOf is the place of the call that a notification belongs to; ok is false
// for entries that belong to no call or name it otherwise.
func memberOf(e *stream.Entry) (member int, ok bool) {
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
	return int(n), k > 0 && n < maxMembers
}

// appendMember adds the place of a call to the meta of its notification.
func appendMember(meta []byte, member int) []byte {
	if member == 0 {
		return meta
	}
	return binary.AppendUvarint(meta, uint64(member))
}
