package troupe

import (
	"context"
	"runtime/debug"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/mcp"
)

// SessionEnd says how a session has ended.
type SessionEnd uint8

const (
	// SessionDeleted is by the client's DELETE.
	SessionDeleted SessionEnd = iota
	// SessionExpired is by SessionIdle or SessionMax.
	SessionExpired
	// SessionDisconnected is by the end of the connection that the session lives on
	// (HTTP+SSE, stdio).
	SessionDisconnected
)

// String names the end for logs.
func (e SessionEnd) String() string {
	return [...]string{"deleted", "expired", "disconnected"}[min(e, SessionDisconnected)]
}

var sessionEnds = map[actors.Ending]SessionEnd{actors.Deleted: SessionDeleted, actors.Expired: SessionExpired, actors.Disconnected: SessionDisconnected}

// hook gives the actors who is to be told of sessions, and who decides what they hear.
func (s *service) hook() {
	if f := s.srv.opts.SessionBegan; f != nil {
		s.svc.Began = func(ctx context.Context, p *actors.Peer) {
			s.contain("SessionBegan", func() { f(ctx, &Peer{p}) })
		}
	}
	if s.srv.opts.Visible != nil {
		s.svc.Hears = s.mayHear
	}
	if f := s.srv.opts.SessionEnded; f != nil {
		s.svc.Ended = func(p *actors.Peer, how actors.Ending) {
			s.contain("SessionEnded", func() { f(&Peer{p}, sessionEnds[how]) })
		}
	}
}

// contain keeps a panic of a function of the program to that: it is logged and counted.
func (s *service) contain(what string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.rt.node.Kernel().CountPanic()
			s.rt.log.Error("a function of the server panicked", "server", s.id, "function", what, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// Notified handles the client's notifications other than cancellation. One that the
// client's revision does not have is ignored.
func (s *service) Notified(p *actors.Peer, method string, params []byte) {
	if f, ok := s.srv.notifications.Load(method); ok {
		s.contain(method, func() { f.(func(*Peer, []byte))(&Peer{p}, params) })
		return
	}
	if m, ok := mcp.LookupMethod(method); !ok || !m.Allowed(mcp.ToServer, p.Revision()) || method != mcp.NotifyRootsListChanged {
		return
	}
	p.Forget()
	if s.srv.opts.RootsChanged != nil {
		s.contain("RootsChanged", func() { s.srv.opts.RootsChanged(&Peer{p}) })
	}
}
