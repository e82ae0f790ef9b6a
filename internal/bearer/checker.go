package bearer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/internal/refusal"
	"github.com/troupe-run/troupe/transport"
	"github.com/troupe-run/troupe/transport/server"
)

// Config has what a Checker works with. All fields are needed.
type Config struct {
	Authority *auth.Authority  // until ReplaceAuthority
	Guard     *transport.Guard // of the metadata
	Observer  transport.Observer
	Hits      *limits.Log
	// Revoked returns how a token is refused that counts, but whose owner was revoked, nil for any other. It is called for each request.
	Revoked func(*auth.Identity) *auth.Refusal
	// Failures returns the bucket for tokens of an address that were looked at in vain, and the account that has it.
	Failures func(address string) (quota.Bucket, *quota.Account)
	// Replaced is called after each ReplaceAuthority, on a goroutine of its own, with a context that ends with Close.
	Replaced func(context.Context)
}

// Checker says who makes a request. Make it with New.
type Checker struct {
	guard    *transport.Guard
	observer transport.Observer
	hits     *limits.Log
	revoked  func(*auth.Identity) *auth.Refusal
	failures func(address string) (quota.Bucket, *quota.Account)
	replaced func(context.Context)
	table    atomic.Pointer[table]

	ctx     context.Context // of what runs in the background
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex // guards changes of table
	closed bool
}

// New returns a Checker without servers.
func New(c Config) *Checker {
	k := &Checker{guard: c.Guard, observer: c.Observer, hits: c.Hits, revoked: c.Revoked, failures: c.Failures, replaced: c.Replaced}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.table.Store(&table{authority: c.Authority})
	return k
}

// Close ends what the authority does in the background, and what Config.Replaced does. It waits for both.
func (c *Checker) Close() {
	c.mu.Lock()
	c.closed = true // nothing begins afterwards
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	c.table.Load().authority.Close()
}

// ReplaceAuthority has tokens verified by another authority from now on, and closes the one before. Who waits for that one asks the other, and the tokens that it knew are looked at whoever else their address has.
// After Close it closes a.
func (c *Checker) ReplaceAuthority(a *auth.Authority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		a.Close()
		return
	}
	before := c.table.Load()
	c.table.Store(newTable(a, before.authority, before.servers))
	before.authority.Close()
	c.running.Go(func() { c.replaced(c.ctx) })
}

// MetadataPaths are the paths of the metadata of a server.
func (c *Checker) MetadataPaths(rs *Resources) (paths []string) {
	for _, r := range rs.metadataResources(rs.resourcePair(c.table.Load().authority)) {
		paths = append(paths, r.WellKnown())
	}
	return paths
}

// ConflictingPath is the path of a mounted server of which a token would count for another one, too, as its paths differ in slashes at their ends alone: "" if there is none.
func (c *Checker) ConflictingPath(rs *Resources) string {
	t := c.table.Load()
	for other := range t.servers {
		for _, r := range rs.resources(t.authority) {
			if slices.ContainsFunc(other.resources(t.authority), func(o *auth.Resource) bool { return o.URL() == r.URL() }) {
				return other.Path
			}
		}
	}
	return ""
}

// Mount adds the resources of a server.
func (c *Checker) Mount(rs *Resources) {
	c.changeServers(func(all map[*Resources]struct{}) { all[rs] = struct{}{} })
}

// Unmount takes them away.
func (c *Checker) Unmount(rs *Resources) {
	c.changeServers(func(all map[*Resources]struct{}) { delete(all, rs) })
}

func (c *Checker) changeServers(f func(map[*Resources]struct{})) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.table.Load()
	servers := maps.Clone(before.servers)
	if servers == nil {
		servers = make(map[*Resources]struct{})
	}
	f(servers)
	c.table.Store(newTable(before.authority, before.before, servers))
}

// Authenticate returns the verdict about the token of a request, nil for an anonymous one. The error is a [*refusal.Refusal]. It is logged, but for one by a limit, which has a log of its own.
func (c *Checker) Authenticate(r *http.Request) (*auth.Verdict, error) {
	t, last := c.table.Load(), server.Kept[auth.Last](r)
	server := t.resourceAt(r.URL.Path)
	v := t.authority.Known(r.Header, server, last)
	if v != nil && c.revoked(&v.Identity) == nil {
		return v, nil
	}
	if len(r.Header["Authorization"]) > 0 {
		bucket, _ := c.failures(r.RemoteAddr)
		if wait := bucket.WaitTime(time.Now()); wait > 0 {
			if v != nil || !c.countedBefore(t, r.Header, server) {
				return nil, refusal.Of(limits.AuthFailures.Row).In(wait)
			}
		}
	}
	var err error
	if v == nil {
		v, err = t.authority.Authenticate(r.Context(), r.Header, server, last)
	}
	for err != nil && t.authority != c.table.Load().authority { // what was asked may have been closed meanwhile, or not know the issuer
		t = c.table.Load()
		server = t.resourceAt(r.URL.Path)
		v, err = t.authority.Authenticate(r.Context(), r.Header, server, last)
	}
	if err == nil && v != nil {
		if no := c.revoked(&v.Identity); no != nil {
			err = no
		}
	}
	if err == nil {
		return v, nil
	}
	no, ok := errors.AsType[*auth.Refusal](err)
	if !ok {
		return nil, err // as package auth says, there is none
	}
	return nil, c.noteRefusal(r, server, no)
}

// countedBefore reports whether a token that the authority does not know was known to the one before. It is looked at also where many of its address fail: who changes a configuration turns nobody away.
func (c *Checker) countedBefore(t *table, h http.Header, server *auth.Resource) bool {
	if t.before == nil {
		return false
	}
	v := t.before.Known(h, server, nil)
	return v != nil && c.revoked(&v.Identity) == nil
}

// RefuseRevoked refuses a request that was let in, if the owner of its token was revoked meanwhile: its body may have taken a while. It costs one atomic load while nobody is revoked.
func (c *Checker) RefuseRevoked(r *http.Request, id *auth.Identity) *refusal.Refusal {
	no := c.revoked(id)
	if no == nil {
		return nil
	}
	d := c.noteRefusal(r, c.table.Load().resourceAt(r.URL.Path), no)
	c.observer.Rejected(d.Status, d.Label)
	return d
}

// RecheckToken refuses a request that was let in, if its token does not count any more. It returns nil if the token counts, or if nobody can say so at the moment. Nothing is logged or counted.
func (c *Checker) RecheckToken(ctx context.Context, r *http.Request) *auth.Refusal {
	t := c.table.Load()
	_, err := t.authority.Authenticate(ctx, r.Header, t.resourceAt(r.URL.Path), nil)
	no, ok := errors.AsType[*auth.Refusal](err)
	if !ok || no.Status >= http.StatusInternalServerError {
		return nil
	}
	return no
}

// noteRefusal notes the refusal of a request to a server.
func (c *Checker) noteRefusal(r *http.Request, server *auth.Resource, no *auth.Refusal) *refusal.Refusal {
	if no.Code != "" && no.Reason != auth.ReasonScope || no.Reason == auth.ReasonKey { // whoever makes up the names of keys gets 503
		c.chargeFailure(r.RemoteAddr)
	}
	LogRefusal(c.hits, r, no)
	return newDenial(server, no)
}

// chargeFailure charges an address for a token that does not count. It owes what it has not got, as many may be looked at at once.
func (c *Checker) chargeFailure(address string) {
	for {
		bucket, account := c.failures(address)
		if now := time.Now(); bucket.TakeN(now, 1) > 0 {
			bucket.Owe(now, 1)
		}
		if !account.Dropped() {
			return
		}
	}
}

// logged is how many refusals for one reason are logged in a minute.
const logged = 10

// LogRefusal writes why a request is refused, up to ten times a minute for each reason. Of a message that came by way of another process there is no request.
func LogRefusal(to *limits.Log, r *http.Request, no *auth.Refusal) {
	level, most := slog.LevelInfo, logged
	switch {
	case no.Reason == auth.ReasonMissing: // as each client begins
		most = 1
	case no.Status >= http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.Any("refusal", no)}
	if r != nil {
		attrs = []slog.Attr{slog.String("path", r.URL.Path), slog.String("address", r.RemoteAddr), attrs[0]}
	}
	to.LogUpTo(most, level, "a request is refused because of its access token: "+string(no.Reason), attrs...)
}

// LabelOf is the label of a reason where refusals are counted.
func LabelOf(reason auth.Reason) string {
	if reason == auth.ReasonScope { // as where a server, or what is called, needs it
		return refusal.Scope.Label
	}
	return "auth-" + strings.ReplaceAll(string(reason), "_", "-")
}

func newDenial(server *auth.Resource, no *auth.Refusal) *refusal.Refusal {
	d := refusal.Denied(no.Status, server.Challenge(no), no)
	d.Text, d.After, d.Label = cmp.Or(no.Text, d.Text), no.RetryAfter, LabelOf(no.Reason)
	if no.Reason == auth.ReasonScope {
		d.Data, _ = json.Marshal(map[string][]string{"scopes": no.Scopes})
	}
	return d
}

// Require returns nil if the granted scopes hold or imply the needed ones, and otherwise a refusal, with the challenge for a client that asked a path. One that has brought no token is told that it needs
// one (RFC 6750, 3.1): many begin to sign in after a 401 alone.
func (c *Checker) Require(path string, anonymous bool, granted, needed []string) (no *auth.Refusal, challenge string) {
	t := c.table.Load()
	no = t.authority.Require(granted, needed)
	if no == nil {
		return nil, ""
	}
	if anonymous {
		no = t.authority.Missing(no.Scopes)
	}
	return no, t.resourceAt(path).Challenge(no)
}

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

// ServeMetadata serves a request for metadata. It reports whether the path is one of metadata.
func (c *Checker) ServeMetadata(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, wellKnown) {
		return false
	}
	t := c.table.Load()
	server := t.documents[r.URL.Path]
	if server == nil && r.URL.Path != IssuerPath {
		return false
	}
	c.guard.Serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.sendMetadata(w, r, t.authority, server) }), false)
	return true
}

// sendMetadata answers with the metadata of a server, or if that is nil with that of the first issuer.
func (c *Checker) sendMetadata(w http.ResponseWriter, r *http.Request, a *auth.Authority, server *auth.Resource) {
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
		c.sendDocument(w, r, server.Metadata())
		return
	}
	data, err := a.IssuerMetadata(r.Context())
	switch {
	case err == nil:
		c.sendDocument(w, r, data)
	case errors.Is(err, auth.ErrNoMetadata):
		c.reject(w, r, http.StatusNotFound, "path", "404 page not found\n")
	default:
		header.Set("Retry-After", "10") // as often as an issuer is asked
		c.reject(w, r, http.StatusServiceUnavailable, LabelOf(auth.ReasonUnavailable), "the authorization server cannot be reached at the moment\n")
	}
}

func (c *Checker) sendDocument(w http.ResponseWriter, r *http.Request, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	c.guard.RespondPublic(w, r, http.StatusOK, data, metadataAge)
}

func (c *Checker) reject(w http.ResponseWriter, r *http.Request, status int, reason, text string) {
	c.observer.Rejected(status, reason)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.guard.Respond(w, r, status, []byte(text))
}
