package revocation

import (
	"context"

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
	of   operable
	tell func(error) error
}

var _ admin.Revocations = Operated{}

// NewOperated returns revocations as an operator sees them. tell returns an error, or nil, as the operator is told of it.
func NewOperated(all operable, tell func(error) error) Operated { return Operated{all, tell} }

func shown(r *Revocation) admin.Revocation {
	return admin.RevocationOf(r.ID, r.Subject, r.Client, r.Issuer, r.Created, r.Expires)
}

// Revocations implements [admin.Revocations].
func (o Operated) Revocations(ctx context.Context) ([]admin.Revocation, error) {
	found, err := o.of.List(ctx)
	all := make([]admin.Revocation, len(found))
	for i := range found {
		all[i] = shown(&found[i])
	}
	return all, o.tell(err)
}

// Revoke implements [admin.Revocations].
func (o Operated) Revoke(ctx context.Context, want admin.RevocationRequest) (admin.Revocation, error) {
	var r Revocation
	var err error
	if want.Key != "" {
		r, err = o.of.RevokeKey(ctx, want.Key)
	} else {
		r, err = o.of.Revoke(ctx, Revocation{Subject: want.Subject, Client: want.Client, Issuer: want.Issuer, Ban: want.Ban, Expires: want.Expires})
	}
	return shown(&r), o.tell(err)
}

// RemoveRevocation implements [admin.Revocations].
func (o Operated) RemoveRevocation(ctx context.Context, id string) (admin.Revocation, error) {
	r, err := o.of.Remove(ctx, id)
	return shown(&r), o.tell(err)
}
