package troupe

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/session"
	"github.com/troupe-run/troupe/internal/stream"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/transport"
)

// What New reports about a data directory, which it leaves as it was.
var (
	// ErrLocked: another process has it.
	ErrLocked = cluster.ErrLocked
	// ErrNewer: a newer release has written it.
	ErrNewer = cluster.ErrNewer
	// ErrDamaged: it cannot be read.
	ErrDamaged = cluster.ErrDamaged
	// ErrForeign: it holds something else.
	ErrForeign = cluster.ErrForeign
)

// Runtime serves mounted servers from one store. It is an http.Handler for all
// of their endpoints.
type Runtime struct {
	opts    Options
	log     *slog.Logger
	cluster *cluster.Node
	node    *actors.Node
	tel     *telemetry.Instruments
	unwatch func() error
	root    http.Handler

	mu      sync.Mutex // guards mounts and ids, and changes of paths
	paths   atomic.Pointer[map[string]http.Handler]
	mounts  []*mount
	ids     map[string]bool
	ready   atomic.Bool
	closing sync.Once
	fault   error
}

// mount is a server at a path.
type mount struct {
	path    string
	service *service
	handler *transport.Handler
}

var _ http.Handler = (*Runtime)(nil)

// New opens the store and returns a Runtime with no servers. It fails with
// ErrLocked, ErrNewer, ErrDamaged or ErrForeign when the data directory cannot
// be used.
func New(o Options) (*Runtime, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	tel, err := telemetry.New(o.MeterProvider, o.TracerProvider)
	if err != nil {
		return nil, fmt.Errorf("troupe: instruments: %w", err)
	}
	node, err := cluster.Open(context.Background(), cluster.Options{
		Dir: o.Dir, Node: o.Node, MaxStore: o.MaxStore, Sync: o.Sync, Lease: o.Lease, ReplayAge: eventAge(o.ReplayAge), Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	rt := &Runtime{opts: o, log: o.Log, cluster: node, tel: tel, ids: make(map[string]bool)}
	rt.node = actors.NewNode(actors.Config{Name: node.Name(), Boot: node.Boot(), Store: store{node}, Log: o.Log})
	if rt.unwatch, err = telemetry.Observe(o.MeterProvider, rt.gauges()); err != nil {
		_ = rt.Close(context.Background())
		return nil, fmt.Errorf("troupe: gauges: %w", err)
	}
	rt.paths.Store(&map[string]http.Handler{})
	rt.root = http.HandlerFunc(rt.serveMount)
	if o.Middleware != nil {
		rt.root = o.Middleware(rt.root)
	}
	rt.ready.Store(true)
	return rt, nil
}

// eventAge is how long events are stored: longer than the record of their stream
// can outlive its last renewal. A record without its last event would look like
// that of a call that was never answered.
func eventAge(replay time.Duration) time.Duration {
	if replay <= 0 {
		replay = actors.Limits{}.Defaults().ReplayAge
	}
	return actors.RecordTTL(replay) + 5*time.Second
}

// Mount serves srv at path, such as "/mcp". It panics when the path or the
// server's id is taken, or the server is mounted already: these are mistakes in
// the program.
func (rt *Runtime) Mount(path string, srv *Server) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if _, taken := (*rt.paths.Load())[path]; taken || path == "" || path[0] != '/' {
		panic(fmt.Sprintf("troupe: mount %q: want a path of its own that begins with a slash", path))
	}
	if rt.ids[srv.opts.ID] {
		panic(fmt.Sprintf("troupe: mount %s: there is a server with id %q already: set ServerOptions.ID", path, srv.opts.ID))
	}
	s := &service{rt: rt, srv: srv, tel: rt.tel, spans: rt.tel.Tracing()}
	s.svc = &actors.Service{ID: srv.opts.ID, Handler: s, Limits: rt.limits()}
	if !srv.mount.set(s) {
		panic(fmt.Sprintf("troupe: mount %s: the server is mounted already", path))
	}
	rt.ids[srv.opts.ID] = true
	h := transport.NewHandler(dispatcher{rt.node, s.svc}, transport.Options{
		MaxBody: rt.opts.MaxBody, Limits: codec.Limits{MaxDepth: rt.opts.MaxDepth}, AllowOrigins: rt.opts.AllowOrigins, AllowHosts: rt.opts.AllowHosts,
		Authenticate: rt.authenticate(), Revisions: revisionNames(), Log: rt.log, Observer: rt.tel,
	})
	rt.mounts = append(rt.mounts, &mount{path, s, h})
	paths := maps.Clone(*rt.paths.Load())
	paths[path] = h
	rt.paths.Store(&paths)
}

func (rt *Runtime) limits() actors.Limits {
	o := rt.opts
	return actors.Limits{
		Grace: o.Grace, MaxCall: o.MaxCall, MaxAsk: o.MaxAsk, ReplayAge: o.ReplayAge,
		Session: session.Lifetime{Idle: o.SessionIdle, Absolute: o.SessionMax}, Stream: stream.Limits{},
		PerSession: o.CallsPerSession, PerNode: o.CallsPerNode, Parked: o.ParkedPerSession, Streams: o.StreamsPerSession, Depth: o.MaxDepth,
	}.Defaults()
}

func (rt *Runtime) authenticate() func(*http.Request) (any, error) {
	if rt.opts.Authenticate == nil {
		return nil
	}
	return func(r *http.Request) (any, error) {
		p, err := rt.opts.Authenticate(r)
		if err != nil {
			return nil, err
		}
		return &caller{Principal: p, key: p.tenant()}, nil
	}
}

// serveMount finds the server at a path. The lookup is exact: a mount is one
// endpoint, not a tree.
func (rt *Runtime) serveMount(w http.ResponseWriter, r *http.Request) {
	if h, ok := (*rt.paths.Load())[r.URL.Path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// ServeHTTP serves the mounted servers.
func (rt *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.root.ServeHTTP(w, r) }

// Node is the name of this node.
func (rt *Runtime) Node() string { return rt.cluster.Name() }

// Close ends every call and stream and closes the store. It waits for handlers,
// which see ErrClosing as the cause of their context, until ctx ends. A second
// Close returns what the first did.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closing.Do(func() {
		rt.ready.Store(false)
		var errs []error
		if rt.node != nil {
			errs = append(errs, rt.node.Close(ctx))
		}
		// Clients that do not read leave the store enough time to end its lease.
		flush, cancel := half(ctx)
		for _, m := range rt.mounted() {
			errs = append(errs, m.handler.Close(flush))
		}
		cancel()
		if rt.unwatch != nil {
			errs = append(errs, rt.unwatch())
		}
		errs = append(errs, rt.cluster.Close(ctx))
		rt.fault = errors.Join(errs...)
	})
	return rt.fault
}

// half returns a context for half of the time that ctx leaves.
func half(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

func (rt *Runtime) mounted() []*mount {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return append([]*mount(nil), rt.mounts...)
}

// seal makes an opaque string of plain that unseal gives back for the same aad,
// on any node.
func (rt *Runtime) seal(plain string, aad []byte) (string, error) {
	b, err := rt.cluster.Keys().Seal([]byte(plain), aad)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (rt *Runtime) unseal(sealed string, aad []byte) (string, bool) {
	// The decoder would skip line breaks.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") {
		return "", false
	}
	plain, err := rt.cluster.Keys().Open(b, aad)
	return string(plain), err == nil
}

// dispatcher hands a server's requests from the transport to the actors.
type dispatcher struct {
	node *actors.Node
	svc  *actors.Service
}

var _ transport.Dispatcher = dispatcher{}
var _ actors.Conn = (*transport.Exchange)(nil)

func input(x *transport.Exchange) actors.Input {
	in := actors.Input{Tenant: anonymous, Session: x.SessionID, Version: x.Version, LastEventID: x.LastEventID, Conn: x}
	if c, ok := x.Principal.(*caller); ok {
		in.Tenant = c.key
	}
	if v := x.Header["Traceparent"]; len(v) == 1 {
		in.Trace.Parent = v[0]
		if v := x.Header["Tracestate"]; len(v) == 1 {
			in.Trace.State = v[0]
		}
	}
	return in
}

func (d dispatcher) Post(x *transport.Exchange) {
	in := input(x)
	d.node.Post(d.svc, &in, x.Principal, &x.Msg, x.Body)
}

func (d dispatcher) Get(x *transport.Exchange) {
	in := input(x)
	d.node.Get(d.svc, &in)
}

func (d dispatcher) Delete(x *transport.Exchange) {
	in := input(x)
	d.node.Delete(d.svc, &in)
}
