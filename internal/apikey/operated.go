package apikey

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/admin"
)

// operable are the keys of a [Store], or what a program sees of them.
type operable interface {
	Create(ctx context.Context, want auth.APIKey) (auth.APIKey, string, error)
	List(ctx context.Context) ([]auth.APIKey, error)
	Rotate(ctx context.Context, key string, overlap time.Duration, expires time.Time) (auth.APIKey, string, error)
	Revoke(ctx context.Context, key string) (auth.APIKey, error)
}

// Operated are keys as an operator sees them.
type Operated struct {
	of   operable
	tell func(error) error
}

var _ admin.Keys = Operated{}

// NewOperated returns keys as an operator sees them. tell returns an error, or nil, as the operator is told of it.
func NewOperated(keys operable, tell func(error) error) Operated { return Operated{keys, tell} }

func adminKeyOf(k *auth.APIKey) admin.Key {
	return admin.KeyOf(k.ID, k.Name, k.Servers, k.Scopes, k.Created, k.Expires, k.Revoked, k.Used)
}

// Keys implements [admin.Keys].
func (o Operated) Keys(ctx context.Context) ([]admin.Key, error) {
	all, err := o.of.List(ctx)
	keys := make([]admin.Key, len(all))
	for i := range all {
		keys[i] = adminKeyOf(&all[i])
	}
	return keys, o.tell(err)
}

// CreateKey implements [admin.Keys].
func (o Operated) CreateKey(ctx context.Context, want admin.KeyRequest) (admin.NewKey, error) {
	k, secret, err := o.of.Create(ctx, auth.APIKey{Name: want.Name, Servers: want.Servers, Scopes: want.Scopes, Expires: want.Expires})
	return admin.NewKey{Key: adminKeyOf(&k), Secret: secret}, o.tell(err)
}

// RotateKey implements [admin.Keys].
func (o Operated) RotateKey(ctx context.Context, key string, r admin.Rotation) (admin.NewKey, error) {
	k, secret, err := o.of.Rotate(ctx, key, r.Overlap, r.Expires)
	return admin.NewKey{Key: adminKeyOf(&k), Secret: secret}, o.tell(err)
}

// RevokeKey implements [admin.Keys].
func (o Operated) RevokeKey(ctx context.Context, key string) (admin.Key, error) {
	k, err := o.of.Revoke(ctx, key)
	return adminKeyOf(&k), o.tell(err)
}
