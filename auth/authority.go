package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// Authority verifies tokens as a Config says. Make it with New. Its methods are safe for concurrent use.
type Authority struct {
	config   Config
	issuers  []*issuer
	by       map[string]*issuer // by URL
	opaque   *introspector      // nil without
	keys     *apiKeys           // nil without
	broader  hierarchy
	verdicts *verdicts
	own      *http.Transport // nil if the program has its own
}

// New returns an Authority. It does no I/O: keys are fetched when a token needs them. The error names every fault of the configuration.
func New(c Config) (*Authority, error) {
	if err := c.checkConfig(); err != nil {
		return nil, err
	}
	a := &Authority{config: c, by: make(map[string]*issuer), broader: newHierarchy(c.Implies), verdicts: newVerdicts(maxVerdicts)}
	transport := c.Transport
	if transport == nil {
		a.own = newTransport()
		transport = a.own
	}
	client := newClient(transport)
	if c.APIKeys != nil {
		a.keys = newAPIKeys(&c)
	}
	for _, of := range c.Issuers {
		i := &issuer{Issuer: of, keep: c.Claims, client: client, cache: c.Cache, log: c.Log, news: make(chan struct{})}
		if isFile(of.Keys) {
			i.cache, i.ring.ofFile = nil, true // every process reads the file
		}
		for _, audience := range of.Audiences {
			i.audiences = append(i.audiences, canonicalURL(audience))
		}
		a.issuers = append(a.issuers, i)
		a.by[of.URL] = i
		if of.Introspection != nil {
			a.opaque = newIntrospector(i)
		}
	}
	return a, nil
}

func newTransport() *http.Transport {
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		return t.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
}

// Close ends what runs in the background, and waits for it. Tokens of known keys are still verified afterwards.
func (a *Authority) Close() {
	for _, i := range a.issuers {
		i.closeIssuer()
	}
	if a.opaque != nil {
		a.opaque.closeQuestions()
	}
	if a.keys != nil {
		a.keys.closeLookups()
	}
	if a.own != nil {
		a.own.CloseIdleConnections()
	}
}

// Authenticate returns the verdict about the token of a request to a server. last is of the request's connection, and may be nil. Without credentials the error is
// a 401, or, with Config.AllowAnonymous, the verdict and the error are nil.
func (a *Authority) Authenticate(ctx context.Context, h http.Header, server *Resource, last *Last) (*Verdict, error) {
	token, r := Credentials(h)
	switch {
	case r != nil:
		return nil, r
	case token == "" && a.config.AllowAnonymous:
		return nil, nil
	case token == "":
		return nil, a.Missing(nil)
	}
	v, err := last.Verify(ctx, a, token, server.url)
	if err != nil {
		return nil, err
	}
	if !v.Serves(server.names...) {
		return nil, refuseKey(ReasonAudience, v.Subject, v.name, slog.Any("servers", v.Servers), slog.Any("want", server.names))
	}
	if no := a.Require(v.Scopes, server.needs); no != nil {
		no.Known = append(v.whose(), no.Known...)
		return nil, no
	}
	return v, nil
}

// Missing is the refusal of a request without credentials. Its scopes are those to ask for, nil for the least that a client needs.
func (a *Authority) Missing(scopes []string) *Refusal {
	text := textMissing
	switch {
	case a.keys != nil && len(a.issuers) == 0:
		text = textNoKey
	case a.keys != nil:
		text = textNeither
	}
	return &Refusal{Status: http.StatusUnauthorized, Reason: ReasonMissing, Text: text, Scopes: scopes}
}

// Known is Authenticate as far as that needs no more than what is remembered: of last, which may be nil, and of the tokens that came lately. It returns nil for a request
// about which Authenticate has to find out more, or which it would refuse. It waits for a second at most, to ask again about an API key or an opaque token that counted before. It allocates
// nothing if the token is the last one.
func (a *Authority) Known(h http.Header, server *Resource, last *Last) *Verdict {
	token, r := Credentials(h)
	if r != nil || token == "" {
		return nil
	}
	v := last.findVerdict(a, token, server.url)
	switch {
	case v != nil:
	case a.isKey(token):
		v = a.keys.recallKey(token)
	default:
		var again bool
		if v, again = a.verdicts.findVerdict(verdictKey{sha256.Sum256(bytesOf(token)), server.url}, time.Now()); again {
			ctx, cancel := context.WithTimeout(context.Background(), keyAgain)
			defer cancel()
			v, _ = a.verifyToken(ctx, token, server.url)
		}
	}
	if v == nil || v.refused != nil || !v.Serves(server.names...) || a.missingScopes(v.Scopes, server.needs) != nil {
		return nil
	}
	last.keepVerdict(a, token, server.url, v)
	return v
}

// isKey reports whether a token is for Config.APIKeys.
func (a *Authority) isKey(token string) bool {
	return a.keys != nil && strings.HasPrefix(token, APIKeyPrefix)
}

// Verify returns the verdict about a token that came to a server with this public URL. The error is a [*Refusal]. ctx bounds how long it waits for an issuer.
func (a *Authority) Verify(ctx context.Context, token, resource string) (*Verdict, error) {
	return (*Last)(nil).Verify(ctx, a, token, resource)
}

func (a *Authority) verifyToken(ctx context.Context, token, resource string) (*Verdict, *Refusal) {
	if !isToken(token) {
		return nil, invalidToken(ReasonMalformed, slog.Int("bytes", len(token)))
	}
	if a.isKey(token) {
		return a.keys.verifyKey(ctx, token)
	}
	k := verdictKey{sha256.Sum256(bytesOf(token)), resource}
	v, again := a.verdicts.findVerdict(k, time.Now())
	var r *Refusal
	switch {
	case v != nil:
	case a.opaque != nil && !isSigned(token):
		v, r = a.opaque.askVerdict(ctx, k, token, again, func(v *Verdict) { a.verdicts.addVerdict(k, v) })
	default:
		if v, r = a.verifySigned(ctx, token, canonicalURL(resource)); r == nil {
			a.verdicts.addVerdict(k, v)
		}
	}
	if r == nil {
		r = v.refused
	}
	return v, r
}

// verifySigned verifies a JWT (RFC 9068, 4). Everything that needs no key comes first, so that an issuer is asked for keys only if a token of it could count.
func (a *Authority) verifySigned(ctx context.Context, token, resource string) (*Verdict, *Refusal) {
	t, r := readToken(token)
	if r != nil {
		return nil, r
	}
	iss, _, err := t.claims.text("iss")
	i := a.by[iss]
	if err != nil || i == nil {
		return nil, invalidToken(ReasonIssuer, t.claims.shown("iss")...)
	}
	id, r := i.judgeClaims(t.claims, false, resource, time.Now())
	if r != nil {
		return nil, r
	}
	by, r := i.findSigner(ctx, t, id.Issued)
	if r != nil {
		return nil, r
	}
	return &Verdict{Identity: *id, ends: id.Expires.Add(Leeway), key: by, goodUntil: &i.goodUntil}, nil
}

// findSigner returns the key of the issuer that has signed a token.
func (i *issuer) findSigner(ctx context.Context, t *signedToken, issued time.Time) (*key, *Refusal) {
	detail := append(t.header.shown("kid", "alg"), t.claims.shown("iss")...)
	var tried *keySet
	for {
		set, answer, retry, err := i.awaitKeys(ctx, issued, func(s *keySet) bool { return s != tried && len(s.findKeys(t.kid, t.alg)) > 0 })
		switch {
		case answer == unknown && len(set.keys) > 0:
			return nil, invalidToken(ReasonKey, detail...)
		case answer == unknown:
			return nil, refuseUnavailable(ReasonUnavailable, spacing, errNoKeys, detail...)
		case answer == unreachable:
			why := ReasonUnavailable
			if set != nil && err == nil && time.Now().UnixNano() < i.goodUntil.Load() { // those that it has serve
				why = ReasonKey
			}
			return nil, refuseUnavailable(why, retry, err, detail...)
		}
		if k := t.signedBy(set.findKeys(t.kid, t.alg)); k != nil {
			return k, nil
		}
		if t.kid != "" || tried != nil {
			return nil, invalidToken(ReasonSignature, detail...)
		}
		tried = set // the token does not say by which key, so that one may be new
	}
}

var errNoKeys = errors.New("the issuer has no key that can be used")

// ErrNoMetadata is the error of IssuerMetadata if there is no issuer, or if Issuer.Keys says where the first one's keys are, so that its metadata is not known.
var ErrNoMetadata = errors.New("auth: the metadata of the issuer is not known")

// IssuerMetadata returns the metadata of the first issuer as that has it, byte by byte. Clients of 2025-03-26 look for it at /.well-known/oauth-authorization-server
// of this server's host. Any other error than ErrNoMetadata is a [*Refusal] with 503.
func (a *Authority) IssuerMetadata(ctx context.Context) ([]byte, error) {
	if len(a.issuers) == 0 || a.issuers[0].Keys != "" {
		return nil, ErrNoMetadata
	}
	set, answer, retry, err := a.issuers[0].awaitKeys(ctx, time.Time{}, func(s *keySet) bool { return s.metadata != nil })
	if answer != use {
		return nil, refuseUnavailable(ReasonUnavailable, retry, err)
	}
	return set.metadata, nil
}
