package troupe

import (
	"fmt"
	"net/http"
	"time"
)

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

// besideLook is how often a drain looks whether HTTPOptions.Handler still serves a request.
const besideLook = 10 * time.Millisecond

// finishBeside waits until HTTPOptions.Handler serves no request, no longer than until is open.
func (rt *Runtime) finishBeside(until <-chan struct{}) {
	for rt.beside.Load() > 0 {
		select {
		case <-until:
			return
		case <-time.After(besideLook):
		}
	}
}
