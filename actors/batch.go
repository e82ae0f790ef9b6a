package actors

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors/internal/record"
	"github.com/troupe-run/troupe/actors/internal/stream"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/quota"
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

// readBatch returns the messages of a batch, or what is wrong with it. A faulty batch has no
// effect at all.
func readBatch(s *sessionActor, m *codec.Message, body []byte) (all []element, fault string) {
	rev := s.view.Load().rec.Revision
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
		if err := codec.Scan(raw, &e.m, codec.Limits{MaxDepth: s.svc.Limits.Depth}); err != nil {
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

// splitBatch returns the requests of a batch, which are admitted one by one, and counts its other messages.
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

// runBatch runs the requests of a batch, all or none, and returns when their response has
// begun. It returns false, and has run none, if the session's actor has stopped.
func (s *sessionActor) runBatch(in *Input, principal any, requests []*element, body []byte) bool {
	n := s.node
	st := s.newBatchStream(in, principal, requests, body)
	members := make([]*requestActor, 0, len(requests))
	for i, e := range requests {
		r, err := s.admitRequest(in, &e.m, len(e.raw))
		if err == nil {
			n.accounts.reserveAnyway(&r.memory, &s.sessionAccount, in, quota.Parked, callMemory(&e.m, e.raw))
			s.beginRequest(r, r.loggedWay(s, nil), &e.m, e.raw, (&Call{principal: principal, trace: in.Trace, attempt: 1, member: i}).withNeeds(in.Needs))
			r.size = len(body)
			r.joinBatch(st)
			err = s.enterAdmitted(r)
		}
		if err != nil {
			for _, r := range members {
				s.withdrawRequest(r, err)
			}
			_ = st.Post(discardBatch{})
			if errors.Is(err, kernel.ErrStopped) {
				return false
			}
			n.refusals.refuseBatch(in.Conn, err, idsOf(requests))
			return true
		}
		members = append(members, r)
	}
	for _, r := range members {
		go r.serveRequest()
	}
	time.AfterFunc(s.svc.Limits.Grace, func() { _ = st.Post(beginNow{}) })
	<-st.ready
	return true
}

// withdrawRequest ends a request that was entered and must not run.
func (s *sessionActor) withdrawRequest(r *requestActor, cause error) {
	s.removeRequest(r)
	r.timer.Stop()
	r.cancel(cause)
	s.refundCall(r)
	r.releaseActor()
}

// gathering is the state of a batch's stream while nothing has been sent or stored: the
// responses so far, and the ends of cancelled requests.
type gathering struct {
	ends    []stream.Entry
	size    int // of the ends, which are also in the buffers of their handlers until the response begins
	body    []byte
	forgone int // requests that may run again, but for the size of the batch
}

// beginNow makes the response of a batch a stream.
type beginNow struct{}

// newBatchStream starts the stream of a batch. It stores and sends nothing before it has to.
func (s *sessionActor) newBatchStream(in *Input, principal any, requests []*element, body []byte) *streamActor {
	n := s.node
	rec := record.Stream{Version: record.Version, Node: n.name, Boot: n.boot, Epoch: 1, Attempt: 1, Revision: s.view.Load().rec.Revision, Scopes: in.neededScopes()}
	forgone := 0
	for _, e := range requests {
		safe := s.svc.mayRerun(&e.m, len(body))
		if !safe && s.svc.Handler.Safe(e.m.Method, e.m.Name) {
			forgone++
		}
		rec.Safe = rec.Safe || safe
		rec.Calls = append(rec.Calls, record.Call{ID: bytes.Clone(e.m.ID), Method: record.Method(e.m.Method), Token: bytes.Clone(e.m.ProgressToken), Never: !safe})
	}
	if rec.Safe {
		rec.Principal, _ = codec.Marshal(principal)
	}
	st := n.streams.buildStream(s.svc, s, newID(), rec, in.Conn)
	st.gather = &gathering{body: body, forgone: forgone}
	st.startActor()
	return st
}

// gatherEntries takes entries of the batch's requests while nothing has been sent.
func (s *streamActor) gatherEntries(m *pushEntries) {
	plain := true
	for i := range m.entries {
		plain = plain && (m.entries[i].Kind == stream.Final || m.entries[i].Kind == stream.End)
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
func (s *streamActor) noteEnds(m *pushEntries) bool {
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
func (s *streamActor) answerPlain() {
	conn := s.conn
	answers := slices.DeleteFunc(s.gather.ends, func(e stream.Entry) bool { return e.Kind != stream.Final })
	switch {
	case len(answers) == 0 && s.sess.ended.Load():
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

// beginBatch makes a batch's response a stream: its record is stored, and then headers and responses
// go out.
func (s *streamActor) beginBatch() {
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
	for _, e := range g.ends {
		if e.Kind == stream.End { // a cancelled request has no response
			s.live.Digest.MarkDone(s.live.Calls, e.Meta)
		}
	}
	s.keepBody(body)
	data, stored, err := s.newRecord(body)
	s.storeRecord(data, body, stored, err)
	if len(g.ends) > 0 {
		s.applyEvent(stream.Event{Op: stream.Push, Entries: g.ends})
	}
}

// discardBatch ends a batch that was not begun; the caller answers it.
type discardBatch struct{}

func (s *streamActor) discardBatch() {
	s.att, s.gather = nil, nil
	s.markReady()
	s.removeStream()
}

// giveUpGathering ends a batch with nothing sent, because the node stops.
func (s *streamActor) giveUpGathering() {
	s.gather.ends = append(s.gather.ends, lostCalls(s.rec.Calls, s.answered)...)
	s.answerPlain()
}

// withdrawCall drops the entries of a cancelled request of a batch. Entries that are being stored
// keep their numbers in the log, so that event ids do not change, and are not delivered.
func (s *streamActor) withdrawCall(id string) {
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
func (s *streamActor) isMuted(e *stream.Entry) bool {
	if e.Kind == stream.Request {
		return s.muted[record.AskedMeta(e.Meta).Member]
	}
	member, ok := record.MemberOf(e)
	return ok && s.muted[member]
}

// withoutMuted returns entries without those of cancelled requests.
func (s *streamActor) withoutMuted(entries []stream.Entry) []stream.Entry {
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

// alreadyAnswered tells a stream that was taken over which calls of its batch need no response
// any more.
type alreadyAnswered map[string]bool

// boundBatch gathers the responses to a batch of a bound session. The last of its requests to end sends them as one
// message, an array (JSON-RPC 2.0, section 6). Cancelled requests have no element; if all were cancelled, nothing is
// sent. Other messages of the requests go out at once.
type boundBatch struct {
	conn *boundConn // of the session

	mu   sync.Mutex // guards open and out
	open int        // requests that have not ended
	out  []byte     // "[" and the responses so far, separated by commas
}

// newMember returns where one request of the batch gets its response.
func (b *boundBatch) newMember() *batchMember { return &batchMember{batch: b} }

// endMember takes the response to one request, nil if it has none.
func (b *boundBatch) endMember(answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil {
		lead := byte(',')
		if b.out == nil {
			lead = '['
		}
		b.out = append(append(b.out, lead), answer...)
	}
	if b.open--; b.open == 0 && b.out != nil {
		b.conn.sendData(append(b.out, ']'))
		b.out = nil
	}
}

var _ replier = (*batchMember)(nil)

// batchMember takes the response to one request of a boundBatch. Only the first call of Answer, Reject and skipResponse counts.
type batchMember struct {
	batch *boundBatch
	once  sync.Once
}

// Answer adds a response to those of the batch. It reports whether it was the first call.
func (m *batchMember) Answer(_ int, body []byte) bool {
	first := false
	m.once.Do(func() {
		first = true
		m.batch.endMember(body)
	})
	return first
}

// Reject adds an error to the responses of the batch.
func (m *batchMember) Reject(no *refusal.Refusal) {
	m.Answer(200, codec.AppendError(nil, no.ID, no.Code, no.Text, no.Data))
}

func (m *batchMember) skipResponse() { m.once.Do(func() { m.batch.endMember(nil) }) }
