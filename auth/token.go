package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Leeway is how far the clocks of this machine and an issuer may differ: a token counts for so long after its exp, and before its nbf and iat.
const Leeway = 30 * time.Second

// maxKeyID is the longest kid that is looked for, in bytes.
const maxKeyID = 256

// algorithms are the signature algorithms that count (RFC 8725, 3.1 and 3.2), each with the kind of key that it needs (RFC 7518, 3.1; RFC 8037). Neither none nor the HMACs are among them,
// for which the key would be no secret.
var algorithms = map[string]keyKind{
	"RS256": kindRSA, "RS384": kindRSA, "RS512": kindRSA, "PS256": kindRSA, "PS384": kindRSA, "PS512": kindRSA,
	"ES256": kindP256, "ES384": kindP384, "ES512": kindP521, "EdDSA": kindEd25519,
}

// signatureAlgorithms are the same for the library.
var signatureAlgorithms = func() (all []jose.SignatureAlgorithm) {
	for name := range algorithms {
		all = append(all, jose.SignatureAlgorithm(name))
	}
	return all
}()

// signedToken is a JWT in the compact form of a JWS, of which nothing is verified.
type signedToken struct {
	raw            string
	header, claims object
	alg            string
	kid            string // "" without
}

var strictBase64 = base64.RawURLEncoding.Strict()

// isSigned reports whether a token claims to be a JWT: its first part is a JSON object. Others are opaque.
func isSigned(raw string) bool {
	head, _, dots := strings.Cut(raw, ".")
	data, err := strictBase64.DecodeString(head)
	return dots && err == nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data)
}

// readToken takes a JWT apart (RFC 7515, 5.2; RFC 7519, 7.2), and holds its header to the rules.
func readToken(raw string) (*signedToken, *Refusal) {
	parts := strings.Split(raw, ".")
	if len(parts) == 5 {
		return nil, invalidToken(ReasonEncrypted)
	}
	if len(parts) != 3 {
		return nil, invalidToken(ReasonMalformed, slog.Int("parts", len(parts)))
	}
	t := &signedToken{raw: raw}
	for i, part := range []*object{&t.header, &t.claims} {
		data, err := strictBase64.DecodeString(parts[i])
		if err == nil {
			*part, err = readObject(data)
		}
		if err != nil {
			return nil, invalidToken(ReasonMalformed, slog.String("part", [2]string{"header", "claims"}[i]), slog.String("fault", err.Error()))
		}
	}
	if _, err := strictBase64.DecodeString(parts[2]); err != nil {
		return nil, invalidToken(ReasonMalformed, slog.String("part", "signature"))
	}
	return t, t.readHeader()
}

func (t *signedToken) readHeader() *Refusal {
	h := t.header
	if _, ok := h["enc"]; ok {
		return invalidToken(ReasonEncrypted, h.shown("alg", "enc")...)
	}
	// A key that the token brings says nothing of its issuer (RFC 8725, 3.10), and no extension is understood (RFC 7515, 4.1.11; RFC 7797).
	for _, name := range []string{"jwk", "jku", "x5u", "x5c", "crit", "b64"} {
		if _, ok := h[name]; ok {
			return invalidToken(ReasonHeader, h.shown(name)...)
		}
	}
	var err error
	if t.alg, _, err = h.text("alg"); err != nil || algorithms[t.alg] == "" {
		return invalidToken(ReasonAlgorithm, h.shown("alg")...)
	}
	if t.kid, _, err = h.text("kid"); err != nil || len(t.kid) > maxKeyID {
		return invalidToken(ReasonMalformed, h.shown("kid")...)
	}
	typ, _, err := h.text("typ")
	if err != nil || !isAccessTokenType(typ) {
		return invalidToken(ReasonType, h.shown("typ")...)
	}
	return nil
}

// isAccessTokenType reports whether a typ is one of an access token (RFC 9068, 4; RFC 8725, 3.11): at+jwt, JWT, or none, in any case, and with application/ before it or not (RFC 7515, 4.1.9).
// What is meant for something else, such as oauth-id-jag+jwt, logout+jwt and dpop+jwt, is not.
func isAccessTokenType(typ string) bool {
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	return typ == "" || typ == "at+jwt" || typ == "jwt"
}

// signedBy returns which of the keys has signed the token, nil if none has.
func (t *signedToken) signedBy(keys []*key) *key {
	jws, err := jose.ParseSignedCompact(t.raw, signatureAlgorithms)
	if err != nil {
		return nil
	}
	for _, k := range keys {
		if _, err := jws.Verify(k.public); err == nil {
			return k
		}
	}
	return nil
}
