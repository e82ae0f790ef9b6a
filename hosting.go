package troupe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/catalogue"
	"github.com/troupe-run/troupe/internal/hostfile"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/mcp"
)

// serviceHosting is what a service does with the backends of its server: hostedCalls has what their calls are, and hostedNews what they say.
type serviceHosting struct {
	*service
	updates  hosting.Updates
	declared hosting.Declarations
}

// now is the server as far as backends serve for it, nil without any.
func (s *serviceHosting) now() *hosting.Server { return s.srv.backends.hosted.Load() }

// begin has the backends of a server serve that is being mounted.
func (s *serviceHosting) begin() {
	b := &s.srv.backends
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) > 0 {
		s.offer(b.all, false)
	}
}

// configure has the server offer these backends from now on. serverBackends.mu is held.
func (s *serviceHosting) configure(all []Backend) {
	if len(all) > 0 || s.now() != nil {
		s.offer(all, true)
	}
}

// offer has the server offer these backends, at once or together with those of servers that are mounted in a moment. serverBackends.mu is held.
func (s *serviceHosting) offer(all []Backend, atOnce bool) {
	server := s.now()
	if server == nil {
		server = hosting.NewServer(s.rt.backends, s.rt.learnWait, s.rt.log)
		server.Tasks = func(asks bool) { noteHostedTasks(s.service, asks) }
	}
	all, wrong := parted(all)
	s.rt.backends.SetWrong(s.id, wrong)
	list, run := make([]hosting.Backend, len(all)), make([]backend.Backend, len(all))
	for i := range all {
		list[i] = asHosted(&all[i], s.rt.backends.Key(s.id, all[i].Name), s.rt.backends.KeepsInstances(all[i].Target))
		run[i] = backend.Backend{Name: list[i].Key, Digest: list[i].Digest, Target: all[i].Target, Options: list[i].Options, Mask: maskOf(&all[i])}
	}
	server.Configure(list)
	if len(all) == 0 {
		run = nil // the server stays, without backends, for the requests that have begun with it
	}
	s.srv.backends.hosted.Store(server)
	s.rt.backends.SetBackends(s.id, hostedNews{s}, run, atOnce)
}

// end ends what runs for a server that is taken away.
func (s *serviceHosting) end() {
	b := &s.srv.backends
	b.mu.Lock()
	defer b.mu.Unlock()
	s.configure(nil)
	b.hosted.Store(nil) // the next Runtime that it is mounted on has other ones
}

// newCaller is the caller that is about to begin a session with these capabilities, once something is known of what backends list; nil without backends.
func (s *serviceHosting) newCaller(ctx context.Context, capabilities []byte, r mcp.Revision) *hosting.Caller {
	h := s.now()
	if h == nil {
		return nil
	}
	c := &hosting.Caller{Caller: backend.Caller{Alone: true}, Revision: r}
	s.declared.FillCaller(c, capabilities)
	h.LearnLists(ctx, c)
	return c
}

// callerOf is the client of a session or a request, nil without backends.
func (s *serviceHosting) callerOf(p *actors.Peer) *hosting.Caller {
	if s.now() == nil {
		return nil
	}
	key, r := p.Key(), p.Revision()
	c := &hosting.Caller{Revision: r}
	s.declared.FillCaller(c, p.Capabilities())
	if c.Modern = r.Stateless(); !c.Modern {
		c.Session = key.Tenant + "/" + key.ID
	}
	if key.Tenant != anonymous {
		c.Principal = key.Tenant
	}
	return c
}

// callerIn is the client of a call, nil without backends.
func (s *serviceHosting) callerIn(call *Call) *hosting.Caller {
	c := s.callerOf(call.peer.p)
	if c != nil && c.Principal == "" {
		c.Alone = s.isStranger(call.c)
	}
	return c
}

// sessionKey is the session that a caller names.
func (s *serviceHosting) sessionKey(session string) actors.SessionKey {
	tenant, id, _ := strings.Cut(session, "/")
	return actors.SessionKey{Tenant: tenant, Server: s.id, ID: id}
}

// forwardedBy are headers of requests that somebody has forwarded: their clients may be several, though all come from one address.
var forwardedBy = []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"}

// isStranger reports whether the anonymous client of a call may be another one than that of another call.
func (s *serviceHosting) isStranger(c *actors.Call) bool {
	if c.Via().HTTP == actors.OverPipe {
		return false
	}
	at, err := netip.ParseAddr(strings.Trim(hostPart(c.Via().Client), "[]"))
	if s.rt.crowd || err != nil || !at.Unmap().IsLoopback() {
		return true
	}
	r := requestOf(c.Principal())
	return r == nil || slices.ContainsFunc(forwardedBy, func(name string) bool { return len(r.Header[name]) > 0 })
}

// asHosted returns the backend for the server that offers it. kept says that its instances outlive this process.
func asHosted(b *Backend, key string, kept bool) hosting.Backend {
	_, isURL := b.Target.URL()
	return hosting.Backend{Name: b.Name, Key: key, Digest: hostfile.Digest(b.Target, b.Options), URL: isURL, Kept: kept, Options: b.Options.WithDefaults()}
}

// hasItems reports whether the server has items of its own.
func (s *serviceHosting) hasItems() bool {
	return len(s.srv.tools.Now().Names)+len(s.srv.prompts.Now().Names)+len(s.srv.resources.Now().Names)+len(s.srv.templates.Now().Names) > 0
}

// capabilitiesWith returns the capabilities of the server with those of its backends.
func capabilitiesWith(own mcp.ServerCapabilities, a *hosting.About) mcp.ServerCapabilities {
	if a.Alone {
		return a.Capabilities
	}
	if own.Completions == nil {
		own.Completions = a.Capabilities.Completions
	}
	if own.Tasks == nil {
		own.Tasks = a.Capabilities.Tasks
	}
	extensions := a.Capabilities.Extensions // made for us
	for name, value := range own.Extensions {
		if extensions == nil {
			return own
		}
		extensions[name] = value
	}
	own.Extensions = extensions
	return own
}

// withTasks returns capabilities with what the server itself says of tasks, if calls may become some.
func (s *serviceHosting) withTasks(c mcp.ServerCapabilities) mcp.ServerCapabilities {
	if c.Tasks != nil {
		c.Tasks = s.discovery.shownCapabilities().Tasks
	}
	return c
}

// initializeResult encodes a result of initialize. A server that is one backend alone has its name and its instructions, as it writes them.
func (s *serviceHosting) initializeResult(c *hosting.Caller, result mcp.InitializeResult, r mcp.Revision) ([]byte, error) {
	h := s.now()
	if h == nil || c == nil {
		return codec.Marshal(protocol.InitializeResultFor(result, r))
	}
	about := h.About(c, s.hasItems())
	result.Capabilities = s.withTasks(capabilitiesWith(result.Capabilities, &about))
	asItIs := false
	if about.Alone {
		var info mcp.Implementation
		if codec.Unmarshal(about.ServerInfo, &info) == nil {
			result.ServerInfo = info
			asItIs = bytes.Equal(mcp.Raw(info), mcp.Raw(protocol.ImplementationFor(info, r)))
		}
		result.Instructions = decodeText(about.Instructions)
	}
	out, err := codec.Marshal(protocol.InitializeResultFor(result, r))
	if err == nil && asItIs {
		out = hosting.WithMember(out, "serverInfo", about.ServerInfo)
	}
	return out, err
}

// discover appends the result of server/discover.
func (s *serviceHosting) discover(ctx context.Context, call *Call, dst []byte) ([]byte, *mcp.Error) {
	h, c, r := s.now(), s.callerIn(call), call.revision()
	h.LearnLists(ctx, c)
	about := h.About(c, s.hasItems())
	instructions := s.srv.opts.Instructions
	if about.Alone {
		instructions = decodeText(about.Instructions)
	}
	head := s.headOf(&about)
	out, err := head.appendResult(dst, nil, s.lists.listCache(), struct {
		SupportedVersions []string               `json:"supportedVersions"`
		Capabilities      mcp.ServerCapabilities `json:"capabilities"`
		Instructions      string                 `json:"instructions,omitempty"`
	}{s.speaks.NewestFirst(), protocol.ServerCapabilitiesFor(s.withTasks(capabilitiesWith(s.discovery.shownCapabilities(), &about)), r), instructions})
	if err != nil {
		return nil, s.internalError(mcp.MethodServerDiscover, err)
	}
	return out, nil
}

// headOf is the beginning of results, with the name of the one backend that the server is.
func (s *serviceHosting) headOf(a *hosting.About) *resultHead {
	if !a.Alone || a.ServerInfo == nil {
		return &s.srv.head
	}
	head := newNamedHead(a.ServerInfo)
	return &head
}

// resumes reports whether a second run of a call finds what the first one has begun at a backend.
func (s *serviceHosting) resumes(method, name []byte) bool {
	h := s.now()
	if h == nil || string(method) != mcp.MethodToolsCall {
		return false
	}
	_, own := s.tools.findTool(name)
	return !own && h.KeepsCalls(decodeText(name))
}

// countedAs is the name by which a call of an item is counted: none that no list has.
func (s *serviceHosting) countedAs(of listing.Of, name []byte) string {
	h := s.now()
	if h == nil {
		return ""
	}
	if text := decodeText(name); h.IsListed(of, text, nil) {
		return text
	}
	return ""
}

// hostedCalls answers requests for items of backends.
type hostedCalls struct{ *serviceHosting }

var _ hostedService = hostedCalls{}

// find finds an item of a backend that the caller of a call may see. What no list has yet is asked for.
func (s hostedCalls) find(ctx context.Context, call *Call, c *hosting.Caller, of listing.Of, name string) *hosting.Item {
	h := s.now()
	if h == nil || name == "" {
		return nil
	}
	item, ok := h.FindItem(c, of, name)
	if !ok {
		h.LearnLists(ctx, c)
		if item, ok = h.FindItem(c, of, name); !ok && (of == listing.Tools || of == listing.Prompts || s.srv.opts.Visible == nil) {
			item = h.GuessItem(c, of, name)
		}
	}
	if v := call.callerView(); item == nil || v != nil && !v.seesItem(itemOf(item)) {
		return nil
	}
	return item
}

// callTool answers tools/call of a name that the server itself does not have.
func (s hostedCalls) callTool(ctx context.Context, call *Call, dst []byte) ([]byte, int, *mcp.Error) {
	m := call.msg
	var item *hosting.Item
	c := s.callerIn(call)
	if _, own := s.tools.findTool(m.Name); !own { // one that is hidden is there
		item = s.find(ctx, call, c, listing.Tools, decodeText(m.Name))
	}
	if item == nil {
		return s.tools.callTool(ctx, call, nil, dst)
	}
	if r := requestOf(call.c.Principal()); r != nil && call.revision().Stateless() && call.c.Via().HTTP != actors.OverPipe {
		if err := item.CheckHeaders(r.Header, m.Arguments); err != nil {
			return nil, 0, mcp.NewError(mcp.CodeHeaderMismatch, err.Error())
		}
	}
	t := &tool{Tool: Tool{Name: item.Name, Task: taskSupportOf(item.TaskSupport())}, safe: item.Safe(), needs: s.itemNeeds(item)}
	t.hosted = &hostedTask{call: call}
	t.run = func(ctx context.Context, call *Call, _, dst []byte) (out []byte, _ error) {
		var refused *mcp.Error
		if out, call.faulty, refused = s.ask(ctx, call, c, item, t.hosted, dst); refused != nil {
			return nil, refused
		}
		return out, nil
	}
	return callHosted(ctx, s.service, call, t, dst)
}

// routeMethod answers a request other than tools/call that backends have a part in. taken is false for one that the server answers by itself.
func (s hostedCalls) routeMethod(ctx context.Context, call *Call, m *codec.Message, dst []byte) (out []byte, taken bool, err *mcp.Error) {
	var item *hosting.Item
	var c *hosting.Caller
	switch string(m.Method) {
	case mcp.MethodServerDiscover:
		out, err = s.discover(ctx, call, dst)
		return out, true, err
	case mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		s.now().LearnLists(ctx, s.callerIn(call))
		out, err = s.appendList(call, m, dst)
		return out, true, err
	case mcp.MethodPromptsGet:
		name := decodeText(m.Name)
		if _, own := s.srv.prompts.Get(name); !own {
			c = s.callerIn(call)
			item = s.find(ctx, call, c, listing.Prompts, name)
		}
	case mcp.MethodResourcesRead:
		if uri, bad := s.resources.resourceURI(m); bad == nil && !s.hasResource(uri) {
			c = s.callerIn(call)
			item = s.find(ctx, call, c, listing.Resources, uri)
		}
	case mcp.MethodSkillsList, mcp.MethodSkillsGet, mcp.MethodResourcesDirectoryRead:
		if s.srv.opts.Visible == nil { // it cannot judge what they show
			c = s.callerIn(call)
			s.now().LearnLists(ctx, c)
			about := s.now().About(c, s.hasItems())
			item = about.WholeBackend(mcp.ExtensionSkills)
		}
	case mcp.MethodCompletionComplete:
		c = s.callerIn(call)
		item = s.findCompleted(ctx, call, c, codec.Field(m.Params, "ref"))
	}
	if item == nil {
		return nil, false, nil
	}
	if refused := call.requireScopes(s.itemNeeds(item)); refused != nil {
		return nil, true, refused
	}
	out, _, err = s.ask(ctx, call, c, item, nil, dst)
	return out, true, err
}

// appendList answers with a page of a list that has items of backends.
func (s hostedCalls) appendList(call *Call, m *codec.Message, dst []byte) ([]byte, *mcp.Error) {
	var p pager
	list := listResources
	switch string(m.Method) {
	case mcp.MethodToolsList:
		list, p = listTools, hostedPager(s.service, call, listing.Tools, s.srv.tools.Now())
	case mcp.MethodPromptsList:
		list, p = listPrompts, hostedPager(s.service, call, listing.Prompts, s.srv.prompts.Now())
	case mcp.MethodResourcesList:
		p = hostedPager(s.service, call, listing.Resources, s.srv.resources.Now())
	default:
		p = hostedPager(s.service, call, listing.Templates, s.srv.templates.Now())
	}
	s.lists.remoteLists.noteListAsked(list)
	return s.lists.appendListPage(call, m, s.lists.listCache(), p, dst)
}

// hostedPager is pagerOf for a list that has items of backends behind the server's own.
func hostedPager[T offer](s *service, call *Call, of listing.Of, own *catalogue.Snapshot[T]) pager {
	v, r := call.callerView(), call.revision()
	before := pagerOf(own, v, r, of.Member())
	h := s.hosting.now()
	seen := hostedView(v, s.hosting.callerIn(call))
	seen.Own = func(name string) bool {
		_, taken := own.ByName[name]
		return taken
	}
	return func(dst []byte, after string, size int) (out []byte, n int, last string) {
		if hosting.IsHosted(after) {
			out = append(append(append(dst, '"'), of.Member()...), `":[`...)
		} else {
			if out, n, last = before(dst, after, size); last != "" {
				return out, n, last
			}
			out, after = out[:len(out)-1], hosting.Start // without the end of the list
		}
		out, last = h.AppendPage(out, n == 0, of, seen, after, size-n)
		return append(out, ']'), n, last
	}
}

// hasResource reports whether the server itself has a resource, hidden or not.
func (s hostedCalls) hasResource(uri string) bool {
	_, own := s.srv.findReader(nil, uri)
	return own
}

// findCompleted finds the item of a backend whose arguments are to be completed.
func (s hostedCalls) findCompleted(ctx context.Context, call *Call, c *hosting.Caller, ref []byte) *hosting.Item {
	switch decodeText(codec.Field(ref, "type")) {
	case mcp.RefPrompt:
		name := decodeText(codec.Field(ref, "name"))
		if _, own := s.srv.prompts.Get(name); !own {
			return s.find(ctx, call, c, listing.Prompts, name)
		}
	case mcp.RefResource:
		uri := decodeText(codec.Field(ref, "uri"))
		if _, own := s.srv.templates.Get(uri); own || len(uri) > s.limits.MaxURI || s.hasResource(uri) {
			return nil
		}
		if item, ok := s.now().FindItem(c, listing.Templates, uri); ok && call.callerView().seesItem(itemOf(item)) {
			return item
		}
		return s.find(ctx, call, c, listing.Resources, uri)
	}
	return nil
}

// ask has the backend of an item answer a call, of which it may make a task unless that is nil. failed reports a result with isError.
func (s hostedCalls) ask(ctx context.Context, call *Call, c *hosting.Caller, item *hosting.Item, task *hostedTask, dst []byte) (out []byte, failed bool, _ *mcp.Error) {
	h := s.now()
	if err := s.anchorHere(ctx, call, c, item); err != nil {
		if errors.Is(err, actors.ErrElsewhere) && call.c.Attempt() > 1 && string(call.msg.Method) == mcp.MethodToolsCall && !item.Safe() {
			return nil, false, refusal.Lost.MCP() // it has run there
		}
		out, refused := s.respondError(dst, call, item, err)
		return out, false, refused
	}
	q := s.requestOf(ctx, call, c, item)
	if task != nil {
		task.key, q.Task = q.Key, task
	}
	result, err := h.Call(ctx, q)
	if err != nil {
		out, refused := s.respondError(dst, call, item, err)
		return out, false, refused
	}
	failed = string(codec.Optional(result, "isError")) == "true"
	if out, err = s.appendResult(dst, call, c, h, result); err != nil {
		return nil, failed, s.internalError(string(call.msg.Method)+" "+item.Name, err)
	}
	return out, failed, nil
}

// requestOf is a call as it goes to a backend.
func (s hostedCalls) requestOf(ctx context.Context, call *Call, c *hosting.Caller, item *hosting.Item) *hosting.Request {
	q := &hosting.Request{
		Client: call.c, Caller: c, Item: item, Message: call.msg, Level: call.peer.p.Level(), Again: call.c.Attempt() > 1, Header: headerOf(call.c.Principal()),
		Log:    func(ctx context.Context, params []byte) { s.logOf(ctx, call, params) },
		Missed: func(ctx context.Context, n int) { s.tellDropped(ctx, call, n) },
		Complete: func(ctx context.Context, q *actors.Question) {
			of := Question{method: q.Method}
			q.Valid, q.Keep, q.Sending = of.answerCheck(), of.keepsAnswer(&c.Declared), call.sendingOf(ctx, q.Method)
			call.asked.Store(true)
		},
		Remember: func(ctx context.Context, name string, value []byte) ([]byte, error) {
			return remember(ctx, call, name, value)
		},
		Hit: s.rt.hits.Refused,
	}
	if item.KeepsCalls() {
		q.Key = hostedKey(ctx, call)
	}
	return q
}

// respondError is the response to a call that a backend has not answered, or has refused.
func (s hostedCalls) respondError(dst []byte, call *Call, item *hosting.Item, err error) ([]byte, *mcp.Error) {
	if wire, ok := errors.AsType[*mcp.Error](err); ok && wire != nil {
		return s.respondWireError(dst, call, wire)
	}
	if reason, ok := hosting.CouldNotAsk(err); ok {
		return nil, mcp.Errorf(mcp.CodeInternalError, "the backend %s needs input of the client, and got none: %s", item.Backend(), reason)
	}
	return nil, s.internalError(string(call.msg.Method)+" "+item.Name, err)
}

// appendResult appends a result of a backend, which a stateless client gets with what every result has for it.
func (s hostedCalls) appendResult(dst []byte, call *Call, c *hosting.Caller, h *hosting.Server, result []byte) ([]byte, error) {
	if !call.revision().Stateless() || codec.Optional(result, "resultType") != nil {
		return codec.AppendCompact(dst, result), nil
	}
	var cache *Cache
	if codec.Optional(result, "ttlMs") == nil {
		switch string(call.msg.Method) {
		case mcp.MethodResourcesRead:
			cache = s.resources.readCache(call, call.msg)
		case mcp.MethodSkillsList, mcp.MethodSkillsGet:
			cache = s.lists.listCache()
		}
	}
	own := codec.Optional(result, "_meta")
	if !isObject(own) {
		own = nil
	}
	about := h.About(c, s.hasItems())
	rest := codec.AppendCompact(nil, hosting.Without(result, "_meta", "resultType"))
	return s.headOf(&about).appendResult(dst, own, cache, json.RawMessage(rest))
}

// logOf sends a log message of a backend to the client of a call, as [Call.Log] does one of a handler.
func (s hostedCalls) logOf(ctx context.Context, call *Call, params []byte) {
	level := mcp.LoggingLevel(decodeText(codec.Field(params, "level")))
	send, dropped, err := call.c.AdmitLog(ctx, level.Valid() && wantsLevel(call.peer.p, level))
	if dropped {
		call.asItCame().dropped.Store(true)
	}
	if err != nil || !send || call.tellMissed(ctx) != nil {
		return
	}
	if params, send = s.redacted(level, params); !send {
		call.c.Pass(ctx)
		return
	}
	_ = call.c.Notify(ctx, mcp.NotifyMessage, params) // it fails when the call has ended
}

// redacted returns the params of a log message as Options.Redact lets them through.
func (s hostedCalls) redacted(level mcp.LoggingLevel, params []byte) (_ []byte, send bool) {
	if s.rt.redact == nil {
		return params, true
	}
	params, send, err := s.logParams(level, decodeText(codec.Field(params, "logger")), json.RawMessage(codec.Field(params, "data")))
	return params, send && err == nil
}

// tellDropped tells the client of a call how many log messages of a backend came too fast to be sent.
func (s hostedCalls) tellDropped(ctx context.Context, call *Call, n int) {
	if wantsLevel(call.peer.p, mcp.LevelWarning) {
		_ = call.c.Tell(ctx, mcp.NotifyMessage, missedParams(int64(n))) // it fails when the call has ended
	}
}

// mayFollow reports whether a caller with view v may get updates of a resource of a backend.
func (s hostedCalls) mayFollow(v *view, uri string) bool {
	h := s.now()
	if h == nil || s.hasResource(uri) {
		return false
	}
	item, ok := h.FindItem(nobody, listing.Resources, uri)
	return ok && v.seesItem(itemOf(item))
}

// follow has the backend of a resource say when it changes, or no longer, after a client has subscribed to it or has unsubscribed.
func (s hostedCalls) follow(ctx context.Context, call *Call, m *codec.Message, uri string) *mcp.Error {
	if s.hasResource(uri) {
		return nil
	}
	c := s.callerIn(call)
	item := s.find(ctx, call, c, listing.Resources, uri)
	if item == nil {
		return nil
	}
	var err error
	if refused := call.requireScopes(s.itemNeeds(item)); refused != nil && string(m.Method) == mcp.MethodResourcesSubscribe {
		err = refused
	} else if err = s.anchorHere(ctx, call, c, item); err == nil {
		err = s.now().ChangeSubscription(ctx, c, item, uri, string(m.Method))
	}
	if err == nil {
		return nil
	}
	if string(m.Method) == mcp.MethodResourcesSubscribe {
		if err := call.peer.p.Unsubscribe(context.WithoutCancel(ctx), uri); err != nil {
			s.rt.log.Debug("a subscription that a backend has refused was not undone", "server", s.id, "error", err)
		}
	}
	if wire, ok := errors.AsType[*mcp.Error](err); ok {
		return wire
	}
	return s.internalError(string(m.Method), err)
}

// listen has backends tell a listener of those of its resources that are theirs. accepted are the resources but for those that are refused.
func (s hostedCalls) listen(ctx context.Context, call *Call, uris []string) (f *hosting.Follower, accepted []string) {
	h := s.now()
	if h == nil {
		return nil, uris
	}
	c, items := s.callerIn(call), make(map[string]*hosting.Item)
	for _, uri := range uris {
		if s.hasResource(uri) {
			continue
		}
		if item := s.find(ctx, call, c, listing.Resources, uri); item != nil && call.requireScopes(s.itemNeeds(item)) == nil {
			items[uri] = item
		}
	}
	if len(items) == 0 {
		return nil, uris
	}
	f, refused := h.Follow(ctx, c, items)
	return f, slices.DeleteFunc(uris, func(uri string) bool { return slices.Contains(refused, uri) })
}

// tellTime bounds what backends are told of sessions, for which nobody waits.
const tellTime = 10 * time.Second

// rootsChanged tells backends that the roots of a session's client have changed.
func (s *serviceHosting) rootsChanged(p *actors.Peer) {
	h, c := s.now(), s.callerOf(p)
	if h == nil || c == nil || c.Session == "" {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), tellTime)
		defer cancel()
		h.RootsChanged(ctx, c.Session)
	}()
}

// sessionEnded ends what backends have for a session.
func (s *serviceHosting) sessionEnded(p *actors.Peer, _ actors.Ending) {
	if h, c := s.now(), s.callerOf(p); h != nil && c != nil && c.Session != "" {
		h.SessionGone(c.Session, false)
	}
}

// hostedNews hears of what becomes of the backends of a server.
type hostedNews struct{ *serviceHosting }

var _ hosting.Host = hostedNews{}

func (s hostedNews) calls() hostedCalls { return hostedCalls(s) }

// Heard passes on what a backend says beside any call. It does not wait.
func (s hostedNews) Heard(key string, e *backend.Event) {
	h := s.now()
	if h == nil {
		return
	}
	if e.IsQuestion() {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), tellTime)
			defer cancel()
			_ = e.Refuse(ctx, mcp.NewError(mcp.CodeInvalidRequest, "no call is running that could be asked"))
		}()
		return
	}
	if e.Method == mcp.NotifyResourcesUpdated {
		s.resourceUpdated(h, key, e)
		return
	}
	if e.Session() == "" {
		return
	}
	said := *e
	actors.VisitAnchored(s.rt.node, s.svc, s.sessionKey(e.Session()), func(p *actors.Peer) {
		known, ofProtocol := protocol.LookupMethod(said.Method)
		switch {
		case said.Method == mcp.NotifyMessage:
			s.pushLog(&Peer{p}, said.Params)
		case !ofProtocol, said.Method == mcp.NotifyElicitationComplete && known.Allowed(protocol.ToClient, p.Revision()):
			actors.Send(p, said.Method, said.Params)
		}
	})
}

// pushLog is [Peer.Log] for a log message of a backend.
func (s hostedNews) pushLog(p *Peer, params []byte) {
	level := mcp.LoggingLevel(decodeText(codec.Field(params, "level")))
	if !level.Valid() || !wantsLevel(p.p, level) || !p.p.AdmitLog(p.pushMissed) {
		return
	}
	p.pushMissed()
	if params, send := s.calls().redacted(level, params); send {
		actors.Send(p.p, mcp.NotifyMessage, params)
	}
}

// resourceUpdated tells of an update of a resource those who may know it: the session whose instance says it, or all who share the instance
// and follow the resource.
func (s hostedNews) resourceUpdated(h *hosting.Server, key string, e *backend.Event) {
	uri := decodeText(codec.Field(e.Params, "uri"))
	b, ok := h.FindBackend(key)
	if !ok || uri == "" || len(uri) > s.limits.MaxURI || s.calls().hasResource(uri) {
		return
	}
	if session := e.Session(); session != "" {
		actors.VisitAnchored(s.rt.node, s.svc, s.sessionKey(session), func(p *actors.Peer) { s.pushUpdate(p, uri) })
		return
	}
	if b.Options.Isolation == host.Shared {
		s.rt.node.ResourceUpdated(s.svc, uri, s.srv.opts.SubResources)
		return
	}
	// What sessions of a principal follow is in their records, which outlive this process.
	tenant := e.Principal()
	recorded := tenant != "" && b.Options.Isolation == host.ByPrincipal
	for _, f := range h.Followers(key, e.Holder(), uri, s.srv.opts.SubResources) {
		switch p := s.rt.node.Writer(s.sessionKey(f.Session)); {
		case f.Session == "":
			f.TellUpdate(uri)
		case p != nil && !recorded:
			s.pushUpdate(p, uri)
		}
	}
	if recorded {
		s.rt.node.Sessions(s.svc, func(p *actors.Peer) {
			if p.Key().Tenant == tenant {
				s.pushUpdate(p, uri)
			}
		})
	}
}

// pushUpdate sends an update to a session that has subscribed to the resource, now and then.
func (s hostedNews) pushUpdate(p *actors.Peer, uri string) {
	subscribed := slices.ContainsFunc(p.Subscribed(), func(of string) bool {
		return of == uri || s.srv.opts.SubResources && strings.HasPrefix(uri, strings.TrimSuffix(of, "/")+"/")
	})
	if subscribed && s.resources.mayGetUpdate(p, uri) {
		s.updates.Push(hostedUpdate{p.Key(), uri}, func() { actors.SendUpdate(p, uri) })
	}
}

// hostedUpdate is an update on its way to a session.
type hostedUpdate struct {
	session actors.SessionKey
	uri     string
}

// Known notes what the lists are, of which nobody is told.
func (s hostedNews) Known() {
	s.srv.mount.noteLists()
	if h := s.now(); h != nil && s.rt.learnAtStart {
		hosting.BeginLearning(h)
	}
}

// Changed announces that lists of a backend are no longer what they were.
func (s hostedNews) Changed(lists []listing.Of) {
	for list, of := range hostedLists {
		if slices.ContainsFunc(lists, func(changed listing.Of) bool { return slices.Contains(of, changed) }) {
			s.srv.mount.listChanged(list)
		}
	}
}

// Lost tells a session once that its instance of a backend is gone with what it kept, or ends it.
func (s hostedNews) Lost(key, session string, reason pool.Reason) {
	h := s.now()
	if h == nil || reason == pool.Left || reason == pool.Spent {
		return
	}
	b, ok := h.FindBackend(key)
	if !ok {
		return
	}
	of := s.sessionKey(session)
	if b.Options.OnLoss == host.End {
		ctx, cancel := context.WithTimeout(context.Background(), tellTime)
		defer cancel()
		if err := s.rt.node.EndSession(ctx, s.svc, of); err != nil {
			s.rt.log.Warn("a session was not ended whose instance of a backend is gone", "server", s.id, "backend", key, "error", err)
		}
		return
	}
	actors.VisitAnchored(s.rt.node, s.svc, of, func(p *actors.Peer) {
		if wantsLevel(p, mcp.LevelWarning) {
			actors.Send(p, mcp.NotifyMessage, fmt.Appendf(nil, `{"level":"warning","logger":"`+ownLogger+`","data":%s}`,
				mcp.Raw(fmt.Sprintf("the server %s has ended (%s): what it kept for this session is lost, and the next call starts it anew", b.Name, reason))))
		}
	})
	s.Changed([]listing.Of{listing.Tools, listing.Prompts, listing.Resources})
}

// secretLength is the least length of a text that is masked: shorter ones are everywhere.
const secretLength = 6

// maskOf returns what hides the backend's secrets in a text.
func maskOf(b *Backend) func(string) string {
	secrets := slices.Clone([]string(b.Options.Hide))
	secrets = slices.AppendSeq(secrets, maps.Values(b.Options.Env))
	secrets = slices.AppendSeq(secrets, maps.Values(b.Options.Headers))
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return len(s) < secretLength })
	slices.SortFunc(secrets, func(x, y string) int { return len(y) - len(x) }) // one may be a part of another
	return func(text string) string {
		for _, s := range secrets {
			text = strings.ReplaceAll(text, s, "***")
		}
		return text
	}
}
