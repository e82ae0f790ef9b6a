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

// note takes account of entries that have got to the log.
func (s *sent) note(entries []stream.Entry) {
	for i := range entries {
		switch e := &entries[i]; e.Kind {
		case stream.Message:
			if n, k := binary.Uvarint(e.Meta); k > 0 {
				s.Messages = max(s.Messages, int(n))
			}
		case stream.Progress:
			if len(e.Meta) != 8 {
				continue
			}
			if v := math.Float64frombits(binary.BigEndian.Uint64(e.Meta)); !s.Progressed || v > s.Progress {
				s.Progressed, s.Progress = true, v
			}
		}
	}
}
