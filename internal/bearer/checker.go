package bearer

import (
	"cmp"
	"context"
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
	Authority *auth.Authority  // until Replace
	Guard     *transport.Guard // of the metadata
	Observer  transport.Observer
	Hits      *limits.Log
	// Revoked returns how a token is refused that counts, but whose owner was revoked, nil for any other. It is called for each request.
	Revoked func(*auth.Identity) *auth.Refusal
	// Failures returns the bucket for tokens of an address that were looked at in vain, and the account that has it.
	Failures func(address string) (quota.Bucket, *quota.Account)
	// Replaced is called after each Replace, on a goroutine of its own, with a context that ends with Close.
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

// table has an authority, and the resources that are there as it describes them. It does not change.
type table struct {
	authority *auth.Authority
	before    *auth.Authority // that of the table before Replace, which is closed; nil if there was none
	servers   map[*Resources]struct{}
	paths     map[string]*auth.Resource // by the paths of requests
	documents map[string]*auth.Resource // by the paths of metadata
}

// Resources are those of a server.
type Resources struct {
	// ID and Path are the names by which an API key may be for the server, and Name is for people.
	ID, Name string
	// Scopes are the least that its clients need, nil those of the configuration.
	Scopes []string
	// SSE and Messages are its paths of HTTP+SSE beside Path. HasSSE says that a session can begin there, and Messages is empty if none can be there.
	Path, SSE, Messages string
	HasSSE              bool
}

// of returns the resource of the server, and that of HTTP+SSE.
func (rs *Resources) of(a *auth.Authority) (own, older *auth.Resource) {
	return a.Resource(rs.Path, rs.Name, rs.Scopes, rs.ID, rs.Path), a.Resource(rs.SSE, rs.Name, rs.Scopes, rs.ID, rs.Path)
}

// resources are those of the paths that there are.
func (rs *Resources) resources(a *auth.Authority) []*auth.Resource {
	own, older := rs.of(a)
	if rs.Messages == "" {
		return []*auth.Resource{own}
	}
	return []*auth.Resource{own, older}
}

// documents are the resources whose metadata is served: none if there is no issuer that a client could ask.
func (rs *Resources) documents(own, older *auth.Resource) []*auth.Resource {
	switch {
	case own.Metadata() == nil:
		return nil
	case rs.HasSSE:
		return []*auth.Resource{own, older}
	}
	return []*auth.Resource{own}
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

// Replace has tokens verified by another authority from now on, and closes the one before. Who waits for that one asks the other, and the tokens that it knew are looked at whoever else their address has.
// After Close it closes a.
func (c *Checker) Replace(a *auth.Authority) {
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

// Documents are the paths of the metadata of a server.
func (c *Checker) Documents(rs *Resources) (paths []string) {
	for _, r := range rs.documents(rs.of(c.table.Load().authority)) {
		paths = append(paths, r.WellKnown())
	}
	return paths
}

// Taken is the path of a mounted server of which a token would count for another one, too, as its paths differ in slashes at their ends alone: "" if there is none.
func (c *Checker) Taken(rs *Resources) string {
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
	c.change(func(all map[*Resources]struct{}) { all[rs] = struct{}{} })
}

// Unmount takes them away.
func (c *Checker) Unmount(rs *Resources) {
	c.change(func(all map[*Resources]struct{}) { delete(all, rs) })
}

func (c *Checker) change(f func(map[*Resources]struct{})) {
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

func newTable(a, before *auth.Authority, servers map[*Resources]struct{}) *table {
	t := &table{authority: a, before: before, servers: servers, paths: make(map[string]*auth.Resource), documents: make(map[string]*auth.Resource)}
	for rs := range servers {
		own, older := rs.of(a)
		t.paths[rs.Path] = own
		if rs.Messages != "" {
			t.paths[rs.Messages] = older
		}
		if rs.HasSSE {
			t.paths[rs.SSE] = older
		}
		for _, r := range rs.documents(own, older) {
			t.documents[r.WellKnown()] = r
		}
		if _, taken := t.documents[ResourcePath]; len(servers) == 1 && !taken && own.Metadata() != nil {
			t.documents[ResourcePath] = own
		}
	}
	return t
}

// at returns the resource of a path of requests. One that is not mounted any more, or behind a pipe, is its own.
func (t *table) at(path string) *auth.Resource {
	if server := t.paths[path]; server != nil {
		return server
	}
	return t.authority.Resource(path, "", nil)
}

// Authenticate returns the verdict about the token of a request, nil for an anonymous one. The error is a [*refusal.Refusal], which is logged.
func (c *Checker) Authenticate(r *http.Request) (*auth.Verdict, error) {
	t, last := c.table.Load(), server.Kept[auth.Last](r)
	server := t.at(r.URL.Path)
	v := t.authority.Known(r.Header, server, last)
	if v != nil && c.revoked(&v.Identity) == nil {
		return v, nil
	}
	if len(r.Header["Authorization"]) > 0 {
		bucket, _ := c.failures(r.RemoteAddr)
		if wait := bucket.Wait(time.Now()); wait > 0 {
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
		server = t.at(r.URL.Path)
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
	return nil, c.refuse(r, server, no)
}

// countedBefore reports whether a token that the authority does not know was known to the one before. It is looked at also where many of its address fail: who changes a configuration turns nobody away.
func (c *Checker) countedBefore(t *table, h http.Header, server *auth.Resource) bool {
	if t.before == nil {
		return false
	}
	v := t.before.Known(h, server, nil)
	return v != nil && c.revoked(&v.Identity) == nil
}

// Again refuses a request that was let in, if the owner of its token was revoked meanwhile: its body may have taken a while. It costs one atomic load while nobody is revoked.
func (c *Checker) Again(r *http.Request, id *auth.Identity) *refusal.Refusal {
	no := c.revoked(id)
	if no == nil {
		return nil
	}
	d := c.refuse(r, c.table.Load().at(r.URL.Path), no)
	c.observer.Rejected(d.Status, d.Label)
	return d
}

// Still refuses a request that was let in, if its token does not count any more. It returns nil if the token counts, or if nobody can say so at the moment. Nothing is logged or counted.
func (c *Checker) Still(ctx context.Context, r *http.Request) *auth.Refusal {
	t := c.table.Load()
	_, err := t.authority.Authenticate(ctx, r.Header, t.at(r.URL.Path), nil)
	no, ok := errors.AsType[*auth.Refusal](err)
	if !ok || no.Status >= http.StatusInternalServerError {
		return nil
	}
	return no
}

// refuse notes the refusal of a request to a server.
func (c *Checker) refuse(r *http.Request, server *auth.Resource, no *auth.Refusal) *refusal.Refusal {
	if no.Code != "" || no.Reason == auth.ReasonKey { // whoever makes up the names of keys gets 503
		c.fail(r.RemoteAddr)
	}
	c.log(r, no)
	return denial(server, no)
}

// fail charges an address for a token that does not count. It owes what it has not got, as many may be looked at at once.
func (c *Checker) fail(address string) {
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

func (c *Checker) log(r *http.Request, no *auth.Refusal) {
	level, most := slog.LevelInfo, logged
	switch {
	case no.Reason == auth.ReasonMissing: // as each client begins
		most = 1
	case no.Status >= http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	c.hits.Often(most, level, "a request is refused because of its access token: "+string(no.Reason),
		slog.String("path", r.URL.Path), slog.String("address", r.RemoteAddr), slog.Any("refusal", no))
}

// Label is the label of a reason where refusals are counted.
func Label(reason auth.Reason) string { return "auth-" + strings.ReplaceAll(string(reason), "_", "-") }

func denial(server *auth.Resource, no *auth.Refusal) *refusal.Refusal {
	d := refusal.Denied(no.Status, server.Challenge(no), no)
	d.Text, d.After, d.Label = cmp.Or(no.Text, d.Text), no.RetryAfter, Label(no.Reason)
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
		no = &auth.Refusal{Status: http.StatusUnauthorized, Reason: auth.ReasonMissing, Text: auth.TextMissing, Scopes: no.Scopes}
	}
	return no, t.at(path).Challenge(no)
}
