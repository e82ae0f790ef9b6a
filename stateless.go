package troupe

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
)

// MayAsk reports whether a call may ask its client for input: a tool may if it has Needs;
// prompts and resources always may.
func (s *service) MayAsk(method, name []byte) bool {
	switch string(method) {
	case mcp.MethodToolsCall:
		t, ok := s.findTool(name)
		return ok && t.Needs != 0
	case mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		return true
	}
	return false
}

// Listening decides which notifications a listener gets: all that it asks for and the server
// has, except that ServerOptions.Subscribe must allow each resource, and that there are no
// more resources than a session may subscribe to.
func (s *service) Listening(ctx context.Context, c *actors.Call) (actors.Listening, *mcp.Error) {
	var in struct {
		Notifications *mcp.SubscriptionFilter `json:"notifications"`
	}
	call := &Call{c: c, msg: c.Message(), svc: s, peer: Peer{c.Peer()}}
	if err := call.decodeParams(ctx, c.Message().Params, &in); err != nil {
		return actors.Listening{}, err
	}
	if in.Notifications == nil {
		return actors.Listening{}, mcp.NewError(mcp.CodeInvalidParams, "subscriptions/listen needs notifications")
	}
	caps := s.srv.declaredCapabilities()
	f := protocol.FilterWithin(*in.Notifications, &caps)
	ctx = call.handlerContext(ctx)
	view := s.viewOf(call.Principal)
	limit := s.svc.Limits.Subscriptions
	followed, refusal := s.followableTasks(ctx, call, &f, limit)
	if refusal != nil {
		call.askForScopes(refusal)
		return actors.Listening{}, refusal
	}
	seen := make(map[string]bool)
	var denied *mcp.Error
	var uris []string
	for _, uri := range f.ResourceSubscriptions {
		uri = s.srv.listedSpelling(view, uri)
		switch {
		case seen[uri] || !isAbsolute(uri) || !s.mayFollow(view, uri) || limit >= 0 && len(uris) >= limit || s.tooLong(uri):
		case s.refusesTo(call, view, uri, &denied):
		case !s.allowsResource(ctx, call, uri):
		default:
			seen[uri] = true
			uris = append(uris, uri)
		}
	}
	if denied != nil {
		call.askForScopes(denied)
		return actors.Listening{}, denied
	}
	f.ResourceSubscriptions = uris
	accepted, err := codec.Marshal(f)
	if err != nil {
		return actors.Listening{}, s.internalError(mcp.MethodSubscriptionsListen, err)
	}
	later := view.forLater()
	l := actors.Listening{Tools: f.ToolsListChanged, Prompts: f.PromptsListChanged, Resources: f.ResourcesListChanged, URIs: uris, Accepted: accepted, Changed: s.changesFor(later)}
	if len(followed) > 0 {
		l.Others = s.followTasks(followed)
	}
	principal := c.Principal()
	l.Hears = func(uri string) bool { return s.mayFollow(later, uri) && !s.withholdsResource(principal, uri) }
	if len(uris) > 0 && len(followed) == 0 && !l.Tools && !l.Prompts && !l.Resources {
		l.Uncovered = func() string { return s.listenerEndReason(later, principal, uris) }
	}
	return l, nil
}

// allowsResource reports whether ServerOptions.Subscribe allows a listener the resource.
func (s *service) allowsResource(ctx context.Context, call *Call, uri string) bool {
	if s.srv.opts.Subscribe == nil {
		return true
	}
	allowed := false
	s.containPanic("Subscribe", func() { allowed = s.srv.opts.Subscribe(ctx, call, uri) == nil })
	return allowed
}

// looksStateless reports whether a request that came without headers is meant to be
// stateless, even if its metadata are not complete: older revisions have neither its method
// nor such metadata. A server that speaks only revisions without sessions takes every request for
// one, but for initialize, whose refusal tells the client which revisions there are; and a server that
// speaks none of them takes none for one, as it would if there were none.
func (all spoken) looksStateless(m *codec.Message) bool {
	switch {
	case len(all.withoutSessions()) == 0:
		return false
	case len(all.withSessions()) == 0:
		return string(m.Method) != mcp.MethodInitialize
	}
	return m.ProtocolVersion != nil || string(m.Method) == mcp.MethodServerDiscover || codec.Optional(m.Meta, mcp.MetaClientCapabilities) != nil
}

// judgeMessage decides whether a message that came without headers is a stateless request, and refuses one that no
// revision allows.
func (all spoken) judgeMessage(m *codec.Message) (stateless bool, refused *mcp.Error) {
	switch {
	case m.Kind == codec.Batch && len(all.withSessions()) == 0:
		return false, refusal.OneMessage.MCP()
	case m.Kind != codec.Request || !all.looksStateless(m):
		return false, nil
	}
	return true, all.checkMeta(m)
}

// checkMeta checks the metadata of a stateless request that came without headers
// (2026-07-28, basic/index, _meta).
func (all spoken) checkMeta(m *codec.Message) *mcp.Error {
	q, err := mcp.ReadRequestMeta(m.Meta)
	if q.Version == nil || q.Revision.Stateless() && slices.Contains(all, q.Revision) {
		return err
	}
	return all.refuseVersion(string(q.Version), "")
}

// discovery holds the results of server/discover by revision: each is the same for all
// requests, and encoded for the first.
type discovery [mcp.Latest + 1][16]atomic.Pointer[[]byte]

// appendDiscovery appends the result of server/discover for clients of the revision. It lists
// all versions, with sessions and without, newest first: a client takes the first one that
// it knows.
func (s *service) appendDiscovery(dst []byte, r mcp.Revision) ([]byte, *mcp.Error) {
	declared := 0 // what of it may change
	for bit, has := range [...]*atomic.Bool{&s.srv.hasTasks, &s.srv.longTasks, &s.srv.hasSkills, &s.srv.hasPages} {
		if has.Load() {
			declared |= 1 << bit
		}
	}
	known := &s.discovery[min(r, mcp.Latest)][declared]
	if result := known.Load(); result != nil {
		return append(dst, *result...), nil
	}
	out, err := s.srv.head.appendResult(nil, nil, s.listCache(), struct {
		SupportedVersions []string               `json:"supportedVersions"`
		Capabilities      mcp.ServerCapabilities `json:"capabilities"`
		Instructions      string                 `json:"instructions,omitempty"`
	}{s.speaks.newestFirst(), protocol.ServerCapabilitiesFor(s.shownCapabilities(), r), s.srv.opts.Instructions})
	if err != nil {
		return nil, s.internalError(mcp.MethodServerDiscover, err)
	}
	known.Store(&out)
	return append(dst, out...), nil
}

// shownCapabilities are those of the server. The tasks of anonymous clients are not listed: they would see those of all others.
func (s *service) shownCapabilities() mcp.ServerCapabilities {
	c := s.srv.declaredCapabilities()
	if o := &s.rt.opts; c.Tasks != nil && (!o.hasAuth() || o.Auth != nil && o.Auth.AllowAnonymous) {
		c.Tasks.List = nil
	}
	return c
}

// followableTasks returns the tasks that a listener follows: those of its filter that there are. The filter keeps their ids.
func (s *service) followableTasks(ctx context.Context, call *Call, f *mcp.SubscriptionFilter, limit int) ([]worker.Key, *mcp.Error) {
	if len(f.TaskIDs) == 0 {
		return nil, nil
	}
	if lacking := refuseLacking(mcp.CapClientTasksExtension, &call.peer); lacking != nil {
		return nil, lacking
	}
	var keys []worker.Key
	asked := f.TaskIDs
	f.TaskIDs = nil
	for _, id := range asked {
		key := call.taskKey(id)
		if !key.Valid() || slices.Contains(keys, key) || limit >= 0 && len(keys) >= limit {
			continue
		}
		switch t, err := s.rt.tasks.Get(ctx, key); {
		case err == nil:
			if refused := call.requireScopes(t.Record.Scopes); refused != nil {
				return nil, refused
			}
			keys, f.TaskIDs = append(keys, key), append(f.TaskIDs, id)
		case !errors.Is(err, worker.ErrUnknown):
			return nil, s.internalError(mcp.MethodSubscriptionsListen, err)
		}
	}
	return keys, nil
}

// followTasks sends a listener each task as it is, and after each change (the extension's notifications/tasks).
func (s *service) followTasks(keys []worker.Key) func(context.Context, func(string, []byte)) func() {
	return func(ctx context.Context, send func(method string, params []byte)) func() {
		again := make(chan struct{}, 1)
		go func() {
			_ = s.rt.tasks.FollowAll(ctx, keys, again, func(t worker.Snapshot) bool {
				if d, err := detailedTask(t, mcp.Latest); err == nil {
					if params, err := codec.Marshal(d); err == nil {
						send(mcp.NotifyTasks, params)
					}
				}
				return true
			})
		}()
		return func() {
			select {
			case again <- struct{}{}:
			default:
			}
		}
	}
}
