package recorded_test

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/internal/apikey"
	"github.com/troupe-run/troupe/internal/store"
)

// made is when the keys of the seeds were made.
var made = time.Date(2026, 7, 28, 12, 0, 0, 0, time.UTC)

// records has what is stored by its id.
type records map[string][]byte

func (r records) Peek(_ context.Context, id string) ([]byte, uint64, error) {
	if data, ok := r[id]; ok {
		return data, 1, nil
	}
	return nil, 0, store.ErrNotFound
}

func (r records) Create(_ context.Context, id string, data []byte, _ time.Duration) error {
	if _, ok := r[id]; ok {
		return store.ErrConflict
	}
	r[id] = data
	return nil
}

func (r records) Update(_ context.Context, id string, data []byte, _ uint64, _ time.Duration) error {
	r[id] = data
	return nil
}

func (r records) List(_ context.Context, f func([]byte, uint64)) error {
	for _, data := range r {
		f(data, 1)
	}
	return nil
}

func (records) Room(context.Context) (bool, error) { return true, nil }
func (records) Now() time.Time                     { return made.Add(time.Hour) }

// FuzzRecord has a record of any bytes under the id of a secret, and what an operator does with it. What can be read says the same after it was written, and a key that is revoked stays so.
func FuzzRecord(f *testing.F) {
	digest := auth.KeyDigest(sha256.Sum256([]byte("a secret")))
	id := base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding).EncodeToString(digest[:16])
	secret := map[string]any{"digest": digest[:], "created": made}
	for _, record := range []map[string]any{
		{"v": 1, "id": id, "name": "CI", "created": made, "secrets": []any{secret}},
		{"v": 1, "id": id, "name": "CI", "scopes": []string{"a"}, "servers": []string{"/mcp"}, "created": made, "expires": made.Add(24 * time.Hour), "used": made, "secrets": []any{secret, secret}, "later": 1},
		{"v": 1, "id": id, "name": "CI", "created": made, "revoked": made, "secrets": []any{secret}},
		{"v": 1, "of": id},
		{"v": 1, "of": "another"},
		{"v": 2, "id": id},
		{"v": 1, "id": id, "secrets": []any{map[string]any{"digest": "AAAA"}}},
	} {
		data, err := json.Marshal(record)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		stored := records{id: data}
		s := apikey.New(stored)
		ctx := t.Context()
		find := func() (string, bool) {
			k, err := s.Find(ctx, digest)
			if err != nil {
				return "", false
			}
			return fmt.Sprintf("%q %q %q %q %d %d", k.ID, k.Name, k.Scopes, k.Servers, k.Created.UnixNano(), k.Expires.UnixNano()), !k.Revoked.IsZero()
		}
		before, revoked := find()
		if err := s.Used(ctx, digest, made.Add(48*time.Hour)); err == nil {
			if after, still := find(); after != before || still != revoked {
				t.Fatalf("%s\nwas %s, revoked %v, and once its use was noted %s, revoked %v", data, before, revoked, after, still)
			}
		}
		all, err := s.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			_, _, err := s.Rotate(ctx, k.ID, time.Hour, time.Time{})
			if err == nil && !k.Revoked.IsZero() {
				t.Fatalf("a revoked key is rotated: %s", data)
			}
			gone, err := s.Revoke(ctx, k.ID)
			if err != nil {
				continue // an id that is none, or another record's
			}
			if gone.Revoked.IsZero() {
				t.Fatalf("a key is not revoked: %s", data)
			}
			if _, is := find(); !is && gone.ID == id && before != "" {
				t.Fatalf("a revoked key counts: %s", data)
			}
		}
	})
}
