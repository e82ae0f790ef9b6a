package troupe

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/transport"
)

// Limits are those of one server. Zero fields stand for what Options has.
type Limits struct {
	// MaxBody is the largest body of a request in bytes.
	MaxBody int64
	// Grace is how long a call may take and still be answered as plain JSON.
	Grace time.Duration
	// MaxCall is how long a call may run.
	MaxCall time.Duration
	// MaxAsk is how long a question may wait for the client's answer.
	MaxAsk time.Duration
	// CallsPerSession bounds the calls of a session that run at once.
	CallsPerSession int
	// ParkedPerSession bounds the questions of a session that wait for its client.
	ParkedPerSession int
	// StreamsPerSession bounds the open event streams of a session.
	StreamsPerSession int
}

// mount is a server at a path.
type mount struct {
	service *service
	handler *transport.Handler
}

// Mount serves srv at path, such as "/mcp", from now on. It panics when the path or
// the server's id is taken, or the server is mounted already: these are mistakes in
// the program.
func (rt *Runtime) Mount(path string, srv *Server) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.mounts[path] != nil || path == "" || path[0] != '/' {
		panic(fmt.Sprintf("troupe: mount %q: want a path of its own that begins with a slash", path))
	}
	if rt.ids[srv.opts.ID] {
		panic(fmt.Sprintf("troupe: mount %s: there is a server with id %q already: set ServerOptions.ID", path, srv.opts.ID))
	}
	s := &service{rt: rt, srv: srv, ops: rt.tel.Operations(srv.opts.ID), spans: rt.tel.Tracing()}
	s.svc = actors.NewService(srv.opts.ID, s, rt.limits(&srv.opts.Limits))
	if !srv.mount.set(s) {
		panic(fmt.Sprintf("troupe: mount %s: the server is mounted already", path))
	}
	rt.ids[srv.opts.ID] = true
	rt.mounts[path] = &mount{s, transport.NewHandler(dispatcher{rt.node, s.svc}, transport.Options{
		MaxBody: cmp.Or(srv.opts.Limits.MaxBody, rt.opts.MaxBody), Limits: codec.Limits{MaxDepth: rt.opts.MaxDepth},
		AllowOrigins: rt.opts.AllowOrigins, AllowHosts: rt.opts.AllowHosts,
		Authenticate: rt.authenticate(), Revisions: revisionNames(), Log: rt.log, Observer: rt.tel,
	})}
	rt.routes.Store(nil)
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

// route finds the server at a path. Servers are mounted rarely and looked up for
// each request: the table that is read is copied from the other when that has
// changed.
func (rt *Runtime) route(path string) (*mount, bool) {
	table := rt.routes.Load()
	if table == nil {
		rt.mu.Lock()
		now := maps.Clone(rt.mounts)
		table = &now
		rt.routes.Store(table)
		rt.mu.Unlock()
	}
	m, ok := (*table)[path]
	return m, ok
}

// serveMount hands a request to the server at its path. The lookup is exact: a
// mount is one endpoint, not a tree.
func (rt *Runtime) serveMount(w http.ResponseWriter, r *http.Request) {
	if m, ok := rt.route(r.URL.Path); ok {
		m.handler.ServeHTTP(w, r)
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

// limits are those of a server: its own, else the runtime's.
func (rt *Runtime) limits(own *Limits) actors.Limits {
	o := &rt.opts
	return actors.Limits{
		Grace: cmp.Or(own.Grace, o.Grace), MaxCall: cmp.Or(own.MaxCall, o.MaxCall), MaxAsk: cmp.Or(own.MaxAsk, o.MaxAsk),
		PerSession: cmp.Or(own.CallsPerSession, o.CallsPerSession), Parked: cmp.Or(own.ParkedPerSession, o.ParkedPerSession),
		Streams: cmp.Or(own.StreamsPerSession, o.StreamsPerSession), PerNode: o.CallsPerNode, Depth: o.MaxDepth,
		ReplayAge: o.ReplayAge, Session: session.Lifetime{Idle: o.SessionIdle, Absolute: o.SessionMax}, Stream: stream.Limits{},
	}
}
