package revocation

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/unknown"
)

// Records keeps records by their ids. Each change of one gives it a revision above those of all others. Errors other than ErrNotFound and ErrConflict say nothing about a record.
type Records interface {
	// Peek reads a record. ErrNotFound, also for one that was made a moment ago.
	Peek(ctx context.Context, id string) (data []byte, rev uint64, err error)
	// Create stores a new record for a time; 0 has no end. ErrConflict.
	Create(ctx context.Context, id string, data []byte, ttl time.Duration) (rev uint64, err error)
	// Update replaces the record with a revision. ErrConflict.
	Update(ctx context.Context, id string, data []byte, rev uint64, ttl time.Duration) (newRev uint64, err error)
	// Delete removes the record with a revision. ErrConflict.
	Delete(ctx context.Context, id string, rev uint64) error
	// From calls f for each record whose revision is at least rev, in their order, and without data for one that was removed in the last seconds.
	From(ctx context.Context, rev uint64, f func(id string, rev uint64, data []byte)) error
	// Room reports whether another record may be made.
	Room(ctx context.Context) (bool, error)
	// Now is the time by the clock that the times of all nodes are compared with.
	Now() time.Time
}

// Keys are the API keys of the store.
type Keys interface {
	// Revoke ends a key, which is named by its id or by its name.
	Revoke(ctx context.Context, idOrName string) (auth.APIKey, error)
}

// ErrRest: somebody is revoked, but not all of what is stored of them was ended. It may be tried again.
var ErrRest = errors.New("the tokens are refused, but not all that they have begun has ended: try again")

// Errors of what an operator asks for. Nothing was done.
var (
	ErrUnknown = errors.New("there is no such revocation")
	ErrFull    = errors.New("there are too many revocations")
	ErrBad     = errors.New("a revocation cannot be made so")
)

// version is that of a record's form. A release that does not know the version of a record cannot say what it means.
const version = 1

// The size limits of what a revocation names, in bytes: those of package auth.
const (
	maxName   = 1024
	maxIssuer = 2048
)

// Revocation says whose tokens are refused: those of a subject or of a client, of which it has one.
type Revocation struct {
	// ID says whom it is about.
	ID string `json:"id"`
	// Subject is that of the tokens, or the id of an API key with the issuer auth.KeyIssuer.
	Subject string `json:"subject,omitempty"`
	// Client is the id of the client that got the tokens.
	Client string `json:"client,omitempty"`
	// Issuer is that of the tokens. Empty means any.
	Issuer string `json:"issuer,omitempty"`
	// Ban refuses all tokens, also those that are issued later, until the revocation is removed.
	Ban bool `json:"ban,omitempty"`
	// Created is when it was made, or made last: tokens that were issued before are refused.
	Created time.Time `json:"created"`
	// Expires is when it ends, the zero time for a ban.
	Expires time.Time `json:"expires,omitzero"`
}

// record is a revocation as it is stored.
type record struct {
	Version int `json:"v"`
	Revocation

	rest unknown.Members
}

// errForm is the error of a record that cannot be read. A newer release may have written it.
var errForm = errors.New("a record of a revocation cannot be read")

func decodeRecord(data []byte) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	if r.Version != version {
		return nil, fmt.Errorf("%w: version %d", errForm, r.Version)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", errForm, err)
	}
	if r.ID != r.deriveID() || r.Created.IsZero() || r.Ban != r.Expires.IsZero() {
		return nil, fmt.Errorf("%w: %.80q is not as this release writes it", errForm, r.ID)
	}
	r.rest = unknown.Of[record](data)
	return r, nil
}

func (r *record) encode() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return r.rest.Append(data), nil
}

// recordOf returns the record of a revocation that replaces another one, of which old is nil if there is none. It refuses no less than that.
func recordOf(r Revocation, old *record) *record {
	n := &record{Version: version, Revocation: r}
	if old == nil {
		return n
	}
	n.rest, n.Ban = old.rest, n.Ban || old.Ban
	if n.Expires.Before(old.Expires) {
		n.Expires = old.Expires
	}
	if n.Ban {
		n.Expires = time.Time{}
	}
	if n.Created.Before(old.Created) {
		n.Created = old.Created
	}
	return n
}

const idBytes = 10

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// deriveID returns the id of the revocations of whom r is about.
func (r *Revocation) deriveID() string {
	var b []byte
	for _, part := range []string{r.Issuer, r.Subject, r.Client} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return idEncoding.EncodeToString(sum[:idBytes])
}

// isID reports whether a text can be an id.
func isID(s string) bool {
	b, err := idEncoding.DecodeString(s)
	return err == nil && len(b) == idBytes
}

// hasEnded reports whether the revocation refuses nothing more.
func (r *Revocation) hasEnded(now time.Time) bool { return !r.Ban && !now.Before(r.Expires) }

// refuses reports whether a token is refused whose subject or client is that of r. One that does not say when it was issued counts as issued before.
func (r *Revocation) refuses(id *auth.Identity, now time.Time) bool {
	return (r.Issuer == "" || r.Issuer == id.Issuer) && (r.Ban || id.Issued.IsZero() || id.Issued.Before(r.Created)) && !r.hasEnded(now)
}

// refusal is what the client of a revoked token is told.
func (r *Revocation) refusal(id *auth.Identity) *auth.Refusal {
	detail := []slog.Attr{slog.String("revocation", r.ID), slog.String("iss", id.Issuer), slog.String("sub", id.Subject), slog.String("client", id.Client), slog.Time("revoked", r.Created)}
	if !id.Issued.IsZero() {
		detail = append(detail, slog.Time("iat", id.Issued))
	}
	return &auth.Refusal{Status: http.StatusUnauthorized, Code: auth.InvalidToken, Reason: auth.ReasonRevoked, Text: auth.TextInvalid, Detail: detail}
}

// check refuses what names nobody.
func (r *Revocation) check() error {
	switch {
	case (r.Subject == "") == (r.Client == ""):
		return fmt.Errorf("%w: name a subject or a client", ErrBad)
	case !isText(r.Subject, maxName):
		return fmt.Errorf("%w: %.80q is no subject of a token", ErrBad, r.Subject)
	case !isText(r.Client, maxName):
		return fmt.Errorf("%w: %.80q is no client of a token", ErrBad, r.Client)
	case !isText(r.Issuer, maxIssuer):
		return fmt.Errorf("%w: %.80q is no issuer of tokens", ErrBad, r.Issuer)
	}
	return nil
}

func isText(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f })
}
