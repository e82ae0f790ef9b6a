package troupe

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
)

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
