package revocation_test

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
	"github.com/troupe-run/troupe/internal/limits"
	"github.com/troupe-run/troupe/internal/revocation"
	"github.com/troupe-run/troupe/internal/store"
)

// model keeps records as a store would, with their ends and what is left of those that were removed.
type model struct {
	mu   sync.Mutex
	seq  uint64
	all  map[string]modelled
	away bool
	full bool
	asks int // reads of what has changed
	told int // records that these have found
}

type modelled struct {
	data []byte // nil: it was removed
	rev  uint64
	ends time.Time // the zero time: never
}

var errAway = errors.New("the store is away")

func newModel() *model { return &model{all: make(map[string]modelled)} }

func (m *model) get(id string) (modelled, error) {
	r, ok := m.all[id]
	switch {
	case m.away:
		return r, errAway
	case !ok || !r.ends.IsZero() && !time.Now().Before(r.ends):
		return modelled{}, store.ErrNotFound
	case r.data == nil:
		return r, store.ErrNotFound
	}
	return r, nil
}

func (m *model) Peek(_ context.Context, id string) ([]byte, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.get(id)
	return r.data, r.rev, err
}

func (m *model) put(id string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r, err := m.get(id); {
	case errors.Is(err, errAway):
		return 0, err
	case err == nil && r.rev != rev, err != nil && rev != 0:
		return 0, store.ErrConflict
	}
	m.seq++
	r := modelled{data: data, rev: m.seq}
	if ttl > 0 {
		r.ends = time.Now().Add(ttl)
	}
	m.all[id] = r
	return m.seq, nil
}

func (m *model) Create(_ context.Context, id string, data []byte, ttl time.Duration) (uint64, error) {
	return m.put(id, data, 0, ttl)
}

func (m *model) Update(_ context.Context, id string, data []byte, rev uint64, ttl time.Duration) (uint64, error) {
	return m.put(id, data, rev, ttl)
}

func (m *model) Delete(_ context.Context, id string, rev uint64) error {
	_, err := m.put(id, nil, rev, 5*time.Second)
	return err
}

func (m *model) From(_ context.Context, rev uint64, f func(string, uint64, []byte)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asks++
	if m.away {
		return errAway
	}
	type found struct {
		id string
		modelled
	}
	var all []found
	for id, r := range m.all {
		if r.rev >= rev && (r.ends.IsZero() || time.Now().Before(r.ends)) {
			all = append(all, found{id, r})
		}
	}
	slices.SortFunc(all, func(a, b found) int { return int(a.rev) - int(b.rev) })
	m.told += len(all)
	for _, r := range all {
		f(r.id, r.rev, r.data)
	}
	return nil
}

func (m *model) Room(context.Context) (bool, error) { return !m.full, nil }
func (*model) Now() time.Time                       { return time.Now() }

func (m *model) set(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
}

// counts are how often it was read, and how many records that has found.
func (m *model) counts() (asks, told int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asks, m.told
}

// keys are API keys that can be revoked.
type keys map[string]string

func (k keys) Revoke(_ context.Context, name string) (auth.APIKey, error) {
	id, ok := k[name]
	if !ok {
		return auth.APIKey{}, errors.New("there is no such API key")
	}
	return auth.APIKey{ID: id, Revoked: time.Now()}, nil
}

// node is a process with a list.
type node struct {
	*revocation.List
	mu    sync.Mutex
	ended []revocation.Match
	log   strings.Builder
	rest  error // of EndStored
}

func (n *node) endStored(context.Context, *revocation.Revocation) error { return n.rest }

func (n *node) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(p)
}

// logged is what it has logged.
func (n *node) logged() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

// ends is how often something was ended of what a subject holds.
func (n *node) ends(subject string) (times int) {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.ended {
		if m.IsAbout("https://a.example", subject, "app") {
			times++
		}
	}
	return times
}

func newNode(t *testing.T, m *model, shared bool) *node {
	t.Helper()
	n := new(node)
	n.List = revocation.New(revocation.Config{Records: m, Keys: keys{"CI": "k1"}, Shared: shared, Log: slog.New(slog.NewTextHandler(n, nil)), EndStored: n.endStored, End: func(_ context.Context, match revocation.Match) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ended = append(n.ended, match)
	}})
	t.Cleanup(n.Close)
	return n
}

func started(t *testing.T, m *model, shared bool) *node {
	t.Helper()
	n := newNode(t, m, shared)
	n.Start()
	return n
}

func revoke(t *testing.T, n *node, want revocation.Revocation) revocation.Revocation {
	t.Helper()
	r, err := n.Revoke(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// token is one of a user of an issuer and a client, issued so long ago.
func token(subject string, ago time.Duration) *auth.Identity {
	return &auth.Identity{Issuer: "https://a.example", Subject: subject, Client: "app", Issued: time.Now().Add(-ago)}
}

// reason is why a token is refused, empty if it is not.
func (n *node) reason(id *auth.Identity) auth.Reason {
	if r := n.Refusal(id); r != nil {
		return r.Reason
	}
	return ""
}

// TestWhoIsRefused has a row for each revocation, with the tokens that it refuses and those that it does not.
func TestWhoIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		want    revocation.Revocation
		change  func(*auth.Identity)
		refused bool
	}{
		{"the subject", revocation.Revocation{Subject: "alice"}, nil, true},
		{"the subject at its issuer", revocation.Revocation{Subject: "alice", Issuer: "https://a.example"}, nil, true},
		{"the subject at another issuer", revocation.Revocation{Subject: "alice", Issuer: "https://b.example"}, nil, false},
		{"another subject", revocation.Revocation{Subject: "bob"}, nil, false},
		{"the client", revocation.Revocation{Client: "app"}, nil, true},
		{"the client at another issuer", revocation.Revocation{Client: "app", Issuer: "https://b.example"}, nil, false},
		{"a client of the subject's name", revocation.Revocation{Client: "alice"}, nil, false},
		{"a subject of the client's name", revocation.Revocation{Subject: "app"}, nil, false},
		{"a machine", revocation.Revocation{Subject: "alice"}, func(id *auth.Identity) { id.Machine = true }, true},
		{"a token that was issued afterwards", revocation.Revocation{Subject: "alice"}, func(id *auth.Identity) { id.Issued = time.Now().Add(time.Second) }, false},
		{"one in the same second, which it says without its parts", revocation.Revocation{Subject: "alice"}, func(id *auth.Identity) { id.Issued = time.Now().Truncate(time.Second) }, true},
		{"one that does not say when", revocation.Revocation{Subject: "alice"}, func(id *auth.Identity) { id.Issued = time.Time{} }, true},
		{"a banned one that was issued afterwards", revocation.Revocation{Subject: "alice", Ban: true}, func(id *auth.Identity) { id.Issued = time.Now().Add(time.Hour) }, true},
		{"a token without a client", revocation.Revocation{Client: "app"}, func(id *auth.Identity) { id.Client = "" }, false},
		{"an API key of the subject's name", revocation.Revocation{Subject: "alice", Issuer: "https://a.example"}, func(id *auth.Identity) { id.Issuer = auth.KeyIssuer }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(100 * time.Millisecond)
				n := started(t, newModel(), false)
				id := token("alice", time.Hour)
				if tt.change != nil {
					tt.change(id)
				}
				if got := n.Refusal(id); got != nil {
					t.Errorf("before: %v", got)
				}
				r := revoke(t, n, tt.want)
				no := n.Refusal(id)
				if (no != nil) != tt.refused {
					t.Errorf("refused: %v, want %v", no, tt.refused)
				}
				if no != nil && (no.Status != 401 || no.Code != auth.InvalidToken || no.Reason != auth.ReasonRevoked || !strings.Contains(no.Error(), r.ID)) {
					t.Errorf("the refusal is %+v", no)
				}
				if _, err := n.Remove(t.Context(), r.ID); err != nil {
					t.Error(err)
				}
				if got := n.Refusal(id); got != nil {
					t.Errorf("afterwards: %v", got)
				}
			})
		})
	}
}

// TestARevocationEnds after a day, or when it was told to; a ban does not. Its record goes with it.
func TestARevocationEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		n := started(t, m, false)
		day := 24 * time.Hour
		revoke(t, n, revocation.Revocation{Subject: "day"})
		revoke(t, n, revocation.Revocation{Subject: "week", Expires: time.Now().Add(7 * day)})
		revoke(t, n, revocation.Revocation{Subject: "banned", Ban: true})
		for _, step := range []struct {
			after time.Duration
			want  string
			count int
		}{
			{day - time.Second, "day week banned", 3},
			{time.Second, "week banned", 2}, // and nothing has looked since
			{6*day - time.Second, "week banned", 2},
			{time.Minute, "banned", 1},
			{30 * day, "banned", 1},
		} {
			time.Sleep(step.after)
			var got []string
			for _, who := range []string{"day", "week", "banned"} {
				if n.Refusal(token(who, 10000*day)) != nil {
					got = append(got, who)
				}
			}
			all, err := n.List.List(t.Context())
			stored := 0
			if failed := m.From(t.Context(), 0, func(string, uint64, []byte) { stored++ }); err != nil || failed != nil {
				t.Error(err, failed)
			}
			if got := strings.Join(got, " "); got != step.want || len(all) != step.count || n.Count() != step.count || stored != step.count {
				t.Errorf("%v later: %s; %d are listed, %d counted, %d stored; want %s and %d", step.after, got, len(all), n.Count(), stored, step.want, step.count)
			}
		}
	})
}

// TestAgain: to revoke somebody again replaces the revocation, and weakens nothing.
func TestAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := started(t, newModel(), false)
		first := revoke(t, n, revocation.Revocation{Subject: "alice", Expires: time.Now().Add(100 * time.Hour)})
		time.Sleep(time.Hour)
		again := revoke(t, n, revocation.Revocation{Subject: "alice"})
		if again.ID != first.ID || !again.Expires.Equal(first.Expires) || !again.Created.After(first.Created) {
			t.Errorf("first %+v, then %+v", first, again)
		}
		if got := n.reason(token("alice", 30*time.Minute)); got != auth.ReasonRevoked {
			t.Errorf("a token between the two: %q", got)
		}
		if got := n.ends("alice"); got != 2 {
			t.Errorf("what she holds was ended %d times", got)
		}
		revoke(t, n, revocation.Revocation{Subject: "alice", Ban: true})
		if still := revoke(t, n, revocation.Revocation{Subject: "alice"}); !still.Ban || !still.Expires.IsZero() {
			t.Errorf("a ban that was made a revocation: %+v", still)
		}
		if other := revoke(t, n, revocation.Revocation{Subject: "alice", Issuer: "https://a.example"}); other.ID == first.ID {
			t.Error("one of an issuer has the id of one of all")
		}
		if all, err := n.List.List(t.Context()); err != nil || len(all) != 2 || all[0].Issuer != "" {
			t.Errorf("%+v, %v", all, err)
		}
		if got := n.ends("bob"); got != 0 {
			t.Errorf("what bob holds was ended %d times", got)
		}
	})
}

// TestOtherProcesses learn within two seconds of what one has done. While the store is away each keeps what it knew, and one that begins then refuses everybody; what was removed meanwhile
// is forgotten.
func TestOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		a, b := started(t, m, true), started(t, m, true)
		old, other := token("alice", time.Hour), token("bob", time.Hour)
		within := func(what string, n *node, id *auth.Identity, want auth.Reason) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := n.reason(id); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		time.Sleep(time.Minute)
		before, _ := m.counts()
		time.Sleep(time.Minute)
		if asks, _ := m.counts(); asks-before > 2*2*60+2 {
			t.Errorf("two processes asked %d times in a minute", asks-before)
		}
		r := revoke(t, a, revocation.Revocation{Subject: "alice"})
		if got := a.reason(old); got != auth.ReasonRevoked {
			t.Errorf("where it was done: %q", got)
		}
		within("elsewhere", b, old, auth.ReasonRevoked)
		within("another one", b, other, "")
		_, known := m.counts()
		time.Sleep(time.Minute)
		if _, told := m.counts(); told != known {
			t.Errorf("what is known was read again %d times", told-known)
		}
		if got := [4]int{a.ends("alice"), b.ends("alice"), a.ends("bob"), b.ends("bob")}; got != [4]int{1, 1, 0, 0} {
			t.Errorf("ended: %v", got)
		}
		if _, err := b.Remove(t.Context(), r.ID); err != nil {
			t.Error(err)
		}
		within("removed elsewhere", a, old, "")

		r = revoke(t, a, revocation.Revocation{Subject: "alice"})
		within("again", b, old, auth.ReasonRevoked)
		m.set(true)
		for range 10 {
			within("without the store", b, old, auth.ReasonRevoked)
			within("another one without it", b, other, "")
		}
		if _, err := b.Revoke(t.Context(), revocation.Revocation{Subject: "bob"}); !errors.Is(err, errAway) {
			t.Errorf("to revoke without the store: %v", err)
		}
		late := started(t, m, true)
		within("one that begins without the store", late, other, auth.ReasonUnavailable)
		if no := late.Refusal(other); no == nil || no.Status != 503 || no.RetryAfter <= 0 {
			t.Errorf("it says %v", no)
		}
		if n := strings.Count(b.logged(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings: %s", n, b.logged())
		}
		m.mu.Lock()
		delete(m.all, r.ID) // and nothing is left of it
		m.mu.Unlock()
		m.set(false)
		within("removed while the store was away", b, old, "")
		within("one that began without it", late, other, "")
		if got := b.ends("alice"); got != 2 {
			t.Errorf("what alice holds was ended %d times", got)
		}
	})
}

// TestAProcessAlone reads once, and counts what it does itself.
func TestAProcessAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		first := newNode(t, m, false) // as a command without a server, which never starts it
		r := revoke(t, first, revocation.Revocation{Subject: "alice"})
		n := started(t, m, false)
		if got := n.reason(token("alice", time.Hour)); got != auth.ReasonRevoked || n.ends("alice") != 1 {
			t.Errorf("what was stored before: %q, and what she holds was ended %d times", got, n.ends("alice"))
		}
		before, _ := m.counts()
		time.Sleep(time.Hour)
		if asks, _ := m.counts(); asks != before {
			t.Errorf("it asked %d times more", asks-before)
		}
		if _, err := n.Remove(t.Context(), r.ID); err != nil || n.Refusal(token("alice", time.Hour)) != nil {
			t.Errorf("removed: %v", err)
		}
		for _, id := range []string{r.ID, "", "nothing", strings.Repeat("a", 300), "a.b", "*"} {
			if _, err := n.Remove(t.Context(), id); !errors.Is(err, revocation.ErrUnknown) {
				t.Errorf("to remove %.20q: %v", id, err)
			}
		}
	})
}

// TestAnAPIKey is revoked, and its principal with it.
func TestAnAPIKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := started(t, newModel(), false)
		r, err := n.RevokeKey(t.Context(), "CI")
		if err != nil || r.Subject != "k1" || r.Issuer != auth.KeyIssuer || r.Ban {
			t.Errorf("%+v, %v", r, err)
		}
		if n.Refusal(&auth.Identity{Issuer: auth.KeyIssuer, Subject: "k1", Client: "k1", Machine: true, Issued: time.Now().Add(-time.Hour)}) == nil || n.Refusal(token("k1", time.Hour)) != nil {
			t.Error("it is not the key that is refused")
		}
		if _, err := n.RevokeKey(t.Context(), "nobody"); err == nil {
			t.Error("nobody's key is revoked")
		}
	})
}

// TestWhatIsNotEnded: somebody is revoked though what is stored of them could not be ended, and the operator is told.
func TestWhatIsNotEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := started(t, newModel(), false)
		n.rest = errAway
		if _, err := n.Revoke(t.Context(), revocation.Revocation{Subject: "alice"}); !errors.Is(err, revocation.ErrRest) || !errors.Is(err, errAway) {
			t.Errorf("not all was ended: %v", err)
		}
		if got := n.reason(token("alice", time.Hour)); got != auth.ReasonRevoked {
			t.Errorf("then: %q", got)
		}
	})
}

// TestBadRevocations are not made.
func TestBadRevocations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := started(t, newModel(), false)
		for what, r := range map[string]revocation.Revocation{
			"nobody":         {},
			"an issuer":      {Issuer: "https://a.example"},
			"two":            {Subject: "alice", Client: "app"},
			"a control":      {Subject: "a\x1b[2J"},
			"no UTF-8":       {Subject: "a\xff"},
			"a long subject": {Subject: strings.Repeat("a", 1025)},
			"a long client":  {Client: strings.Repeat("a", 1025)},
			"a long issuer":  {Subject: "a", Issuer: strings.Repeat("a", 2049)},
			"a past":         {Subject: "a", Expires: time.Now()},
			"a ban with end": {Subject: "a", Ban: true, Expires: time.Now().Add(time.Hour)},
		} {
			if _, err := n.Revoke(t.Context(), r); !errors.Is(err, revocation.ErrBad) {
				t.Errorf("%s: %v", what, err)
			}
		}
		revoke(t, n, revocation.Revocation{Subject: strings.Repeat("a", 1024), Issuer: strings.Repeat("a", 2048)})
	})
}

// TestTooMany are refused; one that is there can be made again.
func TestTooMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		most := limits.Revocations.Value()
		for i := range most - 1 {
			id, data, err := revocation.Encoded(revocation.Revocation{Subject: fmt.Sprint(i), Ban: true, Created: time.Now()})
			if err == nil {
				_, err = m.Create(t.Context(), id, data, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		n := started(t, m, false)
		m.full = true
		if _, err := n.Revoke(t.Context(), revocation.Revocation{Subject: "alice"}); !errors.Is(err, revocation.ErrFull) {
			t.Errorf("without room: %v", err)
		}
		m.full = false
		revoke(t, n, revocation.Revocation{Subject: "alice"})
		if _, err := n.Revoke(t.Context(), revocation.Revocation{Subject: "bob"}); !errors.Is(err, revocation.ErrFull) || n.Count() != most {
			t.Errorf("with %d of them: %v", n.Count(), err)
		}
		if _, err := n.RevokeKey(t.Context(), "CI"); !errors.Is(err, revocation.ErrRest) || errors.Is(err, revocation.ErrFull) { // the key is refused in any case
			t.Errorf("an API key, without room for more: %v", err)
		}
		revoke(t, n, revocation.Revocation{Subject: "0"})
	})
}

// TestOtherReleases: what they know of a revocation stays, and one that this release cannot read is logged and does not count.
func TestOtherReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		n := started(t, m, true)
		r := revoke(t, n, revocation.Revocation{Subject: "alice"})
		change := func(f func(map[string]any)) {
			t.Helper()
			data, rev, err := m.Peek(t.Context(), r.ID)
			var members map[string]any
			if err == nil {
				err = json.Unmarshal(data, &members)
			}
			if err != nil {
				t.Fatal(err)
			}
			f(members)
			data, err = json.Marshal(members)
			if err == nil {
				_, err = m.Update(t.Context(), r.ID, data, rev, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		change(func(members map[string]any) { members["later"] = "kept" })
		revoke(t, n, revocation.Revocation{Subject: "alice"})
		change(func(members map[string]any) {
			if members["later"] != "kept" {
				t.Errorf("what a newer release has written is gone: %v", members)
			}
			members["v"] = 2
		})
		late := started(t, m, true)
		if got := late.reason(token("alice", time.Hour)); got != "" || !strings.Contains(late.logged(), "level=ERROR") {
			t.Errorf("a newer version: %q, and the log has %s", got, late.logged())
		}
		if _, err := late.Revoke(t.Context(), revocation.Revocation{Subject: "alice"}); err == nil {
			t.Error("a newer version is overwritten")
		}
	})
}
