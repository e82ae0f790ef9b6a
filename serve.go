package troupe

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/transport"
	"github.com/troupe-run/troupe/transport/server"
	"github.com/troupe-run/troupe/transport/server/http1"
)

// ErrExposed reports an address beyond the loopback interface without
// authentication: nothing was served.
var ErrExposed = errors.New("troupe: listening beyond the loopback interface without authentication needs AllowAnonymous")

const defaultListen = "127.0.0.1:8080"

// Listen returns a listener on the address of Options.Listen, for ServeOn. It fails with
// ErrExposed where Serve would.
func (rt *Runtime) Listen() (net.Listener, error) {
	addr := rt.opts.Listen
	if addr == "" {
		addr = defaultListen
	}
	if !rt.opts.hasAuth() && !rt.opts.AllowAnonymous && !isLoopback(addr) {
		return nil, fmt.Errorf("%w: %s", ErrExposed, addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	return ln, nil
}

func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Serve listens and serves the mounted servers, /healthz, /readyz, /metrics for clients of this
// machine (or these three at HTTPOptions.HealthListen), the metadata of Options.Auth and, without Authenticate and Auth, a list of the servers' paths
// at /. HTTPOptions.Handler answers what is left. Serve answers no path for a Host or an Origin that is not allowed. When ctx ends it
// drains. It closes the Runtime before it returns.
//
// A drain loses no call that it can keep. For DrainDelay the Runtime is not ready, but
// still serves; its responses close their connections, so that a load balancer moves
// to other nodes. For up to DrainWait it then serves on while calls run that only this
// process can end: calls that may not run again, calls whose clients could not
// come back for them, and requests of HTTPOptions.Handler. New requests of stateless clients get 503 meanwhile, so that they go
// to another process. Then it stops listening and finishes the requests on open
// connections. Clients of calls that may run again, and of idle streams, come back to
// the next process. Serve returns as soon as nothing is left. The command troupe drain has
// the same effect as the end of ctx.
func (rt *Runtime) Serve(ctx context.Context) error {
	ln, err := rt.Listen()
	if err != nil {
		return errors.Join(err, rt.Close(context.WithoutCancel(ctx)))
	}
	return rt.ServeOn(ctx, ln)
}

// ServeOn is Serve on the caller's listener, which it closes; see [KeepSocket] for a socket that another process has, too.
func (rt *Runtime) ServeOn(ctx context.Context, ln net.Listener) error {
	rt.drainer.serves.Store(true)
	after := context.WithoutCancel(ctx)
	shut, err := func() {}, rt.table.checkMounts()
	if err == nil {
		shut, err = rt.endpoints.openHealth()
	}
	if err != nil {
		if health := rt.opts.HTTP.HealthListener; health != nil {
			_ = health.Close()
		}
		return errors.Join(err, ln.Close(), rt.Close(after))
	}
	defer shut()
	hs := &http.Server{Handler: http.HandlerFunc(rt.endpoints.serveAll), ReadHeaderTimeout: rt.opts.HTTP.HeaderTimeout, MaxHeaderBytes: rt.opts.HTTP.MaxHeader,
		ErrorLog: log.New(serverLog{rt}, "", 0)}
	transport.Configure(hs)
	door := server.NewListener(ln, hs)
	door.LimitWrites(rt.opts.Limits.WriteTimeout)
	if _, rt.drainer.kept = ln.(keptListener); rt.drainer.kept {
		door.SpareNew()
	}
	all, perAddress := limits.ConnectionsOf(rt.opts.HTTP.Connections, rt.opts.HTTP.ConnectionsPerAddress, rt.opts.Shared.MaxMemory)
	door.Limit(server.Crowd{All: all, PerAddress: perAddress, Network: quota.Network, Exempt: rt.opts.HTTP.TrustedProxies, Refused: rt.endpoints.turnedAway, Faulty: rt.observer().Rejected})
	failed := make(chan error, 1)
	var front *http1.Front // nil: net/http serves all
	serve := func() error { return hs.ServeTLS(door, "", "") }
	if rt.pair != nil {
		hs.TLSConfig = &tls.Config{GetCertificate: rt.pair.Certificate}
		defer rt.endpoints.watchTLS(after)()
	} else {
		in := transport.Reuse(door, hs)
		if !rt.opts.HTTP.NetHTTP {
			front = http1.NewFront(in, hs)
			door.CountAlso(front.Handing)
			in = front
		}
		serve = func() error { return hs.Serve(in) }
	}
	if rt.opts.HTTP.Serving != nil {
		rt.opts.HTTP.Serving()
	}
	go func() { failed <- serve() }()
	select {
	case err := <-failed:
		if health := rt.opts.HTTP.HealthListener; health != nil {
			_ = health.Close()
		}
		return errors.Join(fmt.Errorf("troupe: serve: %w", err), rt.Close(after))
	case <-ctx.Done():
	case <-rt.drainer.dismissed:
	}
	return rt.drainer.endServing(after, door, front, hs)
}

// KeepSocket returns ln for [Runtime.ServeOn] and HTTPOptions.HealthListener, where another process holds the same socket and
// gives it to the process that follows this one: systemd with socket activation, or a program that starts servers anew.
//
// A drain then closes this process's copy alone, and refuses nobody: connections that it has not accepted wait in the
// socket. It stops accepting as soon as DrainDelay is over and no call of a session runs: such a call may ask its client, which may need
// another connection for the answer. New requests of stateless clients on connections that are open are served to the end, since no other process
// could serve them sooner. A connection on which nothing has come yet has a second to send its request.
//
// Do not use it for a listener whose socket this process alone has: clients that connect during the drain would be reset.
func KeepSocket(ln net.Listener) net.Listener { return keptListener{ln} }

// keptListener hides the type of a listener: of one that package transport/server knows it would shut down the socket, for
// whoever has it.
type keptListener struct{ net.Listener }

// lookForTLS is how often Serve looks whether the files of its certificate have changed.
const lookForTLS = 5 * time.Second

// watchTLS looks after the files of the certificate until the caller calls stop.
func (rt *endpoints) watchTLS(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rt.pair.Watch(ctx, lookForTLS, rt.noteTLS)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// noteTLS logs and counts that the files of the certificate have changed; err is why they cannot be used.
func (rt *endpoints) noteTLS(err error) {
	if err != nil {
		rt.tel.TLSReloaded("refused")
		rt.log.Error("the files with the TLS certificate have changed and cannot be used: the certificate stays as it was", "certificate", rt.opts.HTTP.TLSCert, "key", rt.opts.HTTP.TLSKey, "error", err)
		return
	}
	rt.tel.TLSReloaded("applied")
	rt.log.Info("the TLS certificate was read again", "certificate", rt.opts.HTTP.TLSCert, "expires", rt.pair.Expires())
}

// ReloadTLS reads the files of HTTPOptions.TLSCert and TLSKey at once, which Serve does by itself when it finds that they
// have changed. If they cannot be used, ReloadTLS returns why, and the certificate stays as it was. Without these files
// it does nothing.
func (rt *Runtime) ReloadTLS() error {
	if rt.pair == nil {
		return nil
	}
	fresh, err := rt.pair.Read()
	if fresh || err != nil {
		rt.endpoints.noteTLS(err)
	}
	return err
}

// serverLog takes what an http.Server logs. Clients can cause nearly all of that as often as they like: a record a minute
// says how often, and handshakes that fail are counted. Panics are all logged.
type serverLog struct{ rt *Runtime }

func (l serverLog) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	switch {
	case strings.HasPrefix(text, "http: TLS handshake error "):
		l.rt.tel.Rejected(0, "tls-handshake")
		l.rt.hits.LogRarely(slog.LevelInfo, "a TLS handshake failed", slog.String("error", text))
	case strings.HasPrefix(text, "http: panic serving "), strings.HasPrefix(text, "http2: panic serving "):
		l.rt.log.Warn(text)
	default:
		l.rt.hits.LogRarely(slog.LevelWarn, "the HTTP server reports an error", slog.String("error", text))
	}
	return len(p), nil
}

// endpoints are the paths that Serve answers beside the mounted servers.
type endpoints struct {
	*Runtime
	scraping *quota.Turns[*quota.Account] // to read /metrics
	watched  atomic.Bool                  // a client has asked whether it is ready or alive
}

// turnedAway counts and logs a connection that was not let in.
func (rt *endpoints) turnedAway(limit *limits.Row, from netip.Addr) {
	rt.tel.Rejected(0, limit.Counted)
	if !from.IsValid() { // a proxy, or no address
		rt.hits.Hit(limit)
		return
	}
	rt.hits.Hit(limit, slog.String("address", from.String()))
}

// serveAll serves the mounted servers, and the other paths of Serve.
func (rt *endpoints) serveAll(w http.ResponseWriter, r *http.Request) {
	if rt.leaving.Load() {
		defer rt.drainer.countWhileDraining(w)()
	}
	r = rt.withClientAddress(r)
	if rt.opts.HTTP.HealthListen == "" {
		if probe := rt.probeHandler(r); probe != nil && (r.URL.Path != metricsPath || rt.opts.HTTP.PublicMetrics || transport.Local(r)) {
			rt.guard.Serve(w, r, probe, true)
			return
		}
	}
	if rt.serveWellKnown(w, r) || rt.table.serveBeside(w, r) {
		return
	}
	if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && rt.hasIndex() {
		rt.guard.Serve(w, r, http.HandlerFunc(rt.serveIndex), false)
		return
	}
	rt.table.serveMounts(w, r)
}

// WellKnown serves the metadata of Options.Auth, below /.well-known/, for programs with a mux of their own: ServeHTTP and Serve do it, too. Any other path, and each one
// without Options.Auth, is answered with 404.
func (rt *Runtime) WellKnown() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r = rt.endpoints.withClientAddress(r); !rt.endpoints.serveWellKnown(w, r) {
			rt.guard.Serve(w, r, http.HandlerFunc(rt.endpoints.serveNothing), false)
		}
	})
}

// hasIndex reports whether a GET of / names the servers. Callers that must authenticate learn their paths elsewhere.
func (rt *endpoints) hasIndex() bool {
	_, mounted := rt.table.handlerAt("/")
	return !mounted && !rt.opts.hasAuth()
}

func (rt *endpoints) serveIndex(w http.ResponseWriter, r *http.Request) {
	if !rt.guard.Refuse(w, r) {
		rt.respondText(w, r, http.StatusOK, rt.indexText())
	}
}

// mostListed is how many servers the index names.
const mostListed = 100

// indexText tells a person who opens the address in a browser where MCP is.
func (rt *endpoints) indexText() string {
	var paths []string
	for _, m := range rt.table.mountedServers() {
		line := m.paths[0]
		if len(m.paths) > 2 {
			line += "   (" + m.paths[2] + " for clients of HTTP+SSE)"
		}
		paths = append(paths, line)
	}
	if len(paths) == 0 {
		return "There is no MCP server here at the moment.\n"
	}
	slices.Sort(paths)
	more := ""
	if n := len(paths) - mostListed; n > 0 {
		paths, more = paths[:mostListed], fmt.Sprintf("and %d more\n", n)
	}
	return "MCP is at\n\n" + strings.Join(paths, "\n") + "\n" + more
}

// probeHandler returns the handler of /healthz, /readyz or /metrics if the request is one for them, and otherwise nil.
func (rt *endpoints) probeHandler(r *http.Request) http.Handler {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	var serve http.HandlerFunc
	switch r.URL.Path {
	case healthPath:
		serve = rt.serveHealth
	case readyPath:
		serve = rt.serveReady
	case metricsPath:
		if rt.opts.Telemetry.Metrics == nil {
			return nil
		}
		serve = rt.serveMetrics
	default:
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// HAProxy and other balancers ask with HTTP/1.0 and no Host. No browser does.
		nameless := r.Host == "" && !r.ProtoAtLeast(1, 1) && len(r.Header["Origin"]) == 0
		if nameless || !rt.guard.Refuse(w, r) {
			serve(w, r)
		}
	})
}

// openHealth serves the probes on HTTPOptions.HealthListen, or its listener, if that is set, until the caller
// calls shut.
func (rt *endpoints) openHealth() (shut func(), err error) {
	if rt.opts.HTTP.HealthListen == "" {
		return func() {}, nil
	}
	ln := rt.opts.HTTP.HealthListener
	if ln == nil {
		if ln, err = net.Listen("tcp", rt.opts.HTTP.HealthListen); err != nil {
			return nil, fmt.Errorf("troupe: health: %w", err)
		}
	}
	hs := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := rt.probeHandler(r)
			if h == nil {
				rt.guard.Serve(w, r, http.HandlerFunc(rt.serveNothing), false)
				return
			}
			rt.guard.Serve(w, r, h, true)
		}),
		ReadTimeout: limits.HeaderTimeout.Value(), WriteTimeout: limits.WriteTimeout.Value(), IdleTimeout: time.Minute,
		MaxHeaderBytes: rt.opts.HTTP.MaxHeader, ErrorLog: log.New(serverLog{rt.Runtime}, "", 0),
	}
	room := server.NewListener(ln, hs)
	room.Limit(server.Crowd{All: limits.HealthConnections.Value(), Network: quota.Network, Faulty: rt.observer().Rejected, Refused: func(limit *limits.Row, from netip.Addr) {
		if limit == limits.Connections.Row {
			limit = limits.HealthConnections.Row
		}
		rt.turnedAway(limit, from)
	}})
	rt.log.Info("serving health", "address", ln.Addr().String())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := hs.Serve(room); !errors.Is(err, http.ErrServerClosed) {
			rt.log.Error("health is not served any more", "error", err)
		}
	}()
	return func() {
		_ = hs.Close()
		<-ended
	}, nil
}

// serveNothing answers a request for a path where nothing is.
func (rt *endpoints) serveNothing(w http.ResponseWriter, r *http.Request) {
	rt.respondNotFound(w, r, "404 page not found\n")
}

// serveNoMount answers a request for a path where no server is mounted.
func (rt *endpoints) serveNoMount(w http.ResponseWriter, r *http.Request) {
	text := "404 page not found\n"
	if rt.opts.HTTP.Handler == nil && rt.hasIndex() {
		text = "404 page not found: GET / names the MCP endpoints\n"
	}
	rt.respondNotFound(w, r, text)
}

func (rt *endpoints) respondNotFound(w http.ResponseWriter, r *http.Request, text string) {
	if !rt.guard.Refuse(w, r) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		rt.respondText(w, r, http.StatusNotFound, text)
	}
}

// sickAfter is how long the store may be unable to write before /healthz fails, so that
// an orchestrator restarts the process.
const sickAfter = time.Minute

// healthStatus returns the response of /healthz: o is why the store cannot write, or nil.
func healthStatus(o *cluster.Outage, now time.Time) (status int, text string) {
	if o == nil || now.Sub(o.Since) < sickAfter {
		return http.StatusOK, "ok\n"
	}
	return http.StatusServiceUnavailable, fmt.Sprintf("%s, for %v\n", o, now.Sub(o.Since).Round(time.Second))
}

// errDraining says why a Runtime that is about to end is not ready.
var errDraining = errors.New("draining")

// Ready returns nil when the Runtime can serve, and otherwise an error that says why not:
// the Runtime drains or is closed, its store does not answer or cannot write, or NATS
// servers refuse what tasks need, so that none may be created. Serve
// answers /readyz by it. It is for the readiness probe of a program with an http.Server of
// its own, and costs almost nothing.
func (rt *Runtime) Ready() error {
	rt.endpoints.watched.Store(true)
	if !rt.ready.Load() {
		return errDraining
	}
	if outage := rt.cluster.Outage(); outage != nil {
		return errors.New(outage.String())
	}
	if rt.cluster.Suspended() {
		return errors.New("the store does not answer")
	}
	if wrong := rt.cluster.ClockWrong(); wrong != nil {
		return wrong
	}
	if clash := rt.cluster.Clash(); clash != nil {
		return clash
	}
	if stream := rt.cluster.Silent(); stream != "" {
		return fmt.Errorf("the store cannot be written: its stream %s does not answer", stream)
	}
	return rt.tasks.Fault()
}

// Healthy returns nil as long as the process works, and otherwise what is wrong: its store has been unable to write for a
// minute, and another process may fare better. Serve answers /healthz by it. It is for the liveness probe, or the watchdog,
// of a program with an http.Server of its own, and costs almost nothing.
func (rt *Runtime) Healthy() error {
	if status, text := healthStatus(rt.cluster.Outage(), time.Now()); status != http.StatusOK {
		return errors.New(strings.TrimSpace(text))
	}
	return nil
}

func (rt *endpoints) serveHealth(w http.ResponseWriter, r *http.Request) {
	rt.watched.Store(true)
	status, text := healthStatus(rt.cluster.Outage(), time.Now())
	rt.respondText(w, r, status, text)
}

// serveMetrics serves /metrics. One request at a time reads them, and with them the state of
// the store; the next one, by turns of their addresses, may do so after a pause. A client that
// does not read its response holds up nobody: the next one may read before the response is
// written.
func (rt *endpoints) serveMetrics(w http.ResponseWriter, r *http.Request) {
	wait, cancel := context.WithTimeout(r.Context(), limits.ScrapeWait.Value())
	defer cancel()
	if !rt.scraping.Take(wait, rt.accountOf(nil, r.RemoteAddr)) {
		rt.observer().Rejected(http.StatusServiceUnavailable, limits.ScrapeWait.Counted)
		rt.respondText(w, r, http.StatusServiceUnavailable, "others read the metrics\n")
		return
	}
	p := &page{header: w.Header(), status: http.StatusOK}
	func() {
		defer time.AfterFunc(limits.ScrapeEvery.Value(), rt.scraping.Leave)
		rt.opts.Telemetry.Metrics.ServeHTTP(p, r)
	}()
	rt.guard.Respond(w, r, p.status, p.body.Bytes())
}

// page is a response that is not written yet.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

func (rt *endpoints) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := rt.Ready(); err != nil {
		rt.respondText(w, r, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	rt.respondText(w, r, http.StatusOK, "ready\n")
}

func (rt *endpoints) respondText(w http.ResponseWriter, r *http.Request, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rt.guard.Respond(w, r, status, []byte(text))
}

// withClientAddress returns r with the address of its client.
func (rt *endpoints) withClientAddress(r *http.Request) *http.Request {
	return transport.Forwarded{Trusted: rt.opts.HTTP.TrustedProxies}.Seen(r)
}

// serveWellKnown serves a request for metadata, and reports whether it is one.
func (rt *endpoints) serveWellKnown(w http.ResponseWriter, r *http.Request) bool {
	return rt.bearer != nil && rt.bearer.ServeMetadata(w, r)
}

// ServeStdio serves srv to the one client on standard input and output, as hosts
// start servers on their own machine (basic/transports, stdio): one message per
// line, and nothing else on standard output. The session is bound to the process.
//
// When the client closes standard input, ServeStdio waits up to DrainWait for the calls
// in flight and returns nil; questions to the client fail from then on. When ctx ends
// first, as on SIGTERM, calls have 1 second. In both cases calls that still run end with
// -32010. ServeStdio closes the Runtime before it returns. A goroutine may still read
// standard input then: end the process.
func (rt *Runtime) ServeStdio(ctx context.Context, srv *Server) error {
	return rt.ServePipe(ctx, srv, os.Stdin, os.Stdout)
}

// stdioPatience is how long calls have to end after SIGTERM: hosts kill a server
// that takes much longer.
const stdioPatience = time.Second

// ServePipe is ServeStdio over in and out, which it does not close.
func (rt *Runtime) ServePipe(ctx context.Context, srv *Server, in io.Reader, out io.Writer) error {
	known, err := rt.table.serviceOf(srv)
	if err != nil {
		return errors.Join(err, rt.Close(context.WithoutCancel(ctx)))
	}
	principal, err := rt.auth.pipePrincipal(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("troupe: %w", err), rt.Close(context.WithoutCancel(ctx)))
	}
	rt.drainer.serves.Store(true)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-rt.drainer.dismissed:
			stop()
		case <-ctx.Done():
		}
	}()
	svc := known.svc
	o := transport.PipeOptions{Log: rt.log, Observer: rt.observer()}
	limits.Fill(&o, rt.table.optionsOf(known.limits))
	pipe := transport.NewPipe(in, out, o)
	session := actors.Input{Tenant: anonymous, Conn: pipe, Patient: true}
	session.Caller, session.Via.HTTP = principal, actors.OverPipe
	known.access.identifyCaller(&session, principal)
	rt.node.Connect(svc, &session)
	hush := context.AfterFunc(ctx, func() { rt.node.EndInput(svc, &session) }) // a request may wait until another has ended
	defer hush()
	err = pipe.Serve(ctx, func(m *codec.Message, line []byte) {
		in := session // Message changes it
		var refused *mcp.Error
		if in.Stateless, refused = known.speaks.JudgeMessage(m); refused != nil {
			_ = pipe.Room(ctx)
			pipe.Answer(200, codec.AppendError(nil, m.ID, refused.Code, refused.Message, refused.Data))
			return
		}
		if refused := known.scopes.checkMessageScopes(&in, principal, m, line); refused != nil { // nobody but package troupetest
			_ = pipe.Room(ctx)
			pipe.Answer(200, codec.AppendError(nil, m.ID, refused.Code, refused.Text, refused.Data))
			return
		}
		rt.node.Message(svc, &in, principal, m, line)
	})
	signalled := ctx.Err() != nil
	if signalled || errors.Is(err, transport.ErrGone) {
		err = nil // the client, or the host that started the process, ended it
	}
	patience, cancel := rt.drainer.lastCallsContext(ctx, signalled)
	rt.node.Disconnect(patience, svc, &session)
	cancel()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if pipe.Wait(end) != nil {
		rt.log.Info("the client has not read all messages on standard output")
	}
	return errors.Join(err, rt.Close(end))
}
