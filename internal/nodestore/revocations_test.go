package nodestore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/cluster"
	"github.com/troupe-run/troupe/internal/apikey"
	"github.com/troupe-run/troupe/internal/nodestore"
	"github.com/troupe-run/troupe/internal/revocation"
	"github.com/troupe-run/troupe/test/kit"
)

func open(t *testing.T, o cluster.Options) *cluster.Node {
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
	return n
}

func listOf(t *testing.T, n *cluster.Node, shared bool) *revocation.List {
	t.Helper()
	l := revocation.New(revocation.Config{
		Records: nodestore.NewRevocations(n), Keys: apikey.New(nodestore.NewAPIKeys(n)), Shared: shared, End: func(context.Context, revocation.Match) {}, EndStored: func(context.Context, *revocation.Revocation) error { return nil }, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(l.Close)
	l.Start()
	return l
}

// reason is why a token of a subject that was issued a while ago is refused, empty if it is not.
func reason(l *revocation.List, subject string) auth.Reason {
	if no := l.Refusal(&auth.Identity{Issuer: "https://a.example", Subject: subject, Issued: time.Now().Add(-time.Hour)}); no != nil {
		return no.Reason
	}
	return ""
}

// TestRevocations lie in a store in memory, and in one on disk from which the next process has them: they are made, made again, listed, removed, and go by themselves.
func TestRevocations(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n := open(t, cluster.Options{Lease: time.Hour})
		l, _ := made(t, n)
		if time.Sleep(time.Hour); reason(l, "carol") != "" {
			t.Error("a revocation does not end")
		}
		count := 0
		if err := n.Revocations(t.Context(), 0, func(string, uint64, []byte) { count++ }); err != nil || count != 3 {
			t.Errorf("%d records are left, %v", count, err)
		}
	})
}

// TestRevocationsOnDisk are there in the next process.
func TestRevocationsOnDisk(t *testing.T) {
	t.Parallel()
	o := cluster.Options{Dir: t.TempDir(), Lease: time.Hour}
	n := open(t, o)
	l, next := made(t, n)
	l.Close()
	next.Close()
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	later := listOf(t, open(t, o), false)
	if all, err := later.List(t.Context()); err != nil || len(all) != 4 || reason(later, "alice") != auth.ReasonRevoked || reason(later, "bob") != auth.ReasonRevoked || reason(later, "dave") != "" {
		t.Errorf("in the next process: %+v, %v", all, err)
	}
}

// made makes revocations of alice, bob, carol for a minute, and an API key, and removes one of bob. It returns two lists that know of them.
func made(t *testing.T, n *cluster.Node) (l, next *revocation.List) {
	t.Helper()
	l = listOf(t, n, false)
	do := func(want revocation.Revocation) revocation.Revocation {
		t.Helper()
		r, err := l.Revoke(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	keys := apikey.New(nodestore.NewAPIKeys(n))
	key, _, err := keys.Create(t.Context(), auth.APIKey{Name: "CI"})
	if err != nil {
		t.Fatal(err)
	}
	do(revocation.Revocation{Subject: "alice"})
	banned := do(revocation.Revocation{Subject: "bob", Issuer: "https://a.example", Ban: true})
	again := do(revocation.Revocation{Subject: "alice"})
	do(revocation.Revocation{Subject: "carol", Expires: time.Now().Add(time.Minute)})
	if r, err := l.RevokeKey(t.Context(), "CI"); err != nil || r.Subject != key.ID {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.RevokeKey(t.Context(), "nobody"); !errors.Is(err, apikey.ErrUnknown) {
		t.Errorf("nobody's key: %v", err)
	}
	if all, err := l.List(t.Context()); err != nil || len(all) != 4 || !slices.ContainsFunc(all, func(r revocation.Revocation) bool { return r.ID == again.ID && r.Created.Equal(again.Created) }) {
		t.Errorf("%+v, %v", all, err)
	}
	next = listOf(t, n, true)
	if got := [3]auth.Reason{reason(next, "alice"), reason(next, "bob"), reason(next, "dave")}; got != [3]auth.Reason{auth.ReasonRevoked, auth.ReasonRevoked, ""} {
		t.Errorf("another list of the store: %q", got)
	}
	if _, err := l.Remove(t.Context(), banned.ID); err != nil || reason(l, "bob") != "" {
		t.Errorf("removed: %v", err)
	}
	if _, err := l.Remove(t.Context(), banned.ID); !errors.Is(err, revocation.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	do(revocation.Revocation{Subject: "bob", Issuer: "https://a.example"})
	if all, err := keys.List(t.Context()); err != nil || len(all) != 1 || all[0].Revoked.IsZero() {
		t.Errorf("the API keys: %+v, %v", all, err)
	}
	return l, next
}

// TestRoomForRevocations is there though API keys have no more, and the key ring has room after them.
func TestRoomForRevocations(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		n := open(t, cluster.Options{Lease: time.Hour, MaxStore: 1 << 20})
		keys := apikey.New(nodestore.NewAPIKeys(n))
		var err error
		for i := 0; err == nil; i++ {
			_, _, err = keys.Create(t.Context(), auth.APIKey{Name: fmt.Sprint("key ", i), Servers: []string{strings.Repeat("a", 250)}})
		}
		if !errors.Is(err, apikey.ErrFull) {
			t.Error(err)
		}
		l := listOf(t, n, false)
		made := 0
		for err = nil; err == nil; made++ {
			_, err = l.Revoke(t.Context(), revocation.Revocation{Subject: fmt.Sprint("user ", made), Issuer: "https://a.example/" + strings.Repeat("a", 500)})
		}
		if !errors.Is(err, revocation.ErrFull) || made < 5 {
			t.Errorf("after %d: %v", made, err)
		}
		time.Sleep(25 * time.Hour)
		if _, err := n.Keys().Seal([]byte("a"), nil); err != nil {
			t.Errorf("the key ring: %v", err)
		}
	})
}

// TestRevokedOnOtherNodes: what one of two nodes of a NATS server revokes the other refuses within two seconds, and what it removes counts there again. Without the server both keep what they
// knew, however long, and learn the rest once it is back.
func TestRevokedOnOtherNodes(t *testing.T) {
	kit.BubbleNATS(t, nil, func(t *testing.T, v *kit.VirtualNATS) {
		var lists [2]*revocation.List
		for i := range lists {
			lists[i] = listOf(t, open(t, cluster.Options{Node: fmt.Sprint("n", i), Remote: cluster.Remote{URL: v.Line(fmt.Sprint("n", i)).URL()}}), true)
		}
		want := func(what, subject string, want auth.Reason) {
			t.Helper()
			for i := range lists {
				if got := reason(lists[i], subject); got != want {
					t.Errorf("%s: node %d says %q of %s, want %q", what, i, got, subject, want)
				}
			}
		}
		do := func(i int, r revocation.Revocation) revocation.Revocation {
			t.Helper()
			made, err := lists[i].Revoke(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			return made
		}
		r := do(0, revocation.Revocation{Subject: "alice"})
		want("revoked", "alice", auth.ReasonRevoked)
		if _, err := lists[1].Remove(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		want("removed", "alice", "")
		do(1, revocation.Revocation{Subject: "alice", Ban: true})
		want("banned", "alice", auth.ReasonRevoked)
		v.Stop()
		if _, err := lists[0].Revoke(t.Context(), revocation.Revocation{Subject: "bob"}); err == nil {
			t.Error("somebody is revoked without a store")
		}
		time.Sleep(time.Minute)
		want("without the store", "alice", auth.ReasonRevoked)
		want("without the store", "bob", "")
		v.Start(t)
		time.Sleep(30 * time.Second)
		do(0, revocation.Revocation{Subject: "bob"})
		want("with the store again", "bob", auth.ReasonRevoked)
		want("with the store again", "alice", auth.ReasonRevoked)
	})
}
