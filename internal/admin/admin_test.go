package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/internal/admin"
)

// fake has tasks t0, t1 and so on, of which each third has ended.
type fake struct{ n int }

func (f fake) at(i int) admin.Task {
	return admin.Task{ID: fmt.Sprintf("t%d", i), State: []string{"queued", "running", "done"}[i%3]}
}

func (f fake) List(_ context.Context, q admin.Query) (p admin.Page, err error) {
	i := int(q.From)
	for ; i < f.n && i < int(q.From)+50 && len(p.Tasks) < q.Limit; i++ {
		if t := f.at(i); admin.Matches(t.State, q.State) {
			p.Tasks = append(p.Tasks, t)
		}
	}
	if i < f.n {
		p.Next = uint64(i)
	}
	return p, nil
}

func (f fake) Show(_ context.Context, id string, result bool) (admin.Detail, error) {
	switch {
	case id == "away":
		return admin.Detail{}, errors.New("the store is away")
	case id != "t1":
		return admin.Detail{}, admin.ErrUnknown
	}
	d := admin.Detail{Task: f.at(1)}
	if result {
		d.Result = json.RawMessage(`{"a":1}`)
	}
	return d, nil
}

func (f fake) Cancel(_ context.Context, id string) (admin.Task, error) {
	if id == "t2" {
		return admin.Task{}, fmt.Errorf("%w: it is done", admin.ErrEnded)
	}
	d, err := f.Show(context.Background(), id, false)
	return d.Task, err
}

// operated is what the fake has, for the socket.
func operated(n int) admin.Operated {
	return admin.Operated{Tasks: fake{n}, Sessions: fake{n}, Fleet: &fakeFleet{}, Keys: fake{n}, Revoked: fake{n}}
}

func (f fake) Sessions(_ context.Context, limit int, from uint64) (p admin.SessionPage, err error) {
	for i := int(from); i < f.n && len(p.Sessions) < limit; i++ {
		p.Sessions = append(p.Sessions, admin.Session{ID: fmt.Sprintf("#%d", i)})
	}
	if next := int(from) + len(p.Sessions); next < f.n {
		p.Next = uint64(next)
	}
	return p, nil
}

func (f fake) Session(_ context.Context, id string) (admin.Session, error) {
	if id != "#1" {
		return admin.Session{}, admin.ErrNoSession
	}
	return admin.Session{ID: id}, nil
}

func (f fake) EndSession(ctx context.Context, id string) (admin.Session, error) {
	return f.Session(ctx, id)
}

func (f fake) Keys(context.Context) ([]admin.Key, error) {
	return []admin.Key{admin.KeyOf("k1", "CI", nil, []string{"a"}, time.Unix(1, 0).UTC(), time.Time{}, time.Unix(2, 0).UTC(), time.Unix(3, 0).UTC())}, nil
}

func (f fake) CreateKey(_ context.Context, want admin.KeyRequest) (admin.NewKey, error) {
	if want.Name == "" {
		return admin.NewKey{}, fmt.Errorf("%w: it has no name", admin.ErrKey)
	}
	return admin.NewKey{Key: admin.KeyOf("k2", want.Name, want.Servers, want.Scopes, time.Unix(1, 0).UTC(), want.Expires, time.Time{}, time.Time{}), Secret: "s"}, nil
}

func (f fake) RotateKey(_ context.Context, key string, r admin.Rotation) (admin.NewKey, error) {
	if key != "a/b c" {
		return admin.NewKey{}, admin.ErrNoKey
	}
	return admin.NewKey{Key: admin.Key{ID: "k1", Name: r.Overlap.String(), Expires: &r.Expires}, Secret: "t"}, nil
}

func (f fake) RevokeKey(_ context.Context, key string) (admin.Key, error) {
	k, err := f.RotateKey(context.Background(), key, admin.Rotation{})
	return k.Key, err
}

func (f fake) Revocations(context.Context) ([]admin.Revocation, error) {
	return []admin.Revocation{admin.RevocationOf("r1", "alice", "", "https://a.example", time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()), admin.RevocationOf("r2", "", "app", "", time.Unix(1, 0).UTC(), time.Time{})}, nil
}

func (f fake) Revoke(_ context.Context, want admin.RevocationRequest) (admin.Revocation, error) {
	switch {
	case want.Key == "nobody":
		return admin.Revocation{}, admin.ErrNoKey
	case want.Subject == "":
		return admin.Revocation{}, fmt.Errorf("%w: it names nobody", admin.ErrRevocation)
	}
	return admin.RevocationOf("r3", want.Subject, want.Client, want.Issuer, time.Unix(1, 0).UTC(), want.Expires), nil
}

func (f fake) RemoveRevocation(_ context.Context, id string) (admin.Revocation, error) {
	if id != "a/b" {
		return admin.Revocation{}, admin.ErrNoRevocation
	}
	return admin.Revocation{ID: id}, nil
}

// TestRevocations lists revocations, makes one, and takes one back.
func TestRevocations(t *testing.T) {
	t.Parallel()
	c := served(t, dirOf(t))
	ctx := t.Context()
	if all, err := c.Revocations(ctx); err != nil || len(all) != 2 || all[0].Subject != "alice" || all[0].Expires == nil || all[1].Client != "app" || all[1].Expires != nil {
		t.Errorf("revocations: %+v, %v", all, err)
	}
	ends := time.Unix(9, 0).UTC()
	if r, err := c.Revoke(ctx, admin.RevocationRequest{Subject: "a", Issuer: "b", Expires: ends}); err != nil || r.ID != "r3" || r.Subject != "a" || r.Issuer != "b" || !r.Expires.Equal(ends) {
		t.Errorf("revoked: %+v, %v", r, err)
	}
	if _, err := c.Revoke(ctx, admin.RevocationRequest{}); !errors.Is(err, admin.ErrRevocation) || !strings.HasSuffix(err.Error(), "it names nobody") {
		t.Errorf("nobody: %v", err)
	}
	if _, err := c.Revoke(ctx, admin.RevocationRequest{Key: "nobody"}); !errors.Is(err, admin.ErrNoKey) {
		t.Errorf("nobody's key: %v", err)
	}
	if r, err := c.RemoveRevocation(ctx, "a/b"); err != nil || r.ID != "a/b" {
		t.Errorf("removed: %+v, %v", r, err)
	}
	if _, err := c.RemoveRevocation(ctx, "c"); !errors.Is(err, admin.ErrNoRevocation) {
		t.Errorf("removed nothing: %v", err)
	}
}

// TestKeys lists API keys, makes one, rotates and revokes one whose name has a slash.
func TestKeys(t *testing.T) {
	t.Parallel()
	c := served(t, dirOf(t))
	ctx := t.Context()
	if all, err := c.Keys(ctx); err != nil || len(all) != 1 || all[0].Expires != nil || all[0].Revoked == nil || all[0].Used != "1970-01-01" || all[0].Scopes[0] != "a" {
		t.Errorf("keys: %+v, %v", all, err)
	}
	ends := time.Unix(9, 0).UTC()
	k, err := c.CreateKey(ctx, admin.KeyRequest{Name: "n", Servers: []string{"/mcp"}, Scopes: []string{"b"}, Expires: ends})
	if err != nil || k.Secret != "s" || k.Name != "n" || k.Servers[0] != "/mcp" || k.Scopes[0] != "b" || !k.Expires.Equal(ends) {
		t.Errorf("create: %+v, %v", k, err)
	}
	if _, err := c.CreateKey(ctx, admin.KeyRequest{}); !errors.Is(err, admin.ErrKey) || !strings.HasSuffix(err.Error(), "it has no name") {
		t.Errorf("create without a name: %v", err)
	}
	if k, err := c.RotateKey(ctx, "a/b c", admin.Rotation{Overlap: time.Hour, Expires: ends}); err != nil || k.Secret != "t" || k.Name != "1h0m0s" || !k.Expires.Equal(ends) {
		t.Errorf("rotate: %+v, %v", k, err)
	}
	if k, err := c.RevokeKey(ctx, "a/b c"); err != nil || k.ID != "k1" {
		t.Errorf("revoke: %+v, %v", k, err)
	}
	if _, err := c.RevokeKey(ctx, "a"); !errors.Is(err, admin.ErrNoKey) {
		t.Errorf("revoke of nobody's: %v", err)
	}
}

// fakeFleet is a node that may be drained once.
type fakeFleet struct{ drains bool }

func (f *fakeFleet) Nodes(context.Context) ([]admin.Node, error) {
	return []admin.Node{{Name: "a", LeftMS: new(int64(-7)), Lease: admin.LeaseLate}, {Name: "b", Load: &admin.Load{Calls: 3}}}, nil
}

func (f *fakeFleet) Drain(ctx context.Context) (admin.Draining, error) {
	if f.drains {
		return admin.Draining{}, admin.ErrDraining
	}
	f.drains = true
	return f.Draining(ctx)
}

func (f *fakeFleet) Draining(context.Context) (admin.Draining, error) {
	return admin.Draining{Node: "a", Draining: f.drains, Calls: 2}, nil
}

// TestSessionsAndNodes asks for sessions and nodes, and drains one.
func TestSessionsAndNodes(t *testing.T) {
	t.Parallel()
	c := served(t, dirOf(t))
	ctx := t.Context()
	if p, err := c.Sessions(ctx, 600, 0); err != nil || len(p.Sessions) != 600 || p.Next != 600 || p.Sessions[599].ID != "#599" {
		t.Errorf("600 sessions: %d, next %d, %v", len(p.Sessions), p.Next, err)
	}
	if p, err := c.Sessions(ctx, 2000, 600); err != nil || len(p.Sessions) != 400 || p.Next != 0 {
		t.Errorf("the rest: %d, next %d, %v", len(p.Sessions), p.Next, err)
	}
	if _, err := c.Sessions(ctx, 0, 0); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a limit of 0: %v", err)
	}
	for name, f := range map[string]func(context.Context, string) (admin.Session, error){"show": c.Session, "end": c.EndSession} {
		if s, err := f(ctx, "#1"); err != nil || s.ID != "#1" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if _, err := f(ctx, "#2"); !errors.Is(err, admin.ErrNoSession) {
			t.Errorf("%s of an unknown session: %v", name, err)
		}
	}
	if all, err := c.Nodes(ctx); err != nil || len(all) != 2 || *all[0].LeftMS != -7 || all[0].Load != nil || all[1].LeftMS != nil || all[1].Load.Calls != 3 {
		t.Errorf("nodes: %+v, %v", all, err)
	}
	if d, err := c.Draining(ctx); err != nil || d.Draining {
		t.Errorf("before the drain: %+v, %v", d, err)
	}
	if d, err := c.Drain(ctx); err != nil || !d.Draining || d.Calls != 2 {
		t.Errorf("the drain: %+v, %v", d, err)
	}
	if _, err := c.Drain(ctx); !errors.Is(err, admin.ErrDraining) {
		t.Errorf("the second drain: %v", err)
	}
}

// served serves the socket of a directory until the test ends.
func served(t *testing.T, dir string) *admin.Client {
	t.Helper()
	srv, err := admin.Listen(dir, operated(1000))
	if err != nil {
		t.Fatal(err)
	}
	c := admin.NewClient(dir)
	t.Cleanup(func() {
		c.Close()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, admin.SocketName)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket, after Close: %v", err)
		}
	})
	return c
}

// dirOf is a directory with a short path.
func dirOf(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// TestRequests asks for each thing, and for what there is not.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := served(t, dirOf(t))
	ctx := t.Context()
	for state, want := range map[string]int{"all": 1000, "open": 667, "done": 333, "running": 333, "lost": 0} {
		p, err := c.List(ctx, admin.Query{State: state, Limit: 1000})
		if err != nil || len(p.Tasks) != want || p.Next != 0 {
			t.Errorf("%s: %d tasks, next %d, %v; want %d", state, len(p.Tasks), p.Next, err, want)
		}
	}
	seen := make(map[string]bool)
	q := admin.Query{State: "done", Limit: 100}
	for pages := 0; pages == 0 || q.From != 0; pages++ {
		p, err := c.List(ctx, q)
		if err != nil || pages > 4 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, x := range p.Tasks {
			if seen[x.ID] {
				t.Errorf("%s came twice", x.ID)
			}
			seen[x.ID] = true
		}
		q.From = p.Next
	}
	if len(seen) != 333 {
		t.Errorf("pages have %d tasks, want 333", len(seen))
	}
	if _, err := c.List(ctx, admin.Query{State: "none", Limit: 1}); err == nil || !strings.Contains(err.Error(), "want one of") {
		t.Errorf("a state that there is not: %v", err)
	}
	if _, err := c.List(ctx, admin.Query{State: "all"}); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a limit of 0: %v", err)
	}
	if d, err := c.Show(ctx, "t1", false); err != nil || d.ID != "t1" || d.Result != nil {
		t.Errorf("show: %+v, %v", d, err)
	}
	if d, err := c.Show(ctx, "t1", true); err != nil || string(d.Result) != `{"a":1}` {
		t.Errorf("show with the result: %+v, %v", d, err)
	}
	if _, err := c.Show(ctx, "../x", false); !errors.Is(err, admin.ErrUnknown) {
		t.Errorf("an unknown task: %v", err)
	}
	if _, err := c.Show(ctx, "away", false); err == nil || err.Error() != "the store is away" {
		t.Errorf("without a store: %v", err)
	}
	if x, err := c.Cancel(ctx, "t1"); err != nil || x.ID != "t1" {
		t.Errorf("cancel: %+v, %v", x, err)
	}
	if _, err := c.Cancel(ctx, "t2"); !errors.Is(err, admin.ErrEnded) || !strings.HasSuffix(err.Error(), "it is done") {
		t.Errorf("cancel a task that has ended: %v", err)
	}
}

// TestTheSocket is its user's alone, replaces one that nobody serves, and nothing else.
func TestTheSocket(t *testing.T) {
	t.Parallel()
	dir := dirOf(t)
	file := filepath.Join(dir, admin.SocketName)
	c := admin.NewClient(dir)
	defer c.Close()
	if _, err := c.Show(t.Context(), "t1", false); !errors.Is(err, admin.ErrNoServer) {
		t.Errorf("without a socket: %v", err)
	}
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen(dir, operated(0)); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in its place: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file is %q, %v", data, err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil { // as a killed process leaves it
		t.Fatal(err)
	}
	if _, err := c.Show(t.Context(), "t1", false); !errors.Is(err, admin.ErrNoServer) {
		t.Errorf("a socket of a dead process: %v", err)
	}
	mine := served(t, dir)
	if info, err := os.Lstat(file); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
	}
	if _, err := admin.Listen(dir, operated(0)); !errors.Is(err, admin.ErrInUse) {
		t.Errorf("a second server: %v", err)
	}
	if _, err := mine.Show(t.Context(), "t1", false); err != nil {
		t.Errorf("the first one, then: %v", err)
	}
}

// TestCloseLeavesAnothersSocket: a server whose socket was replaced leaves the new one.
func TestCloseLeavesAnothersSocket(t *testing.T) {
	t.Parallel()
	dir := dirOf(t)
	old, err := admin.Listen(dir, operated(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, admin.SocketName), filepath.Join(dir, "aside")); err != nil {
		t.Fatal(err)
	}
	c := served(t, dir)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Show(t.Context(), "t1", false); err != nil {
		t.Errorf("the new one: %v", err)
	}
}

// TestALongPath is reached where the system can, and refused with what to do elsewhere.
func TestALongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(dirOf(t), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		if _, err := admin.Listen(dir, operated(0)); !errors.Is(err, admin.ErrLongPath) {
			t.Errorf("got %v, want %v", err, admin.ErrLongPath)
		}
		return
	}
	if _, err := served(t, dir).Show(t.Context(), "t1", false); err != nil {
		t.Error(err)
	}
}
