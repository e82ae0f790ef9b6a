package troupe

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/mcp"
)

// anchoring says which messages of sessions are about the instances of backends that one node has for them.
func (s *serviceHosting) anchoring(m *codec.Message) actors.Anchoring {
	h := s.now()
	if h == nil {
		return actors.Unanchored
	}
	of, name, own := listing.Resources, "", false
	switch string(m.Method) {
	case mcp.MethodToolsCall:
		of, name = listing.Tools, decodeText(m.Name)
		_, own = s.tools.findTool(m.Name)
	case mcp.MethodPromptsGet:
		of, name = listing.Prompts, decodeText(m.Name)
		_, own = s.srv.prompts.Get(name)
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe:
		uri, bad := s.resources.resourceURI(m)
		own = bad != nil || hostedCalls{s}.hasResource(uri)
	case mcp.MethodCompletionComplete, mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesDirectoryRead:
	case mcp.MethodLoggingSetLevel, mcp.MethodResourcesUnsubscribe, mcp.NotifyRootsListChanged:
		return actors.AnchorTold
	default:
		own = m.Kind != codec.Batch
	}
	if own || !h.OfSessions().MayHave(of, name) {
		return actors.Unanchored
	}
	return actors.AnchorNeeded
}

// mayRun reports whether a name may be that of a tool of a backend.
func (s *serviceHosting) mayRun(tool string) bool {
	h := s.now()
	return h != nil && h.MayHaveTool(tool)
}

// parted are the backends that can be used, and those that cannot, of which operators are told.
func parted(all []Backend) (usable []Backend, wrong []hosting.WrongBackend) {
	for i := range all {
		if fault := all[i].Fault; fault != nil {
			wrong = append(wrong, hosting.WrongBackend{Name: all[i].Name, Why: fault.Error()})
		} else {
			usable = append(usable, all[i])
		}
	}
	return usable, wrong
}

// passes returns the headers of a request that backends are passed.
func (s *serviceHosting) passes(principal any) map[string][]string {
	h, header := s.now(), headerOf(principal)
	if h == nil || header == nil {
		return nil
	}
	var passed map[string][]string
	for _, name := range hosting.PassedHeaders(h) {
		if values := header.Values(name); len(values) > 0 {
			if passed == nil {
				passed = make(map[string][]string)
			}
			passed[http.CanonicalHeaderKey(name)] = values
		}
	}
	return passed
}

// left ends what backends have here for a session that another node has now, or that has ended there.
func (s *serviceHosting) left(key actors.SessionKey, moved bool) {
	if h := s.now(); h != nil {
		h.SessionGone(key.Tenant+"/"+key.ID, moved)
	}
}

// Adopted ends what was left for a session that has ended meanwhile, or is another node's now.
func (s hostedNews) Adopted(ctx context.Context, session string) {
	h, key := s.now(), s.sessionKey(session)
	for wait := time.Second; h != nil; wait = min(2*wait, time.Minute) {
		here, err := actors.IsHere(s.rt.node, s.svc, key)
		switch {
		case err == nil && !here:
			h.SessionGone(session, false)
			return
		case err == nil:
			return
		}
		s.rt.log.Debug("it is not known whether a session goes on that has a process", "session", key.ID, "error", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// anchored begins anew, for a session, what it had with the instances of a node that is gone, or has begun anew.
func (s *serviceHosting) anchored(ctx context.Context, p *actors.Peer, had []string) (here, unknown []string) {
	h, c := s.now(), s.callerOf(p)
	if h == nil || c == nil || c.Session == "" {
		return nil, nil
	}
	is, errs := make([]bool, len(had)), make([]error, len(had))
	var asked sync.WaitGroup
	for i, key := range had {
		asked.Go(func() {
			one, cancel := context.WithTimeout(ctx, tellTime)
			defer cancel()
			if is[i], errs[i] = hosting.InheritInstance(one, h, key, c); errs[i] != nil || is[i] {
				return
			}
			hostedNews{s}.Lost(key, c.Session, pool.Exited)
			is[i] = s.followAgain(ctx, h, c, p, key)
		})
	}
	asked.Wait()
	for i, key := range had {
		switch {
		case errs[i] != nil:
			s.rt.log.Debug("it is not known what became of the instance of a session", "server", s.id, "backend", key, "error", errs[i])
			unknown = append(unknown, key)
		case is[i]:
			here = append(here, key)
		}
	}
	return here, unknown
}

// followAgain has a new instance of a backend say when the resources change that a session follows there. It reports whether there may be one.
func (s *serviceHosting) followAgain(ctx context.Context, h *hosting.Server, c *hosting.Caller, p *actors.Peer, key string) (begun bool) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	for _, uri := range p.Subscribed() {
		item, ok := h.FindItem(c, listing.Resources, uri)
		if !ok || item.BackendKey() != key || (hostedCalls{s}).hasResource(uri) {
			continue
		}
		begun = true
		if err := h.ChangeSubscription(ctx, c, item, uri, mcp.MethodResourcesSubscribe); err != nil {
			s.rt.log.Debug("a session does not follow a resource any more", "server", s.id, "error", err)
		}
	}
	return begun
}

// itemNeeds are the scopes that an item of a backend needs, with those of the server. Before it is known which backend serves a caller, hostedNeeds are.
func (s hostedCalls) itemNeeds(item *hosting.Item) []string {
	return scope.Union(s.srv.opts.Scopes, item.NeededScopes())
}

// anchorHere has the session of a call be where this one is, if the item's instance is the session's own.
func (s hostedCalls) anchorHere(ctx context.Context, call *Call, c *hosting.Caller, item *hosting.Item) error {
	if c.Session == "" || !item.OfSession() {
		return nil
	}
	return actors.AnchorHere(ctx, call.peer.p, item.BackendKey())
}
