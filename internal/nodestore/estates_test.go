package nodestore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/test/kit"
)

// TestEstates keeps what one process leaves to another: sealed, for a time, each in the place of the one before, and not among the sessions.
func TestEstates(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n, err := cluster.Open(t.Context(), cluster.Options{Lease: 24 * time.Hour, Sync: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close(context.Background()) }()
		s := nodestore.NewEstates(n)
		if data, rev, err := s.Load(t.Context(), "a1"); data != nil || rev != 0 || err != nil {
			t.Fatalf("before: %q, %d, %v", data, rev, err)
		}
		secret := []byte("the id of a session")
		first, err := s.Save(t.Context(), "a1", secret, 0, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if raw, _, err := n.Peek(t.Context(), "session.estate.of.backend.a1"); err != nil || bytes.Contains(raw, secret) {
			t.Errorf("the store has %q, %v", raw, err)
		}
		if data, rev, err := s.Load(t.Context(), "a1"); !bytes.Equal(data, secret) || rev != first || err != nil {
			t.Errorf("it has %q, %d, %v", data, rev, err)
		}
		if all, err := n.Sessions(t.Context(), 0, 10); len(all) > 0 || err != nil {
			t.Errorf("among the sessions are %v, %v", all, err)
		}
		second, err := s.Save(t.Context(), "a1", []byte("two"), first, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Save(t.Context(), "a1", []byte("three"), first, time.Hour); !errors.Is(err, backend.ErrTaken) {
			t.Errorf("in the place of another one: %v", err)
		}
		if _, err := s.Save(t.Context(), "a1", []byte("three"), 0, time.Hour); !errors.Is(err, backend.ErrTaken) {
			t.Errorf("as if nothing were there: %v", err)
		}
		if err := s.Drop(t.Context(), "a1", first); !errors.Is(err, backend.ErrTaken) {
			t.Errorf("another one was dropped: %v", err)
		}
		if err := s.Drop(t.Context(), "a1", second); err != nil {
			t.Error(err)
		}
		if _, err := s.Save(t.Context(), "a1", []byte("four"), 0, time.Second); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if data, _, err := s.Load(t.Context(), "a1"); data != nil || err != nil {
			t.Errorf("after its time there is %q, %v", data, err)
		}
	})
}
