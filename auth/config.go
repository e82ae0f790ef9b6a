package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/internal/scope"
)

// Config says whose tokens a server takes. Issuers and PublicURL are enough for most:
//
//	&auth.Config{
//		Issuers:   []auth.Issuer{{URL: "https://id.example.com"}},
//		PublicURL: "https://mcp.example.com",
//	}
type Config struct {
	// Issuers are the authorization servers whose tokens count. There must be one at least, or APIKeys. The metadata names all of them, in this order.
	Issuers []Issuer
	// APIKeys finds API keys, which count beside the tokens of issuers: nil means that none counts. [StoredKeys] are those in the store of the program's runtime.
	APIKeys KeyStore
	// PublicURL is the URL under which clients reach the paths of the program, with https but for the loopback interface. Metadata, challenges and the
	// audience of tokens come from it, and never from a request's Host or X-Forwarded-*. It may be empty without Issuers: then clients are told nothing but that they need a key.
	PublicURL string
	// Scopes are the least that a client needs for basic use: challenges and the metadata name them. A server may have its own, see [Authority.Resource].
	// offline_access must not be among them. Who lacks one is refused only with RequireScopes.
	Scopes []string
	// RequireScopes refuses tokens and API keys that neither have nor imply all of Scopes, at each server that has no scopes of its own.
	RequireScopes bool
	// Implies has the narrower scopes that a scope implies, directly or by way of others: {"files:write": {"files:read"}}. Circles do no harm.
	Implies map[string][]string
	// AllowAnonymous lets requests without credentials pass, and those of another scheme than Bearer. A bad token is refused nevertheless.
	AllowAnonymous bool
	// Claims are the names of the claims that [Identity.Claims] has. nil means none.
	Claims []string
	// Cache keeps the last good keys of issuers for other processes, and for the next one in this place. nil keeps them in this process alone.
	Cache KeyCache
	// Transport makes the requests to issuers. nil means a copy of http.DefaultTransport.
	Transport http.RoundTripper
	// Log gets a record when an issuer cannot be reached, when it can again, and when a key is gone. nil means slog.Default().
	Log *slog.Logger
}

// Issuer is an authorization server whose tokens count.
type Issuer struct {
	// URL is the issuer's identifier, exactly as tokens have it in iss, and with https but for the loopback interface.
	URL string
	// Audiences are the values of which a token must have one as its audience. They count for every server: where several are mounted, leave this empty, so that each
	// takes only tokens for itself. Empty means the public URL of the server that is called.
	Audiences []string
	// AudienceClaim is the name of the claim that holds the audience. Empty means aud.
	AudienceClaim string
	// ClientIDs stand for the audience, for issuers that know no RFC 8707: a token counts if one of these clients got it, and it has a scope. They exclude Audiences and
	// AudienceClaim. The client is what client_id says, or else azp, cid or appid.
	ClientIDs []string
	// Keys is where the issuer's keys are: a URL, or the path of a file with a JWK set, which is read again every 5 minutes and for a token with a key that it did not have. Empty finds them by the issuer's metadata (RFC 8414, or OpenID Connect Discovery).
	Keys string
	// Introspection asks the issuer about tokens that are no JWTs (RFC 7662). nil refuses such tokens. One issuer of a Config may have it, as nothing says whose such a token is.
	Introspection *Introspection
}

// Introspection is an endpoint that knows what an opaque token says.
type Introspection struct {
	// URL is the endpoint, with https but for the loopback interface.
	URL string
	// ClientID and ClientSecret authenticate this server there, by HTTP Basic.
	ClientID, ClientSecret string
}

// String leaves out the secret.
func (i Introspection) String() string { return i.URL + " as " + i.ClientID }

// GoString is String for %#v.
func (i Introspection) GoString() string { return fmt.Sprintf("auth.Introspection(%q)", i.String()) }

// checkConfig copies what is kept, and reports every fault.
func (c *Config) checkConfig() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("Auth."+format, args...)) }
	c.Issuers, c.Scopes, c.Claims, c.Implies = slices.Clone(c.Issuers), slices.Clone(c.Scopes), slices.Clone(c.Claims), maps.Clone(c.Implies)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	switch u, err := publicURL(c.PublicURL); {
	case c.PublicURL == "" && len(c.Issuers) == 0 && c.APIKeys != nil:
	case c.PublicURL == "":
		fault("PublicURL is empty: metadata and audiences come from it")
	case err != nil:
		fault("PublicURL: %w", err)
	default:
		c.PublicURL = strings.TrimSuffix(u.String(), "/")
	}
	if len(c.Issuers) == 0 && c.APIKeys == nil {
		fault("Issuers is empty, and APIKeys is nil")
	}
	for _, s := range c.Scopes {
		if scope.Check([]string{s}) != nil {
			fault("Scopes: %q is no scope to ask clients for", s)
		}
	}
	for _, broad := range slices.Sorted(maps.Keys(c.Implies)) {
		c.Implies[broad] = slices.Clone(c.Implies[broad])
		for _, s := range slices.Concat([]string{broad}, c.Implies[broad]) {
			if !scope.Valid(s) {
				fault("Implies: %q is no scope", s)
			}
		}
	}
	for i, name := range c.Claims {
		if name == "" || slices.Contains(c.Claims[:i], name) {
			fault("Claims: %q is empty, or comes twice", name)
		}
	}
	introspects := 0
	for n := range c.Issuers {
		i := &c.Issuers[n]
		at := fmt.Sprintf("Issuers[%d].", n)
		for _, err := range i.checkIssuer() {
			fault("%s%w", at, err)
		}
		if slices.ContainsFunc(c.Issuers[:n], func(o Issuer) bool { return o.URL == i.URL }) {
			fault("%sURL: %s comes twice", at, i.URL)
		}
		if i.Introspection != nil {
			introspects++
		}
	}
	if introspects > 1 {
		fault("Issuers: %d have Introspection, and nothing says whose an opaque token is", introspects)
	}
	return errors.Join(faults...)
}

// checkIssuer copies what is kept, and returns every fault.
func (i *Issuer) checkIssuer() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	i.Audiences, i.ClientIDs = slices.Clone(i.Audiences), slices.Clone(i.ClientIDs)
	if _, err := publicURL(i.URL); err != nil {
		fault("URL: %w", err)
	}
	if slices.Contains(i.Audiences, "") || slices.Contains(i.ClientIDs, "") {
		fault("Audiences and ClientIDs must have no empty values")
	}
	if len(i.ClientIDs) > 0 && (len(i.Audiences) > 0 || i.AudienceClaim != "") {
		fault("ClientIDs stand for the audience: Audiences and AudienceClaim must not be set")
	}
	if strings.Contains(i.Keys, "://") {
		if _, err := secureURL(i.Keys); err != nil {
			fault("Keys: %w", err)
		}
	}
	if in := i.Introspection; in != nil {
		copied := *in
		i.Introspection = &copied
		if _, err := secureURL(in.URL); err != nil {
			fault("Introspection.URL: %w", err)
		}
		if in.ClientID == "" {
			fault("Introspection.ClientID is empty")
		}
	}
	return faults
}

// publicURL reads a URL that is an identifier: it has neither a query nor a fragment.
func publicURL(s string) (*url.URL, error) {
	u, err := secureURL(s)
	if err == nil && (u.RawQuery != "" || u.ForceQuery || strings.Contains(s, "#")) {
		return nil, fmt.Errorf("%q must have neither a query nor a fragment", s)
	}
	return u, err
}
