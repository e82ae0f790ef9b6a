package auth

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// Reason says why a request was refused: the label of its count, and what a log has of it.
type Reason string

// The reasons. The status that comes with each is that of [Refusal.Status].
const (
	ReasonMissing     Reason = "missing"     // 401: there are no credentials, or some of another scheme
	ReasonRequest     Reason = "request"     // 400: the header is no single credential
	ReasonMalformed   Reason = "malformed"   // 401: the token is too long, or cannot be read; the API key has not the form or the checksum of one
	ReasonEncrypted   Reason = "encrypted"   // 401: the token is encrypted
	ReasonAlgorithm   Reason = "algorithm"   // 401: the token is not signed with an algorithm of the list
	ReasonHeader      Reason = "header"      // 401: the token's header brings a key, or asks for an extension
	ReasonType        Reason = "type"        // 401: the token's typ is that of another kind of token
	ReasonIDToken     Reason = "id_token"    // 401: the token has a mark of an ID token, or of another token for a client
	ReasonIssuer      Reason = "issuer"      // 401: the token's issuer is none of the configuration
	ReasonKey         Reason = "key"         // 401: the issuer has no such key; 503: it cannot be asked yet
	ReasonSignature   Reason = "signature"   // 401: the issuer's key has not signed the token
	ReasonExpired     Reason = "expired"     // 401: the token has no exp, or has ended; so has the API key
	ReasonEarly       Reason = "early"       // 401: nbf or iat is ahead
	ReasonAudience    Reason = "audience"    // 401: the token is for another server
	ReasonScopeClaim  Reason = "scope_claim" // 401: a client id stands for the audience, and the token has no scope
	ReasonBound       Reason = "bound"       // 401: the token is bound to a key that was not proven
	ReasonSubject     Reason = "subject"     // 401: the token names neither a subject nor a client
	ReasonInactive    Reason = "inactive"    // 401: introspection says that the token is not active
	ReasonKeyUnknown  Reason = "key_unknown" // 401: there is no such API key
	ReasonRevoked     Reason = "revoked"     // 401: the API key was revoked, or the principal was after the token was issued
	ReasonScope       Reason = "scope"       // 403: the token lacks a scope
	ReasonUnavailable Reason = "unavailable" // 503: the issuer, or the store of API keys, cannot be reached, and nothing that it said counts any more
)

// Reasons returns all reasons, in the order of their declaration.
func Reasons() []Reason {
	return []Reason{
		ReasonMissing, ReasonRequest, ReasonMalformed, ReasonEncrypted, ReasonAlgorithm, ReasonHeader, ReasonType, ReasonIDToken, ReasonIssuer, ReasonKey,
		ReasonSignature, ReasonExpired, ReasonEarly, ReasonAudience, ReasonScopeClaim, ReasonBound, ReasonSubject, ReasonInactive, ReasonKeyUnknown, ReasonRevoked, ReasonScope, ReasonUnavailable,
	}
}

// The error codes of RFC 6750, 3.1.
const (
	InvalidRequest    = "invalid_request"
	InvalidToken      = "invalid_token"
	InsufficientScope = "insufficient_scope"
)

// Refusal is the error of a request that may not go on. Every error of [Authority.Verify] and [Authority.Authenticate] is one.
type Refusal struct {
	// Status is the HTTP status: 400, 401, 403 or 503.
	Status int
	// Code is the error code of RFC 6750, 3.1. It is empty if no credentials came, and with 503.
	Code   string
	Reason Reason
	// Text is for the client. It is one of few, and holds nothing of the token.
	Text string
	// Scopes are those that the client should ask for after a 403: the granted and the needed ones together.
	Scopes []string
	// RetryAfter is when a 503 may be over: at least a second.
	RetryAfter time.Duration
	// Detail are the claims that did not fit and what was expected, for the log. Nobody has verified them. The token is not among them.
	Detail []slog.Attr
	// Known is what has been verified, for the log: whose the token or the API key is, and which scopes it lacks.
	Known []slog.Attr
	// Err is the error behind a 503. It may be nil.
	Err error
}

// Error returns the reason and the detail.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("auth: %d: %s", r.Status, r.Reason)
	for _, a := range slices.Concat(r.Known, r.Detail) {
		text += fmt.Sprintf(", %s: %s", a.Key, a.Value)
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// Unwrap returns Err.
func (r *Refusal) Unwrap() error { return r.Err }

// LogValue has the detail in a group named unverified.
func (r *Refusal) LogValue() slog.Value {
	attrs := append([]slog.Attr{slog.String("reason", string(r.Reason)), slog.Int("status", r.Status)}, r.Known...)
	if len(r.Detail) > 0 {
		attrs = append(attrs, slog.Attr{Key: "unverified", Value: slog.GroupValue(r.Detail...)})
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("err", r.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// The texts for clients. Those that are exported are for callers that refuse a token which counts.
const (
	textMissing     = "an access token is required"
	textNoKey       = "an API key is required: send Authorization: Bearer KEY"
	textNeither     = "an access token or an API key is required: send Authorization: Bearer TOKEN"
	textRequest     = "the Authorization header must be one credential"
	TextInvalid     = "the access token is not valid for this server"
	textScope       = "the access token lacks a scope"
	TextUnavailable = "the access token cannot be verified at the moment: try again shortly"
)

func invalidRequest() *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Code: InvalidRequest, Reason: ReasonRequest, Text: textRequest}
}

func invalidToken(why Reason, detail ...slog.Attr) *Refusal {
	return &Refusal{Status: http.StatusUnauthorized, Code: InvalidToken, Reason: why, Text: TextInvalid, Detail: detail}
}

func refuseUnavailable(why Reason, retry time.Duration, err error, detail ...slog.Attr) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Reason: why, Text: TextUnavailable, RetryAfter: max(retry, time.Second), Err: err, Detail: detail}
}
