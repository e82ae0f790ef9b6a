package actors

import (
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/stream"
)

// push sends data on a session's standalone stream if that is written here. It
// reports whether the stream has it: for its connection, or else for a resume. A new
// stream in its place does not have it.
func (d *sessions) push(k SessionKey, data []byte) (sent bool) {
	s, ok := d.Get(k)
	if !ok {
		return false
	}
	if s.link != nil {
		return s.pushLink(data)
	}
	st, ok := d.node.streams.Get(StreamKey{k, s.view.Load().rec.Standalone})
	if !ok || st.queued.Load() > int64(s.svc.Limits.Queue) ||
		st.Post(&pushEntries{entries: []stream.Entry{{Kind: stream.Message, Data: data}}, told: true}) != nil {
		s.away.Store(true) // its next stream, or resume, makes good what it missed
		return false
	}
	return true
}

// Push sends a notification on the session's standalone stream, if that is written
// here: else it is lost. It never waits.
func (p *Peer) Push(method string, params []byte) {
	p.node.sessions.push(p.key, codec.AppendNotification(nil, method, params))
}

// PushUpdate is Push of an update of a resource. To a session that lives on a connection
// it waits until the client has read enough.
func (p *Peer) PushUpdate(uri string) {
	if l := p.last.Load().link; l != nil {
		_ = l.tell(p.node.base, stream.Entry{Kind: stream.Message, Data: updateOf(uri)})
		return
	}
	p.node.sessions.push(p.key, updateOf(uri))
}

// pushLink sends an invalidation, if the session has begun and its client reads. What it misses is made good later.
func (s *sessionActor) pushLink(data []byte) (heard bool) {
	switch {
	case !s.link.ready.Load():
		return false // it is told when it has begun
	case s.link.full():
		s.away.Store(true)
		if s.link.mending.CompareAndSwap(false, true) {
			go s.makeGood()
		}
		return false
	}
	s.link.send(data)
	return true
}

// makeGood waits until the client has read, and tells it what it missed, as fast as it reads.
func (s *sessionActor) makeGood() {
	for again := true; again; again = s.away.Load() && s.link.mending.CompareAndSwap(false, true) {
		for s.away.Load() {
			if s.link.conn.Room(s.node.base) != nil {
				return
			}
			s.away.Store(false)
			s.svc.Handler.Opened(s.peer, true)
		}
		s.link.mending.Store(false)
	}
}
