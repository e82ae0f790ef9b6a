package bearer

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-run/troupe/auth"
)

// The paths of metadata.
const (
	// ResourcePath is where that of a server is looked for, before the server's path (RFC 9728, 3.1), and alone by clients that know no more than a host.
	ResourcePath = "/.well-known/oauth-protected-resource"
	// IssuerPath is where clients of 2025-03-26 look for that of the authorization server (RFC 8414, 3).
	IssuerPath = "/.well-known/oauth-authorization-server"
)

const (
	wellKnown   = "/.well-known/"
	metadataAge = 5 * time.Minute // for caches
	methods     = "GET, HEAD, OPTIONS"
	// headers are those that a page may send: a wildcard covers all but one (Fetch, 3.3.3).
	headers = "*, Authorization"
)

// Serve serves a request for metadata. It reports whether the path is one of metadata.
func (c *Checker) Serve(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, wellKnown) {
		return false
	}
	t := c.table.Load()
	server := t.documents[r.URL.Path]
	if server == nil && r.URL.Path != IssuerPath {
		return false
	}
	c.guard.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.respond(w, r, t.authority, server) }), false)
	return true
}

// respond answers with the metadata of a server, or if that is nil with that of the first issuer.
func (c *Checker) respond(w http.ResponseWriter, r *http.Request, a *auth.Authority, server *auth.Resource) {
	if c.guard.RefuseHost(w, r) {
		return
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Expose-Headers", "Retry-After")
	header.Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Allow", methods)
		header.Set("Access-Control-Allow-Methods", methods)
		header.Set("Access-Control-Allow-Headers", headers)
		header.Set("Access-Control-Max-Age", "600")
		c.guard.Respond(w, r, http.StatusNoContent, nil)
		return
	default:
		header.Set("Allow", methods)
		c.reject(w, r, http.StatusMethodNotAllowed, "method", "Method not allowed\n")
		return
	}
	if server != nil {
		c.document(w, r, server.Metadata())
		return
	}
	data, err := a.IssuerMetadata(r.Context())
	switch {
	case err == nil:
		c.document(w, r, data)
	case errors.Is(err, auth.ErrNoMetadata):
		c.reject(w, r, http.StatusNotFound, "path", "404 page not found\n")
	default:
		header.Set("Retry-After", "10") // as often as an issuer is asked
		c.reject(w, r, http.StatusServiceUnavailable, Label(auth.ReasonUnavailable), "the authorization server cannot be reached at the moment\n")
	}
}

func (c *Checker) document(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	c.guard.RespondPublic(w, r, http.StatusOK, data, metadataAge)
}

func (c *Checker) reject(w http.ResponseWriter, r *http.Request, status int, reason, text string) {
	c.observer.Rejected(status, reason)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.guard.Respond(w, r, status, []byte(text))
}
