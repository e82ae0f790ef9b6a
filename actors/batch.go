package actors

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// requestsOf returns the requests of a stored body in their order: the requests of a batch, or
// the single one.
func requestsOf(body []byte) [][]byte {
	var m codec.Message
	if codec.Scan(body, &m, anyMessage) != nil || m.Kind != codec.Batch {
		return [][]byte{body}
	}
	var all [][]byte
	for raw := range codec.Elements(body) {
		if codec.Scan(raw, &m, anyMessage) == nil && m.Kind == codec.Request {
			all = append(all, raw)
		}
	}
	return all
}

// anyMessage sets no bounds, for messages that were scanned before.
var anyMessage = codec.Limits{MaxDepth: math.MaxInt, MaxBatch: math.MaxInt, MaxValues: math.MaxInt}

// element is one message of a batch.
type element struct {
	m   codec.Message
	raw []byte
}

// readBatch returns the messages of a batch of a session of revision rev, or what is wrong with it.
// A faulty batch has no effect at all.
func readBatch(svc *Terms, rev string, m *codec.Message, body []byte) (all []element, fault string) {
	switch {
	case rev == "":
		return nil, "initialize must not be part of a batch"
	case !hasFeature(rev, protocol.FeatureMayBatch):
		return nil, "revision " + rev + " has no batches: send one message at a time"
	}
	all = make([]element, 0, m.N)
	seen := make(map[string]bool)
	answers := 0
	for raw := range codec.Elements(body) {
		all = append(all, element{raw: raw})
		e := &all[len(all)-1]
		if err := codec.Scan(raw, &e.m, codec.Limits{MaxDepth: svc.Limits.Depth}); err != nil {
			return nil, fmt.Sprintf("batch, message %d: %s", len(all), err.Reason)
		}
		switch {
		case e.m.Kind == codec.Result || e.m.Kind == codec.ErrorResponse:
			answers++
		case e.m.Kind == codec.Notification:
		case string(e.m.Method) == mcp.MethodInitialize:
			return nil, "initialize must not be part of a batch"
		case seen[string(e.m.ID)]:
			return nil, fmt.Sprintf("batch, message %d: the id of another request of the batch", len(all))
		default:
			seen[string(e.m.ID)] = true
		}
	}
	if answers > 0 && answers < len(all) {
		return nil, "a batch holds either responses or requests and notifications"
	}
	return all, ""
}

// splitBatch returns the requests of a batch, which are admitted one by one, and counts its other
// messages.
func splitBatch(all []element) (requests []*element, others messages) {
	for i := range all {
		if e := &all[i]; e.m.Kind == codec.Request {
			requests = append(requests, e)
		} else {
			others.addMessage(&e.m, len(e.raw))
		}
	}
	return requests, others
}

// idsOf yields the ids of requests.
func idsOf(requests []*element) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, e := range requests {
			if !yield(e.m.ID) {
				return
			}
		}
	}
}

// gathering is the state of a batch's stream while nothing has been sent or stored: the
// responses so far, and the ends of cancelled requests.
type gathering struct {
	ends    []stream.Entry
	size    int // of the ends, which are also in the buffers of their handlers until the response begins
	body    []byte
	forgone int                     // requests that may run again, but for the size of the batch
	spanOf  func(member int) string // the span that a request runs in, once it does
}

// alreadyAnswered tells a stream that was taken over which calls of its batch need no response
// any more.
type alreadyAnswered map[string]bool

// beginNow makes the response of a batch a stream.
type beginNow struct{}

// discardBatch ends a batch that was not begun; the caller answers it.
type discardBatch struct{}

// batchState is what the stream of a batch knows of its calls.
type batchState struct {
	gather   *gathering      // a batch with nothing sent or stored, else nil; it is set before the actor starts
	answered map[string]bool // calls that need no response any more, by id
	muted    map[int]bool    // calls that were cancelled, by index: what they sent is delivered no more
}

// batchStream is the stream of a batch, as far as it gathers responses before anything is sent, and
// drops those of cancelled requests.
type batchStream struct{ *streamActor }

// gatherEntries takes entries of the batch's requests while nothing has been sent.
func (s batchStream) gatherEntries(m *pushEntries) {
	plain := true
	for i := range m.entries {
		e := &m.entries[i]
		// The end by an operator must be stored before the operator hears of it: the record that is
		// stored later would have the call run again.
		plain = plain && (e.Kind == stream.Final && e.Acked == nil || e.Kind == stream.End)
	}
	if !plain {
		s.beginBatch()
		s.pushToLog(m)
		return
	}
	done := s.noteEnds(m)
	for i := range m.entries {
		m.entries[i].Drop(nil)
		m.entries[i].Acked = nil
		s.gather.ends = append(s.gather.ends, m.entries[i])
		s.gather.size += 2 * len(m.entries[i].Data)
	}
	if done {
		s.answerPlain()
	}
}

// noteEnds notes which requests of a batch m ends, and reports whether all have ended.
func (s batchStream) noteEnds(m *pushEntries) bool {
	for i := range m.entries {
		e := &m.entries[i]
		if e.Kind != stream.Final && e.Kind != stream.End {
			continue
		}
		if s.answered == nil {
			s.answered = make(map[string]bool, len(s.rec.Calls))
		}
		s.answered[string(e.Meta)] = true
		if m.silent {
			s.withdrawCall(string(e.Meta))
		}
	}
	return m.last && len(s.answered) == len(s.rec.Calls)
}

// answerPlain answers a batch with a JSON array, and ends its stream, which the client has not
// seen.
func (s batchStream) answerPlain() {
	conn := s.conn
	answers := slices.DeleteFunc(s.gather.ends, func(e stream.Entry) bool { return e.Kind != stream.Final })
	switch {
	case len(answers) == 0 && s.sess.hasEnded():
		refusal.SessionEnded.Tell(conn, nil)
	case len(answers) == 0: // all were cancelled
		conn.Open()
		conn.Finish()
	default:
		b := codec.GetBuffer()
		b.B = append(b.B[:0], '[')
		for i, e := range answers {
			if i > 0 {
				b.B = append(b.B, ',')
			}
			b.B = append(b.B, e.Data...)
		}
		conn.Answer(200, append(b.B, ']'))
		b.Free()
	}
	s.att, s.gather = nil, nil
	s.markReady()
	s.removeStream()
}

// beginBatch makes a batch's response a stream: its record is stored, and then headers and
// responses go out.
func (s batchStream) beginBatch() {
	g := s.gather
	if g == nil {
		return
	}
	s.gather = nil
	s.countRecalls(g.forgone)
	var body []byte
	if s.rec.Safe {
		body = g.body
	}
	for i := range s.rec.Calls { // which run by now
		s.rec.Calls[i].Span = g.spanOf(i)
	}
	for _, e := range g.ends {
		if e.Kind == stream.End { // a cancelled request has no response
			s.live.Digest.MarkDone(s.live.Calls, e.Meta)
		}
	}
	writerRecord(s).keepBody(body)
	data, stored, err := writerRecord(s).newRecord(body)
	writerRecord(s).storeRecord(data, body, stored, err)
	if len(g.ends) > 0 {
		s.applyEvent(stream.Event{Op: stream.Push, Entries: g.ends})
	}
}

func (s batchStream) discardBatch() {
	s.att, s.gather = nil, nil
	s.markReady()
	s.removeStream()
}

// giveUpGathering ends a batch with nothing sent, because the node stops.
func (s batchStream) giveUpGathering() {
	s.gather.ends = append(s.gather.ends, lostCalls(s.rec.Calls, s.answered)...)
	s.answerPlain()
}

// withdrawCall drops the entries of a cancelled request of a batch. Entries that are being stored
// keep their numbers in the log, so that event ids do not change, and are not delivered.
func (s batchStream) withdrawCall(id string) {
	for i := range s.rec.Calls {
		if string(s.rec.Calls[i].ID) == id {
			if s.muted == nil {
				s.muted = make(map[int]bool)
			}
			s.muted[i] = true
		}
	}
	s.applyEvent(stream.Event{Op: stream.Withdraw, Of: s.isMuted})
}

// isMuted reports whether e is for the client and belongs to a cancelled request.
func (s batchStream) isMuted(e *stream.Entry) bool {
	if e.Kind == stream.Request {
		return s.muted[record.QuestionOf(e.Meta).Member]
	}
	member, ok := record.MemberOf(e)
	return ok && s.muted[member]
}

// withoutMuted returns entries without those of cancelled requests.
func (s batchStream) withoutMuted(entries []stream.Entry) []stream.Entry {
	if s.muted == nil {
		return entries
	}
	out := make([]stream.Entry, len(entries))
	for i, e := range entries {
		if s.isMuted(&e) {
			e.Kind = stream.End
		}
		out[i] = e
	}
	return out
}
