package nodestore_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/test/kit"
)

// TestCatalogues keeps what backends list, each under the digest of its configuration.
func TestCatalogues(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n, err := cluster.Open(t.Context(), cluster.Options{Lease: time.Hour, Sync: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = n.Close(context.Background()) }()
		s := nodestore.NewCatalogues(n)
		digest := strings.Repeat("a1", 16)
		if got, err := s.Load(t.Context(), digest); got != nil || err != nil {
			t.Fatalf("before: %q, %v", got, err)
		}
		for _, data := range []string{"first", "second", strings.Repeat("x", 256<<10)} {
			if err := s.Store(t.Context(), digest, []byte(data)); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Load(t.Context(), digest); string(got) != data || err != nil {
				t.Errorf("%.20q, %v, want %.20q", got, err, data)
			}
		}
		if err := s.Store(t.Context(), digest, bytes.Repeat([]byte("x"), 256<<10+1)); err == nil {
			t.Error("too much was stored")
		}
	})
}
