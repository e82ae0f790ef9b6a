package troupe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/bearer"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/program"
	"github.com/troupe-run/troupe/internal/protocol"
	"github.com/troupe-run/troupe/internal/spoken"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/transport"
)

// mount is a server at a path.
type mount struct {
	service *service
	handler *transport.Handler
	// paths are all paths of it: that of Mount, and those of HTTP+SSE as far as it has them, where messages are posted before where
	// sessions begin.
	paths     []string
	resources *bearer.Resources // nil without Options.Auth
}

// Mount serves srv at path, such as "/mcp", from now on. Clients of the HTTP+SSE transport
// (2024-11-05) find it at two more paths, unless HTTPOptions.NoSSE is set or the server does not speak that revision: at /sse and
// /messages for the path /mcp, and in the same directory for any path that ends with /mcp;
// for any other path below it, such as /weather/sse and /weather/messages. A path matches
// only itself: it has no parts in braces. Mount panics when srv is nil, when one of the paths or the server's
// id is taken, or the server is mounted already, and when other processes on the same NATS servers have
// another program under that id, a server of another implementation name: these are mistakes in the program, or in how it is run.
func (rt *Runtime) Mount(path string, srv *Server) { must(rt.TryMount(path, srv)) }

// TryMount is Mount for servers and paths that the program learns when it runs: where Mount
// panics, it returns an error and mounts nothing.
func (rt *Runtime) TryMount(path string, srv *Server) error {
	if path == "" || path[0] != '/' || strings.ContainsAny(path, "{}?#") {
		return fmt.Errorf("troupe: mount %q: want a path that begins with a slash and has no {, }, ? or #: a path matches only itself", path)
	}
	if srv == nil {
		return fmt.Errorf("troupe: mount %s: %w", path, errNoServer)
	}
	rt.mounting.Lock()
	defer rt.mounting.Unlock()
	m := &mount{paths: []string{path}}
	if sse, messages := legacyPaths(path); !rt.opts.HTTP.NoSSE {
		switch {
		case srv.spokenRevisions(rt.opts.Revisions).HasFeature(protocol.FeatureHTTPSSE):
			m.paths = append(m.paths, messages, sse)
		case rt.sharesStore: // no session begins here, but another node may have one that began while the revision was spoken
			m.paths = append(m.paths, messages)
		}
	}
	for _, p := range m.paths {
		if _, taken := rt.table.handlerAt(p); taken {
			return fmt.Errorf("troupe: mount %s: there is a server at %s already", path, p)
		}
	}
	if rt.bearer != nil {
		sse, messages := legacyPaths(path)
		if len(m.paths) == 1 {
			messages = ""
		}
		m.resources = &bearer.Resources{ID: cmp.Or(srv.opts.ID, defaultID(path)), Name: cmp.Or(srv.impl.Title, srv.impl.Name), Scopes: srv.opts.Scopes, Path: path, SSE: sse, Messages: messages, HasSSE: len(m.paths) > 2}
		if other := rt.bearer.ConflictingPath(m.resources); other != "" {
			return fmt.Errorf("troupe: mount %s: an access token for it would count at %s, too: their paths differ in slashes alone", path, other)
		}
	}
	if err := rt.opts.HTTP.checkHandler("this server", slices.Concat(m.paths, rt.table.metadataPaths(m.resources))...); err != nil {
		return fmt.Errorf("troupe: mount %s: %w", path, err)
	}
	svc, err := rt.table.registerServer(srv, path)
	if err != nil {
		return err
	}
	m.service = svc
	m.handler = rt.table.newHandler(m.service)
	if rt.bearer != nil {
		rt.bearer.Mount(m.resources)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.mounts[path] = m
	for i, h := range []http.Handler{m.handler, m.handler.Messages(), m.handler.SSE(messagesSegment)}[:len(m.paths)] {
		rt.paths[m.paths[i]] = h
	}
	rt.routes.Store(nil)
	return nil
}

// Mounted returns the mounted servers by the paths that Mount got. The caller may change
// the map.
func (rt *Runtime) Mounted() map[string]*Server {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	all := make(map[string]*Server, len(rt.mounts))
	for path, m := range rt.mounts {
		all[path] = m.service.srv
	}
	return all
}

const messagesSegment = "messages"

// legacyPaths returns the paths of the HTTP+SSE transport for a server at path.
func legacyPaths(path string) (sse, messages string) {
	dir := strings.TrimSuffix(path, "/")
	if d, ok := strings.CutSuffix(path, "/mcp"); ok {
		dir = d
	}
	return dir + "/sse", dir + "/" + messagesSegment
}

// defaultID returns the id of a server at path that sets none: "main" at the root, and the
// name of a path or directory of one part where that name is a valid id. Any other id is the
// readable part of the path and a hash. Paths that differ only in an end such as /mcp have the same id: the second one is
// refused.
func defaultID(path string) string {
	sse, _ := legacyPaths(path)
	dir := strings.TrimSuffix(sse, "/sse")
	if dir == "" {
		return mainID
	}
	if name := dir[1:]; name != mainID && serverID.MatchString(name) {
		return name
	}
	slug := make([]byte, 0, 23)
	for _, c := range []byte(strings.ToLower(dir)) {
		switch {
		case len(slug) == cap(slug):
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			slug = append(slug, c)
		case len(slug) > 0 && slug[len(slug)-1] != '-':
			slug = append(slug, '-')
		}
	}
	sum := sha256.Sum256([]byte(dir))
	return cmp.Or(strings.Trim(string(slug), "-"), "path") + "-" + tenantEncoding.EncodeToString(sum[:])[:8]
}

// mainID is the id of the server at /mcp, and of a server without a path.
const mainID = "main"

// mountTable finds mounted servers by their paths and ids.
type mountTable struct {
	*Runtime
}

// registerServer registers srv, which will be at path, with the node. It fails if the id is taken or
// srv is mounted elsewhere. rt.mounting is held.
func (rt *mountTable) registerServer(srv *Server, path string) (*service, error) {
	id := cmp.Or(srv.opts.ID, defaultID(path))
	if other := rt.serviceByID(id); other != nil {
		return nil, fmt.Errorf("troupe: mount %s: there is a server with id %q already, at %s: set ServerOptions.ID of one of them", path, id, other.path)
	}
	own := srv.opts.Limits.completedFrom(rt.opts.Limits)
	if err := errors.Join(limits.Settle("Limits.", &own), spoken.Check("ServerOptions.Revisions", srv.opts.Revisions)); err != nil {
		return nil, fmt.Errorf("troupe: the server %q: %w", id, err)
	}
	s := &service{rt: &rt.shared, served: rt.publishNow, srv: srv, id: id, path: path, speaks: srv.spokenRevisions(rt.opts.Revisions), limits: own, ops: rt.tel.NewOperations(id), spans: rt.tel.Tracing(), Observer: rt.newObserver()}
	s.bindParts()
	s.hosting = hostedCalls{&serviceHosting{service: s}}
	s.lists.remoteLists.shared = rt.sharesStore
	var bounds actors.Limits
	limits.Fill(&bounds, rt.optionsOf(own))
	s.svc = actors.NewService(id, s, bounds)
	s.svc.ResultMeta = mcp.Raw(mcp.Meta(nil).WithServerInfo(srv.impl))
	chain, err := s.methods.buildChain(rt.opts.MethodMiddleware)
	if err != nil {
		return nil, err
	}
	s.methods.chain, s.svc.AnswersPing = chain, chain != nil
	s.svc.Resumes = s.hosting.resumes
	s.svc.Insists, s.svc.Lacks = s.insistsOnSafe, s.scopes.checkScopes
	s.svc.Carried = s.access.readCarried
	s.hookSessions()
	if !srv.mount.setService(s) {
		return nil, fmt.Errorf("troupe: the server %q is mounted already", id)
	}
	rt.setService(id, s)
	if err := rt.cluster.Admits(context.Background()); err != nil {
		rt.setService(id, nil)
		srv.mount.clearService()
		return nil, fmt.Errorf("troupe: mount %s: %w", path, err)
	}
	actors.Mount(rt.node, s.svc)
	rt.tasks.Mount(worker.Service{ID: id, Run: s.tasks.runTask, Known: func(_, name string) bool {
		_, ok := s.srv.tools.Get(name)
		return ok || s.hosting.mayRun(name)
	}, Safe: func(method, name string) bool {
		t, ok := s.srv.tools.Get(name)
		return ok && t.safe || !ok && s.hosting.mayRun(name) // which knows what an earlier run has begun
	}, Makes: srv.hasTasks.Load})
	s.tools.logMissingPages()
	s.hosting.begin()
	return s, nil
}

// setService makes s the service of an id, or with nil none, and has the other nodes know what is served here.
func (rt *mountTable) setService(id string, s *service) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.services[id] = s; s == nil {
		delete(rt.services, id)
	}
	rt.publishServed()
}

// serviceByID is that of a server that is served here, nil if it is not.
func (rt *mountTable) serviceByID(id string) *service {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.services[id]
}

// newHandler makes the HTTP side of a server.
func (rt *mountTable) newHandler(s *service) *transport.Handler {
	path, _ := publicPath(rt.opts.HTTP.PublicURL) // settle has looked at it
	o := transport.Options{
		AllowOrigins: rt.opts.HTTP.AllowOrigins, AllowHosts: rt.opts.HTTP.AllowHosts,
		PublicPath: path, Authenticate: rt.auth.authenticateRequest, Revisions: spoken.Names(s.speaks.WithSessions()), Stateless: spoken.Names(s.speaks.WithoutSessions()), Leaving: rt.leaving.Load, Log: rt.log, Observer: rt.observer(),
		Accounts: rt.node.Accounts(), Account: rt.accountOf, Owe: actors.ChargeRefused, Debt: actors.RefusedFor,
	}
	limits.Fill(&o, rt.optionsOf(s.limits))
	return transport.NewHandler(dispatcher{rt.node, s.svc}, o)
}

// Unmount takes the server away from path; it reports whether there was one. From
// then on requests to path get 404. Calls in flight see ErrUnmounted as the cause of
// their context. Their clients see the same as when a node stops: 503 if nothing was
// sent, and otherwise error -32010, or the end of the connection for a call that may
// run again. Event streams end. Unmount does not wait for handlers.
//
// The server may be mounted again, here or in another Runtime, and another server may
// use its id. Its sessions and streams stay in the store until they expire, and go on
// under the next server with that id: so a newer server can replace it at its path. A
// server that must not have these sessions needs an id of its own.
func (rt *Runtime) Unmount(path string) bool {
	rt.mu.Lock()
	m := rt.mounts[path]
	if m == nil {
		rt.mu.Unlock()
		return false
	}
	delete(rt.mounts, path)
	for _, p := range m.paths {
		delete(rt.paths, p)
	}
	rt.routes.Store(nil)
	rt.mu.Unlock()
	if rt.bearer != nil {
		rt.bearer.Unmount(m.resources)
	}
	id := m.service.id
	m.service.hosting.end()
	rt.tasks.Unmount(id)
	rt.node.Unmount(m.service.svc)
	m.service.srv.mount.clearService()
	rt.table.setService(id, nil)
	return true
}

// handlerAt finds the endpoint at a path. Servers are mounted rarely and looked up for
// each request: requests read routes, which is a copy of paths that is made after a
// change.
func (rt *mountTable) handlerAt(path string) (http.Handler, bool) {
	table := rt.routes.Load()
	if table == nil {
		rt.mu.Lock()
		now := maps.Clone(rt.paths)
		table = &now
		rt.routes.Store(table)
		rt.mu.Unlock()
	}
	h, ok := (*table)[path]
	return h, ok
}

// withEndLog logs that Options.Middleware, or a handler within it, has ended the goroutine of its request. The connection, or the
// stream of HTTP/2, ends then, as it does after a panic, which net/http logs.
func (rt *mountTable) withEndLog(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		returned := false
		defer func() {
			if returned {
				return
			}
			v := recover()
			if v != nil {
				panic(v)
			}
			rt.log.Error("Middleware, or a handler within it, ended the goroutine of a request", "path", r.URL.Path)
		}()
		h.ServeHTTP(w, r)
		returned = true
	})
}

// serveMount hands a request to the server at its path. The lookup is exact: a
// mount is one endpoint, not a tree.
func (rt *mountTable) serveMount(w http.ResponseWriter, r *http.Request) {
	if h, ok := rt.handlerAt(r.URL.Path); ok {
		h.ServeHTTP(w, r)
		return
	}
	rt.endpoints.serveNoMount(w, r)
}

// mountedServers returns the servers that are mounted now.
func (rt *mountTable) mountedServers() []*mount {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	all := make([]*mount, 0, len(rt.mounts))
	for _, m := range rt.mounts {
		all = append(all, m)
	}
	return all
}

// optionsOf returns the options that hold for a server with limits of its own.
func (rt *mountTable) optionsOf(own Limits) *Options {
	o := rt.opts
	o.Limits = own
	return &o
}

const (
	ownMemory = 64 << 20 // what a program takes that has nothing to do, with the caches of its store
	heldPart  = 4        // of what is left
	leastPart = 8        // of all
)

// heldBytes is how much of a process's memory is for what clients have it hold. The rest is for the program, the store's index and
// caches, what is made of a request while it runs, and garbage that has not been collected.
func heldBytes(memory int64) int64 { return max((memory-ownMemory)/heldPart, memory/leastPart) }

// nodeLimits returns the limits of all servers together, as the actors have them.
func (rt *mountTable) nodeLimits() (l actors.NodeLimits) {
	limits.Fill(&l, &rt.opts)
	l.Weights, _ = weightsOf(rt.opts.Shared.Weights) // settle has looked at them
	l.Bytes = heldBytes(rt.opts.Shared.MaxMemory)
	if rt.opts.Auth != nil {
		l.AuthFailures = rt.opts.Shared.AuthFailures
	}
	return l
}

// metadataPaths are the paths of the metadata of a server.
func (rt *mountTable) metadataPaths(rs *bearer.Resources) []string {
	if rt.bearer == nil {
		return nil
	}
	return rt.bearer.MetadataPaths(rs)
}

// checkMounts is checkHandler for the servers that are mounted now.
func (rt *mountTable) checkMounts() error {
	for _, m := range rt.mountedServers() {
		if err := rt.opts.HTTP.checkHandler("the server "+m.service.id, slices.Concat(m.paths, rt.metadataPaths(m.resources))...); err != nil {
			return fmt.Errorf("troupe: %w", err)
		}
	}
	return nil
}

// serveBeside has HTTPOptions.Handler serve a request for a path that is nobody else's. It reports whether there is a Handler.
func (rt *mountTable) serveBeside(w http.ResponseWriter, r *http.Request) bool {
	h := rt.opts.HTTP.Handler
	if h == nil || rt.opts.isProbe(r.URL.Path) {
		return false
	}
	if _, mounted := rt.handlerAt(r.URL.Path); mounted {
		return false
	}
	rt.guard.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.guard.Refuse(w, r) {
			return
		}
		rt.beside.Add(1)
		defer rt.beside.Add(-1)
		h.ServeHTTP(w, r)
	}), false)
	return true
}

// publishNow is publishServed for those who do not hold rt.mu.
func (rt *mountTable) publishNow() {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.publishServed()
}

// publishServed has the other nodes know what is served here. rt.mu is held.
func (rt *mountTable) publishServed() {
	if !rt.sharesStore {
		return
	}
	all := make(map[string]program.Program, len(rt.services))
	for id, s := range rt.services {
		all[id] = program.Program{Name: s.srv.impl.Name, Tools: s.srv.listDigest(listTools, nil, nil)}
	}
	rt.cluster.Serves(all)
}

// serveMounts serves the mounted servers. Their Handlers bound and count what goes straight to them.
func (rt *mountTable) serveMounts(w http.ResponseWriter, r *http.Request) {
	if rt.opts.Middleware == nil {
		if h, ok := rt.handlerAt(r.URL.Path); ok {
			h.ServeHTTP(w, r)
			return
		}
	}
	rt.guard.Serve(w, r, rt.root, false)
}

// serviceOf returns the service of srv, and makes one if the server is not mounted.
func (rt *mountTable) serviceOf(srv *Server) (*service, error) {
	if srv == nil {
		return nil, fmt.Errorf("troupe: serve: %w", errNoServer)
	}
	if s := srv.mount.mountedService(); s != nil && s.rt == &rt.shared {
		return s, nil
	}
	rt.mounting.Lock()
	defer rt.mounting.Unlock()
	return rt.registerServer(srv, "/mcp")
}
