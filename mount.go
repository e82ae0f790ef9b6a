package troupe

import (
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/transport"
)

// mount is a server at a path.
type mount struct {
	service *service
	handler *transport.Handler
	paths   []string // all that lead to it
}

// Mount serves srv at path, such as "/mcp", from now on, and beside it to clients of
// the HTTP+SSE transport (2024-11-05): at /sse and /messages for a path /mcp, in the
// same directory for any path that ends with /mcp, and for any other below it, such
// as /weather/sse and /weather/messages. A path is one endpoint and matches itself
// alone: it has no parts in braces. Mount panics when one of the paths or the server's id
// is taken, or the server is mounted already: these are mistakes in the program.
func (rt *Runtime) Mount(path string, srv *Server) { must(rt.TryMount(path, srv)) }

// TryMount is Mount for servers that are not known when the program is written: what is
// wrong with one is an error, and nothing is mounted.
func (rt *Runtime) TryMount(path string, srv *Server) error {
	if path == "" || path[0] != '/' || strings.ContainsAny(path, "{}?#") {
		return fmt.Errorf("troupe: mount %q: want a path that begins with a slash, and has no {, }, ? and #: it matches itself alone", path)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	m := &mount{paths: []string{path}}
	if !rt.opts.HTTP.NoSSE {
		sse, messages := legacyPaths(path)
		m.paths = append(m.paths, sse, messages)
	}
	for _, p := range m.paths {
		if rt.paths[p] != nil {
			return fmt.Errorf("troupe: mount %s: there is a server at %s already", path, p)
		}
	}
	svc, err := rt.serve(srv)
	if err != nil {
		return err
	}
	m.service = svc
	m.handler = rt.handler(m.service)
	rt.mounts[path] = m
	for i, h := range []http.Handler{m.handler, m.handler.SSE(messagesSegment), m.handler.Messages()}[:len(m.paths)] {
		rt.paths[m.paths[i]] = h
	}
	rt.routes.Store(nil)
	return nil
}

// Mounted returns the servers that are mounted now by the paths that Mount was given. The
// map is the caller's.
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

// legacyPaths are those of the HTTP+SSE transport for a server at path.
func legacyPaths(path string) (sse, messages string) {
	dir := strings.TrimSuffix(path, "/")
	if d, ok := strings.CutSuffix(path, "/mcp"); ok {
		dir = d
	}
	return dir + "/sse", dir + "/" + messagesSegment
}

// serve makes srv known to the node, unless its id is taken or it is mounted elsewhere.
func (rt *Runtime) serve(srv *Server) (*service, error) {
	if rt.ids[srv.opts.ID] {
		return nil, fmt.Errorf("troupe: there is a server with id %q already: set ServerOptions.ID", srv.opts.ID)
	}
	own := srv.opts.Limits.over(rt.opts.Limits)
	if err := own.settle(); err != nil {
		return nil, fmt.Errorf("troupe: the server %q: %w", srv.opts.ID, err)
	}
	s := &service{rt: rt, srv: srv, limits: own, ops: rt.tel.Operations(srv.opts.ID), spans: rt.tel.Tracing()}
	s.svc = actors.NewService(srv.opts.ID, s, rt.limits(&own))
	s.svc.ResultMeta = mcp.Meta(nil).WithServerInfo(srv.impl)
	chain, err := s.chained()
	if err != nil {
		return nil, err
	}
	s.chain = chain
	s.hook()
	if !srv.mount.set(s) {
		return nil, fmt.Errorf("troupe: the server %q is mounted already", srv.opts.ID)
	}
	rt.ids[srv.opts.ID] = true
	return s, nil
}

// handler is the HTTP side of a server.
func (rt *Runtime) handler(s *service) *transport.Handler {
	l := &s.limits
	return transport.NewHandler(dispatcher{rt.node, s.svc}, transport.Options{
		MaxBody: l.MaxBody, Limits: codec.Limits{MaxDepth: l.MaxDepth, MaxBatch: l.MaxBatch},
		BodyTimeout: l.BodyTimeout, WriteTimeout: l.WriteTimeout, MaxQueued: l.MaxQueued,
		AllowOrigins: rt.opts.HTTP.AllowOrigins, AllowHosts: rt.opts.HTTP.AllowHosts,
		Authenticate: rt.authenticate, Revisions: names(handshakes), Stateless: names(statelessRevisions), Leaving: rt.leaving.Load, Log: rt.log, Observer: rt.tel,
	})
}

// Unmount takes the server at path away; it reports whether there was one. From
// then on requests to path get 404. Calls that run see ErrUnmounted as the cause of
// their context, and their clients what they see when a node stops: 503 where
// nothing had been sent, and else error -32010, or for a call that may run again
// the end of the connection. Event streams end. Unmount does not wait for handlers.
//
// The server may be mounted again, here or in another Runtime, and its id be
// another server's. Its sessions and streams stay in the store until they expire,
// and go on under the next server with that id: so a server can be exchanged for a
// newer one. A server that must not know them needs an id of its own.
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
	rt.node.Retire(m.service.svc)
	id := m.service.srv.opts.ID
	m.service.srv.mount.clear()
	rt.mu.Lock()
	delete(rt.ids, id)
	rt.mu.Unlock()
	return true
}

// route finds the endpoint at a path. Servers are mounted rarely and looked up for
// each request: the table that is read is copied from the other when that has
// changed.
func (rt *Runtime) route(path string) (http.Handler, bool) {
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

// serveMount hands a request to the server at its path. The lookup is exact: a
// mount is one endpoint, not a tree.
func (rt *Runtime) serveMount(w http.ResponseWriter, r *http.Request) {
	if h, ok := rt.route(r.URL.Path); ok {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// mounted are the servers that are mounted now.
func (rt *Runtime) mounted() []*mount {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	all := make([]*mount, 0, len(rt.mounts))
	for _, m := range rt.mounts {
		all = append(all, m)
	}
	return all
}
