package troupe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/apikey"
	"github.com/troupe-run/troupe/internal/guard"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/origin"
	"github.com/troupe-run/troupe/internal/refusal"
)

// errNoSubject refuses a request whose principal is every user of an issuer. They would share their sessions.
var errNoSubject = errors.New("troupe: the principal has an issuer and no subject")

// identity is who an access token is of, with the tenant of that. It is made once for each verdict.
type identity struct {
	Principal
	key string
}

func identityOf(v *auth.Verdict) *identity {
	if i, ok := v.Memo.Load().(*identity); ok {
		return i
	}
	i := &identity{Principal: Principal{Issuer: v.Issuer, Subject: v.Subject, Claims: v.Claims, Client: v.Client, Scopes: slices.Clip(v.Scopes), Machine: v.Machine, Expires: v.Expires}}
	i.key = i.tenantHash()
	v.Memo.Store(i)
	return i
}

// newAuthority returns what verifies access tokens and API keys, nil without Options.Auth, and what gives it the store of a node before it is used.
func (o *Options) newAuthority() (*auth.Authority, func(*cluster.Node), error) {
	issuers, keys := new(nodestore.Issuers), new(nodestore.APIKeys)
	if o.Auth == nil {
		return nil, func(*cluster.Node) {}, nil
	}
	c := *o.Auth
	if c.Cache == nil {
		c.Cache = issuers
	}
	if c.APIKeys == auth.StoredKeys {
		c.APIKeys = apikey.New(keys)
	}
	if c.Log == nil {
		c.Log = o.Log
	}
	c.PublicURL = cmp.Or(c.PublicURL, o.HTTP.PublicURL)
	o.Auth = &c
	a, err := auth.New(c)
	return a, func(n *cluster.Node) { issuers.Use(n); keys.Use(n) }, err
}

// SetAuth replaces the settings of Options.Auth in this process: issuers, scopes, claims, and whether API keys count. Sessions and calls go on; their next requests are verified
// anew, with the keys that the store has of an issuer, or its file. Event streams and listeners end if a request with their tokens would be refused: docs/auth.md. An error names what is wrong,
// and nothing has changed then. A program that began without Options.Auth cannot begin with it here, and PublicURL and AllowAnonymous stay as they are. SetAuth may be called from any
// goroutine.
func (rt *Runtime) SetAuth(c *auth.Config) error {
	switch was := rt.opts.Auth; {
	case was == nil:
		return errors.New("troupe: SetAuth: the program has begun without Options.Auth, and must begin anew")
	case c == nil:
		return errors.New("troupe: SetAuth needs a configuration")
	case c.AllowAnonymous != was.AllowAnonymous:
		return errors.New("troupe: SetAuth: AllowAnonymous cannot change while the program runs")
	case strings.TrimSuffix(cmp.Or(c.PublicURL, rt.opts.HTTP.PublicURL), "/") != strings.TrimSuffix(was.PublicURL, "/"):
		return errors.New("troupe: SetAuth: PublicURL cannot change while the program runs")
	}
	if err := c.CheckKeyFiles(); err != nil { // the keys that serve now would be gone
		return fmt.Errorf("troupe: SetAuth: %w", err)
	}
	o := rt.opts
	o.Auth = c
	authority, use, err := o.newAuthority()
	if err != nil {
		return fmt.Errorf("troupe: SetAuth: %w", err)
	}
	use(rt.cluster)
	rt.auth.noteIssuers(o.Auth)
	rt.bearer.ReplaceAuthority(authority)
	return nil
}

// authentication finds out who makes a request to a Runtime.
type authentication struct {
	*Runtime
}

// noteIssuers keeps the issuers of a configuration: what principals of an earlier one hold can be revoked, too.
func (rt *authentication) noteIssuers(c *auth.Config) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, i := range c.Issuers {
		if !slices.Contains(rt.issuers, i.URL) {
			rt.issuers = append(rt.issuers, i.URL)
		}
	}
}

// authenticateRequest is Options.Auth and Options.Authenticate as the transport calls them.
func (rt *authentication) authenticateRequest(r *http.Request) (any, error) {
	o := &rt.opts
	if rt.bearer != nil {
		v, err := rt.bearer.Authenticate(r)
		if err != nil {
			return nil, err
		}
		if v != nil {
			i := identityOf(v)
			return &caller{Principal: i.Principal, key: i.key, r: r, stored: o.HTTP.StoredHeaders, token: &v.Identity}, nil
		}
	}
	if o.Authenticate == nil && len(o.HTTP.StoredHeaders) == 0 {
		return (*anybody)(r), nil
	}
	c := &caller{r: r, stored: o.HTTP.StoredHeaders}
	if o.Authenticate != nil {
		p, err := rt.askProgram(r)
		if refused, ok := errors.AsType[*AuthError](err); ok && refused != nil {
			return nil, refusal.Denied(refused.Status, refused.Challenge, err)
		}
		if err != nil {
			return nil, err
		}
		if p.Issuer != "" && p.Subject == "" {
			rt.hits.LogRarely(slog.LevelError, "Authenticate returned a principal with an issuer and no subject, who is nobody", slog.String("issuer", p.Issuer))
			return nil, refusal.Denied(http.StatusInternalServerError, "", errNoSubject)
		}
		c.Principal = p
	}
	c.key = c.tenantHash()
	return c, nil
}

// askProgram calls Options.Authenticate on a goroutine of its own, which it may end: the response to r must not end with it.
func (rt *authentication) askProgram(r *http.Request) (p Principal, err error) {
	failure := guard.Apart(func() { p, err = rt.opts.Authenticate(r) })
	switch {
	case failure == nil:
		return p, err
	case failure.Value == http.ErrAbortHandler: //nolint:errorlint // as net/http compares it
		panic(http.ErrAbortHandler)
	}
	rt.node.Kernel().CountPanic()
	rt.log.Error("Authenticate "+failure.Did(), failure.Attrs()...)
	return Principal{}, &AuthError{Status: http.StatusInternalServerError, Err: errors.New("internal error")}
}

// pipePrincipal returns the principal of a pipe: local except for package troupetest, which brings a
// request.
func (rt *authentication) pipePrincipal(ctx context.Context) (any, error) {
	r := origin.From(ctx)
	if r == nil {
		return local{}, nil
	}
	return rt.authenticateRequest(r)
}

// AuthError is an error of Options.Authenticate that sets the response to the request,
// such as a 403 that asks for more scopes:
//
//	return troupe.Principal{}, &troupe.AuthError{Status: 403,
//		Challenge: `Bearer error="insufficient_scope", scope="files:write"`}
type AuthError struct {
	// Status is the HTTP status, 400 to 599. 0, and any other, means 401.
	Status int
	// Challenge is the value of WWW-Authenticate. Empty means "Bearer" with 401, and
	// leaves the header out with any other status. Clients read it.
	Challenge string
	// Err goes to the log, and not to the client. It may be nil.
	Err error
}

func (e *AuthError) Error() string {
	if e == nil || e.Err == nil {
		return "troupe: authentication refused the request"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *AuthError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
