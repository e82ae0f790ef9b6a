package bearer

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/transport"
)

// Config has what a Checker works with. All fields are needed.
type Config struct {
	Authority *auth.Authority
	Guard     *transport.Guard // of the metadata
	Observer  transport.Observer
	Hits      *limits.Log
	// Revoked returns how a token is refused that counts, but whose owner was revoked, nil for any other. It is called for each request.
	Revoked func(*auth.Identity) *auth.Refusal
	// Failures returns the bucket for tokens of an address that were looked at in vain, and the account that has it.
	Failures func(address string) (quota.Bucket, *quota.Account)
}

// Checker says who makes a request. Make it with New.
type Checker struct {
	Config
	table atomic.Pointer[table]

	mu sync.Mutex // guards changes of table
}

// table has the resources that are there. It does not change.
type table struct {
	servers   map[*Resources]struct{}
	paths     map[string]*auth.Resource // by the paths of requests
	documents map[string]*auth.Resource // by the paths of metadata
}

// Resources are those of a mounted server.
type Resources struct {
	paths     map[string]*auth.Resource
	documents map[string]*auth.Resource
	own       *auth.Resource
}

// New returns a Checker without servers.
func New(c Config) *Checker {
	k := &Checker{Config: c}
	k.table.Store(new(table))
	return k
}

// Close ends what the Authority does in the background.
func (c *Checker) Close() { c.Authority.Close() }

// Resources returns those of a server at a path, with a name for people. scopes are the least that its clients need, nil those of the
// configuration. sse and messages are its paths of HTTP+SSE; hasSSE says that a session can begin there. An API key may be for its id, or its path.
func (c *Checker) Resources(id, name string, scopes []string, path, sse, messages string, hasSSE bool) *Resources {
	own, older := c.Authority.Resource(path, name, scopes, id, path), c.Authority.Resource(sse, name, scopes, id, path)
	rs := &Resources{own: own, paths: map[string]*auth.Resource{sse: older, messages: older, path: own}, documents: make(map[string]*auth.Resource)}
	if own.Metadata() == nil {
		return rs // there is no issuer that a client could ask
	}
	rs.documents[own.WellKnown()] = own
	if hasSSE {
		rs.documents[older.WellKnown()] = older
	}
	return rs
}

// Documents are the paths of the metadata of a server. rs may be nil.
func (rs *Resources) Documents() (paths []string) {
	if rs == nil {
		return nil
	}
	for path := range rs.documents {
		paths = append(paths, path)
	}
	return paths
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
	t := &table{servers: make(map[*Resources]struct{}), paths: make(map[string]*auth.Resource), documents: make(map[string]*auth.Resource)}
	maps.Copy(t.servers, c.table.Load().servers)
	f(t.servers)
	for rs := range t.servers {
		maps.Copy(t.paths, rs.paths)
		maps.Copy(t.documents, rs.documents)
		if _, taken := t.documents[ResourcePath]; len(t.servers) == 1 && !taken && rs.own.Metadata() != nil {
			t.documents[ResourcePath] = rs.own
		}
	}
	c.table.Store(t)
}

// at returns the resource of a path of requests. One that is not mounted any more, or behind a pipe, is its own.
func (c *Checker) at(path string) *auth.Resource {
	if server := c.table.Load().paths[path]; server != nil {
		return server
	}
	return c.Authority.Resource(path, "", nil)
}

// Authenticate returns the verdict about the token of a request, nil for an anonymous one. The error is a [*transport.Denial], which is logged.
func (c *Checker) Authenticate(r *http.Request) (*auth.Verdict, error) {
	server, last := c.at(r.URL.Path), transport.Kept[auth.Last](r)
	v := c.Authority.Known(r.Header, server, last)
	if v != nil && c.Revoked(&v.Identity) == nil {
		return v, nil
	}
	if len(r.Header["Authorization"]) > 0 {
		bucket, _ := c.Failures(r.RemoteAddr)
		if wait := bucket.Wait(time.Now()); wait > 0 {
			return nil, tooMany(wait)
		}
	}
	var err error
	if v == nil {
		v, err = c.Authority.Authenticate(r.Context(), r.Header, server, last)
	}
	if err == nil && v != nil {
		if revoked := c.Revoked(&v.Identity); revoked != nil {
			err = revoked
		}
	}
	if err == nil {
		return v, nil
	}
	no, ok := errors.AsType[*auth.Refusal](err)
	if !ok {
		return nil, err // as package auth says, there is none
	}
	if no.Code != "" || no.Reason == auth.ReasonKey { // whoever makes up the names of keys gets 503
		c.fail(r.RemoteAddr)
	}
	c.log(r, no)
	return nil, denial(server, no)
}

// fail charges an address for a token that does not count. It owes what it has not got, as many may be looked at at once.
func (c *Checker) fail(address string) {
	for {
		bucket, account := c.Failures(address)
		if now := time.Now(); bucket.TakeN(now, 1) > 0 {
			bucket.Owe(now, 1)
		}
		if !account.Dropped() {
			return
		}
	}
}

func tooMany(wait time.Duration) *transport.Denial {
	row := limits.AuthFailures.Row
	return &transport.Denial{Status: row.Refusal.Status, Code: row.Refusal.Code, Text: row.Refusal.Message, RetryAfter: wait, Reason: row.Counted}
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
	c.Hits.Often(most, level, "a request is refused because of its access token: "+string(no.Reason),
		slog.String("path", r.URL.Path), slog.String("address", r.RemoteAddr), slog.Any("refusal", no))
}

// Label is the label of a reason where refusals are counted.
func Label(reason auth.Reason) string { return "auth-" + strings.ReplaceAll(string(reason), "_", "-") }

func denial(server *auth.Resource, no *auth.Refusal) *transport.Denial {
	return &transport.Denial{Status: no.Status, Challenge: server.Challenge(no), Text: no.Text, RetryAfter: no.RetryAfter, Reason: Label(no.Reason), Err: no}
}

// Missing returns those of the needed scopes that the granted ones neither hold nor imply.
func (c *Checker) Missing(granted, needed []string) []string {
	return c.Authority.Missing(granted, needed)
}

// Challenge is what a client is told whose token lacks a scope that a request to a path needs: the value of WWW-Authenticate, with the scopes granted and needed together.
func (c *Checker) Challenge(path string, granted, needed []string) string {
	return c.at(path).Challenge(c.Authority.Require(granted, needed))
}
