package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
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

// issuers are several in memory, by their hosts.
type issuers map[string]*issuer.Issuer

func (all issuers) RoundTrip(r *http.Request) (*http.Response, error) {
	return all[r.URL.Host].RoundTrip(r)
}

// virtualDoor is newDoor for a bubble, with two issuers whose URLs have one length.
func virtualDoor(t *testing.T, change ...func(*troupe.Options)) (d *door, second *issuer.Issuer) {
	t.Helper()
	return virtualDoorOf(t, nil, change...)
}

func virtualDoorOf(t *testing.T, so *troupe.ServerOptions, change ...func(*troupe.Options)) (d *door, second *issuer.Issuer) {
	t.Helper()
	d = &door{id: issuer.At("https://id.example.com"), log: new(lines)}
	second = issuer.At("https://jd.example.com")
	o := host.Unhurried
	o.Auth = &auth.Config{
		Issuers: []auth.Issuer{{URL: d.id.URL}, {URL: second.URL}}, PublicURL: public, Scopes: []string{"files:read"}, APIKeys: auth.StoredKeys,
		Implies: map[string][]string{"files:admin": {"files:write"}}, Transport: issuers{"id.example.com": d.id, "jd.example.com": second},
	}
	o.Shared.AuthFailures = -1
	for _, f := range change {
		f(&o)
	}
	o.Log = slog.New(slog.NewJSONHandler(d.log, nil))
	d.Host = host.New(t, o, so)
	return d, second
}

// principal is somebody, who has several tokens or a key.
type principal struct {
	name  string // of whom the token is, for people
	who   string // who it is: no two principals have one
	token func(scopes []string) string
}

// everybody returns principals of few names: users, machines with and without a subject, and keys; and users and machines that are named like a key.
func everybody(t *testing.T, d *door, second *issuer.Issuer) (all []principal) {
	t.Helper()
	token := func(id *issuer.Issuer, claims issuer.Claims) func([]string) string {
		return func(scopes []string) string {
			c := issuer.Claims{"aud": []string{resource, older}, "scope": strings.Join(scopes, " ")}
			for name, v := range claims {
				c[name] = v
			}
			return id.Token("", resource, c)
		}
	}
	named := []string{"alice", "troupe:keys"}
	// A key has the scopes that it was made with: there are two of each, which are two principals.
	for _, scopes := range [][]string{{"files:read"}, {"files:write"}} {
		key, secret, err := d.Runtime.APIKeys().Create(t.Context(), auth.APIKey{Name: "alice" + fmt.Sprint(len(scopes[0])), Scopes: scopes})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, principal{"the key " + key.Name, "key " + key.ID, func([]string) string { return secret }})
		named = append(named, key.ID)
	}
	for _, name := range named {
		for _, id := range []*issuer.Issuer{d.id, second} {
			all = append(all,
				principal{"user " + name + " by way of a client of " + id.URL, "user " + name + id.URL, token(id, issuer.Claims{"sub": name, "client_id": "editor"})},
				principal{"user " + name + " by way of another client of " + id.URL, "user " + name + id.URL, token(id, issuer.Claims{"sub": name, "client_id": nil, "azp": "shell"})},
				principal{"machine " + name + " of " + id.URL, "machine " + name + id.URL, token(id, issuer.Claims{"sub": name, "client_id": name})},
				principal{"machine " + name + " without a subject of " + id.URL, "machine " + name + id.URL, token(id, issuer.Claims{"sub": nil, "client_id": name})},
			)
		}
	}
	return all
}

// holding is something that a principal has, which others must not reach. make has it made, and returns what tries to reach it with a client that has another token or the same. What
// comes back is whether that was let in (ok), told to get a scope (denied), or told that there is no such thing (hidden).
type holding struct {
	name   string
	scoped bool // it needs files:write
	named  bool // the request says for what, so that who lacks the scope is told so before anybody looks whose it is
	make   func(t *testing.T, d *door, c *kit.Client) func(c *kit.Client) string
}

const (
	reached = "ok"
	denied  = "denied"
	hidden  = "hidden"
)

// byStatus says what the status of an answer means.
func byStatus(a *kit.Answer) string {
	if a.Stream() {
		defer a.Close()
	}
	switch a.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return reached
	case http.StatusForbidden:
		return denied
	case http.StatusNotFound:
		return hidden
	}
	return a.Status + " " + a.Body
}

// byText is byStatus, but for errors with a text, by which others learn that there is nothing.
func byText(a *kit.Answer, text string) string {
	if !a.Stream() && a.StatusCode != http.StatusForbidden && strings.Contains(a.Body, `"error"`) {
		if strings.Contains(a.Body, text) {
			return hidden
		}
		return a.Body
	}
	return byStatus(a)
}

func in(c *kit.Client, session string) *kit.Client { c.Session = session; return c }

// holdings are what a principal can have.
func holdings(random *rand.Rand) []holding {
	id := func() string { return fmt.Sprint(random.IntN(3)) } // ids are equal, mostly
	session := func(try func(c *kit.Client) *kit.Answer) func(*testing.T, *door, *kit.Client) func(*kit.Client) string {
		return func(_ *testing.T, _ *door, c *kit.Client) func(*kit.Client) string {
			of := c.Initialize(`{}`).Session
			return func(c *kit.Client) string { return byStatus(try(in(c, of))) }
		}
	}
	event := func(t *testing.T, c *kit.Client) (session, event string) {
		t.Helper()
		c.Initialize(`{}`)
		a := c.Post(host.CallWith(id(), "guarded", `{}`, `"p"`))
		if !a.Stream() {
			t.Fatalf("no stream: %s %s", a.Status, a.Body)
		}
		e, _ := a.Next()
		a.Close()
		return c.Session, e.ID
	}
	task := func(method string) func(*testing.T, *door, *kit.Client) func(*kit.Client) string {
		return func(t *testing.T, _ *door, c *kit.Client) func(*kit.Client) string {
			made := c.Initialize(`{}`).Post(host.Method(id(), "tools/call", `{"name":"work","arguments":{},"task":{"ttl":600000}}`))
			var r struct {
				Result struct{ Task struct{ TaskID string } }
			}
			if err := json.Unmarshal([]byte(made.Body), &r); err != nil || r.Result.Task.TaskID == "" {
				t.Fatalf("no task: %s", made.Body)
			}
			return func(c *kit.Client) string {
				a := c.Initialize(`{}`).Post(host.Method(id(), method, `{"taskId":"`+r.Result.Task.TaskID+`"}`))
				if method == "tasks/cancel" && strings.Contains(a.Body, "the task has ended") { // as only those are told who may cancel it
					return reached
				}
				return byText(a, "there is no such task")
			}
		}
	}
	return []holding{
		{"a session, by a call (CVE-2026-52870)", true, true, session(func(c *kit.Client) *kit.Answer { return c.Post(host.Call(id(), "write", `{}`)) })},
		{"a session, by a list (CVE-2026-52870)", false, false, session(func(c *kit.Client) *kit.Answer { return c.Post(host.Method(id(), "tools/list", `{}`)) })},
		{"a session, by its stream (CVE-2026-52870)", false, false, session(func(c *kit.Client) *kit.Answer { return c.Get("") })},
		{"a session, by DELETE (CVE-2026-52870)", false, false, session(func(c *kit.Client) *kit.Answer { return c.Do("DELETE", "") })},
		{"an event in its session", true, false, func(t *testing.T, _ *door, c *kit.Client) func(*kit.Client) string {
			of, last := event(t, c)
			return func(c *kit.Client) string { return byStatus(in(c, of).Get(last)) }
		}},
		{"a task, by its state", true, false, task("tasks/get")},
		{"a task, by its result", true, false, task("tasks/result")},
		{"a task, by cancelling it", true, false, task("tasks/cancel")},
		{"a cursor", false, false, func(t *testing.T, _ *door, c *kit.Client) func(*kit.Client) string {
			cursor := `{"cursor":"` + host.Cursor(t, c.Initialize(`{}`).Post(listTools)) + `"}`
			return func(c *kit.Client) string {
				return byText(c.Initialize(`{}`).Post(host.Method(id(), "tools/list", cursor)), "cursor")
			}
		}},
		{"a state", true, true, func(t *testing.T, _ *door, c *kit.Client) func(*kit.Client) string {
			s := &host.Stateless{T: t, Client: c, Capabilities: host.EveryCapability, N: random.IntN(3)}
			a, n := s.Tool("question", `{}`)
			state := s.Parked(a, n, "elicit")
			return func(c *kit.Client) string {
				again := &host.Stateless{T: t, Client: c, Capabilities: host.EveryCapability, N: random.IntN(3)}
				a, _ := again.Tool("question", `{}`, state, host.Given("elicit", "x"))
				return byText(a, "the requestState is not valid for this request")
			}
		}},
		{"a session of HTTP+SSE, by a message (CVE-2026-52869)", true, true, func(t *testing.T, _ *door, c *kit.Client) func(*kit.Client) string {
			sse := c.OpenSSE("/sse")
			t.Cleanup(sse.Stream.Close)
			sse.Handshake("2024-11-05", `{}`)
			n := 0 // an id may be in use, as messages are accepted before they are answered
			return func(c *kit.Client) string {
				c.URL = sse.Messages
				n++
				return byStatus(c.Post(host.Call(fmt.Sprint(n), "write", `{}`), "Accept", ""))
			}
		}},
	}
}

// TestIsolation has random principals make random things, and others try to reach them: nobody but the same principal does, and that only with the scopes that it takes.
// Scopes, ids and tokens are random, too. What is nobody else's is hidden from all others in the same way, whatever their scopes.
func TestIsolation(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		d, second := virtualDoor(t, func(o *troupe.Options) { o.Limits.PageSize = 1 })
		needs := []string{"files:write"}
		troupe.AddTool(d.Server, troupe.Tool{Name: "write", Scopes: needs}, nothing)
		troupe.AddTool(d.Server, troupe.Tool{Name: "work", Scopes: needs, Task: troupe.TaskOptional, Rerun: troupe.Safe}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "done", nil })
		troupe.AddTool(d.Server, troupe.Tool{Name: "guarded", Scopes: needs}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			_ = call.Progress(ctx, 1, 0, "")
			return "", host.Sleep(ctx, 1000)
		})
		troupe.AddTool(d.Server, troupe.Tool{Name: "question", Scopes: needs, Needs: mcp.CapClientElicitationForm, Rerun: troupe.Safe}, func(ctx context.Context, call *troupe.Call, _ struct{}) (string, error) {
			r, err := call.Elicit(ctx, "?", host.Form)
			if err != nil {
				return "", err
			}
			return string(r.Action), nil
		})
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1))
		all, things := everybody(t, d, second), holdings(random)
		some := func(least ...string) []string {
			scopes := slices.Clone(least)
			for _, s := range []string{"files:read", "files:write", "files:admin", "openid"} {
				if random.IntN(3) == 0 && !slices.Contains(scopes, s) {
					scopes = append(scopes, s)
				}
			}
			return scopes
		}
		can := func(p principal, scopes []string) bool { // a key has its own
			if strings.HasPrefix(p.who, "key ") {
				return p.name == "the key alice11"
			}
			return slices.Contains(scopes, "files:write") || slices.Contains(scopes, "files:admin")
		}
		seen := map[string]int{}
		for range host.Sized(2_000, 120) {
			of := things[random.IntN(len(things))]
			owner := all[random.IntN(len(all))]
			for of.scoped && !can(owner, needs) {
				owner = all[random.IntN(len(all))]
			}
			try := of.make(t, d, d.as(owner.token(some(needs...))))
			others := []principal{owner, all[random.IntN(len(all))], all[random.IntN(len(all))]}
			for _, p := range all { // those who look like the owner
				if p.who == owner.who || strings.TrimPrefix(p.who, "machine ") == strings.TrimPrefix(owner.who, "user ") {
					others = append(others, p)
				}
			}
			random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
			slices.SortStableFunc(others, func(a, b principal) int { // a DELETE that is let in is the last that can be seen
				return map[bool]int{true: 1}[a.who == owner.who] - map[bool]int{true: 1}[b.who == owner.who]
			})
			for _, p := range others {
				scopes := some()
				want := hidden
				if p.who == owner.who {
					if want = reached; of.scoped && !can(p, scopes) {
						want = denied
					}
				}
				if of.named && !can(p, scopes) {
					want = denied
				}
				got := try(d.as(p.token(scopes)))
				seen[of.name+" "+got]++
				if got != want {
					t.Errorf("seed %d: %s of %s, by %s with %q: %s, want %s", seed, of.name, owner.name, p.name, scopes, got, want)
				}
				if got == reached && (strings.Contains(of.name, "DELETE") || strings.Contains(of.name, "a state")) {
					break
				}
			}
			time.Sleep(2 * time.Second)
		}
		t.Log(seen)
	})
}
