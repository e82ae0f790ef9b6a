package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/keypair"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/spoken"
	"github.com/troupe-run/troupe/internal/telemetry"
	"github.com/troupe-run/troupe/mcp"
)

// Options are the settings of a Runtime. The zero value keeps everything in memory and
// lets everybody in as an anonymous principal. The settings that most programs need are
// here, the others in groups by subject: [StoreOptions], [HTTPOptions], [Limits],
// [SharedLimits], [Telemetry].
//
// One rule holds for every number, size and time, here and in [ServerOptions]: 0 is the
// default, and a negative value means no limit, no delay or never. An option that must be
// bounded takes no negative value: New fails, and names every option that is out of bounds.
// docs/limits.md has all bounds.
//
// New copies the slices that it keeps: a program may change its own afterwards.
type Options struct {
	// Dir is the data directory: every write acknowledged there survives a crash of
	// the process. Empty keeps everything in memory. With StoreOptions.NATS it keeps the
	// name of this node alone, and may be empty. A directory that other users may write
	// is refused (ErrWritable); where they may replace it, because they may write one above it, the log
	// says so. Without one the process needs for a moment of its start a
	// place for an empty directory: TMPDIR, /dev/shm, /var/tmp or /run.
	Dir string
	// Listen is the address where Serve listens. Empty means 127.0.0.1:8080.
	Listen string
	// AllowAnonymous lets Serve listen beyond the loopback interface without
	// Authenticate or Auth.
	AllowAnonymous bool
	// Authenticate returns the principal that makes a request. nil lets everybody in as
	// the zero Principal. The response to an error is a 401, or as an [*AuthError] says;
	// the client does not learn the error's text. Handlers get the Principal from
	// [Call.Principal], and the values of the request's context from their own context.
	// A Principal with an Issuer and no Subject is a mistake, since all users of the issuer
	// would be one: the response is a 500, and the log says so. Several run at once.
	Authenticate func(*http.Request) (Principal, error)
	// Auth has the Runtime take access tokens of OAuth 2.1, and serve the metadata by which clients find the authorization server. It excludes
	// Authenticate. Principals have the Issuer, Subject, Client, Scopes, Machine, Expires and Claims of their tokens, and no Token. A
	// nil Log is that of Options, an empty PublicURL that of HTTPOptions, and a nil Cache is the store: a process that starts while an issuer is
	// down verifies tokens like the others. nil means no tokens.
	Auth *auth.Config
	// Middleware wraps every handler of the Runtime. It sees each request with its
	// client's address: see HTTPOptions.TrustedProxies. The values that it puts into the
	// context of a request reach the handlers of its calls. nil means none.
	Middleware func(http.Handler) http.Handler
	// MethodMiddleware wraps the handlers of the requests of every server, around the
	// MethodMiddleware of ServerOptions. The first one is outermost: it sees a request
	// first and its result last.
	MethodMiddleware []MethodMiddleware
	// Revisions are the revisions of the protocol that clients may begin to use with each server that names none; see
	// ServerOptions.Revisions. nil means all of [Revisions]. New refuses an empty list, and one that
	// has a revision twice or names none of them.
	Revisions []mcp.Revision
	// Redact sees every log message before it is encoded for a client, to remove secrets
	// and details that would help an attacker. It may change the message, and returns
	// false to drop it. Several run at once. nil lets all messages through.
	Redact func(*LogMessage) bool
	// DrainDelay is how long a drain still serves after Ready and /readyz have begun to
	// fail, so that load balancers notice. 0 means 3 seconds, negative none. The delay
	// ends early if no connection is open, /readyz and /healthz had no request, and Ready
	// was not called: then there is no load balancer to notice.
	DrainDelay time.Duration
	// DrainWait is how long a drain then waits for calls that only this process can end.
	// New requests of stateless clients (2026-07-28), which any process can serve, get 503 with Retry-After all that time. In the second
	// half of it, new calls of tools that may not run again are refused with 503, too. Running calls of stateless clients have until two
	// seconds before its end, or until a tenth of it is left if that is less. 0 means 22 seconds: with the default delay
	// a drain takes at most 25, and Kubernetes ends a process after 30.
	DrainWait time.Duration
	// Log gets the records that an operator should see, with a hash in place of each id of a
	// session or a stream: whoever has the id of an anonymous session can use that session. nil
	// means slog.Default(); a logger with slog.DiscardHandler discards them.
	Log *slog.Logger

	// Store says what the store keeps, and for how long.
	Store StoreOptions
	// HTTP is for requests over HTTP, and for Serve.
	HTTP HTTPOptions
	// Limits are the limits of every server that sets none; see ServerOptions.Limits.
	Limits Limits
	// Shared are the limits of all servers together.
	Shared SharedLimits
	// Hosting says how the processes and sessions of backends are kept, see [AddBackend].
	Hosting HostingOptions
	// Telemetry says where metrics and spans go.
	Telemetry Telemetry
}

// Revisions returns the protocol revisions that this release speaks, oldest first. Each
// server speaks all of them, unless [Options] or [ServerOptions] name fewer.
func Revisions() []string { return spoken.Names(mcp.Revisions()) }

// StoreOptions say what the store of a Runtime keeps, and for how long. The rule of
// [Options] for 0 and negative values holds.
type StoreOptions struct {
	// NATS names servers that keep the store instead of this process.
	NATS NATSOptions
	// NoSocket leaves out the socket in the data directory by which the command troupe does what [Runtime.Operator]
	// does, from New to Close. The zero value has it, with mode 0600.
	NoSocket bool
	// Node names this node among the nodes on one store: [a-z0-9-]. Empty keeps the
	// name that the data directory has, or makes one up. A newer process of the same name ends the older one's
	// right to serve.
	Node string
	// MaxStore bounds the store in bytes. 0 means 8 GiB, in memory 1 GiB, or less if a full
	// store would need more than a quarter of Shared.MaxMemory: three quarters of that
	// memory, or three sixteenths in memory. A larger MaxStore is taken, with a warning in
	// the log. With NATS, 0 takes what the streams there have, or 8 GiB for new ones. When nine tenths of it are in use, new sessions and streams are refused with
	// 503.
	MaxStore int64
	// Shards is how many parts the event log of a store that is made now has, at most 32. After a crash the store reads them side by
	// side, and on a cluster of NATS servers each has a leader of its own. 0 means 4, or fewer in a small store, and 1 in memory. A
	// store keeps the number that it was made with: another one is logged.
	Shards int
	// Sync is the time between two flushes of the store to the disk. A power cut
	// may lose the writes of that time; a crash of the process loses none. 0 means
	// 1 second. Negative means that the store acknowledges a write only when it is on
	// the disk, with one flush for all writes that wait. With NATS it has no effect: the servers
	// have a setting of their own, sync_interval.
	Sync time.Duration
	// Lease is how long a silent node counts as alive. 0 means 5 seconds, the least is
	// 1 second, or 12 seconds where NATS keeps replicas.
	Lease time.Duration
	// SessionIdle is how long an unused session is kept. 0 means 72 hours.
	SessionIdle time.Duration
	// SessionUnused is how long a session is kept whose client has sent nothing since
	// initialize, not even notifications/initialized. 0 means 10 minutes. It has no effect if
	// SessionIdle is not longer.
	SessionUnused time.Duration
	// SessionMax is how long any session is kept. 0 means 30 days.
	SessionMax time.Duration
	// TaskMax is the longest time for which a task is kept after its creation. 0 means 7 days.
	TaskMax time.Duration
	// ReplayAge is how long events can be replayed. 0 means 10 minutes.
	ReplayAge time.Duration
	// ReplayEvents is how many appends to a stream can be replayed, ReplayBytes how
	// many bytes. An append holds one event, or several that came at once. 0 means
	// 1,000, which is also the most, and 4 MiB.
	ReplayEvents int
	ReplayBytes  int64
}

// NATSOptions name the NATS servers that keep the store, for several processes together, or have the store of this process serve others. The zero
// value does neither: the store is in this process, for itself. Servers must have JetStream, and be nats-server 2.12.7 or newer; Troupe should have an account of its own there. New waits for them for at most 30 seconds, makes
// the streams that are missing, and checks those that are there.
//
// Processes on one store are one service: a client may come to any of them for its session, its event streams and its tasks,
// and one that dies leaves them to the others; see docs/clustering.md.
//
// Of a user in the URL, Token, NKeyFile and CredsFile, one may be set. Nothing of them is logged.
type NATSOptions struct {
	// URL is the address of a server, or of several of one cluster with commas between them: nats://HOST:PORT or
	// tls://HOST:PORT. USER:PASSWORD@ may stand before the host, or a token.
	URL string
	// Listen is HOST:PORT on which the store of this process serves others, which name it in their URL. It needs Options.Dir. While this process is away,
	// none of them has a store. They log in with Token, or with certificates that an authority in CAFile has signed: New
	// fails if neither is set. CertFile and KeyFile are then those of this process, and the other options must not be set. Port 0 takes
	// a free one, see [Runtime.StoreAddr].
	Listen string
	// Token is a token to log in with.
	Token string
	// NKeyFile is the path of a file with the seed of a user's nkey.
	NKeyFile string
	// CredsFile is the path of a file with the JWT of a user and the seed of its nkey, as nsc writes it.
	CredsFile string
	// CAFile is the path of a PEM file with the authorities that may have signed the servers' certificates. Empty takes
	// those of the system.
	CAFile string
	// CertFile and KeyFile are the paths of PEM files with the certificate that this process shows to the servers.
	CertFile, KeyFile string
	// Replicas is how many servers keep a copy of each stream: 1, 3 or 5. 0 leaves the streams that are there as they
	// are; new ones get 3 in a cluster, and 1 on a single server.
	Replicas int
	// Prefix goes in front of the names of all streams and subjects: [a-z0-9-]. Empty means troupe, or nothing if the server is a process that
	// listens. Processes with another prefix have another store.
	Prefix string
}

// String returns the URL without a user or a token, and none of the other options.
func (o NATSOptions) String() string { return cluster.Remote{URL: o.URL}.String() }

// mayBeShared reports whether other processes can have the same store.
func (o *NATSOptions) mayBeShared() bool { return o.URL != "" || o.Listen != "" }

// checkEffects refuses options that have no effect where the store of this process serves others.
func (o *NATSOptions) checkEffects() error {
	rest := *o
	rest.Listen, rest.Token, rest.CertFile, rest.KeyFile, rest.CAFile = "", "", "", "", ""
	if o.Listen != "" && rest != (NATSOptions{}) {
		return errors.New("Options.Store.NATS.Listen: the store is in this process: URL, NKeyFile, CredsFile, Replicas and Prefix must not be set")
	}
	return nil
}

// HTTPOptions are for requests over HTTP, and for [Runtime.Serve]. The rule of [Options]
// for 0 and negative values holds.
type HTTPOptions struct {
	// TLSCert and TLSKey are the paths of PEM files for Serve; both empty means no TLS. New refuses one without the other, and
	// files that cannot be read or do not belong together. Serve looks every five seconds whether they have changed: new
	// connections then see the new certificate, and the others go on. Files that do not belong together, or are written in
	// part, change nothing. See [Runtime.ReloadTLS].
	TLSCert, TLSKey string
	// AllowOrigins are the origins that browsers may call from, beside the
	// server's own.
	AllowOrigins []string
	// AllowHosts are the host names, with or without a port, that the server answers to,
	// beside localhost, 127.0.0.1 and [::1] and, on a listener beyond the loopback interface,
	// every IP address. Another name is answered with 403: the page that sends it may have
	// made the name stand for this server's address (DNS rebinding). On a UNIX socket an empty
	// list allows every name. "*" allows every name everywhere.
	AllowHosts []string
	// PublicURL is the URL under which clients reach the paths of the Runtime, such as
	// https://example.com/tools where a proxy cuts /tools off. Its path comes before the
	// address in the first event of HTTP+SSE, which clients could not use otherwise. Empty
	// means that no proxy changes paths.
	PublicURL string
	// TrustedProxies are the addresses of proxies whose word about the client's address
	// counts. Authenticate, Middleware, limits and logs then see that address in
	// http.Request.RemoteAddr. It comes from Forwarded (RFC 7239) or X-Forwarded-For: the
	// first address from the right that is not a trusted proxy. If the address cannot be
	// read, or the two headers differ, the request counts as the proxy's own. A proxy
	// must set one of the headers itself, as it would otherwise pass on its clients'
	// claims. Empty means that neither header is read.
	TrustedProxies []netip.Prefix
	// HealthListen is the address of a listener of its own for /healthz, /readyz and
	// /metrics in Serve, such as 127.0.0.1:9090, without TLS. Listen then answers them with
	// 404. The listener stays open to the end of a drain. Empty means that Listen serves them.
	HealthListen string
	// HealthListener is that listener, if the program has opened it; see [KeepSocket]. HealthListen is then its address.
	// ServeOn closes it. nil means that Serve opens HealthListen.
	HealthListener net.Listener
	// Serving is called when Serve lets in clients, once all its listeners are open, and Draining when a drain begins, whoever has begun
	// it. They are for telling a service manager, and must return soon. nil means none.
	Serving, Draining func()
	// PublicMetrics has Listen answer /metrics for everybody. The zero value has it do so for clients of this machine
	// alone, which reach it over a loopback address or a UNIX socket, with 127.0.0.1, [::1] or localhost as the Host, and through no
	// proxy: metrics name servers and tools, and say how busy they are. A proxy on this machine is known by the headers that it adds,
	// Forwarded, Via, X-Forwarded-For and the like, or X-Real-IP and the like, and by a Host that it passes on. If it does neither, the
	// world can read the metrics through it: have it refuse /metrics, or set HealthListen. That serves them to whoever reaches it.
	PublicMetrics bool
	// NetHTTP has Serve use net/http for all connections. Otherwise a listener of Troupe's own serves plain requests of HTTP/1.1, at about half
	// the cost, and gives net/http the connections that bring anything else. TLS is net/http's in any case.
	NetHTTP bool
	// Handler serves what has no server and no probe where [Runtime.Serve] listens: the paths of a web page, of webhooks, of
	// /.well-known/oauth-protected-resource. Its requests have the listener, the limits of connections and headers, BodyTimeout,
	// BodyRate and WriteTimeout of Limits, and the Host and Origin rules of all others; a drain waits for them until
	// two seconds before the end of DrainWait. How large a body may be is up to Handler. Authenticate and Middleware are for MCP alone: wrap Handler for
	// what it needs. The paths of servers, with those of HTTP+SSE, and of the probes are never Handler's: if it is an
	// [http.ServeMux] that has a pattern for one of them, New, Mount and Serve refuse it. It answers / in place of the
	// list of servers. nil answers 404.
	Handler http.Handler
	// NoSSE leaves out the endpoints of HTTP+SSE, the transport of 2024-11-05. Servers that do not speak that revision have none.
	NoSSE bool
	// StoredHeaders names the headers that are stored with a call that may run again, so
	// that [Call.Header] has them in another process, too. A request may have 8 KiB of
	// them; headers beyond that are left out. nil stores none. New refuses the names of
	// headers with secrets: Authorization, Proxy-Authorization, Cookie, Set-Cookie and
	// Mcp-Session-Id are never stored.
	StoredHeaders []string
	// ConnectionsPerAddress bounds the connections of one IPv4 address, or of one IPv6 network
	// of 64 bits, where Serve listens. 0 means 1,024, negative none. It is at most a sixteenth
	// of Connections. The addresses in TrustedProxies have no such bound. Connections beyond
	// it are closed at once.
	ConnectionsPerAddress int
	// Connections bounds the connections of all clients where Serve listens. 0 means one for
	// each 64 KiB of Shared.MaxMemory, or if that is less, for each file that the process may
	// open, without a reserve of 256, or of a quarter if that is less. Beyond it the new
	// connection is closed, unless its address has fewer than another one: then one of the
	// other's is closed, first one that is idle, and otherwise the one that has for longest
	// waited for the rest of a request or for its client to read a response.
	Connections int
	// MaxHeader is the largest header of a request in bytes, where Serve listens. 0
	// means 32 KiB. A larger one is answered with 431.
	MaxHeader int
	// HeaderTimeout is how long the header of a request may take to arrive, where Serve
	// listens, from its first byte or that of the connection. 0 means 10 s. The connection
	// is closed then.
	HeaderTimeout time.Duration
}

// Telemetry says where the metrics and spans of a Runtime go. A nil field means none.
type Telemetry struct {
	// MeterProvider gets metrics, TracerProvider a span for each request, below the one that its traceparent names, in `_meta` or
	// as a header. docs/metrics.md says what they hold.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Detail says by what operations are told apart in metrics: "tool" is by server, method, and tool or
	// prompt; "server" is by server and method; "method" by method alone. "" means "auto": by tool as long as there are
	// few, and coarser for those that come when there are many. What is counted without a name for that reason is in
	// troupe.metrics.coarse.
	Detail string
	// Principals puts a pseudonym of whoever makes a request on its span: the same for all nodes of a store.
	Principals bool
	// Requests says which requests are logged with one line each: the zero value none.
	Requests RequestLog
	// Metrics serves /metrics for Serve. nil means 404.
	Metrics http.Handler
}

// RequestLog says which requests are logged. A line has the principal, the server, the method, the name of the tool or prompt,
// the duration, the outcome and the trace. It never has what was sent, or a secret.
type RequestLog struct {
	// Log gets the lines. nil means Options.Log.
	Log *slog.Logger
	// All logs every request and notification, Errors those that fail.
	All, Errors bool
	// Slow logs those that take so long, and more. 0 means none.
	Slow time.Duration
}

// log returns what logs requests, nil if none are logged.
func (l RequestLog) log(or *slog.Logger) *telemetry.Requests {
	if !l.All && !l.Errors && l.Slow <= 0 {
		return nil
	}
	l.Log = cmp.Or(l.Log, or)
	return (*telemetry.Requests)(&l)
}

// Check returns the error with which New would refuse the options because of their values: it names
// every one that is out of bounds. It opens no store, and does not ask NATS servers or issuers.
func (o Options) Check() error {
	if err := o.settle(); err != nil {
		return fmt.Errorf("troupe: %w", err)
	}
	return nil
}

// settle sets each option that is 0 to its default, copies the slices, and reports every
// option that is out of bounds. The default of MaxStore depends on where the store is.
func (o *Options) settle() error {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.HTTP.HealthListener != nil {
		o.HTTP.HealthListen = cmp.Or(o.HTTP.HealthListener.Addr().String(), "a socket")
	}
	stored, err := storedHeaders(o.HTTP.StoredHeaders)
	o.HTTP.StoredHeaders = stored
	_, badURL := publicPath(o.HTTP.PublicURL)
	o.HTTP.AllowOrigins, o.HTTP.AllowHosts = slices.Clone(o.HTTP.AllowOrigins), slices.Clone(o.HTTP.AllowHosts)
	o.HTTP.TrustedProxies, o.MethodMiddleware = slices.Clone(o.HTTP.TrustedProxies), slices.Clone(o.MethodMiddleware)
	o.Revisions = spoken.OldestFirst(o.Revisions)
	store := o.clusterOptions()
	var badDetail error
	o.Telemetry.Detail = cmp.Or(o.Telemetry.Detail, telemetry.DetailAuto.String())
	if _, known := telemetry.ParseDetail(o.Telemetry.Detail); !known {
		badDetail = fmt.Errorf("Options.Telemetry.Detail is %q: want auto, tool, server or method", o.Telemetry.Detail)
	}
	_, unweighed := weightsOf(o.Shared.Weights)
	return errors.Join(
		err, badURL, badDetail, o.checkAuth(), spoken.Check("Options.Revisions", o.Revisions), o.HTTP.checkTLS(), o.HTTP.checkHandler("Serve", o.probePaths()...),
		limits.Settle("", o), unweighed, o.Store.NATS.checkEffects(), store.Check(), noneOf("Options.MethodMiddleware", o.MethodMiddleware),
	)
}

// NodeName returns the name under which a Runtime over these options will know itself ([Runtime.Node]), for whoever must know it
// before, such as a resource of OpenTelemetry. Where nothing says how the node is called, that is a new name, and must be set as Options.Store.Node.
func NodeName(o Options) string {
	if o.Store.Node != "" {
		return o.Store.Node
	}
	if o.Dir != "" {
		if name := cluster.StoredName(o.Dir); name != "" {
			return name
		}
	}
	return cluster.NewName()
}

// hasAuth reports whether it is known who makes a request.
func (o *Options) hasAuth() bool { return o.Authenticate != nil || o.Auth != nil }

// checkAuth refuses two ways to say who makes a request.
func (o *Options) checkAuth() error {
	if o.Authenticate != nil && o.Auth != nil {
		return errors.New("Options.Auth and Options.Authenticate both say who makes a request: set one")
	}
	return nil
}

// checkTLS refuses a certificate that Serve could not use.
func (o *HTTPOptions) checkTLS() error {
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return errors.New("Options.HTTP.TLSCert and TLSKey belong together: set both or none")
	}
	if o.TLSCert == "" {
		return nil
	}
	if _, err := keypair.Open(o.TLSCert, o.TLSKey); err != nil {
		return fmt.Errorf("Options.HTTP.TLSCert and TLSKey cannot be used: %w", err)
	}
	return nil
}

// openTLS returns the certificate that Serve shows, or nil without one.
func (o *HTTPOptions) openTLS() (*keypair.Pair, error) {
	if o.TLSCert == "" {
		return nil, nil
	}
	return keypair.Open(o.TLSCert, o.TLSKey)
}

// The paths that Serve answers itself.
const (
	healthPath  = "/healthz"
	readyPath   = "/readyz"
	metricsPath = "/metrics"
)

// probePaths returns the paths of the probes where Serve listens.
func (o *Options) probePaths() (paths []string) {
	if o.HTTP.HealthListen == "" {
		paths = append(paths, healthPath, readyPath)
		if o.Telemetry.Metrics != nil {
			paths = append(paths, metricsPath)
		}
	}
	return paths
}

// isProbe reports whether a path is that of a probe where Serve listens, whoever may see it.
func (o *Options) isProbe(path string) bool {
	return o.HTTP.HealthListen == "" && (path == healthPath || path == readyPath || path == metricsPath && o.Telemetry.Metrics != nil)
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
		Dir: o.Dir, Node: o.Store.Node, MaxStore: o.Store.MaxStore, Shards: o.Store.Shards, Sync: o.Store.Sync, Lease: o.Store.Lease, EventAge: eventAge(o.Store.ReplayAge), Log: o.Log,
		Remote: remote, Listen: listen, Prefix: x.Prefix, Alike: []cluster.Setting{{Name: "replay-age", Value: o.Store.ReplayAge.String()}},
	}
}

// checkHandler refuses an HTTPOptions.Handler that wants one of the paths for itself, as far as that can be known: a ServeMux
// tells. what says who answers them.
func (o *HTTPOptions) checkHandler(what string, paths ...string) error {
	mux, ok := o.Handler.(*http.ServeMux)
	switch {
	case !ok:
		return nil
	case mux == nil:
		return errors.New("Options.HTTP.Handler is a nil *http.ServeMux")
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			_, pattern := mux.Handler(&http.Request{Method: method, URL: &url.URL{Path: path}})
			if _, of, found := strings.Cut(pattern, " "); found {
				pattern = of
			}
			if pattern == path || pattern == path+"{$}" {
				return fmt.Errorf("Options.HTTP.Handler has a pattern for %s, which is never asked: %s answers that path", path, what)
			}
		}
	}
	return nil
}

// publicPath returns the path of a PublicURL, escaped and without a slash at its end.
func publicPath(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.ContainsAny(raw, "?#") {
		return "", errors.New("Options.HTTP.PublicURL is no URL such as https://HOST or https://HOST/PATH, which ends with its path")
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	if strings.Contains(path, "//") || strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../") {
		return "", errors.New("Options.HTTP.PublicURL is no URL that a path can follow: its own has an empty part, or one of dots alone")
	}
	return path, nil
}

// storePart is the part of the process's memory that a full store may need for its index.
const storePart = 4

// eventAge returns how long events are stored: longer than the record of their stream
// can outlive its last renewal. A record without its last event would look like the
// record of a call that got no response.
func eventAge(replay time.Duration) time.Duration {
	return actors.RecordTTL(replay) + 5*time.Second
}

// HostingOptions say how a Runtime keeps what runs for backends: processes of commands, and sessions at URLs.
type HostingOptions struct {
	// Keeper is the command of a program that becomes the keeper: the process that has the processes of backends, and outlives this one.
	// Arguments of its own follow. nil is this program, if it calls [host.Main]; without that the processes are children of this one, and
	// end with it.
	Keeper []string
	// Keep is for how long the keeper keeps processes that no Runtime has adopted, once this one is gone. It keeps them only for a Runtime with
	// Options.Dir, since the next one finds them there. 0 means 30 seconds; negative keeps nothing.
	Keep time.Duration
	// MaxInstances is how many instances there may be on this node, over all servers. 0 means 512, negative no bound but those of
	// the backends.
	MaxInstances int
	// LearnWait is how long a request waits for the lists of a backend of which nothing is known yet, before it is answered without
	// that backend. 0 means 5 seconds.
	LearnWait time.Duration
	// LearnAtStart begins an instance of each backend of which nothing is known yet as soon as its server is mounted, and has it say what it
	// lists. Otherwise the first client begins one.
	LearnAtStart bool
}
