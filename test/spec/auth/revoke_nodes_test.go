package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/auth"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/kit/issuer"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTasksMadeBeforeANodeHears has somebody make a task on a node that has not heard yet that they are revoked: it ends when the node does.
func TestTasksMadeBeforeANodeHears(t *testing.T) {
	t.Parallel()
	nats, id := kit.StartNATS(t, 1, nil), issuer.New(t)
	var nodes [2]*troupe.Runtime
	var urls [2]string
	for i := range nodes {
		rt, err := troupe.New(troupe.Options{
			Auth:  &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public},
			Store: troupe.StoreOptions{Node: fmt.Sprint("n", i), Lease: time.Minute, NATS: troupe.NATSOptions{URL: nats.URL()}}, Shared: troupe.SharedLimits{AuthFailures: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rt.Close(context.Background()) })
		srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "work", Task: troupe.TaskOptional}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		rt.Mount("/mcp", srv)
		hs := httptest.NewServer(rt)
		t.Cleanup(hs.Close)
		nodes[i], urls[i] = rt, hs.URL+"/mcp"
	}
	client := func(node int, token string) *kit.Client {
		return &kit.Client{T: t, HTTP: http.DefaultClient, URL: urls[node], Header: http.Header{"Authorization": {"Bearer " + token}}}
	}
	begin := func(c *kit.Client) bool {
		a := c.Post(initialize)
		c.Session = a.Header.Get("Mcp-Session-Id")
		return a.StatusCode == http.StatusOK
	}
	for n := range 100 {
		name := fmt.Sprint("user ", n)
		c := client(1, id.Token(name, resource, nil))
		if !begin(c) { // the node knows the token from now on
			t.Fatal("no session")
		}
		if _, err := nodes[0].Revocations().Revoke(t.Context(), troupe.Revocation{Subject: name, Issuer: id.URL}); err != nil {
			t.Fatal(err)
		}
		if c.Session = ""; !begin(c) {
			continue // the node was quicker
		}
		var made struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if a := c.Post(host.Method("1", "tools/call", `{"name":"work","arguments":{},"task":{"ttl":600000}}`)); json.Unmarshal([]byte(payload(a)), &made) != nil || made.Result.Task.TaskID == "" {
			continue
		}
		fresh := client(0, id.Token(name, resource, later()))
		begin(fresh)
		for {
			params := `{"taskId":"` + made.Result.Task.TaskID + `"}`
			if a := fresh.Post(host.Method("2", "tasks/result", params)); a.Stream() { // it has no answer before the task ends, or the session does with those of before
				a.All()
			}
			a := fresh.Post(host.Method("3", "tasks/get", params))
			switch got := payload(a); {
			case strings.Contains(got, `"cancelled"`):
				return
			case a.StatusCode != http.StatusOK, got == "":
				fresh.Session = ""
				begin(fresh)
			case !strings.Contains(got, `"working"`):
				t.Fatalf("the task: %s %s", a.Status, got)
			}
		}
	}
	t.Skip("the node has heard of each revocation before a request could come")
}

// TestTasksOfTheRevokedWithoutAServer revokes somebody in a process that knows no issuer, as the command does where no server runs: their tasks in the store end.
func TestTasksOfTheRevokedWithoutAServer(t *testing.T) {
	t.Parallel()
	id, dir := issuer.New(t), t.TempDir()
	closed := func(rt *troupe.Runtime) {
		t.Helper()
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	tasks := map[string]string{}
	serve := func(f func(name string, c *kit.Client)) {
		t.Helper()
		rt, err := troupe.New(troupe.Options{Dir: dir, Auth: &auth.Config{Issuers: []auth.Issuer{{URL: id.URL}}, PublicURL: public}})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(rt)
		srv := troupe.NewServer(mcp.Implementation{Name: "test", Version: "1"}, nil)
		troupe.AddTool(srv, troupe.Tool{Name: "work", Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(ctx context.Context, _ *troupe.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		rt.Mount("/mcp", srv)
		hs := httptest.NewServer(rt)
		defer hs.Close()
		for _, name := range []string{"alice", "bob"} {
			c := &kit.Client{T: t, HTTP: hs.Client(), URL: hs.URL + "/mcp", Header: http.Header{"Authorization": {"Bearer " + id.Token(name, resource, later())}}}
			f(name, c.Initialize(`{}`))
		}
	}
	body := func(a *kit.Answer) string {
		if a.Stream() {
			return host.Last(t, a)
		}
		return a.Body
	}
	serve(func(name string, c *kit.Client) {
		var made struct {
			Result struct{ Task struct{ TaskID string } }
		}
		if got := body(c.Post(host.Method("1", "tools/call", `{"name":"work","arguments":{},"task":{"ttl":600000}}`))); json.Unmarshal([]byte(got), &made) != nil || made.Result.Task.TaskID == "" {
			t.Fatalf("no task: %s", got)
		}
		tasks[name] = made.Result.Task.TaskID
	})
	rt, err := troupe.New(troupe.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Revocations().Revoke(t.Context(), troupe.Revocation{Subject: "alice"}); err != nil {
		t.Error(err)
	}
	closed(rt)
	serve(func(name string, c *kit.Client) {
		want := map[string]string{"alice": `"cancelled"`, "bob": `"working"`}[name]
		if got := body(c.Post(host.Method("2", "tasks/get", `{"taskId":"`+tasks[name]+`"}`))); !strings.Contains(got, want) {
			t.Errorf("the task of %s: %s, want %s", name, got, want)
		}
	})
}
