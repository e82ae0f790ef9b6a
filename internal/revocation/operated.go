package revocation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/internal/admin"
)

// operable are the revocations of a [List], or what a program sees of them.
type operable interface {
	Revoke(ctx context.Context, want Revocation) (Revocation, error)
	RevokeKey(ctx context.Context, key string) (Revocation, error)
	List(ctx context.Context) ([]Revocation, error)
	Remove(ctx context.Context, id string) (Revocation, error)
}

// Operated are revocations as an operator sees them.
type Operated struct {
	of    operable
	tell  func(error) error
	about About
}

// About is what a server knows of whom an operator names. The zero value knows nothing.
type About struct {
	// Issuers are those whose tokens the server has taken; nil says that it may be anybody's.
	Issuers func() []string
	// Held counts what those have whom a revocation is about.
	Held func(context.Context, Revocation) (admin.Held, error)
}

// heldTime bounds how long a revocation waits for the count of what it ends.
const heldTime = time.Second

var _ admin.Revocations = Operated{}

// NewOperated returns revocations as an operator sees them. tell returns an error, or nil, as the operator is told of it.
func NewOperated(all operable, tell func(error) error, about About) Operated {
	return Operated{all, tell, about}
}

func adminRevocationOf(r *Revocation) admin.Revocation {
	return admin.RevocationOf(r.ID, r.Subject, r.Client, r.Issuer, r.Created, r.Expires)
}

// Revocations implements [admin.Revocations].
func (o Operated) Revocations(ctx context.Context) ([]admin.Revocation, error) {
	found, err := o.of.List(ctx)
	all := make([]admin.Revocation, len(found))
	for i := range found {
		all[i] = adminRevocationOf(&found[i])
	}
	return all, o.tell(err)
}

// Revoke implements [admin.Revocations].
func (o Operated) Revoke(ctx context.Context, want admin.RevocationRequest) (admin.Revocation, error) {
	if want.Key != "" {
		r, err := o.of.RevokeKey(ctx, want.Key)
		return adminRevocationOf(&r), o.tell(err)
	}
	if err := o.checkIssuer(want.Issuer); err != nil {
		return admin.Revocation{}, o.tell(err)
	}
	asked := Revocation{Subject: want.Subject, Client: want.Client, Issuer: want.Issuer, Ban: want.Ban, Expires: want.Expires}
	held := o.countHeld(ctx, asked)
	r, err := o.of.Revoke(ctx, asked)
	told := adminRevocationOf(&r)
	told.Held = held
	return told, o.tell(err)
}

// checkIssuer refuses an issuer of which the server has taken no token: what is meant would go on.
func (o Operated) checkIssuer(issuer string) error {
	if issuer == "" || o.about.Issuers == nil {
		return nil
	}
	all := o.about.Issuers()
	if all == nil || slices.Contains(all, issuer) {
		return nil
	}
	return fmt.Errorf("%w: the server has no issuer %s, but %s; without an issuer the name counts at each", ErrBad, issuer, strings.Join(all, ", "))
}

// countHeld counts what is to end, nil if that is not known soon.
func (o Operated) countHeld(ctx context.Context, r Revocation) *admin.Held {
	if o.about.Held == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, heldTime)
	defer cancel()
	held, err := o.about.Held(ctx, r)
	if err != nil {
		return nil
	}
	return &held
}

// RemoveRevocation implements [admin.Revocations].
func (o Operated) RemoveRevocation(ctx context.Context, id string) (admin.Revocation, error) {
	r, err := o.of.Remove(ctx, id)
	return adminRevocationOf(&r), o.tell(err)
}
