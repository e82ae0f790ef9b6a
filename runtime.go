package troupe

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
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
	keys    actors.Keys
	node    *actors.Node
	tel     *telemetry.Instruments
	unwatch func() error
	root    http.Handler

	mu        sync.Mutex // guards mounts, paths and ids, and changes of routes
	mounts    map[string]*mount
	ids       map[string]string // the paths of servers by their ids
	paths     map[string]http.Handler
	routes    atomic.Pointer[map[string]http.Handler] // copy of paths to read from; nil when it is to be made anew
	ready     atomic.Bool
	leaving   atomic.Bool   // it drains: clients are to take other connections
	watched   atomic.Bool   // somebody has asked whether it is ready or alive
	under     atomic.Int64  // requests that came since leaving, and are being served
	asked     atomic.Int64  // when the last of them came, unix nanoseconds
	longURI   atomic.Int64  // URIs of resources refused because of their length
	closed    atomic.Bool   // Close was called
	drained   chan struct{} // closed when the drain is over
	undrained error         // what it returned, once drained is closed
	closing   sync.Once
	fault     error
}

var _ http.Handler = (*Runtime)(nil)

// New opens the store and returns a Runtime with no servers. It fails with
// ErrLocked, ErrNewer, ErrDamaged or ErrForeign when the data directory cannot
// be used, and with an error that names the options which are out of bounds.
func New(o Options) (*Runtime, error) {
	if err := o.settle(); err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	tel, err := telemetry.New(o.Telemetry.MeterProvider, o.Telemetry.TracerProvider)
	if err != nil {
		return nil, fmt.Errorf("troupe: instruments: %w", err)
	}
	node, err := cluster.Open(context.Background(), cluster.Options{
		Dir: o.Dir, Node: o.Store.Node, MaxStore: o.Store.MaxStore, Sync: o.Store.Sync, Lease: o.Store.Lease, ReplayAge: eventAge(o.Store.ReplayAge), Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	rt := &Runtime{opts: o, log: o.Log, cluster: node, tel: tel, mounts: make(map[string]*mount), paths: make(map[string]http.Handler), ids: make(map[string]string), drained: make(chan struct{})}
	rt.keys = keys{node.Keys()}
	rt.node = actors.NewNode(actors.Config{Name: node.Name(), Boot: node.Boot(), Store: store{node}, Limits: rt.nodeLimits(), Keys: rt.keys, Log: o.Log})
	if rt.unwatch, err = telemetry.Observe(o.Telemetry.MeterProvider, rt.gauges()); err != nil {
		_ = rt.Close(context.Background())
		return nil, fmt.Errorf("troupe: gauges: %w", err)
	}
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
	return actors.RecordTTL(replay) + 5*time.Second
}

// ServeHTTP serves the mounted servers.
func (rt *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rt.leaving.Load() {
		defer rt.countWhileDraining(w)()
	}
	rt.serveMounts(w, r)
}

func (rt *Runtime) serveMounts(w http.ResponseWriter, r *http.Request) {
	rt.root.ServeHTTP(w, transport.Forwarded{Trusted: rt.opts.HTTP.TrustedProxies}.Seen(r))
}

// Node is the name of this node.
func (rt *Runtime) Node() string { return rt.cluster.Name() }

// Close ends every call and stream and closes the store. Calls that run are lost: those
// that may run again do so when their clients resume them in the next process, and the
// others end with error -32010, whatever they have done. Call [Runtime.Drain] first to
// let them end. Close waits for handlers, which see ErrClosing as the cause of their
// context, until ctx ends. A second Close returns what the first did.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closing.Do(func() {
		rt.ready.Store(false)
		rt.closed.Store(true)
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

// seal makes an opaque string of plain that unseal gives back for the same aad,
// on any node. After actors.ErrUnavailable nobody knows whether unseal's is good.
func (rt *Runtime) seal(plain string, aad []byte) (string, error) {
	b, err := rt.keys.Seal([]byte(plain), aad)
	return base64.RawURLEncoding.EncodeToString(b), err
}

func (rt *Runtime) unseal(sealed string, aad []byte) (string, error) {
	// The decoder would skip line breaks.
	b, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || strings.ContainsAny(sealed, "\r\n") {
		return "", cluster.ErrSealed
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

func (d dispatcher) input(x *transport.Exchange) actors.Input {
	in := actors.Input{Tenant: anonymous, Session: x.SessionID, Version: x.Version, LastEventID: x.LastEventID, Conn: x}
	if c, ok := x.Principal.(*caller); ok {
		in.Tenant = c.key
		in.Principal = d.svc.Handler.(*service).owner(c)
	}
	if in.Tenant == anonymous {
		in.Address = host(x.RemoteAddr())
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

// host is what an address has before its port, without the brackets of IPv6. What
// is no address at all stays as it is.
func host(address string) string {
	if i := strings.LastIndexByte(address, ':'); i >= 0 && strings.IndexByte(address, ':') == i || i > 0 && address[i-1] == ']' {
		address = address[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}

func (d dispatcher) Post(x *transport.Exchange) {
	in := d.input(x)
	if in.Stateless {
		if no := d.svc.Handler.(*service).checkHeaders(&x.Msg, x.Principal, x.Header); no != nil {
			x.Reject(400, no.Code, no.Message, nil, x.Msg.ID, 0)
			return
		}
		if x.Msg.State != nil { // or else it is checked where its handler would run
			if no := checkLevel(&x.Msg); no != nil {
				x.Reject(200, no.Code, no.Message, nil, x.Msg.ID, 0)
				return
			}
		}
	}
	d.node.Post(d.svc, &in, x.Principal, &x.Msg, x.Body)
}

func (d dispatcher) Connect(x *transport.Exchange) {
	in := d.input(x)
	d.node.Connect(d.svc, &in)
}

func (d dispatcher) Message(x *transport.Exchange) {
	in := d.input(x)
	d.node.Message(d.svc, &in, x.Principal, &x.Msg, x.Body)
}

func (d dispatcher) Get(x *transport.Exchange) {
	in := d.input(x)
	d.node.Get(d.svc, &in)
}

func (d dispatcher) Delete(x *transport.Exchange) {
	in := d.input(x)
	d.node.Delete(d.svc, &in)
}
