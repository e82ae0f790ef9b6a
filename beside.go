package troupe

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// The paths that Serve answers itself.
const (
	healthPath  = "/healthz"
	readyPath   = "/readyz"
	metricsPath = "/metrics"
)

// probes returns the paths of the probes where Serve listens.
func (o *Options) probes() []string {
	switch {
	case o.HTTP.HealthListen != "":
		return nil
	case o.Telemetry.Metrics == nil:
		return []string{healthPath, readyPath}
	}
	return []string{healthPath, readyPath, metricsPath}
}

// isProbe reports whether a path is that of a probe where Serve listens, whoever may see it.
func (o *Options) isProbe(path string) bool {
	return o.HTTP.HealthListen == "" && (path == healthPath || path == readyPath || path == metricsPath && o.Telemetry.Metrics != nil)
}

// checkHandler refuses an HTTPOptions.Handler that wants one of the paths for itself, as far as that can be known: a ServeMux
// tells. what says who answers them.
func (o *HTTPOptions) checkHandler(what string, paths ...string) error {
	mux, ok := o.Handler.(*http.ServeMux)
	if !ok {
		return nil
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

// checkMounts is checkHandler for the servers that are mounted now.
func (rt *Runtime) checkMounts() error {
	for _, m := range rt.mounted() {
		if err := rt.opts.HTTP.checkHandler("the server "+m.service.id, m.paths...); err != nil {
			return fmt.Errorf("troupe: %w", err)
		}
	}
	return nil
}

// serveBeside has HTTPOptions.Handler serve a request for a path that is nobody else's. It reports whether there is a Handler.
func (rt *Runtime) serveBeside(w http.ResponseWriter, r *http.Request) bool {
	h := rt.opts.HTTP.Handler
	if h == nil || rt.opts.isProbe(r.URL.Path) {
		return false
	}
	if _, mounted := rt.route(r.URL.Path); mounted {
		return false
	}
	rt.guard.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.guard.Refuse(w, r) {
			return
		}
		rt.beside.Add(1)
		defer rt.beside.Add(-1)
		h.ServeHTTP(w, r)
	}), false)
	return true
}

// finishBeside waits until HTTPOptions.Handler serves no request, no longer than until is open.
func (rt *Runtime) finishBeside(until <-chan struct{}) {
	for rt.beside.Load() > 0 {
		select {
		case <-until:
			return
		case <-time.After(drainLook):
		}
	}
}
