package hosting

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// uses are which backends each session has used, by their keys, and the log level that each was told. Instances begin with the first call, and
// so a level that was set before is told then.
type uses struct {
	mu sync.Mutex // guards of
	of map[string]map[string]string
}

// note notes that a session uses a backend, which is to be told a level unless that is "". It reports whether that is news.
func (u *uses) note(session, key, level string) (isNew bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	told := u.of[session]
	if told == nil {
		told = make(map[string]string)
		u.of[session] = told
	}
	before, used := told[key]
	if used && (level == "" || before == level) {
		return false
	}
	told[key] = level
	return level != ""
}

func (u *uses) has(session, key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, used := u.of[session][key]
	return used
}

// forget forgets that a session has used a backend, or all for "".
func (u *uses) forget(session, key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if delete(u.of[session], key); key == "" || len(u.of[session]) == 0 {
		delete(u.of, session)
	}
}

// hasLevels reports whether instances of the backend have the log level of one session, or of one principal.
func (m *mounted) hasLevels() bool {
	return m.Options.Isolation == host.BySession || m.Options.Isolation == host.ByPrincipal
}

// levelTime bounds how long a backend may take to take a log level.
const levelTime = 10 * time.Second

// settleLevel tells the backend of a call the log level of its session, if it does not know it.
func (s *Server) settleLevel(ctx context.Context, m *mounted, q *Request) {
	if q.Caller.Session == "" || !m.hasLevels() || q.Item.in != nil && !q.Item.in.has("logging") {
		return
	}
	if s.uses.note(q.Caller.Session, m.Key, q.Level) {
		s.tellLevel(ctx, m, q.Caller, q.Level)
	}
}

// tellLevel tells a backend a log level. What it says to that is its own affair: the client gets no message below its level.
func (s *Server) tellLevel(ctx context.Context, m *mounted, c *Caller, level string) {
	params := append(codec.AppendString([]byte(`{"level":`), level), '}')
	if _, err := s.backends.Call(ctx, m.Key, c.Caller, Asked{Method: mcp.MethodLoggingSetLevel, Params: params, Safe: true}); err != nil {
		s.log.Debug("a backend was not told the log level of a session", "backend", m.Key, "error", err)
	}
}

// SetLevel tells the backends that a session uses its new log level. Others are told when it uses them.
func (s *Server) SetLevel(ctx context.Context, c *Caller, level string) {
	ctx, cancel := context.WithTimeout(ctx, levelTime)
	defer cancel()
	var told sync.WaitGroup
	for _, m := range *s.now.Load() {
		if r := s.reading(m, c); !m.hasLevels() || r != nil && !r.has("logging") || !s.uses.has(c.Session, m.Key) {
			continue
		}
		if s.uses.note(c.Session, m.Key, level) {
			told.Go(func() { s.tellLevel(ctx, m, c, level) })
		}
	}
	told.Wait()
}

// Subscribe has the backend of a resource say when it changes, or no longer. The error is an *[mcp.Error] of the client's, or the cause of the
// end of ctx. A backend that has no subscriptions is asked for nothing, and where several share an instance it goes on to say what one of
// them no longer wants: others may.
func (s *Server) Subscribe(ctx context.Context, c *Caller, item *Item, uri string, method string) error {
	if item.in != nil && codec.Optional(codec.Optional(item.in.settled.Capabilities, "resources"), "subscribe") == nil {
		return nil
	}
	if method == mcp.MethodResourcesUnsubscribe && item.backend.Options.Isolation != host.BySession {
		return nil
	}
	params := append(codec.AppendString([]byte(`{"uri":`), uri), '}')
	s.uses.note(c.Session, item.backend.Key, "")
	r, err := s.backends.Call(ctx, item.backend.Key, c.Caller, Asked{Method: method, Params: params, Safe: true})
	switch {
	case err != nil:
		return failed(ctx, err)
	case r.Kind == upstream.Refused:
		return errorOf(&r)
	}
	return nil
}

// RootsChanged tells the instances of a session that the roots of its client have changed, as far as they may know them.
func (s *Server) RootsChanged(ctx context.Context, session string) {
	for _, m := range *s.now.Load() {
		if m.Options.Roots.Forward {
			if err := s.backends.Notify(ctx, m.Key, session, mcp.NotifyRootsListChanged, nil); err != nil {
				s.log.Debug("a backend was not told that roots have changed", "backend", m.Key, "error", err)
			}
		}
	}
}

// SessionGone says that nobody will call for a session again.
func (s *Server) SessionGone(session string) {
	s.uses.forget(session, "")
	s.backends.SessionGone(session)
}

// Lost says that the instance of a session is gone.
func (s *Server) Lost(key, session string) { s.uses.forget(session, key) }
