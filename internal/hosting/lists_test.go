package hosting_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/codec"
	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/backend"
	"github.com/troupe-run/troupe/internal/backend/listing"
	"github.com/troupe-run/troupe/internal/bubble"
	"github.com/troupe-run/troupe/internal/hosting"
	"github.com/troupe-run/troupe/internal/upstream"
	"github.com/troupe-run/troupe/mcp"
)

// TestFind finds items by the names that clients know.
func TestFind(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long", 20)
	f := &fake{}
	f.set("a", toolsOf("echo", "secret", long))
	f.set("b", catalogue(mcp.Latest, []string{tool("echo")}, []string{`{"name":"greet"}`}, []string{`{"uri":"x://1","name":"one"}`}, []string{`{"uriTemplate":"x://{n}/more","name":"more"}`}))
	f.set("c", catalogue(mcp.Latest, nil, nil, []string{`{"uri":"x://1","name":"other"}`, `{"uri":"x://2","name":"two"}`}, nil))
	s := serve(f, hosting.Backend{Name: "a", Options: host.Options{Tools: host.Tools{Deny: []string{"sec*"}}}}, hosting.Backend{Name: "b"}, hosting.Backend{Name: "c"})
	c := callerOf("s")
	var cut string
	for _, tt := range []struct {
		of   listing.Of
		name string
		want string
	}{
		{listing.Tools, "a__echo", "a echo"},
		{listing.Tools, "b__echo", "b echo"},
		{listing.Tools, "a__secret", ""},
		{listing.Tools, "echo", ""},
		{listing.Tools, "c__echo", ""},
		{listing.Prompts, "b__greet", "b greet"},
		{listing.Resources, "x://1", "b x://1"},
		{listing.Resources, "x://2", "c x://2"},
		{listing.Resources, "x://3/more", "b x://{n}/more"},
		{listing.Resources, "y://1", ""},
	} {
		item, ok := s.FindItem(c, tt.of, tt.name)
		got := ""
		if ok {
			got = item.Backend() + " " + item.Own
		}
		if got != tt.want {
			t.Errorf("%v %q: %q, want %q", tt.of.Member(), tt.name, got, tt.want)
		}
	}
	page, _ := s.AppendPage(nil, true, listing.Tools, &hosting.View{Caller: c}, hosting.Start, 10)
	for one := range codec.Elements([]byte("[" + string(page) + "]")) {
		if name, _ := codec.Str(codec.Field(one, "name")); strings.HasPrefix(name, "a__long") {
			cut = name
		}
	}
	if item, ok := s.FindItem(c, listing.Tools, cut); !ok || item.Own != long || len(cut) != 64 {
		t.Errorf("the cut name %q leads to %v", cut, item)
	}
}

// TestGuess asks no backend for what may be another's.
func TestGuess(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set("known", toolsOf("echo"))
	s := serve(f, hosting.Backend{Name: "known"}, hosting.Backend{Name: "new", Options: host.Options{Tools: host.Tools{Deny: []string{"no"}}}})
	c := callerOf("s")
	for name, want := range map[string]bool{"new__echo": true, "known__other": false, "new__no": false, "echo": false, "new__": false} {
		if item := s.GuessItem(c, listing.Tools, name); (item != nil) != want {
			t.Errorf("%q: %v", name, item)
		}
	}
	if s.GuessItem(c, listing.Resources, "x://1") != nil {
		t.Error("a resource that two may have was looked for in one")
	}
	two := serve(f, hosting.Backend{Name: "x", Options: host.Options{Prefix: host.NoPrefix}}, hosting.Backend{Name: "y", Options: host.Options{Prefix: host.NoPrefix}})
	if two.GuessItem(c, listing.Tools, "echo") != nil {
		t.Error("a tool that two may have was called at one")
	}
}

// TestPages reads lists of own items and those of backends in pages of each size.
func TestPages(t *testing.T) {
	t.Parallel()
	f := &fake{}
	plain := host.Options{Prefix: host.NoPrefix}
	f.set("a", toolsOf("own2", "a1", "a2"))
	f.set("b", toolsOf())
	f.set("c", toolsOf("a1", "c1", "c2", "own1"))
	f.set("d", toolsOf("a2", "hidden"))
	s := serve(f, hosting.Backend{Name: "a", Options: plain}, hosting.Backend{Name: "b", Options: plain}, hosting.Backend{Name: "c", Options: plain}, hosting.Backend{Name: "d", Options: plain})
	v := &hosting.View{Caller: callerOf("s"), Own: func(name string) bool { return strings.HasPrefix(name, "own") }, Sees: func(i *hosting.Item) bool { return i.Name != "hidden" }}
	for size := 1; size < 6; size++ {
		var names []string
		pages := 0
		for after := hosting.Start; after != ""; pages++ {
			var page []byte
			page, after = s.AppendPage([]byte("["), true, listing.Tools, v, after, size)
			n := 0
			for one := range codec.Elements(append(page, ']')) {
				name, _ := codec.Str(codec.Field(one, "name"))
				names = append(names, name)
				n++
			}
			if n > size || after != "" && n < size {
				t.Errorf("a page of %d items, want %d", n, size)
			}
		}
		if want := []string{"a1", "a2", "c1", "c2"}; !slices.Equal(names, want) || pages != (len(want)+size-1)/size {
			t.Errorf("in pages of %d: %q in %d pages", size, names, pages)
		}
	}
	if page, last := s.AppendPage(nil, true, listing.Tools, v, hosting.Start, 0); len(page) > 0 || !hosting.IsHosted(last) {
		t.Errorf("behind a full page of own items: %q, %q", page, last)
	}
	v.Sees = func(*hosting.Item) bool { return false }
	if _, last := s.AppendPage(nil, true, listing.Tools, v, hosting.Start, 0); last != "" {
		t.Errorf("nothing is seen, and yet there is a page behind %q", last)
	}
}

// TestHiddenIsLogged names the backend whose item is hidden by another one's of the same name, once.
func TestHiddenIsLogged(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set("a", catalogue(mcp.Latest, nil, nil, []string{`{"uri":"x://1","name":"one"}`, `{"uri":"x://2","name":"two"}`}, nil))
	f.set("b", catalogue(mcp.Latest, nil, nil, []string{`{"uri":"x://1","name":"other"}`, `{"uri":"x://3","name":"three"}`}, nil))
	var log bytes.Buffer
	s := hosting.NewServer(f, 5*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
	s.Configure([]hosting.Backend{{Name: "a", Key: "a"}, {Name: "b", Key: "b"}})
	for range 2 {
		s.AppendPage(nil, true, listing.Resources, &hosting.View{Caller: callerOf("s")}, hosting.Start, 10)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "name=x://1 first=a hidden=b") {
		t.Errorf("logged: %s", got)
	}
}

// TestToolsThatMayNotBeUsed leaves out what a URL of 2026-07-28 lists with annotations for headers that break the rules, and says so once; what a command or
// a URL of an older revision lists stays.
func TestToolsThatMayNotBeUsed(t *testing.T) {
	t.Parallel()
	region := func(name, kind string) string {
		return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{"region":{"type":%q,"x-mcp-header":"Region"}}}}`, name, kind)
	}
	tools := []string{region("good", "string"), region("bad", "number"), tool("plain")}
	for _, tt := range []struct {
		url      bool
		revision mcp.Revision
		want     bool // bad is there
	}{{true, mcp.Latest, false}, {true, mcp.LatestLegacy, true}, {false, mcp.Latest, true}} {
		f := &fake{}
		f.set("one", catalogue(tt.revision, tools, nil, nil, nil))
		var log bytes.Buffer
		s := hosting.NewServer(f, 5*time.Second, slog.New(slog.NewTextHandler(&log, nil)))
		s.Configure([]hosting.Backend{{Name: "one", Key: "one", URL: tt.url, Options: host.Options{Prefix: host.NoPrefix}}})
		c := callerOf("s")
		for range 2 {
			for name, want := range map[string]bool{"good": true, "bad": tt.want, "plain": true} {
				if _, ok := s.FindItem(c, listing.Tools, name); ok != want {
					t.Errorf("URL %v, %v: %s is there: %v, want %v", tt.url, tt.revision, name, ok, want)
				}
			}
			if page, _ := s.AppendPage(nil, true, listing.Tools, &hosting.View{Caller: c}, hosting.Start, 10); bytes.Contains(page, []byte(`"bad"`)) != tt.want {
				t.Errorf("URL %v, %v: the list is %s", tt.url, tt.revision, page)
			}
		}
		said := 0
		if !tt.want {
			said = 1
		}
		if n := strings.Count(log.String(), "tool=bad"); n != said {
			t.Errorf("URL %v, %v: it is logged %d times: %s", tt.url, tt.revision, n, log.String())
		}
	}
}

// TestTold tells backends what they may ask for, whatever else a client has written there.
func TestTold(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                 `{}`,
		`{"elicitation":{}}`: `{"elicitation":{}}`,
		`{"elicitation":{"form":{"x":1},"y":2},"sampling":{"tools":{"z":3}},"roots":{"listChanged":true,"w":4},"tasks":{"list":{}},"experimental":{"e":{}},"own":5}`: `{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{"form":{}}}`,
	} {
		var c mcp.ClientCapabilities
		if err := codec.Unmarshal([]byte(in), &c); err != nil {
			t.Fatal(err)
		}
		if got := string(hosting.Told(&c)); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// TestExecutionIsOfOneRevision lists whether calls of a tool may become tasks for clients whose revision has that, and leaves all else as it is.
func TestExecutionIsOfOneRevision(t *testing.T) {
	t.Parallel()
	f := &fake{}
	whole := `{"name":"t", "inputSchema":{"type" : "object"},"execution":{"taskSupport":"optional"},"x":[ 1 ]}`
	f.set("one", catalogue(mcp.Revision20251125, []string{whole}, nil, nil, nil))
	for r, want := range map[mcp.Revision]string{
		mcp.Revision20250618: `{"name":"t","inputSchema":{"type" : "object"},"x":[ 1 ]}`, mcp.Revision20251125: whole, mcp.Latest: `{"name":"t","inputSchema":{"type" : "object"},"x":[ 1 ]}`,
	} {
		c := callerOf("s")
		c.Revision = r
		page, _ := alone(f).AppendPage(nil, true, listing.Tools, &hosting.View{Caller: c}, hosting.Start, 1)
		if string(page) != want {
			t.Errorf("%s: %s, want %s", r, page, want)
		}
	}
}

// TestDigest tells lists apart by what somebody sees.
func TestDigest(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := serve(f, hosting.Backend{Name: "a"}, hosting.Backend{Name: "b"})
	v := &hosting.View{Caller: callerOf("s")}
	if got := s.Digest("own", v, listing.Tools); got != "own" {
		t.Errorf("nothing is known: %q", got)
	}
	seen := map[string]string{}
	add := func(what string) {
		d := s.Digest("own", v, listing.Tools)
		if before, taken := seen[d]; taken || len(d) != 12 {
			t.Errorf("%s: %q, as %s", what, d, before)
		}
		seen[d] = what
	}
	f.set("a", toolsOf("one"))
	add("one tool")
	f.set("a", toolsOf("one", "two"))
	add("two tools")
	f.set("b", toolsOf("one"))
	add("another backend")
	v.Sees = func(i *hosting.Item) bool { return i.Own == "one" }
	add("two are seen")
	if s.Digest("own", v, listing.Prompts) != "own" {
		t.Error("there are prompts")
	}
}

// TestAbout has one backend without a prefix speak for the server.
func TestAbout(t *testing.T) {
	t.Parallel()
	f := &fake{}
	c := toolsOf("echo")
	c.Settled.Instructions = []byte(`"read this"`)
	c.Settled.Capabilities = []byte(`{"tools":{},"tasks":{"list":{}},"extensions":{"io.modelcontextprotocol/tasks":{},"x/y":{"z":1}},"experimental":{"e":{}}}`)
	f.set("one", c)
	a := alone(f).About(callerOf("s"), false)
	caps, _ := codec.Marshal(a.Capabilities)
	if want := `{"experimental":{"e":{}},"logging":{},"tools":{"listChanged":true},"extensions":{"x/y":{"z":1}}}`; !a.Alone || string(a.ServerInfo) != string(c.Settled.ServerInfo) || string(a.Instructions) != `"read this"` || string(caps) != want {
		t.Errorf("%+v, %s", a, caps)
	}
	if a := alone(f).About(callerOf("s"), true); a.Alone {
		t.Error("a server with own items looks like its backend")
	}
	if a := serve(f, hosting.Backend{Name: "one"}).About(callerOf("s"), false); a.Alone || a.Capabilities.Extensions["x/y"] == nil || a.Capabilities.Tools != nil {
		t.Errorf("with a prefix: %+v", a)
	}
}

// TestSafe says which tools may run once more.
func TestSafe(t *testing.T) {
	t.Parallel()
	f := &fake{}
	f.set("a", catalogue(mcp.Latest, []string{
		`{"name":"read","annotations":{"readOnlyHint":true}}`, `{"name":"put","annotations":{"idempotentHint":true}}`, `{"name":"add"}`,
		`{"name":"never","annotations":{"readOnlyHint":true}}`, `{"name":"listed"}`,
	}, nil, nil, nil))
	s := serve(f, hosting.Backend{Name: "a", Options: host.Options{Rerun: host.Rerun{Safe: []string{"listed", "unknown"}, Never: []string{"never"}}}})
	s.FindItem(callerOf("s"), listing.Tools, "a__read") // which reads the catalogue
	for name, want := range map[string]bool{"a__read": true, "a__put": true, "a__add": false, "a__never": false, "a__listed": true, "a__unknown": true, "a__other": false, "read": false} {
		if got := s.IsSafeTool(name); got != want {
			t.Errorf("IsSafeTool(%q) is %v", name, got)
		}
		if got := s.InsistsOnSafe(name); got != (name == "a__listed" || name == "a__unknown") {
			t.Errorf("Insists(%q) is %v", name, got)
		}
	}
	if !s.MayHaveTool("a__x") || s.MayHaveTool("b__x") {
		t.Error("May")
	}
	if !s.IsListed(listing.Tools, "a__add", nil) || s.IsListed(listing.Tools, "a__x", nil) || s.IsListed(listing.Tools, "a__add", func(*hosting.Item) bool { return false }) {
		t.Error("Lists")
	}
}

// TestLearn waits for a backend of which nothing is known, five seconds at most, and then for a while not again.
func TestLearn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		starts, known := 0, make(chan struct{})
		f := &fake{learn: func(ctx context.Context, name string) (*backend.Catalogue, error) {
			starts++
			select {
			case <-known:
				return toolsOf("echo"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}}
		f.set("there", toolsOf("echo"))
		s := serve(f, hosting.Backend{Name: "there"}, hosting.Backend{Name: "slow"})
		learn := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			s.LearnLists(t.Context(), callerOf("s"))
			if took := time.Since(began); took != want {
				t.Errorf("waited for %v, want %v", took, want)
			}
		}
		learn(5 * time.Second)
		learn(0)
		time.Sleep(31 * time.Second)
		time.AfterFunc(time.Second, func() { close(known) })
		learn(time.Second)
		learn(0)
		if _, ok := s.FindItem(callerOf("s"), listing.Tools, "slow__echo"); !ok || starts != 1 {
			t.Errorf("found: %v, after %d starts", ok, starts)
		}
	})
}

// TestBegin asks a backend what it lists before anybody has come, once, if nothing is known of it.
func TestBegin(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var asked []string
		f := &fake{}
		f.learn = func(_ context.Context, name string) (*backend.Catalogue, error) {
			asked = append(asked, name)
			time.Sleep(10 * time.Second)
			return toolsOf("echo"), nil
		}
		f.set("known", toolsOf("echo"))
		s := serve(f, hosting.Backend{Name: "known"}, hosting.Backend{Name: "slow"})
		for range 3 {
			began := time.Now()
			hosting.BeginLearning(s)
			if took := time.Since(began); took != 0 {
				t.Errorf("waited for %v", took)
			}
			synctest.Wait()
		}
		time.Sleep(6 * time.Second)
		s.LearnLists(t.Context(), callerOf("s")) // waits for the same
		hosting.BeginLearning(s)
		if _, ok := s.FindItem(callerOf("s"), listing.Tools, "slow__echo"); !ok || !slices.Equal(asked, []string{"slow"}) {
			t.Errorf("found: %v, after %q were asked", ok, asked)
		}
	})
}

// TestLearnFails does not wait again for a backend that has just failed.
func TestLearnFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{learn: func(context.Context, string) (*backend.Catalogue, error) { return nil, errors.New("it does not start") }}
		s := alone(f)
		began := time.Now()
		s.LearnLists(t.Context(), callerOf("s"))
		s.LearnLists(t.Context(), callerOf("s"))
		if took := time.Since(began); took != 0 {
			t.Errorf("waited for %v", took)
		}
	})
}

// TestLevels gives a backend the level of the caller with each call, and tells the instances that a session has of a new one.
func TestLevels(t *testing.T) {
	t.Parallel()
	var levels []string
	f := &fake{call: func(_ context.Context, _ string, _ backend.Caller, q hosting.Asked) (upstream.Response, error) {
		levels = append(levels, q.Level)
		return complete(`{"content":[]}`), nil
	}}
	f.set("a", toolsOf("echo"))
	s := serve(f, hosting.Backend{Name: "a"})
	c := callerOf("tenant/1")
	for _, level := range []string{"", "debug"} {
		q := request(t, s, c, &client{}, listing.Tools, mcp.MethodToolsCall, `{"name":"a__echo"}`)
		q.Level = level
		if _, err := s.Call(t.Context(), q); err != nil {
			t.Error(err)
		}
	}
	s.SetLevel(t.Context(), c, "error")
	if got, want := f.requests(), []string{`a tools/call {"name":"echo"}`, `a tools/call {"name":"echo"}`, `a logging/setLevel {"level":"error"}`}; !slices.Equal(got, want) || !slices.Equal(levels, []string{"", "debug"}) {
		t.Errorf("%s with the levels %q", lines(got...), levels)
	}
	s.SessionGone(c.Session, false)
	if !slices.Equal(f.gone, []string{c.Session}) {
		t.Errorf("gone: %q", f.gone)
	}
}

// TestUnsubscribe tells a backend that a session wants no updates any more, unless others that have the same instance do. What is left of an
// instance that a single call has, nobody hears, and it is not asked for.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	for by, want := range map[host.Isolation]int{host.BySession: 4, host.ByPrincipal: 2, host.Shared: 2, host.ByCall: 0} {
		f := &fake{}
		f.set("one", catalogue(mcp.Revision20251125, nil, nil, []string{`{"uri":"x://1","name":"one"}`}, nil))
		s := serve(f, hosting.Backend{Name: "one", Options: host.Options{Isolation: by}})
		item, _ := s.FindItem(callerOf("tenant/1"), listing.Resources, "x://1")
		for _, method := range []string{mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe} {
			for _, session := range []string{"tenant/1", "tenant/2"} {
				c := callerOf(session)
				c.Principal = "tenant"
				if err := s.ChangeSubscription(t.Context(), c, item, "x://1", method); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := f.requests(); len(got) != want {
			t.Errorf("isolation %v: the backend was asked %q", by, got)
		}
	}
}
