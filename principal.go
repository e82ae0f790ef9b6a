package troupe

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Principal is who makes a request. Sessions, streams and cursors of one
// principal do not exist for another.
type Principal struct {
	Issuer  string `json:"issuer"`  // who vouches for the subject
	Subject string `json:"subject"` // unique at its issuer; empty means nobody in particular
	// Claims are handed to handlers as they are. They are stored with calls that
	// may run again, so that they must hold no secrets.
	Claims json.RawMessage `json:"claims,omitempty"`
	// Token is what a handler may act with on the user's behalf, such as an access token
	// for another service. It is never stored: a call that runs again in another process
	// has none, and has to say that it cannot go on. Packages fmt and log/slog print a
	// Principal without it, but not a struct that has one in an unexported field, as they
	// cannot call its methods there: do not print such a struct.
	Token string `json:"-"`
}

// String names the principal, without claims and token.
func (p Principal) String() string {
	if p.Issuer == "" {
		return p.Subject
	}
	return p.Subject + " of " + p.Issuer
}

// GoString is String for %#v.
func (p Principal) GoString() string { return fmt.Sprintf("troupe.Principal(%q)", p.String()) }

// LogValue is String for package slog.
func (p Principal) LogValue() slog.Value { return slog.StringValue(p.String()) }

// anonymous is the tenant of everybody who is nobody in particular.
const anonymous = "anon"

var tenantEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tenant is the part of keys and subjects that stands for a principal.
func (p *Principal) tenant() string {
	if p.Subject == "" && p.Issuer == "" {
		return anonymous
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(len(p.Issuer)))
	b = append(b, p.Issuer...)
	b = append(b, p.Subject...)
	sum := sha256.Sum256(b)
	return tenantEncoding.EncodeToString(sum[:])[:26]
}
