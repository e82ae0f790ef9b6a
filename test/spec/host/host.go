package host

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
)

// Host is a runtime with one server behind an in-memory listener.
type Host struct {
	T        *testing.T
	Runtime  *troupe.Runtime
	Server   *troupe.Server // mounted at /mcp
	Listener *kit.Listener  // nil for a real one
	HTTP     *http.Client   // connects to the listener
	URL      string         // of the server
	m        *Meter         // gets what the runtime reports
}

// Unhurried are rates that tests with many calls do not reach; the limiter still runs.
var Unhurried = troupe.Options{Limits: troupe.Limits{LogRate: -1, CallRate: 1e6}, Shared: troupe.SharedLimits{PrincipalRate: 1e6}}

// New starts a host that serves the test tools and ends with the test. It may be used inside and outside of a bubble.
func New(t *testing.T, o troupe.Options, so *troupe.ServerOptions) *Host {
	t.Helper()
	if o.Store.Sync == 0 {
		o.Store.Sync = time.Hour // A flush takes its time on the disk, also where hours pass in no time.
	}
	if o.Store.Lease == 0 && testing.Short() {
		o.Store.Lease = time.Minute // Where hours pass, renewing it each second is most of what happens.
	}
	o.Store.NoSocket = true // it would wait for the network, and no virtual time would pass
	m := metered(&o)
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{T: t, Runtime: rt, m: m, Server: troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, so), Listener: kit.NewListener(), URL: "http://127.0.0.1/mcp"}
	AddTestTools(h.Server)
	rt.Mount("/mcp", h.Server)
	hs := &http.Server{Handler: rt}
	go func() { _ = hs.Serve(h.Listener) }()
	tr := &http.Transport{DialContext: h.Listener.Dial, MaxIdleConnsPerHost: 100}
	h.HTTP = &http.Client{Transport: tr}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		tr.CloseIdleConnections()
		_ = hs.Close()
	})
	return h
}

// NewLoopback is [New] on a real listener of the loopback interface, with the limits that Serve sets. There no call
// becomes a stream because it takes long. wrap may change the listener; nil leaves it. It does not work in a bubble.
func NewLoopback(t *testing.T, o troupe.Options, so *troupe.ServerOptions, wrap func(net.Listener) net.Listener) *Host {
	t.Helper()
	o.DrainDelay, o.DrainWait = -1, time.Second
	// A busy machine makes no streams of short calls.
	o.Limits.Grace, o.Limits.StatelessGrace = cmp.Or(o.Limits.Grace, time.Hour), cmp.Or(o.Limits.StatelessGrace, time.Hour)
	m := metered(&o)
	rt, err := troupe.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{T: t, Runtime: rt, m: m, Server: troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, so)}
	AddTestTools(h.Server)
	rt.Mount("/mcp", h.Server)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.URL = "http://" + ln.Addr().String() + "/mcp"
	if wrap != nil {
		ln = wrap(ln)
	}
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	h.HTTP = &http.Client{Transport: tr}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- rt.ServeOn(ctx, ln) }()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		stop()
		if err := <-served; err != nil && !errors.Is(err, context.DeadlineExceeded) { // on a machine that stands still nothing closes in time
			t.Errorf("serve: %v", err)
		}
	})
	return h
}

// Client returns a client without a session. It checks what it receives against the official schema.
func (h *Host) Client() *kit.Client {
	c := h.Unchecked()
	conform(c)
	return c
}

// Unchecked returns a client that does not check responses against the schema, for many of them.
func (h *Host) Unchecked() *kit.Client {
	return &kit.Client{T: h.T, HTTP: h.HTTP, URL: h.URL}
}

// Session returns a client with a session that can answer everything.
func (h *Host) Session() *kit.Client {
	h.T.Helper()
	return h.Client().Initialize(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)
}

// BatchingSession returns a client with a session of the revision that has batches.
func (h *Host) BatchingSession() *kit.Client {
	h.T.Helper()
	return h.Unchecked().InitializeAs("2025-03-26", `{"sampling":{},"roots":{}}`)
}

// SSE opens a connection of the HTTP+SSE transport.
func (h *Host) SSE() *kit.SSE {
	h.T.Helper()
	s := h.Unchecked().OpenSSE("/sse")
	h.T.Cleanup(s.Stream.Close)
	return s
}

// Stateless returns a client of 2026-07-28 that declares capabilities in each request.
func (h *Host) Stateless(capabilities string) *Stateless {
	h.T.Helper()
	c := h.Unchecked()
	conformTo(c, R20260728)
	return &Stateless{T: h.T, Client: c, Capabilities: capabilities}
}

// AddTool adds a tool without arguments.
func (h *Host) AddTool(name string, needs mcp.Capability, f func(ctx context.Context, call *troupe.Call) (string, error)) {
	troupe.AddTool(h.Server, troupe.Tool{Name: name, Needs: needs},
		func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) { return f(ctx, call) })
}

// User is an Options.Authenticate by the header X-User. Without the header the client is anonymous. It refuses eve.
func User(r *http.Request) (troupe.Principal, error) {
	switch name := r.Header.Get("X-User"); name {
	case "":
		return troupe.Principal{}, nil
	case "eve":
		return troupe.Principal{}, errors.New("eve's key is k-12345")
	default:
		return troupe.Principal{Issuer: "test", Subject: name}, nil
	}
}

// As makes all later requests of c come from the user with this name.
func As(c *kit.Client, name string) *kit.Client {
	c.Header = http.Header{"X-User": {name}}
	return c
}
