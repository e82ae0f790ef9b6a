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
	"github.com/troupe-run/troupe/operator"
)

// fake has tasks t0, t1 and so on, of which each third has ended.
type fake struct{ n int }

func (f fake) at(i int) operator.Task {
	return operator.Task{ID: fmt.Sprintf("t%d", i), State: []string{"queued", "running", "done"}[i%3]}
}

func (f fake) Tasks(_ context.Context, q operator.Query) (p operator.TaskPage, err error) {
	if q, err = q.Check(operator.TaskStates); err != nil {
		return p, err
	}
	i := int(q.From)
	for ; i < f.n && i < int(q.From)+50 && len(p.Tasks) < q.Limit; i++ {
		if t := f.at(i); q.WantsTask(t.State) {
			p.Tasks = append(p.Tasks, t)
		}
	}
	if i < f.n {
		p.Next = uint64(i)
	}
	return p, nil
}

func (f fake) Task(_ context.Context, id string, result bool) (operator.TaskDetail, error) {
	switch {
	case id == "away":
		return operator.TaskDetail{}, errors.New("the store is away")
	case id != "t1":
		return operator.TaskDetail{}, operator.ErrNoTask
	}
	d := operator.TaskDetail{Task: f.at(1)}
	if result {
		d.Result = json.RawMessage(`{"a":1}`)
	}
	return d, nil
}

func (f fake) CancelTask(_ context.Context, id string) (operator.Task, error) {
	if id == "t2" {
		return operator.Task{}, fmt.Errorf("%w: it is done", operator.ErrTaskEnded)
	}
	d, err := f.Task(context.Background(), id, false)
	return d.Task, err
}

// operated is what the fake has, for the socket.
func operated(n int) admin.Operated {
	return admin.Operated{Operator: &fakeNode{fake: fake{n}}, Keys: fake{n}, Revoked: fake{n}, Backends: fakeBackends{}}
}

// fakeBackends have one whose name has what a path has not.
type fakeBackends struct{}

const fakeBackend = "a/b c?"

func (fakeBackends) Backends(context.Context) ([]admin.Backend, error) {
	return []admin.Backend{{Name: fakeBackend, State: admin.BackendDown, Retry: new(time.Unix(1, 0).UTC()), Instances: admin.InstanceCounts{Max: 3}}}, nil
}

func (f fakeBackends) Backend(ctx context.Context, name string) (admin.BackendDetail, error) {
	if name != fakeBackend {
		return admin.BackendDetail{}, admin.ErrNoBackend
	}
	all, _ := f.Backends(ctx)
	return admin.BackendDetail{Backend: all[0], Lists: &admin.BackendLists{Tools: 2}, Running: []admin.BackendInstance{{PID: 7}}}, nil
}

func (f fakeBackends) BackendLog(ctx context.Context, name, from string) (admin.BackendLog, error) {
	_, err := f.Backend(ctx, name)
	return admin.BackendLog{Lines: []admin.BackendLine{{PID: 7, Stderr: true, Text: from}}, Next: "n&1"}, err
}

func (f fakeBackends) RestartBackend(ctx context.Context, name string, atOnce bool) (admin.BackendRestart, error) {
	_, err := f.Backend(ctx, name)
	return admin.BackendRestart{Ended: 1, Refused: atOnce}, err
}

// TestBackends lists backends, shows one, reads its lines from a place on, and restarts it.
func TestBackends(t *testing.T) {
	t.Parallel()
	b, ctx := served(t, dirOf(t)).HostedBackends(), t.Context()
	if all, err := b.Backends(ctx); err != nil || len(all) != 1 || all[0].State != admin.BackendDown || !all[0].Retry.Equal(time.Unix(1, 0)) || all[0].Instances.Max != 3 {
		t.Errorf("backends: %+v, %v", all, err)
	}
	if d, err := b.Backend(ctx, fakeBackend); err != nil || d.Name != fakeBackend || d.Lists.Tools != 2 || d.Running[0].PID != 7 {
		t.Errorf("show: %+v, %v", d, err)
	}
	l, err := b.BackendLog(ctx, fakeBackend, "")
	if err != nil || l.Lines[0].Text != "" || !l.Lines[0].Stderr {
		t.Errorf("the log: %+v, %v", l, err)
	}
	if l, err := b.BackendLog(ctx, fakeBackend, l.Next); err != nil || l.Lines[0].Text != "n&1" {
		t.Errorf("the rest of it: %+v, %v", l, err)
	}
	for _, atOnce := range []bool{false, true} {
		if did, err := b.RestartBackend(ctx, fakeBackend, atOnce); err != nil || did.Ended != 1 || did.Refused != atOnce {
			t.Errorf("restart, at once: %t: %+v, %v", atOnce, did, err)
		}
	}
	for _, name := range []string{"", "..", "x"} {
		_, shown := b.Backend(ctx, name)
		_, logged := b.BackendLog(ctx, name, "")
		_, restarted := b.RestartBackend(ctx, name, false)
		for _, err := range []error{shown, logged, restarted} {
			if !errors.Is(err, admin.ErrNoBackend) {
				t.Errorf("%q is answered with %v", name, err)
			}
		}
	}
}

func (f fake) Sessions(_ context.Context, q operator.Query) (p operator.SessionPage, err error) {
	if q, err = q.Check(nil); err != nil {
		return p, err
	}
	for i := int(q.From); i < f.n && len(p.Sessions) < q.Limit; i++ {
		p.Sessions = append(p.Sessions, operator.Session{ID: fmt.Sprintf("#%d", i)})
	}
	if next := int(q.From) + len(p.Sessions); next < f.n {
		p.Next = uint64(next)
	}
	return p, nil
}

// Calls tells what it was asked for.
func (f fake) Calls(_ context.Context, q operator.Query) (operator.CallPage, error) {
	return operator.CallPage{Calls: []operator.Call{{Principal: q.Principal, Server: q.Server, State: q.State, Attempt: q.Limit}}}, nil
}

func (f fake) CancelCall(_ context.Context, id string) (operator.Call, error) {
	if id != "b-1-2" {
		return operator.Call{}, operator.ErrNoCall
	}
	return operator.Call{ID: id}, nil
}

func (f fake) EndPrincipal(_ context.Context, principal string) (operator.Ended, error) {
	if principal != "alice of https://a.example/b c" {
		return operator.Ended{}, operator.ErrNoPrincipal
	}
	return operator.Ended{Calls: 1, Sessions: 2, Tasks: 3}, nil
}

func (f fake) Session(_ context.Context, id string) (operator.Session, error) {
	if id != "#1" {
		return operator.Session{}, operator.ErrNoSession
	}
	return operator.Session{ID: id}, nil
}

func (f fake) EndSession(ctx context.Context, id string) (operator.Session, error) {
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

// fakeNode is a node that may be drained once.
type fakeNode struct {
	fake
	drains bool
}

func (f *fakeNode) Nodes(context.Context) ([]operator.Node, error) {
	return []operator.Node{{Name: "a", LeftMS: new(int64(-7)), Lease: operator.LeaseLate}, {Name: "b", Load: &operator.Load{Calls: 3}}}, nil
}

func (f *fakeNode) Drain(ctx context.Context) (operator.Draining, error) {
	if f.drains {
		return operator.Draining{}, operator.ErrDraining
	}
	f.drains = true
	return f.Draining(ctx)
}

func (f *fakeNode) Draining(context.Context) (operator.Draining, error) {
	return operator.Draining{Node: "a", Draining: f.drains, Calls: 2}, nil
}

// TestSessionsAndNodes asks for sessions and nodes, and drains one.
func TestSessionsAndNodes(t *testing.T) {
	t.Parallel()
	c := served(t, dirOf(t))
	ctx := t.Context()
	if p, err := c.Sessions(ctx, operator.Query{Limit: 600}); err != nil || len(p.Sessions) != 600 || p.Next != 600 || p.Sessions[599].ID != "#599" {
		t.Errorf("600 sessions: %d, next %d, %v", len(p.Sessions), p.Next, err)
	}
	if p, err := c.Sessions(ctx, operator.Query{Limit: 2000, From: 600}); err != nil || len(p.Sessions) != 400 || p.Next != 0 {
		t.Errorf("the rest: %d, next %d, %v", len(p.Sessions), p.Next, err)
	}
	if _, err := c.Sessions(ctx, operator.Query{Limit: -1}); !errors.Is(err, operator.ErrQuery) || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a bad limit: %v", err)
	}
	for name, f := range map[string]func(context.Context, string) (operator.Session, error){"show": c.Session, "end": c.EndSession} {
		if s, err := f(ctx, "#1"); err != nil || s.ID != "#1" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		if _, err := f(ctx, "#2"); !errors.Is(err, operator.ErrNoSession) {
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
	if _, err := c.Drain(ctx); !errors.Is(err, operator.ErrDraining) {
		t.Errorf("the second drain: %v", err)
	}
}

// TestCallsAndPrincipals lists calls, ends one, and ends all that a principal has.
func TestCallsAndPrincipals(t *testing.T) {
	t.Parallel()
	c := served(t, dirOf(t))
	ctx := t.Context()
	want := operator.Call{Principal: "alice of https://a.example", Server: "/mcp", State: "waiting", Attempt: 7}
	if p, err := c.Calls(ctx, operator.Query{Principal: want.Principal, Server: want.Server, State: want.State, Limit: want.Attempt}); err != nil || len(p.Calls) != 1 || p.Calls[0] != want {
		t.Errorf("calls: %+v, %v", p, err)
	}
	if x, err := c.CancelCall(ctx, "b-1-2"); err != nil || x.ID != "b-1-2" {
		t.Errorf("cancel: %+v, %v", x, err)
	}
	if _, err := c.CancelCall(ctx, "../x"); !errors.Is(err, operator.ErrNoCall) {
		t.Errorf("cancel of an unknown call: %v", err)
	}
	if ended, err := c.EndPrincipal(ctx, "alice of https://a.example/b c"); err != nil || ended != (operator.Ended{Calls: 1, Sessions: 2, Tasks: 3}) {
		t.Errorf("ended: %+v, %v", ended, err)
	}
	for _, nobody := range []string{"", "bob"} {
		if _, err := c.EndPrincipal(ctx, nobody); !errors.Is(err, operator.ErrNoPrincipal) {
			t.Errorf("nobody: %v", err)
		}
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
		p, err := c.Tasks(ctx, operator.Query{State: state, Limit: 1000})
		if err != nil || len(p.Tasks) != want || p.Next != 0 {
			t.Errorf("%s: %d tasks, next %d, %v; want %d", state, len(p.Tasks), p.Next, err, want)
		}
	}
	seen := make(map[string]bool)
	q := operator.Query{State: "done", Limit: 100}
	for pages := 0; pages == 0 || q.From != 0; pages++ {
		p, err := c.Tasks(ctx, q)
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
	if _, err := c.Tasks(ctx, operator.Query{State: "none", Limit: 1}); err == nil || !strings.Contains(err.Error(), "want one of") {
		t.Errorf("a state that there is not: %v", err)
	}
	if _, err := c.Tasks(ctx, operator.Query{State: "all", Limit: -1}); !errors.Is(err, operator.ErrQuery) || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a bad limit: %v", err)
	}
	if d, err := c.Task(ctx, "t1", false); err != nil || d.ID != "t1" || d.Result != nil {
		t.Errorf("show: %+v, %v", d, err)
	}
	if d, err := c.Task(ctx, "t1", true); err != nil || string(d.Result) != `{"a":1}` {
		t.Errorf("show with the result: %+v, %v", d, err)
	}
	if _, err := c.Task(ctx, "../x", false); !errors.Is(err, operator.ErrNoTask) {
		t.Errorf("an unknown task: %v", err)
	}
	if _, err := c.Task(ctx, "away", false); err == nil || err.Error() != "the store is away" {
		t.Errorf("without a store: %v", err)
	}
	if x, err := c.CancelTask(ctx, "t1"); err != nil || x.ID != "t1" {
		t.Errorf("cancel: %+v, %v", x, err)
	}
	if _, err := c.CancelTask(ctx, "t2"); !errors.Is(err, operator.ErrTaskEnded) || !strings.HasSuffix(err.Error(), "it is done") {
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
	if _, err := c.Task(t.Context(), "t1", false); !errors.Is(err, admin.ErrNoServer) {
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
	if _, err := c.Task(t.Context(), "t1", false); !errors.Is(err, admin.ErrNoServer) {
		t.Errorf("a socket of a dead process: %v", err)
	}
	mine := served(t, dir)
	if info, err := os.Lstat(file); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
	}
	if _, err := admin.Listen(dir, operated(0)); !errors.Is(err, admin.ErrInUse) {
		t.Errorf("a second server: %v", err)
	}
	if _, err := mine.Task(t.Context(), "t1", false); err != nil {
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
	if _, err := c.Task(t.Context(), "t1", false); err != nil {
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
	if _, err := served(t, dir).Task(t.Context(), "t1", false); err != nil {
		t.Error(err)
	}
}
