package admin

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/operator"
)

var (
	// ErrNoRevocation reports that there is no such revocation.
	ErrNoRevocation = errors.New("there is no such revocation")
	// ErrRevocation reports that nobody can be revoked as was asked.
	ErrRevocation = errors.New("nobody is revoked")
)

// Revocations say whose access tokens are refused.
type Revocations interface {
	// Revocations lists all that there are, the oldest first.
	Revocations(ctx context.Context) ([]Revocation, error)
	// Revoke makes one, and ends what those hold whom it is about. ErrRevocation; ErrNoKey and ErrKey for an API key.
	Revoke(ctx context.Context, want RevocationRequest) (Revocation, error)
	// RemoveRevocation takes one back. ErrNoRevocation.
	RemoveRevocation(ctx context.Context, id string) (Revocation, error)
}

// Held is how much somebody has.
type Held = operator.Ended

// Revocation is what is told of a revocation.
type Revocation struct {
	ID      string     `json:"id"`
	Subject string     `json:"subject,omitempty"`
	Client  string     `json:"client,omitempty"`
	Issuer  string     `json:"issuer,omitempty"` // absent: any
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"` // absent: it is a ban

	// Held is what a subject or a client had when it was revoked; a list has it not.
	Held *Held `json:"held,omitempty"`
}

// RevocationOf returns a revocation by its parts. The zero time of expires is that of a ban.
func RevocationOf(id, subject, client, issuer string, created, expires time.Time) Revocation {
	r := Revocation{ID: id, Subject: subject, Client: client, Issuer: issuer, Created: created}
	if !expires.IsZero() {
		r.Expires = &expires
	}
	return r
}

// RevocationRequest says who is to be revoked: a subject, a client or an API key.
type RevocationRequest struct {
	Subject string    `json:"subject,omitempty"`
	Client  string    `json:"client,omitempty"`
	Key     string    `json:"key,omitempty"` // its id, or its name
	Issuer  string    `json:"issuer,omitempty"`
	Ban     bool      `json:"ban,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}
