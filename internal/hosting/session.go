package hosting

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
)

// tellTime bounds what a backend is told for which nobody waits longer.
const tellTime = 10 * time.Second

// SetLevel tells the instances that a session has its new log level. Others are told by its calls.
func (s *Server) SetLevel(ctx context.Context, c *Caller, level string) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	params := append(codec.AppendString([]byte(`{"level":`), level), '}')
	var told sync.WaitGroup
	for _, m := range *s.mounted.Load() {
		told.Go(func() {
			if _, err := s.backends.Call(ctx, m.Key, c.Caller, Asked{Method: mcp.MethodLoggingSetLevel, Params: params}); err != nil {
				s.log.Debug("a backend was not told the log level of a session", "backend", m.Key, "error", err)
			}
		})
	}
	told.Wait()
}

// RootsChanged tells the instances of a session that the roots of its client have changed, as far as they may know them.
func (s *Server) RootsChanged(ctx context.Context, session string) {
	for _, m := range *s.mounted.Load() {
		if m.Options.Roots.Forward {
			if err := s.backends.Notify(ctx, m.Key, session, mcp.NotifyRootsListChanged, nil); err != nil {
				s.log.Debug("a backend was not told that roots have changed", "backend", m.Key, "error", err)
			}
		}
	}
}

// InheritInstance has a session go on with what another node, or an earlier process, has left of its instance of a backend, and reports whether there is something. With an error nobody
// knows yet.
func InheritInstance(ctx context.Context, s *Server, key string, c *Caller) (bool, error) {
	return s.backends.Inherit(ctx, key, c.Caller)
}

// SessionGone says that nobody will call for a session again, or if it has moved, that it is another node's now. It waits until those backends
// know that others share.
func (s *Server) SessionGone(session string, moved bool) {
	s.backends.SessionGone(session, moved)
	s.followers.forget(session)
}
