package auth

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// maxName is the longest subject and client id, in bytes.
const maxName = 1024

// Identity is who makes a request, and what for. Issuer, Subject and Machine together say who: a token that is refreshed keeps them.
type Identity struct {
	// Issuer is the URL of the issuer, as the configuration has it, or KeyIssuer for an API key.
	Issuer string
	// Subject is unique at the issuer among those that are machines, and among those that are not. It is the client's id if the token has no subject.
	Subject string
	// Client is the id of the client that got the token. It may be empty, unless Machine is set.
	Client string
	// Machine says that a client acts for itself: the token has no subject, or one that is the client's id (RFC 9068, 5). A machine and a user are never the same, whatever their subject.
	Machine bool
	// Scopes are those that the token has. Those that they imply are not among them.
	Scopes []string
	// Audience is what the token says of whom it is for. It may be empty where a client id stands for it.
	Audience []string
	// Issued is the token's iat, the zero time if it has none.
	Issued time.Time
	// Expires is the token's exp, or when an API key ends: the zero time if it does not. See Ends.
	Expires time.Time
	// Servers are the servers that an API key is for, by their ids or paths. Empty means all. An Authority does not know servers by these names: see Serves.
	Servers []string
	// Claims is a JSON object of the claims that Config.Claims names, nil if the token has none of them.
	Claims json.RawMessage
}

// Ends is the first moment at which the token or key does not count, the zero time if there is none: an API key ends when it expires, and a token Leeway later.
func (id *Identity) Ends() time.Time {
	if id.Issuer == KeyIssuer || id.Expires.IsZero() {
		return id.Expires
	}
	return id.Expires.Add(Leeway)
}

// Serves reports whether a server, by any of its names, is one that the token or key is for as far as Servers says.
func (id *Identity) Serves(names ...string) bool {
	return len(id.Servers) == 0 || slices.ContainsFunc(names, func(name string) bool { return slices.Contains(id.Servers, name) })
}

// judgeClaims holds claims to the rules, and returns whose they are. resource is the canonical public URL of the server that is called. opaque says that the claims are the answer to an
// introspection, which has fewer of them.
func (i *issuer) judgeClaims(c object, opaque bool, resource string, now time.Time) (*Identity, *Refusal) {
	iss, ok, err := c.text("iss")
	if err != nil || ok && iss != i.URL || !ok && !opaque {
		return nil, invalidToken(ReasonIssuer, c.shown("iss")...)
	}
	if r := checkKind(c); r != nil {
		return nil, r
	}
	id := &Identity{Issuer: i.URL}
	if r := id.readTimes(c, now); r != nil {
		return nil, r
	}
	if r := id.readNames(c); r != nil {
		return nil, r
	}
	scopes, scoped, err := c.scopes()
	if err != nil {
		return nil, malformedToken(err)
	}
	id.Scopes = scopes
	if r := i.checkAudience(c, id, scoped, resource); r != nil {
		return nil, r
	}
	id.Claims = c.subset(i.keep)
	return id, nil
}

func malformedToken(err error) *Refusal {
	return invalidToken(ReasonMalformed, slog.String("fault", err.Error()))
}

// idMarks are claims that only tokens for a client have: those of ID tokens (OpenID Connect Core, 2 and 3.3.2.11), and that of logout tokens and other events (RFC 8417, 2.2).
var idMarks = []string{"at_hash", "c_hash", "nonce", "events"}

// otherKinds are the values with which Keycloak marks, in the claim typ, and Cognito and Hydra in token_use, what is no access token.
var otherKinds = []string{"id", "id_token", "refresh", "refresh_token", "offline", "logout"}

// checkKind refuses tokens that are no access tokens (RFC 8725, 2.8), and those that are bound to a key that nobody has proven (RFC 7800; RFC 9449, 7.2; RFC 8705, 3).
func checkKind(c object) *Refusal {
	for _, name := range idMarks {
		if c.has(name) {
			return invalidToken(ReasonIDToken, slog.String("claim", name))
		}
	}
	for _, name := range []string{"token_use", "typ"} {
		if kind, _, _ := c.text(name); slices.Contains(otherKinds, strings.ToLower(kind)) {
			return invalidToken(ReasonIDToken, c.shown(name)...)
		}
	}
	if c.has("cnf") {
		return invalidToken(ReasonBound, c.shown("cnf")...)
	}
	return nil
}

// readTimes holds exp, nbf and iat to the clock (RFC 7519, 4.1.4 to 4.1.6). exp must be there.
func (id *Identity) readTimes(c object, now time.Time) *Refusal {
	exp, ok, err := c.time("exp")
	if err != nil {
		return malformedToken(err)
	}
	if !ok || !now.Before(exp.Add(Leeway)) {
		return invalidToken(ReasonExpired, append(c.shown("exp"), slog.Time("clock", now))...)
	}
	nbf, _, err := c.time("nbf")
	if err != nil {
		return malformedToken(err)
	}
	iat, _, err := c.time("iat")
	if err != nil {
		return malformedToken(err)
	}
	if latest := now.Add(Leeway); nbf.After(latest) || iat.After(latest) {
		return invalidToken(ReasonEarly, append(c.shown("nbf", "iat"), slog.Time("clock", now))...)
	}
	id.Issued, id.Expires = iat, exp
	return nil
}

// clientClaims hold the client's id: client_id (RFC 9068, 2.2), azp in OpenID Connect, Keycloak and Entra, cid at Okta, appid in Entra's tokens of version 1.
var clientClaims = []string{"client_id", "azp", "cid", "appid"}

// readNames says who the token is of.
func (id *Identity) readNames(c object) *Refusal {
	sub, hasSubject, err := c.text("sub")
	if err != nil || hasSubject && !isName(sub) {
		return invalidToken(ReasonSubject, c.shown("sub")...)
	}
	id.Subject = sub
	for _, name := range clientClaims {
		client, ok, err := c.text(name)
		if err != nil || ok && client != "" && !isName(client) {
			return invalidToken(ReasonSubject, c.shown(name)...)
		}
		if client == "" {
			continue
		}
		if id.Client == "" {
			id.Client = client
		}
		id.Machine = id.Machine || !hasSubject || sub == client
	}
	if !hasSubject {
		id.Subject = id.Client
	}
	if id.Subject == "" || !hasSubject && c.has("username") { // an answer about a user that names no subject would make all users of the client one (RFC 7662, 2.2)
		return invalidToken(ReasonSubject, c.shown("username")...)
	}
	return nil
}

func isName(s string) bool { return s != "" && len(s) <= maxName && !hasControl(s) }

// checkAudience refuses tokens that are for another server (RFC 9068, 4; RFC 8707, 2; RFC 8725, 3.9).
func (i *issuer) checkAudience(c object, id *Identity, scoped bool, resource string) *Refusal {
	name := i.AudienceClaim
	if name == "" {
		name = "aud"
	}
	values, _, err := c.list(name)
	if err != nil && len(i.ClientIDs) == 0 {
		return malformedToken(err)
	}
	id.Audience = values
	if len(i.ClientIDs) > 0 {
		if !slices.Contains(i.ClientIDs, id.Client) {
			return invalidToken(ReasonAudience, append(c.shown(clientClaims...), slog.Any("want_client", i.ClientIDs))...)
		}
		if !scoped || len(id.Scopes) == 0 {
			return invalidToken(ReasonScopeClaim, c.shown(clientClaims...)...) // an ID token of the same client would have none
		}
		return nil
	}
	meant := i.audiences
	if len(meant) == 0 {
		meant = []string{resource}
	}
	if !anyMeant(values, meant) {
		return invalidToken(ReasonAudience, append(c.shown(name), slog.Any("want", meant))...)
	}
	return nil
}

// openID is the id of an API key in a log. It opens nothing: what hides the ids of sessions there has no need to hide it.
type openID string

// NoSecret is the id as a log may show it.
func (i openID) NoSecret() string { return string(i) }

// Whose are the attributes of a log that say who makes a request.
func (id *Identity) Whose() []slog.Attr {
	switch {
	case id.Issuer == KeyIssuer:
		return []slog.Attr{keyAttr(id.Subject)}
	case id.Client == "" || id.Client == id.Subject:
		return []slog.Attr{slog.String("issuer", id.Issuer), slog.String("subject", id.Subject)}
	}
	return []slog.Attr{slog.String("issuer", id.Issuer), slog.String("subject", id.Subject), slog.String("client", id.Client)}
}
