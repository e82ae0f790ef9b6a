package troupe

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/internal/quota"
	"github.com/troupe-run/troupe/mcp"
)

// TestDefaultID checks the ids of paths. Sessions are stored under them, so they must not
// change from one release to the next.
func TestDefaultID(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/mcp": "main", "/": "main", "/weather": "weather", "/weather/mcp": "weather", "/7/mcp": "7", "/a-b/mcp": "a-b",
		"/main": "main-zgdrfzcu", "/Weather": "weather-ynwfpnoh", "/t/7/mcp": "t-7-2gkr2sfk", "/t-7/mcp": "t-7", "/_/mcp": "path-lwkafw6y",
		"/a/very/long/path/that/goes/on/mcp": "a-very-long-path-that-g-chxufgeo",
	} {
		if got := defaultID(path); got != want || !serverID.MatchString(got) {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// TestCarriedCaller checks what a process gets of the caller of a message that came to another one, and that its token is
// not stored with what the message makes.
func TestCarriedCaller(t *testing.T) {
	t.Parallel()
	r := &http.Request{Header: http.Header{"X-Kept": {"k"}, "Authorization": {"secret"}}}
	c := &caller{Principal: Principal{Issuer: "i", Subject: "s", Claims: []byte(`{"c":1}`), Client: "c", Scopes: []string{"a", "b"}, Machine: true, Expires: time.Unix(5, 7), Token: NewSecret("secret")}, r: r, stored: []string{"X-Kept"}}
	form, err := c.Carry()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{srv: NewServer(mcp.Implementation{Name: "x"}, &ServerOptions{Visible: func(Principal, Item) bool { return true }})}
	s.hosting = hostedCalls{&serviceHosting{service: s}}
	s.bindParts()
	principal, owner := s.access.readCarried(form, nil)
	p := principalOf(principal)
	if p.Issuer != "i" || p.Subject != "s" || string(p.Claims) != `{"c":1}` || p.Token.Reveal() != "secret" {
		t.Errorf("the handler serves %+v, with the token %q", p, p.Token.Reveal())
	}
	if p.Client != "c" || !slices.Equal(p.Scopes, c.Scopes) || !p.Machine || !p.Expires.Equal(time.Unix(5, 0)) || p.tenantHash() != c.tenantHash() {
		t.Errorf("the handler serves a client %q with %q, a machine: %v, until %v", p.Client, p.Scopes, p.Machine, p.Expires)
	}
	if o := ownedBy(owner); o.Subject != "s" || o.Token.Reveal() != "" {
		t.Errorf("the session keeps %+v, with the token %q", o, o.Token.Reveal())
	}
	for _, v := range []any{c, principal} {
		data, err := codec.Marshal(v)
		if err != nil || strings.Contains(string(data), "secret") || !strings.Contains(string(data), `"X-Kept":["k"]`) {
			t.Errorf("stored as %s, %v", data, err)
		}
	}
	for _, form := range []string{"null", "", "{"} {
		if principal, _ := s.access.readCarried([]byte(form), nil); principalOf(principal).String() != "" {
			t.Errorf("%q is %v", form, principal)
		}
	}
}

// TestNewsOfTasksComeInOrder has a session told of its tasks by other nodes: no state comes after a later one, and none twice.
func TestNewsOfTasksComeInOrder(t *testing.T) {
	t.Parallel()
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	rt.sharesStore = true // after the store was opened: it has no others
	rt.taskNews.Start(rt.node, true)
	defer func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	rt.Mount("/mcp", NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil))
	web := httptest.NewServer(rt)
	defer web.Close()
	ask := func(method, session, body string) *http.Response {
		r, err := http.NewRequest(method, web.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	begun := ask("POST", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	session := begun.Header.Get("Mcp-Session-Id")
	begun.Body.Close()
	stream := ask("GET", session, "")
	defer stream.Body.Close()
	tell := func(task string, rev uint64) {
		rt.news.Task(&actors.TaskChange{Tenant: "anon", Server: "main", ID: task, Rev: rev, Session: session[:26], Method: "told", Params: fmt.Appendf(nil, `{"of":"%s%d"}`, task, rev)})
	}
	for _, rev := range []uint64{5, 4, 5, 6} {
		tell("a", rev)
	}
	tell("b", 1)
	var got []string
	for lines := bufio.NewScanner(stream.Body); len(got) < 3 && lines.Scan(); {
		if _, of, told := strings.Cut(lines.Text(), `"of":"`); told {
			got = append(got, of[:2])
		}
	}
	if all := strings.Join(got, " "); all != "a5 a6 b1" {
		t.Errorf("told of %s", all)
	}
}

// TestNewsOfTasksComeBeforeAnyServer: from the moment at which others are heard, what they tell of a task's questions meets a whole Runtime.
func TestNewsOfTasksComeBeforeAnyServer(t *testing.T) {
	t.Parallel()
	rt := &Runtime{}
	rt.bindParts()
	rt.news.startWith(rt)
	for _, asks := range []uint8{1, 2, 3, 4} {
		rt.news.Task(&actors.TaskChange{Tenant: "anon", Server: "main", ID: "x", Session: "y", Asks: asks})
	}
}

// TestNewsOfListsAreJudged has another node tell of lists what makes no sense: nothing is announced.
func TestNewsOfListsAreJudged(t *testing.T) {
	t.Parallel()
	var n news
	n.Lists("main", []actors.ListChange{{List: "tools", Digest: "abc"}}) // before there is a runtime
	n.Task(&actors.TaskChange{Session: "x", Method: "m", Rev: 1})
	n.Missed()
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	srv := NewServer(mcp.Implementation{Name: "t", Version: "1"}, nil)
	rt.Mount("/mcp", srv)
	for _, c := range []actors.ListChange{{List: "tool", Digest: "abc"}, {List: "tools"}, {List: "tools", Digest: "a b"}, {List: "tools", Digest: "+"}, {List: "tools", Digest: strings.Repeat("a", 65)}, {}} {
		rt.news.Lists("main", []actors.ListChange{c})
		if e := &srv.mount.mountedService().lists.remoteLists; e.differingLists() != (which{}) {
			t.Errorf("%+v was taken", c)
		}
	}
	rt.news.Lists("other", []actors.ListChange{{List: "tools", Digest: "abc"}})
	rt.news.Lists("main", []actors.ListChange{{List: "tools", Digest: "abc"}})
	if d := srv.mount.mountedService().lists.remoteLists.differingLists(); d != (which{listTools: true}) {
		t.Errorf("these differ: %v", d)
	}
	rt.news.Lists("main", []actors.ListChange{{List: "tools", Digest: srv.listDigest(listTools, nil, nil)}})
	if d := srv.mount.mountedService().lists.remoteLists.differingLists(); d != (which{}) {
		t.Errorf("these differ still: %v", d)
	}
}

// TestWeightNames checks what accounts the names of weights stand for, and which are refused.
func TestWeightNames(t *testing.T) {
	t.Parallel()
	p := Principal{Issuer: "https://issuer.example", Subject: "ann lee"}
	machine := p
	machine.Machine = true
	w, err := weightsOf(map[string]int{"ann": 2, "https://issuer.example ann lee": 3, "192.0.2.7": 4, "2001:db8:0:1::5": 1000, "::ffff:192.0.2.8": 1,
		"machine https://issuer.example ann lee": 5})
	if err != nil {
		t.Fatal(err)
	}
	want := quota.Weights{{Tenant: (&Principal{Subject: "ann"}).tenantHash()}: 2, {Tenant: p.tenantHash()}: 3, {Tenant: machine.tenantHash()}: 5,
		{Tenant: "anon", Address: "192.0.2.7"}: 4, {Tenant: "anon", Address: "2001:db8:0:1::"}: 1000, {Tenant: "anon", Address: "192.0.2.8"}: 1}
	if !maps.Equal(w, want) {
		t.Errorf("got %v, want %v", w, want)
	}
	for _, bad := range []map[string]int{{"ann": 0}, {"ann": -1}, {"ann": 1001}, {"": 1}, {"https://issuer.example ": 1}, {"192.0.2.0/24": 2}, {"2001:db8::/48": 2},
		{"2001:db8::/64": 2, "2001:db8::1": 2}} {
		if _, err := New(Options{Shared: SharedLimits{Weights: bad}}); err == nil || !strings.Contains(err.Error(), "Shared.Weights") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}
