package apikey_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/apikey"
)

// TestFarEnds has keys that end, or overlap, in hundreds of years: they count for as long as those that end in ten.
func TestFarEnds(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, _ *cluster.Node) {
		now := time.Now()
		for name, end := range map[string]time.Time{"ten years": now.AddDate(10, 0, 0), "230 years": now.AddDate(230, 0, 0), "the end of time": time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
			k, first := create(t, s, auth.APIKey{Name: name, Expires: end})
			_, second, err := s.Rotate(t.Context(), k.ID, math.MaxInt64, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			_, third, err := s.Rotate(t.Context(), k.ID, math.MaxInt64, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				for i, key := range []string{first, second, third} {
					if got := found(t, s, key); got == "none" {
						t.Errorf("%s: the secret %d is gone after 30 hours", name, i)
					}
				}
			}()
		}
		time.Sleep(30 * time.Hour)
		synctest.Wait()
	})
}
