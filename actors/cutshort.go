package actors

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/faults"
	"github.com/troupe-run/troupe/internal/kernel"
	"github.com/troupe-run/troupe/internal/request"
	"github.com/troupe-run/troupe/internal/stream"
)

// fault answers what a contained panic has left without an answer. A request of a session
// has status 200, see turnAway.
func fault(c answerer, id []byte, status int) {
	f := *faults.Internal
	f.Status = status
	f.Tell(c, id)
}

// failed ends the stream after a panic that may have left a step half done: the append
// that comes next may never have been sent, and nobody could tell. The record is still
// ours, so that whoever resumes the stream takes it over, and its calls run again or end
// with -32010 as after a crash.
func (s *streamActor) Failed(m any, last bool) {
	switch m := m.(type) {
	case *attach:
		// It is the fault of one connection, and nothing of the stream's has changed.
		if s.att != nil && s.att == m.att {
			s.att = nil
			s.heard.Store(false)
		}
		m.Refused(errInternal)
		if !last {
			return
		}
	case detach, serveCall:
		if !last {
			return
		}
	case *pushEntries:
		if !m.taken {
			m.Refused(errInternal)
		}
	}
	s.cutShort()
}

// cutShort carries out what is left of a step, as far as somebody waits for it, and ends
// the stream as lost. Each part of that may fail for the reason that the step did.
func (s *streamActor) cutShort() {
	left := s.fx // without what was carried out
	s.fx = nil
	s.Contain(func() { left = s.m.Step(stream.Event{Op: stream.Fenced, Err: errInternal}, left) })
	for i := range left {
		for k := range left[i].Entries {
			e := &left[i].Entries[k]
			s.Contain(func() { e.Drop(left[i].Err) }) // nil for those that are stored
		}
	}
	if att := s.att; att != nil {
		s.att = nil
		if !s.opened {
			status := 200
			if len(s.rec.Calls) == 0 {
				status = 500
			}
			s.Contain(func() { fault(att.conn, s.callID(), status) })
		}
		s.Contain(att.cut)
	}
	s.lost(errInternal)
}

// failed sees to it that nobody waits for what a panic has cut short. Where that was the
// answer, or the opening of a response, the client is told that something is wrong, or
// its connection ends.
func (r *requestActor) Failed(m any, last bool) {
	if c, ok := m.(called); ok {
		m = c.m
	}
	if m, ok := m.(kernel.Refusable); ok {
		defer m.Refused(errInternal)
	}
	switch m := m.(type) {
	case *callResult:
		r.unanswered()
	case *retried:
		if m.verdict == taken { // by half
			r.stop()
			r.forget(m.x)
		}
	case abandon, giveUp, streamGone, graceOver, connGone, closeConn:
		r.stop()
		if r.logged.stream == nil {
			r.unanswered()
		}
	}
	if last {
		r.stop()
	}
}

// stop ends the handler's wait, and its context.
func (r *requestActor) stop() {
	if r.cancel != nil {
		r.cancel(errInternal)
	}
	r.goOn(more{err: errInternal})
}

// forget undoes that x is the exchange that the call answers: who brought it sees to it.
func (r *requestActor) forget(x brought) {
	r.way.delivery, r.self.served = nowhere{}, &r.self.direct // which holds nothing
	if r.from == x.from {
		r.from = nil
	}
}

// unanswered ends the exchange of a request whose answer was cut short.
func (r *requestActor) unanswered() {
	r.phase = request.Dropped
	r.way.end(broken, r.id)
	r.way.delivery = nowhere{}
	r.Contain(func() { r.endOthers(givenUp) })
}

// internalError is the response to the request id that a panic has cut short.
func internalError(id []byte) []byte {
	return codec.AppendError(nil, id, faults.Internal.Code, faults.Internal.Text, nil)
}
