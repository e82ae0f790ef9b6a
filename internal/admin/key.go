package admin

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrNoKey reports that there is no such API key.
	ErrNoKey = errors.New("there is no such API key")
	// ErrKey reports that an API key cannot be made or changed as was asked.
	ErrKey = errors.New("not done")
)

// Keys are the API keys of the store. A key is named by its id, or by its name if that is one's alone.
type Keys interface {
	// Keys lists all that are kept, the oldest first.
	Keys(ctx context.Context) ([]Key, error)
	// CreateKey makes a key. ErrKey.
	CreateKey(ctx context.Context, want KeyRequest) (NewKey, error)
	// RotateKey gives a key another secret. ErrNoKey, ErrKey.
	RotateKey(ctx context.Context, key string, r Rotation) (NewKey, error)
	// RevokeKey ends a key. ErrNoKey, ErrKey.
	RevokeKey(ctx context.Context, key string) (Key, error)
}

// Key is what is told of an API key. Its secret is known to its owner alone.
type Key struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Servers []string   `json:"servers,omitempty"` // none: all
	Scopes  []string   `json:"scopes,omitempty"`
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"` // absent: never
	Revoked *time.Time `json:"revoked,omitempty"`
	Used    string     `json:"used,omitempty"` // the day, in UTC; absent for one that was never used
}

// KeyOf returns a key by its parts, of whose times the zero time is none.
func KeyOf(id, name string, servers, scopes []string, created, expires, revoked, used time.Time) Key {
	k := Key{ID: id, Name: name, Servers: servers, Scopes: scopes, Created: created}
	if !expires.IsZero() {
		k.Expires = &expires
	}
	if !revoked.IsZero() {
		k.Revoked = &revoked
	}
	if !used.IsZero() {
		k.Used = used.Format(time.DateOnly)
	}
	return k
}

// NewKey is a key with its secret, which is told this once.
type NewKey struct {
	Key
	Secret string `json:"secret"`
}

// KeyRequest is what a key is to be.
type KeyRequest struct {
	Name    string    `json:"name"`
	Servers []string  `json:"servers,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

// Rotation is how a key is rotated.
type Rotation struct {
	Overlap time.Duration `json:"overlap"` // for which the secrets that it has still count
	Expires time.Time     `json:"expires,omitzero"`
}
