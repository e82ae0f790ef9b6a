package troupe

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

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

// ErrNoSession reports a client that has no session (2026-07-28): nothing was kept. What
// its requests have in common is who makes them: keep it in a store of your own, by
// [Call.Principal], or have the tool return an id that later calls bring along.
var ErrNoSession = errors.New("troupe: the client has no session")

// ErrSessionFull reports that a session keeps 64 values, or 32 KiB of them: the new one was
// not stored.
var ErrSessionFull = actors.ErrSessionFull

// SessionValues are values that the handlers of a session share: small things, such as what
// the client has chosen so far. They are stored with the session's record and end with the
// session; what Set has stored survives a crash. A session that lives on a connection
// (HTTP+SSE, stdio) keeps them in memory, as it ends with the process.
//
// Make one with [Call.Session] or [Peer.Values]. Its methods may be called from any
// goroutine, and fail with ErrNoSession for a client without a session, and with
// ErrSessionEnded once it is gone.
type SessionValues struct{ p *actors.Peer }

// Session is what is kept of the call's session.
func (c *Call) Session() SessionValues { return SessionValues{c.peer.p} }

// Values is what is kept of the session.
func (p *Peer) Values() SessionValues { return SessionValues{p.p} }

// Get decodes the value of a key into what into points to. It reports whether there is one.
func (s SessionValues) Get(ctx context.Context, key string, into any) (found bool, err error) {
	if s.p.Revision().Stateless() {
		return false, ErrNoSession
	}
	raw, err := s.p.Value(ctx, key)
	if raw == nil || err != nil {
		return false, err
	}
	if err := codec.Unmarshal(raw, into); err != nil {
		return false, fmt.Errorf("troupe: value %q of the session: %w", key, err)
	}
	return true, nil
}

// Set stores a value, which encodes as JSON, under a key. It waits for the store. Of two
// calls that set one key at the same time the later one counts; a call that runs again
// after a crash sets it again.
func (s SessionValues) Set(ctx context.Context, key string, value any) error {
	if s.p.Revision().Stateless() {
		return ErrNoSession
	}
	raw, err := codec.Marshal(value)
	if err != nil {
		return fmt.Errorf("troupe: value %q of the session: %w", key, err)
	}
	return s.p.SetValue(ctx, key, raw)
}

// Delete removes the value of a key, if there is one.
func (s SessionValues) Delete(ctx context.Context, key string) error {
	if s.p.Revision().Stateless() {
		return ErrNoSession
	}
	return s.p.SetValue(ctx, key, nil)
}
