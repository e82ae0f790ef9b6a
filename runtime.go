package troupe

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/bearer"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/memory"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/internal/revocation"
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
	opts    Options
	log     *slog.Logger
	cluster *cluster.Node
	tasks   *worker.Pool
	keys    store.Keys
	node    *actors.Node
	news    news // of other nodes
	// reminders put the questions of tasks to clients that do not ask for them.
	reminders reminders
	tel       *telemetry.Instruments
	unwatch   func() error
	root      http.Handler
	bearer    *bearer.Checker // nil without Options.Auth
	revoked   *revocation.List
	recent    recentTasks
	guard     *transport.Guard // of the paths that have no server
	hits      *limits.Log
	scraping  *quota.Turns[*quota.Account] // to read /metrics

	mounting   sync.Mutex // held while a server is mounted, which may ask the store
	mu         sync.Mutex // guards mounts, paths, services and issuers, and changes of routes
	issuers    []string   // all that Options.Auth has had
	mounts     map[string]*mount
	services   map[string]*service // by the ids of their servers: those that are mounted, and one behind a pipe
	paths      map[string]http.Handler
	routes     atomic.Pointer[map[string]http.Handler] // copy of paths to read from; nil when paths has changed
	ready      atomic.Bool
	leaving    atomic.Bool   // it drains: clients must take other connections
	watched    atomic.Bool   // a client has asked whether it is ready or alive
	under      atomic.Int64  // requests that came since leaving, and are being served
	beside     atomic.Int64  // requests that HTTPOptions.Handler serves
	asked      atomic.Int64  // when the last of them came, unix nanoseconds
	closed     atomic.Bool   // Close was called
	drained    chan struct{} // closed when the drain is over
	dismiss    sync.Once     // closes dismissed
	dismissed  chan struct{} // closed when an operator has Serve end
	drainError error         // what it returned, once drained is closed
	closing    sync.Once
	fault      error
}

var _ http.Handler = (*Runtime)(nil)

// storePart is the part of the process's memory that a full store may need for its index.
const storePart = 4

// New opens the store and returns a Runtime with no servers. It fails with
// ErrLocked, ErrNewer, ErrDamaged or ErrForeign when the data directory cannot
// be used, with ErrNATS when the servers of NATSOptions cannot, and with an error that names every option that is out of bounds.
func New(o Options) (*Runtime, error) {
	if err := o.settle(); err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	o.Log = slog.New(telemetry.Discreet(o.Log.Handler()))
	tel, err := telemetry.New(o.Telemetry.MeterProvider, o.Telemetry.TracerProvider)
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
	rt := &Runtime{opts: o, log: o.Log, hits: limits.NewLog(o.Log), cluster: node, tel: tel, mounts: make(map[string]*mount), paths: make(map[string]http.Handler), services: make(map[string]*service), drained: make(chan struct{}), dismissed: make(chan struct{})}
	use(node)
	rt.keys, rt.revoked = node.Keys(), rt.newRevocations()
	rt.node = actors.NewNode(actors.Config{Name: node.Name(), Boot: node.Boot(), Store: node, Mail: mailOf(node), Lease: o.Store.Lease, News: &rt.news, Limits: rt.nodeLimits(), Keys: rt.keys, Log: o.Log, Hits: rt.hits, Alone: rt.storesInMemory(), Replayed: tel.Replayed})
	rt.tasks = worker.NewPool(worker.Config{Store: nodestore.NewTasks(node), Node: node.Name(), Boot: node.Boot(), Running: o.Shared.TasksPerNode, PerPrincipal: o.Shared.OpenTasksPerPrincipal, PerNode: o.Shared.OpenTasksPerNode, Shared: rt.sharesStore(), Tag: rt.keys.Tag, Ledger: taskLedger{rt}, Changed: rt.taskChanged, Log: o.Log, Kernel: rt.node.Kernel(), TaskKind: actors.KindTask, QueueKind: actors.KindQueue})
	rt.news.startWith(rt)
	if m := node.Mail(); m != nil {
		m.Says(rt.nodeLoad)
	}
	if rt.unwatch, err = telemetry.Observe(o.Telemetry.MeterProvider, rt.newGauges()); err != nil {
		_ = rt.Close(context.Background())
		return nil, fmt.Errorf("troupe: gauges: %w", err)
	}
	rt.scraping = quota.NewTurns[*quota.Account](1)
	rt.guard = transport.NewGuard(transport.Options{AllowOrigins: o.HTTP.AllowOrigins, AllowHosts: o.HTTP.AllowHosts, Observer: rt.observer(),
		BodyTimeout: o.Limits.BodyTimeout, BodyRate: o.Limits.BodyRate, WriteTimeout: o.Limits.WriteTimeout, Accounts: rt.node.Accounts(), Account: rt.accountOf})
	if authority != nil {
		rt.noteIssuers(o.Auth)
		rt.revoked.Start()
		rt.bearer = bearer.New(bearer.Config{Authority: authority, Guard: rt.guard, Hits: rt.hits, Observer: rt.observer(), Revoked: rt.revoked.Refusal, Replaced: rt.endNotCovered, Failures: func(address string) (quota.Bucket, *quota.Account) {
			a := rt.accountOf(nil, address)
			return actors.Failures(a), a
		}})
	}
	rt.root = http.HandlerFunc(rt.serveMount)
	if o.Middleware != nil {
		rt.root = rt.logEndedGoroutines(o.Middleware(rt.root))
	}
	rt.ready.Store(true)
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

// sharesStore reports whether other processes may have the same store.
func (rt *Runtime) sharesStore() bool { return rt.opts.Store.NATS.mayBeShared() }

// storesInMemory reports whether the store is in this process's memory, and so ends with it.
func (rt *Runtime) storesInMemory() bool { return rt.opts.Dir == "" && rt.opts.Store.NATS.URL == "" }

// mailOf returns what carries letters to the other nodes, nil if there can be none.
func mailOf(n *cluster.Node) store.Mail {
	if n.Mail() == nil {
		return nil
	}
	return n.Mail()
}

// openStore opens the store of a process that has MaxMemory.
func (o *Options) openStore() (*cluster.Node, error) {
	if o.Store.NATS.URL == "" {
		o.Store.MaxStore = cmp.Or(o.Store.MaxStore, limits.DefaultStore(o.Shared.MaxMemory, o.Dir != ""))
		if need := limits.StoreMemory(o.Store.MaxStore, o.Dir != ""); need > o.Shared.MaxMemory/storePart {
			o.Log.Warn("a full store may need more memory than a quarter of the process's", "store", o.Store.MaxStore, "needs", need, "memory", o.Shared.MaxMemory, "setting", limits.MaxStore.Setting())
		}
	}
	return cluster.Open(context.Background(), o.clusterOptions())
}

// clusterOptions returns the options of the store.
func (o *Options) clusterOptions() cluster.Options {
	x := &o.Store.NATS
	remote, listen := cluster.Remote{URL: x.URL, Token: x.Token, NKey: x.NKeyFile, Creds: x.CredsFile, CA: x.CAFile, Cert: x.CertFile, Key: x.KeyFile, Replicas: x.Replicas}, cluster.Listen{}
	if x.Listen != "" {
		remote, listen = cluster.Remote{}, cluster.Listen{Address: x.Listen, Token: x.Token, CA: x.CAFile, Cert: x.CertFile, Key: x.KeyFile}
	}
	return cluster.Options{
		Dir: o.Dir, Node: o.Store.Node, MaxStore: o.Store.MaxStore, Shards: o.Store.Shards, Sync: o.Store.Sync, Lease: o.Store.Lease, ReplayAge: eventAge(o.Store.ReplayAge), Log: o.Log,
		Remote: remote, Listen: listen, Prefix: x.Prefix, Alike: []cluster.Setting{{Name: "replay-age", Value: o.Store.ReplayAge.String()}},
	}
}

// eventAge returns how long events are stored: longer than the record of their stream
// can outlive its last renewal. A record without its last event would look like the
// record of a call that got no response.
func eventAge(replay time.Duration) time.Duration {
	return actors.RecordTTL(replay) + 5*time.Second
}

// ServeHTTP serves the mounted servers: their paths, and those of HTTP+SSE beside them (/sse and /messages beside /mcp).
// Route all of these to it, and with Options.Auth those below /.well-known/ that [Runtime.WellKnown] serves. /healthz, /readyz and /metrics are Serve's alone; see [Runtime.Ready].
func (rt *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.leaving.Load() {
		defer rt.countWhileDraining(w)()
	}
	if r = rt.withClientAddress(r); !rt.serveWellKnown(w, r) {
		rt.serveMounts(w, r)
	}
}

// withClientAddress returns r with the address of its client.
func (rt *Runtime) withClientAddress(r *http.Request) *http.Request {
	return transport.Forwarded{Trusted: rt.opts.HTTP.TrustedProxies}.Seen(r)
}

// serveWellKnown serves a request for metadata, and reports whether it is one.
func (rt *Runtime) serveWellKnown(w http.ResponseWriter, r *http.Request) bool {
	return rt.bearer != nil && rt.bearer.Serve(w, r)
}

// serveMounts serves the mounted servers. Their Handlers bound and count what goes straight to them.
func (rt *Runtime) serveMounts(w http.ResponseWriter, r *http.Request) {
	if rt.opts.Middleware == nil {
		if h, ok := rt.routePath(r.URL.Path); ok {
			h.ServeHTTP(w, r)
			return
		}
	}
	rt.guard.Serve(w, r, rt.root, false)
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
		rt.reminders.closeAll()
		if rt.tasks != nil {
			give, cancel := halfTime(ctx)
			errs = append(errs, rt.tasks.Close(give))
			cancel()
		}
		if rt.node != nil {
			errs = append(errs, rt.node.Close(ctx))
		}
		// Clients that do not read leave the store enough time to end its lease.
		flush, cancel := halfTime(ctx)
		for _, m := range rt.mountedServers() {
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

// sealText makes an opaque string of plain. openSealed turns it back into plain for the same aad,
// on any node. When openSealed fails with store.ErrUnavailable, the string may still be good.
func (rt *Runtime) sealText(plain string, aad []byte) (string, error) {
	b, err := rt.keys.Seal([]byte(plain), aad)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (rt *Runtime) openSealed(sealed string, aad []byte) (string, error) {
	// The decoder would skip line breaks.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") {
		return "", store.ErrSealed
	}
	plain, err := rt.keys.Open(b, aad)
	return string(plain), err
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
	d.svc.Handler.(*service).access.identifyCaller(&in, x.Principal)
	if in.Tenant == anonymous {
		in.Address = hostPart(x.RemoteAddr())
	}
	if x.Stateless {
		in.Stateless, in.Exchange = true, x
	}
	if v := x.Header["Traceparent"]; len(v) == 1 {
		in.Trace.Parent = v[0]
		if v := x.Header["Tracestate"]; len(v) == 1 {
			in.Trace.State = v[0]
		}
	}
	return in
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

// observer counts what the transport refuses and cuts, and logs the limits that were hit.
type observer struct {
	tel  *telemetry.Instruments
	hits *limits.Log
}

var _ transport.Observer = observer{}

func (rt *Runtime) observer() observer { return observer{rt.tel, rt.hits} }

// Rejected counts a request that did not reach the dispatcher.
func (o observer) Rejected(status int, reason string) {
	o.tel.Rejected(status, reason)
	o.hits.Hit(limits.Hit(limits.HTTP, reason))
}

// Cut counts a stream that did not end by itself.
func (o observer) Cut(reason string) {
	o.tel.Cut(reason)
	o.hits.Hit(cmp.Or(limits.Hit(limits.Cuts, reason), limits.Hit(limits.HTTP, reason))) // memory refuses and cuts
}

// countWhileDraining counts a request that comes during a drain, and makes the client take
// another connection for its next request. The caller calls served when the request was served.
func (rt *Runtime) countWhileDraining(w http.ResponseWriter) (served func()) {
	w.Header().Set("Connection", "close")
	rt.under.Add(1)
	rt.asked.Store(time.Now().UnixNano())
	return func() { rt.under.Add(-1) }
}

// newGauges returns the metrics that are read from the Runtime when they are collected.
func (rt *Runtime) newGauges() []telemetry.Gauge {
	one := func(f func() int64) func(func(string, int64)) {
		return func(observe func(string, int64)) { observe("", f()) }
	}
	st := rt.node.Stats
	return []telemetry.Gauge{
		{Name: "troupe.actors", Unit: "{actor}", Doc: "Live actors by kind.", Label: "kind", Read: func(observe func(string, int64)) {
			rt.node.Kernel().Kinds(observe)
		}},
		{Name: "troupe.actors.mailbox.deepest", Unit: "{message}", Doc: "Most messages that waited in the mailbox of one actor within the last 10 to 20 seconds.", Read: one(rt.node.Kernel().Deepest)},
		{Name: "troupe.panics", Unit: "{panic}", Doc: "Panics contained so far.", Counter: true, Read: one(rt.node.Kernel().Panics)},
		{Name: "troupe.calls.in_flight", Unit: "{call}", Doc: "Calls in flight on this node.", Read: one(func() int64 { return int64(st().InFlight) })},
		{Name: "troupe.sessions.active", Unit: "{session}", Doc: "Sessions in this node's memory.", Read: one(func() int64 { return int64(st().Sessions) })},
		{Name: "troupe.streams.open", Unit: "{stream}", Doc: "Event streams that this node writes.", Read: one(func() int64 { return int64(st().Streams) })},
		{Name: "troupe.connections.open", Unit: "{connection}", Doc: "Open event streams with a connection.", Read: one(func() int64 { return int64(st().Connections) })},
		{Name: "troupe.calls.parked", Unit: "{call}", Doc: "Stateless calls that asked for input and wait for their request to be sent again.", Read: one(func() int64 { return int64(st().Parked) })},
		{Name: "troupe.tasks.running", Unit: "{task}", Doc: "Tasks whose handlers run on this node.", Read: one(func() int64 { n, _ := rt.tasks.Counts(); return int64(n) })},
		{Name: "troupe.tasks.waiting", Unit: "{task}", Doc: "Tasks whose handlers wait on this node for their clients.", Read: one(func() int64 { _, n := rt.tasks.Counts(); return int64(n) })},
		{Name: "troupe.tasks.queued", Unit: "{task}", Doc: "Tasks that wait in this node's memory for a place.", Read: one(func() int64 { return int64(rt.tasks.Queued()) })},
		{Name: "troupe.tasks.open", Unit: "{task}", Doc: "Tasks that this node has made or been given, and that have not ended.", Read: one(func() int64 { n, _ := rt.tasks.Open(); return int64(n) })},
		{Name: "troupe.tasks.open.most", Unit: "{task}", Doc: "Those of the principal with most.", Read: one(func() int64 { _, n := rt.tasks.Open(); return int64(n) })},
		{Name: "troupe.tasks.reclaimed", Unit: "{task}", Doc: "Tasks of this node's process before that were taken up at once; with NATS servers only.", Counter: true, Read: one(rt.tasks.Reclaimed)},
		{Name: "troupe.requests.pending", Unit: "{request}", Doc: "Requests to the clients of sessions that have no response yet.", Read: one(func() int64 { return int64(st().Pending) })},
		{Name: "troupe.requests.forwarded", Unit: "{request}", Doc: "Requests that belong to another process of the store and were handed to it.", Counter: true, Read: one(func() int64 { return st().Forwarded })},
		{Name: "troupe.requests.forwarded.broken", Unit: "{request}", Doc: "Requests between processes that were given up because messages were lost or a process was silent.", Counter: true, Read: one(func() int64 { return st().Broken })},
		{Name: "troupe.log.appends", Unit: "{append}", Doc: "Appends to event streams.", Counter: true, Read: one(func() int64 { return st().Appends })},
		{Name: "troupe.log.recent", Unit: "By", Doc: "Bytes appended to event streams within ten seconds, about.", Read: one(func() int64 { return st().Recent })},
		{Name: "troupe.log.waiting", Unit: "{append}", Doc: "Appends that wait because their principals appended much within ten seconds.", Read: one(func() int64 { return st().Pacing })},
		{Name: "troupe.log.cached", Unit: "By", Doc: "Bytes of appends of the last 30 s that are kept in memory for clients that come back.", Read: one(func() int64 { return st().Cache })},
		{Name: "troupe.log.replayed.cached", Unit: "{append}", Doc: "Appends that were replayed from there.", Counter: true, Read: one(func() int64 { return st().Cached })},
		{Name: "troupe.streams.resumed", Unit: "{resume}", Doc: "Requests to resume a stream.", Counter: true, Read: one(func() int64 { return st().Resumes })},
		{Name: "troupe.streams.taken_over", Unit: "{takeover}", Doc: "Streams taken over from a lost writer.", Counter: true, Read: one(func() int64 { return st().Takeovers })},
		{Name: "troupe.streams.taken_over.time", Unit: "ms", Doc: "Time that takeovers took, without the wait for the lease of the lost writer.", Counter: true, Read: one(func() int64 { return st().TakeoverTime.Milliseconds() })},
		{Name: "troupe.streams.attached", Unit: "{attach}", Doc: "Clients that came for a stream that another process of the store writes.", Counter: true, Read: one(func() int64 { return st().Attaches })},
		{Name: "troupe.streams.read_elsewhere", Unit: "{stream}", Doc: "Streams that clients read here and another process of the store writes.", Read: one(func() int64 { return int64(st().Readings) })},
		{Name: "troupe.streams.replaying", Unit: "{stream}", Doc: "Streams whose clients came back, or were left behind, and were not sent yet all that is stored.", Read: one(func() int64 { return st().Replaying })},
		{Name: "troupe.pings.lost", Unit: "{connection}", Doc: "Connections closed because their clients left pings unanswered.", Counter: true, Read: one(func() int64 { return st().LostPings })},
		{Name: "troupe.refusals", Unit: "{refusal}", Doc: "What was refused because of a limit, by reason.", Counter: true, Label: "reason", Read: rt.hits.Refusals},
		{Name: "troupe.accounts", Unit: "{account}", Doc: "Principals that this node tells apart at the moment.", Read: one(func() int64 { return int64(st().Accounts) })},
		{Name: "troupe.accounts.elsewhere", Unit: "{account}", Doc: "Principals that are held here to what they use of other nodes, once for each of those nodes.", Read: one(rt.node.Accounts().Heard)},
		{Name: "troupe.accounts.overflowed", Unit: "{request}", Doc: "Requests charged to a shared account, because there were too many principals to tell apart.", Counter: true, Read: one(func() int64 { return st().Overflowed })},
		{Name: "troupe.memory.held", Unit: "By", Doc: "Bytes held in memory for clients, by what they are held for.", Label: "kind", Read: func(observe func(string, int64)) {
			for k := range quota.Kinds {
				observe(k.String(), rt.node.Accounts().BytesOf(k))
			}
		}},
		{Name: "troupe.memory.held.most", Unit: "By", Doc: "Bytes held in memory for the principal that holds most.", Read: one(func() int64 { return rt.node.Accounts().MostBytes() })},
		{Name: "troupe.memory.budget", Unit: "By", Doc: "Bytes that may be held in memory for all clients together.", Read: one(func() int64 { return rt.opts.Shared.MaxMemory / heldPart })},
		{Name: "troupe.store.used", Unit: "By", Doc: "Bytes in use of what is for sessions and for calls in the store.", Label: "budget", Read: rt.eachBudget(func(b store.Budget) int64 {
			used, _ := rt.cluster.Use(b)
			return used
		})},
		{Name: "troupe.store.used.most", Unit: "By", Doc: "Bytes that the principal with most in the store has stored lately.", Label: "budget", Read: rt.eachBudget(rt.node.StoredMost)},
		{Name: "troupe.store.budget", Unit: "By", Doc: "Bytes that the store may have for sessions and for calls.", Label: "budget", Read: rt.eachBudget(func(b store.Budget) int64 {
			_, limit := rt.cluster.Use(b)
			return limit
		})},
		{Name: "troupe.revocations", Unit: "{revocation}", Doc: "Revocations that this process knows: of access tokens, by their subject or client.", Read: one(func() int64 { return int64(rt.revoked.Count()) })},
		{Name: "troupe.lease.suspended", Unit: "1", Doc: "1 while the node's lease is not certain.", Read: one(func() int64 {
			if rt.cluster.Suspended() {
				return 1
			}
			return 0
		})},
		{Name: "troupe.lease.suspended.time", Unit: "ms", Doc: "Time for which the node's lease was not certain.", Counter: true, Read: one(func() int64 { return rt.cluster.SuspendedFor().Milliseconds() })},
		{Name: "troupe.store.clock.ahead", Unit: "ms", Doc: "By how much the clock of this machine is ahead of that of the NATS servers.", Read: one(func() int64 { return rt.cluster.Ahead().Milliseconds() })},
		{Name: "troupe.leases", Unit: "{process}", Doc: "Processes of the store by their lease: those that have it, and those whose lease was not renewed in time.", Label: "state", Read: func(observe func(string, int64)) {
			held, late := rt.cluster.Leases()
			observe("held", int64(held))
			observe("late", int64(late))
		}},
		{Name: "troupe.store.failed", Unit: "1", Doc: "1 while the store cannot write, as when its disk is full.", Read: one(func() int64 {
			if rt.cluster.Outage() != nil {
				return 1
			}
			return 0
		})},
		{Name: "troupe.store.restarts", Unit: "{restart}", Doc: "Restarts of the store within the process, after writes that failed.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Restarts())
		})},
		{Name: "troupe.store.reconnects", Unit: "{reconnect}", Doc: "Connections to the store that were lost and made again.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Reconnects())
		})},
		{Name: "troupe.store.undecided", Unit: "{write}", Doc: "Writes to a replicated store that were sent again, because an earlier one was not decided.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Undecided())
		})},
		{Name: "troupe.store.concluded", Unit: "{write}", Doc: "Writes to a replicated store that show that something is not there, which a read does not.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Concluded())
		})},
		{Name: "troupe.store.lost", Unit: "{stream}", Doc: "Streams of the store that were lost while the process ran.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Lost())
		})},
		{Name: "troupe.store.unreadable", Unit: "{file}", Doc: "Files of the process's store that were missing or could not be read to their end when it was opened.", Counter: true, Read: one(func() int64 {
			return int64(rt.cluster.Unreadable())
		})},
		{Name: "troupe.mail.messages", Unit: "{message}", Doc: "Messages to and from other processes of the store, by what became of them.", Counter: true, Label: "outcome", Read: func(observe func(string, int64)) {
			s := rt.cluster.Mail().Stats()
			for outcome, n := range map[string]uint64{"sent": s.Sent, "unsent": s.Unsent, "received": s.Received, "refused": s.Refused, "forged": s.Forged, "replayed": s.Replayed, "missed": s.Gaps} {
				observe(outcome, int64(n))
			}
		}},
		{Name: "troupe.nodes.heard", Unit: "{process}", Doc: "Other processes of the store that were heard within the lease.", Read: one(func() int64 { return int64(rt.cluster.Mail().Stats().Heard) })},
		{Name: "troupe.store.bytes", Unit: "By", Doc: "Bytes in the store.", Label: "stream", Read: rt.storeBytes},
		{Name: "troupe.store.replicas.missing", Unit: "{replica}", Doc: "Replicas that are away or behind.", Label: "stream", Read: rt.storeReplicas},
		{Name: "troupe.store.messages", Unit: "{message}", Doc: "Messages in the store: a session is one of the stream sessions.", Label: "stream", Read: rt.storeMessages},
	}
}

// eachBudget returns the reader of a gauge that has a value for each budget of the store.
func (rt *Runtime) eachBudget(value func(store.Budget) int64) func(func(string, int64)) {
	return func(observe func(string, int64)) {
		observe("sessions", value(store.SessionBudget))
		observe("calls", value(store.EventBudget))
		observe("tasks", value(store.TaskBudget))
	}
}

func (rt *Runtime) storeBytes(observe func(string, int64)) {
	for name, s := range rt.cluster.Stats().Streams {
		observe(name, int64(s.Bytes))
	}
}

func (rt *Runtime) storeReplicas(observe func(string, int64)) {
	for name, s := range rt.cluster.Stats().Streams {
		observe(name, int64(s.Missing))
	}
}

func (rt *Runtime) storeMessages(observe func(string, int64)) {
	for name, s := range rt.cluster.Stats().Streams {
		observe(name, int64(s.Messages))
	}
}

// Codec names what payloads, such as arguments, results and schemas, go through in this program: "sonic native", or
// "json/v2" where that has no native path: on other processors than amd64 and arm64, with Go releases that it does not
// know yet, and with the build tag troupe_nosonic. docs/dependencies.md says how the two differ.
func Codec() string { return codec.Path() }

// logTask logs what happened to a task, at debug: a busy server has thousands of these lines in a second. The tenant stands for the
// principal, or for all anonymous clients.
func (rt *Runtime) logTask(what string, key worker.Key, name, value string) {
	if rt.log.Enabled(context.Background(), slog.LevelDebug) {
		rt.log.Debug(what, "server", key.Server, "tenant", key.Tenant, "task", key.Digest(), name, value)
	}
}
