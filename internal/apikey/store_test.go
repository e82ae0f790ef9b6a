package apikey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/apikey"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/store"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/when"
)

func TestMain(m *testing.M) { kit.Main(m) }

func open(t testing.TB, o cluster.Options) (*apikey.Store, *cluster.Node) {
	t.Helper()
	n, err := cluster.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil && o.Remote.URL == "" { // the servers may be away
			t.Error(err)
		}
	})
	return apikey.New(nodestore.NewAPIKeys(n)), n
}

// inMemory runs f with a store in memory, in virtual time.
func inMemory(t *testing.T, f func(t *testing.T, s *apikey.Store, n *cluster.Node)) {
	t.Helper()
	kit.Bubble(t, func(t *testing.T) {
		s, n := open(t, cluster.Options{Lease: time.Hour})
		f(t, s, n)
	})
}

func create(t testing.TB, s *apikey.Store, want auth.APIKey) (auth.APIKey, string) {
	t.Helper()
	k, key, err := s.Create(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return k, key
}

// found says what the store knows of a key.
func found(t testing.TB, s *apikey.Store, key string) string {
	t.Helper()
	d, ok := auth.DigestAPIKey(key)
	if !ok {
		t.Fatalf("%q is no key", key)
	}
	switch k, err := s.Find(t.Context(), d); {
	case errors.Is(err, auth.ErrNoKey):
		return "none"
	case err != nil:
		return err.Error()
	case !k.Revoked.IsZero():
		return "revoked " + k.ID
	case !k.Expires.IsZero():
		return fmt.Sprintf("%s for %v", k.ID, time.Until(k.Expires).Round(time.Second))
	default:
		return k.ID
	}
}

// TestKeys are made, found by their secrets, listed, rotated and revoked; none of their secrets is stored.
func TestKeys(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, n *cluster.Node) {
		day := 24 * time.Hour
		ci, key := create(t, s, auth.APIKey{Name: "CI", Scopes: []string{"files:read", "files:read", "files:write"}, Servers: []string{"/mcp"}, Expires: time.Now().Add(90 * day)})
		if got, want := found(t, s, key), ci.ID+" for 2160h0m0s"; got != want {
			t.Errorf("found %s, want %s", got, want)
		}
		d, _ := auth.DigestAPIKey(key)
		if k, err := s.Find(t.Context(), d); err != nil || !slices.Equal(k.Scopes, []string{"files:read", "files:write"}) || !slices.Equal(k.Servers, []string{"/mcp"}) || k.Name != "CI" {
			t.Errorf("found %+v, %v", k, err)
		}
		other, otherKey := create(t, s, auth.APIKey{Name: "other"})
		if got := found(t, s, otherKey); got != other.ID {
			t.Errorf("found %s", got)
		}
		made, err := auth.NewAPIKey(nil)
		if got := found(t, s, made); err != nil || got != "none" {
			t.Errorf("a key that nobody has made: %s", got)
		}
		if _, _, err := s.Create(t.Context(), auth.APIKey{Name: "CI"}); !errors.Is(err, apikey.ErrTaken) {
			t.Errorf("a second key of a name: %v", err)
		}

		time.Sleep(time.Second)
		same, second, err := s.Rotate(t.Context(), "CI", day, time.Now().Add(180*day))
		if err != nil || same.ID != ci.ID || !same.Created.Equal(ci.Created) {
			t.Fatalf("rotated: %+v, %v", same, err)
		}
		if got, want := [2]string{found(t, s, key), found(t, s, second)}, [2]string{ci.ID + " for 24h0m0s", ci.ID + " for 4320h0m0s"}; got != want {
			t.Errorf("rotated: %q, want %q", got, want)
		}
		_, third, err := s.Rotate(t.Context(), ci.ID, 0, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := [3]string{found(t, s, key), found(t, s, second), found(t, s, third)}, [3]string{ci.ID + " for 0s", ci.ID + " for 0s", ci.ID + " for 4320h0m0s"}; got != want {
			t.Errorf("rotated without an overlap: %q, want %q", got, want)
		}

		all, err := s.List(t.Context())
		if err != nil || len(all) != 2 || !slices.ContainsFunc(all, func(k auth.APIKey) bool { return k.ID == ci.ID }) || !slices.ContainsFunc(all, func(k auth.APIKey) bool { return k.ID == other.ID }) {
			t.Errorf("listed: %+v, %v", all, err)
		}
		err = n.EachAPIKey(t.Context(), func(data []byte, _ uint64) {
			for _, secret := range []string{key, second, third, otherKey} {
				if strings.Contains(string(data), secret[4:40]) {
					t.Errorf("a secret is stored: %s", data)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}

		for range 2 {
			if k, err := s.Revoke(t.Context(), "CI"); err != nil || k.ID != ci.ID || k.Revoked.IsZero() {
				t.Errorf("revoked: %+v, %v", k, err)
			}
		}
		for _, secret := range []string{key, second, third} {
			if got := found(t, s, secret); got != "revoked "+ci.ID {
				t.Errorf("after it was revoked: %s", got)
			}
		}
		if _, _, err := s.Rotate(t.Context(), "CI", day, time.Time{}); !errors.Is(err, apikey.ErrEnded) {
			t.Errorf("a revoked key is rotated: %v", err)
		}
		if _, err := s.Revoke(t.Context(), "nobody"); !errors.Is(err, apikey.ErrUnknown) {
			t.Errorf("nobody's key is revoked: %v", err)
		}
		again, _ := create(t, s, auth.APIKey{Name: "CI"})
		if k, err := s.Revoke(t.Context(), "CI"); err != nil || k.ID != again.ID {
			t.Errorf("of two keys of a name, of which one counts: %+v, %v", k, err)
		}
		if _, err := s.Revoke(t.Context(), "CI"); !errors.Is(err, apikey.ErrAmbiguous) {
			t.Errorf("of two keys of a name, of which none counts: %v", err)
		}
	})
}

// model keeps records as a store would, with their ends.
type model map[string]modelled

type modelled struct {
	data []byte
	rev  uint64
	ends time.Time // the zero time: never
}

func (m model) Peek(_ context.Context, id string) ([]byte, uint64, error) {
	r, ok := m[id]
	if !ok || !r.ends.IsZero() && !time.Now().Before(r.ends) {
		return nil, 0, store.ErrNotFound
	}
	return r.data, r.rev, nil
}

func (m model) put(id string, data []byte, rev uint64, ttl time.Duration) error {
	if _, at, _ := m.Peek(context.Background(), id); at != rev {
		return store.ErrConflict
	}
	r := modelled{data: data, rev: m[id].rev + 1}
	if ttl > 0 {
		r.ends = time.Now().Add(ttl)
	}
	m[id] = r
	return nil
}

func (m model) Create(_ context.Context, id string, data []byte, ttl time.Duration) error {
	return m.put(id, data, 0, ttl)
}

func (m model) Update(_ context.Context, id string, data []byte, rev uint64, ttl time.Duration) error {
	return m.put(id, data, rev, ttl)
}

func (m model) List(_ context.Context, f func([]byte, uint64)) error {
	for id := range m {
		if data, rev, err := m.Peek(context.Background(), id); err == nil {
			f(data, rev)
		}
	}
	return nil
}

func (model) Room(context.Context) (bool, error) { return true, nil }
func (model) Now() time.Time                     { return time.Now() }

// TestRecordsGo by themselves: those of a revoked key when it would have ended and after 90 days at the latest, those of one that has expired after a month.
func TestRecordsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := make(model)
		s := apikey.New(m)
		day := 24 * time.Hour
		_, never := create(t, s, auth.APIKey{Name: "never"})
		create(t, s, auth.APIKey{Name: "month", Expires: time.Now().Add(30 * day)})
		for name, ends := range map[string]time.Duration{"revoked never": 0, "revoked week": 7 * day, "revoked year": 365 * day} {
			want := auth.APIKey{Name: name}
			if ends > 0 {
				want.Expires = time.Now().Add(ends)
			}
			create(t, s, want)
			if _, _, err := s.Rotate(t.Context(), name, day, time.Time{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Revoke(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		names := func() string {
			t.Helper()
			all, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var some []string
			for _, k := range all {
				some = append(some, k.Name)
			}
			slices.Sort(some)
			return strings.Join(some, ", ")
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{
			{6 * day, "month, never, revoked never, revoked week, revoked year"},
			{2 * day, "month, never, revoked never, revoked year"},
			{51 * day, "month, never, revoked never, revoked year"},
			{2 * day, "never, revoked never, revoked year"},
			{30 * day, "never"},
			{10000 * day, "never"},
		} {
			time.Sleep(step.after)
			if got := names(); got != step.want {
				t.Errorf("%v later: %s, want %s", step.after, got, step.want)
			}
		}
		left := 0
		if err := m.List(t.Context(), func([]byte, uint64) { left++ }); err != nil || left != 1 || found(t, s, never) == "none" {
			t.Errorf("%d records are left, %v", left, err)
		}
	})
}

// TestUsed notes the day, and no earlier one, and changes nothing else.
func TestUsed(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, n *cluster.Node) {
		k, key := create(t, s, auth.APIKey{Name: "CI"})
		d, _ := auth.DigestAPIKey(key)
		today := time.Now().UTC().Truncate(24 * time.Hour)
		var wg sync.WaitGroup
		for i := range 4 { // from as many nodes
			wg.Go(func() {
				if err := s.Used(t.Context(), d, today.Add(-24*time.Hour*time.Duration(i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if _, err := s.Revoke(t.Context(), k.ID); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		all, err := s.List(t.Context())
		if err != nil || len(all) != 1 || !all[0].Used.Equal(today) || all[0].Revoked.IsZero() {
			t.Errorf("%+v, %v; want it revoked, and used on %v", all, err, today)
		}
		made, _ := auth.NewAPIKey(nil)
		d, _ = auth.DigestAPIKey(made)
		if err := s.Used(t.Context(), d, today); !errors.Is(err, auth.ErrNoKey) {
			t.Errorf("the use of nobody's key: %v", err)
		}
	})
}

// TestBadKeys are not made.
func TestBadKeys(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, n *cluster.Node) {
		for what, k := range map[string]auth.APIKey{
			"no name":           {},
			"space":             {Name: " a"},
			"a long name":       {Name: strings.Repeat("ä", 65)},
			"a control":         {Name: "a\x1b[2J"},
			"no UTF-8":          {Name: "a\xff"},
			"a past":            {Name: "a", Expires: time.Now()},
			"two scopes in one": {Name: "a", Scopes: []string{"a b"}},
			"an empty scope":    {Name: "a", Scopes: []string{""}},
			"an empty server":   {Name: "a", Servers: []string{""}},
			"many servers":      {Name: "a", Servers: strings.Split(strings.Repeat("a,", 100)+"b", ",")[:0]},
		} {
			if what == "many servers" {
				for i := range 101 {
					k.Servers = append(k.Servers, fmt.Sprint(i))
				}
			}
			if _, _, err := s.Create(t.Context(), k); !errors.Is(err, apikey.ErrBad) {
				t.Errorf("%s: %v", what, err)
			}
		}
		create(t, s, auth.APIKey{Name: strings.Repeat("ä", 64)})
		_, first := create(t, s, auth.APIKey{Name: "a"})
		for range 7 {
			if _, _, err := s.Rotate(t.Context(), "a", time.Hour, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Rotate(t.Context(), "a", time.Hour, time.Time{}); !errors.Is(err, apikey.ErrFull) {
			t.Errorf("a ninth secret: %v", err)
		}
		if _, _, err := s.Rotate(t.Context(), "a", 0, time.Now().Add(-time.Hour)); !errors.Is(err, apikey.ErrBad) {
			t.Errorf("an end that is past: %v", err)
		}
		if got := found(t, s, first); !strings.HasSuffix(got, "for 1h0m0s") {
			t.Errorf("the first secret, then: %s", got)
		}
	})
}

// TestOtherReleases: what they know of a key stays, and a version that this one does not know is an error and no answer.
func TestOtherReleases(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, n *cluster.Node) {
		k, key := create(t, s, auth.APIKey{Name: "CI"})
		change := func(f func(map[string]any)) {
			t.Helper()
			data, rev, err := n.Peek(t.Context(), "keys.api."+k.ID)
			var m map[string]any
			if err == nil {
				err = json.Unmarshal(data, &m)
			}
			if err != nil {
				t.Fatal(err)
			}
			f(m)
			data, err = json.Marshal(m)
			if err == nil {
				_, err = n.Update(t.Context(), "keys.api."+k.ID, data, rev, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		change(func(m map[string]any) { m["later"] = "kept" })
		d, _ := auth.DigestAPIKey(key)
		if err := s.Used(t.Context(), d, time.Now()); err != nil {
			t.Fatal(err)
		}
		change(func(m map[string]any) {
			if m["later"] != "kept" {
				t.Errorf("what a newer release has written is gone: %v", m)
			}
			m["v"] = 2
		})
		if _, err := s.Find(t.Context(), d); err == nil || errors.Is(err, auth.ErrNoKey) {
			t.Errorf("a newer version: %v", err)
		}
		change(func(m map[string]any) { m["v"], m["secrets"] = 1, []any{map[string]any{"digest": "AAAA"}} })
		if _, err := s.Find(t.Context(), d); err == nil || errors.Is(err, auth.ErrNoKey) {
			t.Errorf("a short digest: %v", err)
		}
	})
}

// TestTheKeyRing does without the records of API keys, which lie beside it.
func TestTheKeyRing(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, n *cluster.Node) {
		for i := range 20 {
			create(t, s, auth.APIKey{Name: fmt.Sprint("key ", i)})
		}
		sealed, err := n.Keys().Seal([]byte("a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		if _, err := n.Keys().Seal([]byte("a"), nil); err != nil {
			t.Error(err)
		}
		if plain, err := n.Keys().Open(sealed, nil); err != nil || string(plain) != "a" {
			t.Errorf("%q, %v", plain, err)
		}
	})
}

// TestRoom: API keys leave the key ring half of its part of the store.
func TestRoom(t *testing.T) {
	inMemory(t, func(t *testing.T, s *apikey.Store, n *cluster.Node) {
		small, m := open(t, cluster.Options{Lease: time.Hour, MaxStore: 1 << 20})
		var err error
		made := 0
		for err == nil && made < 2000 {
			_, _, err = small.Create(t.Context(), auth.APIKey{Name: fmt.Sprint("key ", made), Servers: []string{strings.Repeat("a", 250)}})
			made++
		}
		if !errors.Is(err, apikey.ErrFull) || made < 10 {
			t.Errorf("after %d keys: %v", made, err)
		}
		time.Sleep(25 * time.Hour)
		if _, err := m.Keys().Seal([]byte("a"), nil); err != nil {
			t.Errorf("the key ring: %v", err)
		}
	})
}

// TestRevokedElsewhere: two authorities of one store, as of two nodes; what one revokes the other refuses within 2 seconds, and while the store is away both go on.
func TestRevokedElsewhere(t *testing.T) {
	when.Full(t, "two seconds in real time")
	bubble.OneAtATime(t)
	nats := kit.StartNATS(t, 1, nil)
	var stores [2]*apikey.Store
	var doors [2]*auth.Authority
	for i := range stores {
		stores[i], _ = open(t, cluster.Options{Node: fmt.Sprint("n", i), Remote: cluster.Remote{URL: nats.URL()}})
		var err error
		if doors[i], err = auth.New(auth.Config{APIKeys: stores[i], Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(doors[i].Close)
	}
	verdict := func(i int, key string) auth.Reason {
		_, err := doors[i].Verify(t.Context(), key, "/mcp")
		if r, ok := errors.AsType[*auth.Refusal](err); ok {
			return r.Reason
		}
		return ""
	}
	k, key := create(t, stores[0], auth.APIKey{Name: "CI"})
	_, second, err := stores[1].Rotate(t.Context(), k.ID, time.Hour, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range doors {
		for _, secret := range []string{key, second} {
			if got := verdict(i, secret); got != "" {
				t.Errorf("node %d: %s", i, got)
			}
		}
	}
	if _, err := stores[1].Revoke(t.Context(), "CI"); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	for i := range doors {
		for _, secret := range []string{key, second} {
			for {
				asked := time.Now()
				if got := verdict(i, secret); got == auth.ReasonRevoked {
					break
				} else if asked.Sub(revoked) > 2*time.Second {
					t.Fatalf("node %d, %v after it was revoked: %q", i, asked.Sub(revoked), got)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
	_, third := create(t, stores[0], auth.APIKey{Name: "other"})
	if got := verdict(1, third); got != "" {
		t.Error(got)
	}
	nats.Stop(0)
	for range 30 {
		if got := verdict(1, third); got != "" {
			t.Fatalf("without the store, a key that is known: %s", got)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := verdict(0, third); got != auth.ReasonUnavailable {
		t.Errorf("without the store, a key that is not known: %q", got)
	}
	nats.Start(t, 0)
	for i := range stores { // both are there again
		for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			if _, err := stores[i].List(t.Context()); err == nil || time.Now().After(end) {
				break
			}
		}
	}
}
