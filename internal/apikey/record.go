package apikey

import (
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/scope"
	"github.com/troupe-run/troupe/internal/unknown"
)

const (
	// version is that of a record's form. A release that does not know the version of a record cannot say what it means.
	version = 1

	keepExpired = 30 * 24 * time.Hour // the record of a key that has expired
	keepRevoked = 90 * 24 * time.Hour // and at most that of one that was revoked
	keepLeast   = 24 * time.Hour      // so that an operator sees what became of it

	farthest = 100 * 365 * 24 * time.Hour // nothing is kept for longer: a sum of such times is none that a Duration cannot hold
)

// record is what is stored of a key, or the id of the key that a secret belongs to.
type record struct {
	Version int       `json:"v"`
	OfKey   string    `json:"of,omitempty"` // the id of the key; everything else is empty then
	ID      string    `json:"id,omitempty"`
	Name    string    `json:"name,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Servers []string  `json:"servers,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Used    time.Time `json:"used,omitzero"` // the day
	Secrets []secret  `json:"secrets,omitempty"`

	rest unknown.Members
}

// secret is one of those that stand for a key.
type secret struct {
	Digest  []byte    `json:"digest"`
	Created time.Time `json:"created"`
	Ends    time.Time `json:"ends,omitzero"` // the zero time: with the key
}

// errForm is the error of a record that cannot be read. A newer release may have written it.
var errForm = errors.New("a record of an API key cannot be read")

func decodeRecord(data []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	if r.Version != version || (r.ID == "") == (r.OfKey == "") {
		return nil, fmt.Errorf("%w: version %d", errForm, r.Version)
	}
	for _, s := range r.Secrets {
		if len(s.Digest) != len(auth.KeyDigest{}) {
			return nil, fmt.Errorf("%w: a digest has %d bytes", errForm, len(s.Digest))
		}
	}
	r.rest = unknown.Of[record](data)
	return r, nil
}

func (r *record) encode() ([]byte, error) {
	r.Version = version
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return r.rest.Append(data), nil
}

// idEncoding is that of ids: one token of a subject, without case.
var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// idLength is that of every id.
const idLength = 26

// idOf is the id under which a secret is found.
func idOf(d auth.KeyDigest) string { return idEncoding.EncodeToString(d[:16]) }

// findSecret returns the secret with a digest.
func (r *record) findSecret(d auth.KeyDigest) (secret, bool) {
	i := slices.IndexFunc(r.Secrets, func(s secret) bool { return string(s.Digest) == string(d[:]) })
	if i < 0 {
		return secret{}, false
	}
	return r.Secrets[i], true
}

// hasEnded reports whether the key counts no more.
func (r *record) hasEnded(now time.Time) bool {
	return !r.Revoked.IsZero() || !r.Expires.IsZero() && !now.Before(r.Expires)
}

// ttl is for how long the record is kept, 0 if it has no end.
func (r *record) ttl(now time.Time) time.Duration {
	switch left := min(r.Expires.Sub(now), farthest); {
	case !r.Revoked.IsZero() && r.Expires.IsZero():
		return keepRevoked
	case !r.Revoked.IsZero():
		return min(max(left, keepLeast), keepRevoked)
	case r.Expires.IsZero():
		return 0
	default:
		return max(left+keepExpired, keepLeast)
	}
}

// key is what others are told of it.
func (r *record) key() auth.APIKey {
	return auth.APIKey{ID: r.ID, Name: r.Name, Scopes: r.Scopes, Servers: r.Servers, Created: r.Created, Expires: r.Expires, Revoked: r.Revoked, Used: r.Used}
}

// check refuses what cannot be a key.
func (r *record) check(now time.Time) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrBad}, args...)...)
	}
	switch n := utf8.RuneCountInString(r.Name); {
	case n == 0 || n > maxName || strings.TrimSpace(r.Name) != r.Name || strings.ContainsFunc(r.Name, func(c rune) bool { return !unicode.IsGraphic(c) || c == utf8.RuneError }):
		return bad("its name is %.80q: want 1 to %d printable characters without space around them", r.Name, maxName)
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		return bad("it would have ended at %s", r.Expires.Format(time.RFC3339))
	case len(r.Scopes) > maxList || len(r.Servers) > maxList:
		return bad("it has %d scopes and %d servers: want at most %d", len(r.Scopes), len(r.Servers), maxList)
	}
	for _, one := range r.Scopes {
		if len(one) > maxText || !scope.Valid(one) {
			return bad("%.80q is no scope (RFC 6749, 3.3)", one)
		}
	}
	for _, server := range r.Servers {
		if server == "" || len(server) > maxText {
			return bad("%.80q is no server: name it by its id or its path", server)
		}
	}
	return nil
}

// soonerEnd is the sooner of two ends, of which the zero time is none.
func soonerEnd(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
