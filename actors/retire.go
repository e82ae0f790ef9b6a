package actors

import (
	"errors"
	"sync/atomic"
)

// ErrRetired is the cause that ends handlers when their service is taken off the
// node, and what is reported of its sessions from then on.
var ErrRetired = errors.New("the server has been unmounted")

// lifetime is that of a service on this node.
type lifetime struct {
	over atomic.Bool
	done chan struct{} // closed with it
}

// ended says why a session of the service has ended.
func (svc *Service) ended() error {
	if svc.life.over.Load() {
		return ErrRetired
	}
	return ErrSessionEnded
}

// retireSession ends a session's calls as at the end of a drain, and takes the
// session out of memory; its record stays.
type retireSession struct{}

// Retire takes a service off this node. Its calls end as those that a drain no
// longer waits for, with ErrRetired as the cause; its sessions and streams leave
// memory and stay in the store. A request for it that is on its way finds no
// session. Retire does not wait for handlers.
func (n *Node) Retire(svc *Service) {
	if svc.life.over.Swap(true) {
		return
	}
	close(svc.life.done)
	n.sessions.Each(func(s *sessionActor) {
		if s.svc == svc {
			_ = s.Post(retireSession{})
		}
	})
	n.streams.Each(func(st *streamActor) {
		if st.svc == svc {
			st.retire()
		}
	})
	n.statelessCalls.giveUp(svc, ErrRetired)
	n.listeners.end("the server has been taken away", func(l *listenActor) bool { return l.svc == svc })
}

// retire ends a standalone stream here. A call's stream ends with its call.
func (s *streamActor) retire() {
	if len(s.rec.Calls) == 0 {
		_ = s.Post(handOver{})
	}
}

func (s *sessionActor) retire() {
	s.closing = true
	s.calls.Each(func(r *requestActor) { _ = r.Post(giveUp{ErrRetired}) })
	s.unload()
}

// usable returns s, which is in the directory, if svc may use it. A session of a
// service that was retired leaves; stale is set when it is to be looked for again,
// because another service has the id now.
func (s *sessionActor) usable(svc *Service) (_ *sessionActor, stale bool, err error) {
	if s.svc.life.over.Load() {
		_ = s.Post(retireSession{})
		s.node.sessions.Drop(s.key, s)
		stale = s.svc != svc
	}
	if svc.life.over.Load() {
		return nil, false, ErrRetired
	}
	return s, stale, nil
}
