package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/pool"
	"github.com/troupe-run/troupe/internal/bearer"
	"github.com/troupe-run/troupe/internal/gauges"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/keeper"
	"github.com/troupe-run/troupe/internal/keypair"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/memory"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/internal/worker"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/transport"
)

// The errors of New about a data directory, which New leaves as it was, and about servers.
var (
	// ErrLocked: another process uses it.
	ErrLocked = cluster.ErrLocked
	// ErrNewer: a newer release has written it.
	ErrNewer = store.ErrNewer
	// ErrDamaged: it cannot be read.
	ErrDamaged = store.ErrDamaged
	// ErrForeign: it holds other files than those of a store.
	ErrForeign = cluster.ErrForeign
	// ErrWritable: users other than that of the process, and root, may put files into it, or it is another user's.
	ErrWritable = cluster.ErrWritable
	// ErrNATS: the servers of [NATSOptions] cannot be used. The text says why, and what to do.
	ErrNATS = cluster.ErrRemote
)

// Runtime serves mounted servers from one store. It is an http.Handler for all
// of their endpoints. Its methods may be called from any goroutine.
type Runtime struct {
	shared
	opts    Options
	news    news // of other nodes
	unwatch func() error
	root    http.Handler
	guard   *transport.Guard // of the paths that have no server
	pair    *keypair.Pair    // what Serve shows over TLS, nil without

	mounting sync.Mutex // held while a server is mounted, which may ask the store
	mu       sync.Mutex // guards mounts, paths, services and issuers, and changes of routes
	issuers  []string   // all that Options.Auth has had
	mounts   map[string]*mount
	services map[string]*service // by the ids of their servers: those that are mounted, and one behind a pipe
	paths    map[string]http.Handler
	routes   atomic.Pointer[map[string]http.Handler] // copy of paths to read from; nil when paths has changed
	ready    atomic.Bool
	beside   atomic.Int64 // requests that HTTPOptions.Handler serves
	asked    atomic.Int64 // when the last of them came, unix nanoseconds
	closed   atomic.Bool  // Close was called
	closing  sync.Once
	fault    error

	closeAdmin func() // nil until New has succeeded

	endpoints  endpoints
	drainer    drainer
	table      mountTable
	operations operations
	auth       authentication
}

var _ http.Handler = (*Runtime)(nil)

// bindParts gives the parts of rt the Runtime that they are parts of.
func (rt *Runtime) bindParts() {
	rt.endpoints.Runtime, rt.drainer.Runtime, rt.table.Runtime, rt.operations.Runtime = rt, rt, rt, rt
	rt.auth.Runtime = rt
}

// New opens the store and returns a Runtime with no servers. It fails with
// ErrLocked, ErrNewer, ErrDamaged or ErrForeign when the data directory cannot
// be used, with ErrNATS when the servers of NATSOptions cannot, and with an error that names every option that is out of bounds.
func New(o Options) (*Runtime, error) {
	if err := o.settle(); err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	pair, err := o.HTTP.openTLS()
	if err != nil { // since settle has looked
		return nil, fmt.Errorf("troupe: TLS: %w", err)
	}
	requests := o.Telemetry.Requests.log(o.Log)
	o.Log = slog.New(telemetry.NewMaskingHandler(o.Log.Handler()))
	detail, _ := telemetry.ParseDetail(o.Telemetry.Detail) // settle has looked
	tel, err := telemetry.New(telemetry.Config{Detail: detail, MeterProvider: o.Telemetry.MeterProvider, TracerProvider: o.Telemetry.TracerProvider, Log: o.Log, Cuts: []string{limits.MaxQueued.Counted, limits.WriteTimeout.Counted}})
	if err != nil {
		return nil, fmt.Errorf("troupe: instruments: %w", err)
	}
	o.Shared.MaxMemory = cmp.Or(o.Shared.MaxMemory, memory.Available())
	authority, use, err := o.newAuthority() // before anything is made in the data directory
	if err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	var compiled sync.WaitGroup
	if o.Store.NATS.mayBeShared() { // before a load balancer sends the first request, and while the servers are asked
		compiled.Go(fleetTypes)
	}
	node, err := o.openStore()
	compiled.Wait()
	if err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	rt := &Runtime{shared: shared{
		log: o.Log, requests: requests, pseudonyms: o.Telemetry.Principals, hits: limits.NewLog(o.Log), cluster: node, tel: tel, keys: node.Keys(),
		sharesStore: o.Store.NATS.mayBeShared(), storesInMemory: o.Dir == "" && o.Store.NATS.URL == "",
		knowsCallers: o.hasAuth(), takesAnybody: !o.hasAuth() || o.Auth != nil && o.Auth.AllowAnonymous, taskMax: o.Store.TaskMax, redact: o.Redact,
		crowd: o.AllowAnonymous || o.HTTP.PublicURL != "",
	}, opts: o, pair: pair, mounts: make(map[string]*mount), paths: make(map[string]http.Handler), services: make(map[string]*service)}
	rt.bindParts()
	rt.drainer.drained, rt.drainer.dismissed = make(chan struct{}), make(chan struct{})
	use(node)
	rt.revoked = rt.operations.newRevocations()
	rt.node = actors.NewNode(actors.Config{Name: node.Name(), Boot: node.Boot(), Store: node, Mail: mailOf(node), Lease: o.Store.Lease, News: &rt.news, Limits: rt.table.nodeLimits(), Keys: rt.keys, Log: o.Log, Hits: rt.hits, Alone: rt.storesInMemory, Replayed: tel.Replayed})
	work := worker.Config{Store: nodestore.NewTasks(node), Node: node.Name(), Boot: node.Boot(), Shared: rt.sharesStore, Tag: rt.keys.Tag, Ledger: taskLedger{rt.node}, Changed: rt.news.taskChanged, Log: o.Log, Kernel: rt.node.Kernel(), TaskKind: actors.KindTask, QueueKind: actors.KindQueue}
	limits.Fill(&work, &o)
	rt.tasks = worker.NewPool(work)
	rt.operations.startProcess()
	rt.backends, rt.learnWait, rt.learnAtStart = newBackends(rt), rt.opts.Hosting.LearnWait, rt.opts.Hosting.LearnAtStart
	rt.news.startWith(rt)
	if m := node.Mail(); m != nil {
		m.Says(rt.operations.process.Load)
	}
	read := gauges.Process{Node: rt.node, Store: node, Tasks: rt.tasks, Hits: rt.hits, Revoked: rt.revoked, Backends: rt.backends.Counts, Held: heldBytes(o.Shared.MaxMemory), DrainTime: rt.drainer.drainTime, DrainLimit: max(0, o.DrainDelay) + o.DrainWait}
	if pair != nil {
		read.CertificateEnds = pair.Expires
	}
	if rt.unwatch, err = telemetry.RegisterGauges(o.Telemetry.MeterProvider, read.All()); err != nil {
		_ = rt.Close(context.Background())
		return nil, fmt.Errorf("troupe: gauges: %w", err)
	}
	rt.endpoints.scraping = quota.NewTurns[*quota.Account](1)
	guarded := transport.Options{AllowOrigins: o.HTTP.AllowOrigins, AllowHosts: o.HTTP.AllowHosts, Observer: rt.observer(), Accounts: rt.node.Accounts(), Account: rt.accountOf}
	limits.Fill(&guarded, &o)
	rt.guard = transport.NewGuard(guarded)
	if authority != nil {
		rt.auth.noteIssuers(o.Auth)
		rt.revoked.Start()
		rt.bearer = bearer.New(bearer.Config{Authority: authority, Guard: rt.guard, Hits: rt.hits, Observer: rt.observer(), Revoked: rt.revoked.Refusal, Replaced: rt.operations.endNotCovered, Failures: func(address string) (quota.Bucket, *quota.Account) {
			a := rt.accountOf(nil, address)
			return actors.Failures(a), a
		}})
	}
	rt.root = http.HandlerFunc(rt.table.serveMount)
	if o.Middleware != nil {
		rt.root = rt.table.withEndLog(o.Middleware(rt.root))
	}
	rt.ready.Store(true)
	rt.closeAdmin = rt.operations.openAdmin()
	return rt, nil
}

// fleetTypes compiles the codec of what a node of a fleet stores and sends to other nodes, and of what it asks clients, once in a process.
// The first use of each of these types takes milliseconds, and tens of them on a busy machine. A call that asks two questions has a
// dozen of them, and has them again on each node that is new, because each answer may come to another one.
var fleetTypes = sync.OnceFunc(func() {
	resultTypes()
	precompileTypes(actors.Types()...)
	precompileTypes(
		reflect.TypeFor[storedCaller](), reflect.TypeFor[mcp.Error](),
		reflect.TypeFor[mcp.InitializeParams](), reflect.TypeFor[mcp.ClientCapabilities](), reflect.TypeFor[mcp.InitializeResult](),
		reflect.TypeFor[mcp.ElicitForm](), reflect.TypeFor[mcp.ElicitURL](), reflect.TypeFor[mcp.ElicitResult](), reflect.TypeFor[mcp.ListRootsResult](),
		reflect.TypeFor[mcp.InputRequest](), reflect.TypeFor[mcp.InputRequiredResult](),
	)
})

// mailOf returns what carries letters to the other nodes, nil if there can be none.
func mailOf(n *cluster.Node) store.Mail {
	if n.Mail() == nil {
		return nil
	}
	return n.Mail()
}

// ServeHTTP serves the mounted servers: their paths, and those of HTTP+SSE beside them (/sse and /messages beside /mcp).
// Route all of these to it, and with Options.Auth those below /.well-known/ that [Runtime.WellKnown] serves. /healthz, /readyz and /metrics are Serve's alone; see [Runtime.Ready].
func (rt *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.leaving.Load() {
		defer rt.drainer.countWhileDraining(w)()
	}
	if r = rt.endpoints.withClientAddress(r); !rt.endpoints.serveWellKnown(w, r) {
		rt.table.serveMounts(w, r)
	}
}

// Node returns the name of this node.
func (rt *Runtime) Node() string { return rt.cluster.Name() }

// StoreAddr returns the address on which the store serves other processes, or nil: see [NATSOptions.Listen].
func (rt *Runtime) StoreAddr() net.Addr { return rt.cluster.Listens() }

// Close ends every call and stream and closes the store. Calls in flight are lost: those
// that may run again do so when their clients resume them in the next process, and the
// others end with error -32010, whatever they have done. Call [Runtime.Drain] first to
// let them end. Handlers see ErrClosing as the cause of their context; Close waits for
// them until ctx ends. A second Close waits for the first and returns the same.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closing.Do(func() {
		rt.ready.Store(false)
		rt.closed.Store(true)
		if rt.revoked != nil {
			rt.revoked.Close()
		}
		var errs []error
		rt.reminders.Close()
		if rt.tasks != nil {
			give, cancel := halfTime(ctx)
			errs = append(errs, rt.tasks.Close(give))
			cancel()
		}
		if rt.node != nil {
			errs = append(errs, rt.node.Close(ctx))
		}
		leave, done := halfTime(ctx)
		rt.backends.Close(leave)
		done()
		// Clients that do not read leave the store enough time to end its lease.
		flush, cancel := halfTime(ctx)
		for _, m := range rt.table.mountedServers() {
			errs = append(errs, m.handler.Close(flush))
		}
		cancel()
		if rt.unwatch != nil {
			errs = append(errs, rt.unwatch())
		}
		if rt.bearer != nil {
			rt.bearer.Close()
		}
		errs = append(errs, rt.cluster.Close(ctx))
		if rt.closeAdmin != nil { // the last: troupe drain --wait sees that it is gone
			rt.closeAdmin()
		}
		rt.fault = errors.Join(errs...)
	})
	return rt.fault
}

// halfTime returns a context for half of the time that ctx leaves.
func halfTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/2)
}

// dispatcher hands a server's requests from the transport to the actors.
type dispatcher struct {
	node *actors.Node
	svc  *actors.Service
}

var _ transport.Connector = dispatcher{}
var _ actors.Exchange = (*transport.Exchange)(nil)
var _ actors.Conn = (*transport.Pipe)(nil)

func (d dispatcher) inputOf(x *transport.Exchange) actors.Input {
	in := actors.Input{Tenant: anonymous, Account: x.Account(), Session: x.SessionID, Version: x.Version, LastEventID: x.LastEventID, Conn: x}
	s := d.svc.Handler.(*service)
	s.access.identifyCaller(&in, x.Principal)
	if in.Tenant == anonymous {
		in.Address = hostPart(x.RemoteAddr())
	}
	if x.Stateless {
		in.Stateless, in.Exchange = true, x
	}
	in.Caller = x.Principal
	in.Via = actors.Via{Client: x.RemoteAddr(), HTTP: x.HTTPMajor()}
	if s.spans {
		in.Trace = traceIn(x.Header)
	}
	return in
}

// traceIn is the trace context of the header of a request.
func traceIn(header http.Header) actors.Trace {
	field := func(name string) string {
		if v := header[name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	t := telemetry.Trace{Parent: field("Traceparent"), State: field("Tracestate"), Baggage: field("Baggage")}
	return actors.Trace(t.Bounded())
}

// accountOf returns the account of a client: that of its principal, or of its address if it is anonymous or nobody knows yet who it is.
func (rt *Runtime) accountOf(principal any, address string) *quota.Account {
	if c, ok := principal.(*caller); ok && c.key != anonymous {
		return rt.node.Accounts().Of(c.key, "")
	}
	return rt.node.Accounts().Of(anonymous, hostPart(address))
}

// hostPart returns the part of an address before its port, without the brackets of IPv6. A
// string that is not an address stays as it is.
func hostPart(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 && strings.IndexByte(address, ':') == i || i > 0 && address[i-1] == ']' {
		address = address[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}

func (d dispatcher) Post(x *transport.Exchange) {
	in := d.inputOf(x)
	if d.refuseForbidden(x, &in) {
		return
	}
	if in.Stateless {
		if refused := d.svc.Handler.(*service).tools.checkHeaders(&x.Msg, x.Principal, x.Header); refused != nil {
			refusal.New(400, refused.Code, refused.Message).Tell(x, x.Msg.ID)
			return
		}
		if x.Msg.State != nil { // without state, dispatch checks it
			if refused := checkLevel(&x.Msg); refused != nil {
				refusal.New(200, refused.Code, refused.Message).Tell(x, x.Msg.ID)
				return
			}
		}
	}
	d.node.Post(d.svc, &in, x.Principal, &x.Msg, x.Body)
}

func (d dispatcher) Connect(x *transport.Exchange) {
	in := d.inputOf(x)
	if d.refuseForbidden(x, &in) {
		return
	}
	d.node.Connect(d.svc, &in)
}

func (d dispatcher) Message(x *transport.Exchange) {
	in := d.inputOf(x)
	if d.refuseForbidden(x, &in) {
		return
	}
	d.node.Message(d.svc, &in, x.Principal, &x.Msg, x.Body)
}

func (d dispatcher) Get(x *transport.Exchange) {
	in := d.inputOf(x)
	if d.refuseForbidden(x, &in) {
		return
	}
	d.node.Get(d.svc, &in, x.Principal)
}

func (d dispatcher) Delete(x *transport.Exchange) {
	in := d.inputOf(x)
	if d.refuseForbidden(x, &in) {
		return
	}
	d.node.Delete(d.svc, &in)
}

// refuseForbidden refuses the request of an exchange whose caller lacks a scope, or was revoked. It reports whether it did.
func (d dispatcher) refuseForbidden(x *transport.Exchange, in *actors.Input) bool {
	s := d.svc.Handler.(*service)
	if s.rt.revokedMeanwhile(x) {
		return true
	}
	refused := s.scopes.checkMessageScopes(in, x.Principal, &x.Msg, x.Body)
	if refused == nil {
		return false
	}
	var id []byte
	if x.Msg.Kind == codec.Request {
		id = x.Msg.ID
	}
	refused.Tell(x, id)
	return true
}

// Codec names what payloads, such as arguments, results and schemas, go through in this program: "sonic native", or
// "json/v2" where that has no native path: on other processors than amd64 and arm64, with Go releases that it does not
// know yet, and with the build tag troupe_nosonic. docs/dependencies.md says how the two differ.
func Codec() string { return codec.Path() }

// newBackends returns what runs the backends of the servers of rt.
func newBackends(rt *Runtime) *hosting.Node {
	o := &rt.opts.Hosting
	program := o.Keeper
	if program == nil {
		program = host.Kept()
	}
	keep := time.Duration(0) // the next Runtime finds nothing without a directory
	if rt.opts.Dir != "" && program != nil {
		keep = max(0, cmp.Or(o.Keep, keeper.DefaultKeep))
	}
	release := rt.operations.process.Load().Release
	return hosting.NewNode(backend.Config{
		Kernel: rt.node.Kernel(), PoolKind: actors.KindPool, InstanceKind: actors.KindInstance,
		Bounds:     pool.Bounds{Instances: max(o.MaxInstances, 0), Starts: 2 * runtime.GOMAXPROCS(0)},
		Observer:   hosting.Observer{Tel: rt.tel, Hits: rt.hits},
		Catalogues: nodestore.NewCatalogues(rt.cluster), Estates: estatesOf(rt), Node: rt.cluster.Name(), Log: rt.log,
		Info: mcp.Raw(mcp.Implementation{Name: "troupe", Version: cmp.Or(release, "0")}),
		Processes: func(ctx context.Context, stderr func(id string, line []byte, dropped int)) (*keeper.Client, error) {
			settings := keeper.Options{Release: release, Log: rt.log, Stderr: stderr}
			if program == nil {
				return keeper.StartEmbedded(ctx, settings, "embedded"+strings.ReplaceAll(rt.cluster.Boot(), "-", "_"), nil)
			}
			l := keeper.Launch{Program: program, Keep: cmp.Or(o.Keep, keeper.DefaultKeep)}
			if rt.opts.Dir != "" {
				dir, err := filepath.Abs(rt.opts.Dir)
				if err != nil {
					return nil, err
				}
				settings.Socket, l.Log = filepath.Join(dir, "keeper.sock"), filepath.Join(dir, "keeper.log")
			}
			return keeper.Join(ctx, settings, l)
		},
	}, mainID, keep)
}

// estatesOf returns where the sessions at URLs of a node are left to the next process, nil if that would find nothing.
func estatesOf(rt *Runtime) backend.Estates {
	if rt.opts.Dir == "" && !rt.sharesStore {
		return nil
	}
	return nodestore.NewEstates(rt.cluster)
}
