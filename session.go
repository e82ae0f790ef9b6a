package troupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

var sessionEnds = map[actors.Ending]SessionEnd{actors.Deleted: SessionDeleted, actors.Expired: SessionExpired, actors.Disconnected: SessionDisconnected}

// hook gives the actors the program's functions that learn of sessions, and the one that
// decides which updates a session gets.
func (s *service) hook() {
	if f := s.srv.opts.SessionBegan; f != nil {
		s.svc.Began = func(ctx context.Context, p *actors.Peer) {
			s.contain("SessionBegan", func() { f(ctx, &Peer{p}) })
		}
	}
	s.svc.Known = s.known
	if s.srv.opts.Visible != nil {
		s.svc.Hears = s.mayHear
	}
	if f := s.srv.opts.SessionEnded; f != nil {
		s.svc.Ended = func(p *actors.Peer, how actors.Ending) {
			s.contain("SessionEnded", func() { f(&Peer{p}, sessionEnds[how]) })
		}
	}
}

// Notified handles the client's notifications other than cancellation. It ignores those
// that the client's revision does not have.
func (s *service) Notified(p *actors.Peer, method string, params []byte) {
	if f, ok := s.srv.notifications.Load(method); ok {
		s.contain(method, func() { f.(func(*Peer, []byte))(&Peer{p}, params) })
		return
	}
	if m, ok := mcp.LookupMethod(method); !ok || !m.Allowed(mcp.ToServer, p.Revision()) {
		return
	}
	switch method {
	case mcp.NotifyTasksStatus:
		s.watch.Changed(p.Key(), params)
	case mcp.NotifyRootsListChanged:
		p.Forget()
		if s.srv.opts.RootsChanged != nil {
			s.contain("RootsChanged", func() { s.srv.opts.RootsChanged(&Peer{p}) })
		}
	}
}

// ErrNoSession reports a stateless client (2026-07-28), which has no session: nothing was
// stored. Keep such values in a store of your own by [Call.Principal], or let the tool
// return an id that the client sends with later calls.
var ErrNoSession = errors.New("troupe: the client has no session")

// ErrSessionFull reports that a session has its most values, 64, or 32 KiB of them: the new
// value was not stored.
var ErrSessionFull = actors.ErrSessionFull

// SessionValues are values that the handlers of a session share: small things, such as the
// choices that the client has made. They are stored with the session's record and end with
// the session; a stored value survives a crash. A session that is bound to a connection
// (HTTP+SSE, stdio) keeps them in memory, as it ends with the process.
//
// Get them with [Call.Session] or [Peer.Values]. Their methods may be called from any
// goroutine. They fail with ErrNoSession for a client without a session, with
// ErrSessionEnded once the session is gone, and with ErrUnavailable while the store is away.
type SessionValues struct{ p *actors.Peer }

// Session returns the values of the call's session.
func (c *Call) Session() SessionValues { return SessionValues{c.peer.p} }

// Values returns the values of the session.
func (p *Peer) Values() SessionValues { return SessionValues{p.p} }

// Get decodes the value of a key into the variable that into points to. It reports whether
// there is such a value.
func (s SessionValues) Get(ctx context.Context, key string, into any) (found bool, err error) {
	if s.p.Revision().Stateless() {
		return false, ErrNoSession
	}
	raw, err := s.p.Value(ctx, key)
	if raw == nil || err != nil {
		return false, forHandler(err)
	}
	if err := codec.Unmarshal(raw, into); err != nil {
		return false, fmt.Errorf("troupe: value %q of the session: %w", key, err)
	}
	return true, nil
}

// Set stores a value, which must encode as JSON, under a key, and waits for the store. If
// two calls set one key at the same time, the later one counts. A call that runs again
// after a crash sets the value again.
func (s SessionValues) Set(ctx context.Context, key string, value any) error {
	if s.p.Revision().Stateless() {
		return ErrNoSession
	}
	raw, err := codec.Marshal(value)
	if err != nil {
		return fmt.Errorf("troupe: value %q of the session: %w", key, err)
	}
	return forHandler(s.p.SetValue(ctx, key, raw))
}

// Delete removes the value of a key, if there is one.
func (s SessionValues) Delete(ctx context.Context, key string) error {
	if s.p.Revision().Stateless() {
		return ErrNoSession
	}
	return forHandler(s.p.SetValue(ctx, key, nil))
}
