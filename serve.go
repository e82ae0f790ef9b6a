package troupe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/transport"
)

// ErrExposed reports an address beyond the loopback interface without
// authentication: nothing was served.
var ErrExposed = errors.New("troupe: listening beyond the loopback interface without authentication needs AllowAnonymous")

const (
	defaultListen     = "127.0.0.1:8080"
	defaultDrainDelay = 3 * time.Second
	defaultDrainWait  = 30 * time.Second
)

// Listen opens the address of Options.Listen for Serve.
func (rt *Runtime) Listen() (net.Listener, error) {
	addr := rt.opts.Listen
	if addr == "" {
		addr = defaultListen
	}
	if rt.opts.Authenticate == nil && !rt.opts.AllowAnonymous && !loopback(addr) {
		return nil, fmt.Errorf("%w: %s", ErrExposed, addr)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("troupe: %w", err)
	}
	return ln, nil
}

func loopback(addr string) bool {
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

// Serve listens and serves the mounted servers, /healthz, /readyz and /metrics
// until ctx ends, and then drains: it stops being ready, serves on for
// DrainDelay, closes idle streams so that their clients reconnect, and waits for
// calls for up to DrainWait. It closes the Runtime before it returns.
func (rt *Runtime) Serve(ctx context.Context) error {
	ln, err := rt.Listen()
	if err != nil {
		return errors.Join(err, rt.Close(context.WithoutCancel(ctx)))
	}
	return rt.ServeOn(ctx, ln)
}

// ServeOn is Serve on a listener of the caller's, which it closes.
func (rt *Runtime) ServeOn(ctx context.Context, ln net.Listener) error {
	hs := &http.Server{Handler: http.HandlerFunc(rt.serveAll), MaxHeaderBytes: max(rt.opts.MaxHeader, 0),
		ErrorLog: slog.NewLogLogger(rt.log.Handler(), slog.LevelWarn)}
	transport.Configure(hs)
	failed := make(chan error, 1)
	go func() {
		if rt.opts.TLSCert != "" || rt.opts.TLSKey != "" {
			failed <- hs.ServeTLS(ln, rt.opts.TLSCert, rt.opts.TLSKey)
			return
		}
		failed <- hs.Serve(transport.Reuse(ln, hs))
	}()
	after := context.WithoutCancel(ctx)
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("troupe: serve: %w", err), rt.Close(after))
	case <-ctx.Done():
	}
	err := rt.drain(after)
	stop, cancel := context.WithTimeout(after, time.Second)
	defer cancel()
	if hs.Shutdown(stop) != nil {
		_ = hs.Close()
	}
	return err
}

// drain lets calls end and closes the Runtime.
func (rt *Runtime) drain(ctx context.Context) error {
	rt.ready.Store(false)
	rt.log.Info("draining", "calls", rt.node.Stats().InFlight)
	delay := rt.opts.DrainDelay
	if delay == 0 {
		delay = defaultDrainDelay
	}
	if delay > 0 {
		time.Sleep(delay)
	}
	wait := rt.opts.DrainWait
	if wait <= 0 {
		wait = defaultDrainWait
	}
	patience, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	rt.node.Drain(patience)
	end, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return rt.Close(end)
}

// serveAll serves the mounted servers, and what Serve has beside them.
func (rt *Runtime) serveAll(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch r.URL.Path {
		case "/healthz":
			plainText(w, http.StatusOK, "ok\n")
			return
		case "/readyz":
			rt.serveReady(w, r)
			return
		case "/metrics":
			if rt.opts.Metrics != nil {
				rt.opts.Metrics.ServeHTTP(w, r)
				return
			}
		}
	}
	rt.ServeHTTP(w, r)
}

func (rt *Runtime) serveReady(w http.ResponseWriter, _ *http.Request) {
	switch {
	case !rt.ready.Load():
		plainText(w, http.StatusServiceUnavailable, "draining\n")
	case rt.cluster.Suspended():
		plainText(w, http.StatusServiceUnavailable, "the store does not answer\n")
	default:
		plainText(w, http.StatusOK, "ready\n")
	}
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
