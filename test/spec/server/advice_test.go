package server_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
)

// TestNewNamesEveryBadOption checks that no bad option hides another.
func TestNewNamesEveryBadOption(t *testing.T) {
	t.Parallel()
	_, err := troupe.New(troupe.Options{
		Store: troupe.StoreOptions{Node: "A b", Shards: 99, Lease: -1, NATS: troupe.NATSOptions{URL: "http://x", Prefix: "P"}},
		HTTP:  troupe.HTTPOptions{TLSKey: "key.pem", PublicURL: "x", StoredHeaders: []string{"Cookie"}}, Limits: troupe.Limits{MaxBody: -1},
	})
	if err == nil {
		t.Fatal("New takes all of it")
	}
	for _, want := range []string{`node name "A b"`, `prefix "P"`, "99 shards", "Lease", "nats URL", "TLSCert and TLSKey", "PublicURL", "Cookie", "MaxBody"} {
		if n := strings.Count(err.Error(), want); n != 1 {
			t.Errorf("%s is named %d times in %v", want, n, err)
		}
	}
}

// TestNamesTwice registers items of one name twice: the forms with an error refuse the second, and the others replace the
// first, of which the log says a word.
func TestNamesTwice(t *testing.T) {
	t.Parallel()
	tool := func(text string) func(context.Context, *troupe.Call, struct{}) (string, error) {
		return func(context.Context, *troupe.Call, struct{}) (string, error) { return text, nil }
	}
	prompt := func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	read := func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		return nil, nil
	}
	method := func(context.Context, *troupe.Call, struct{}) (struct{}, error) { return struct{}{}, nil }
	notified := func(*troupe.Peer, struct{}) {}
	resource, template := mcp.Resource{URI: "x://r", Name: "r"}, mcp.ResourceTemplate{URITemplate: "x://{t}", Name: "t"}
	srv := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	for range 2 {
		troupe.AddTool(srv, troupe.Tool{Name: "t", Description: "an older one"}, tool("an older one"))
		troupe.AddPrompt(srv, troupe.Prompt{Name: "p"}, prompt)
		troupe.AddResource(srv, resource, read)
		troupe.AddResourceTemplate(srv, template, read)
		troupe.AddMethod(srv, troupe.Method{Name: "acme/m"}, method)
		troupe.AddNotification(srv, "acme/n", notified)
	}
	for name, err := range map[string]error{
		`tool "t"`:                    troupe.TryAddTool(srv, troupe.Tool{Name: "t"}, tool("refused")),
		`prompt "p"`:                  troupe.TryAddPrompt(srv, troupe.Prompt{Name: "p"}, prompt),
		`resource "x://r"`:            troupe.TryAddResource(srv, resource, read),
		`resource template "x://{t}"`: troupe.TryAddResourceTemplate(srv, template, read),
		`method "acme/m"`:             troupe.TryAddMethod(srv, troupe.Method{Name: "acme/m"}, method),
		`notification "acme/n"`:       troupe.TryAddNotification(srv, "acme/n", notified),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "troupe: "+name+": there is one of this name already") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if got := srv.Tools()[0].Description; got != "an older one" {
		t.Errorf("a tool that was refused is there: %s", got)
	}
	var log strings.Builder
	rt, err := troupe.New(troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close(context.Background()) }()
	rt.Mount("/mcp", srv)
	for _, kind := range []string{"tool", "prompt", "resource", `"resource template"`, "method", "notification"} {
		if n := strings.Count(log.String(), "kind="+kind+" "); n != 1 || !strings.Contains(log.String(), "level=WARN msg=\"two items of a server have the same name") {
			t.Errorf("%s: the log has %d lines of it:\n%s", kind, n, log.String())
		}
	}
	log.Reset()
	troupe.AddTool(srv, troupe.Tool{Name: "t"}, tool("new"))
	troupe.AddTool(srv, troupe.Tool{Name: "t"}, tool("newer"))
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=INFO msg=\"an item of a server was replaced by another of the same name\" times=1 kind=tool name=t server=main") {
		t.Errorf("of changes the log says %s", got)
	}
}

// TestNamesThatAreAdvisedAgainst checks that the log names the characters that the specification advises against.
func TestNamesThatAreAdvisedAgainst(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	rt, err := troupe.New(troupe.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close(context.Background()) }()
	srv := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	add := func(name string) {
		troupe.AddTool(srv, troupe.Tool{Name: name}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
	}
	add("Good_name-1.x")
	add("my tool!!")
	if log.Len() > 0 {
		t.Errorf("before the server is mounted: %s", log.String())
	}
	rt.Mount("/mcp", srv)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `name="my tool!!" characters="' ' '!'"`) || !strings.Contains(got, "A-Z, a-z, 0-9, _, - and .") {
		t.Errorf("once it is mounted: %s", got)
	}
	log.Reset()
	add("é")
	add(strings.Repeat("x", 129))
	add(strings.Repeat("x", 128))
	if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `characters='é'`) || !strings.Contains(got, "characters=129") {
		t.Errorf("while it is mounted: %s", got)
	}
}

// TestLogWithoutALogger checks where a Runtime without a logger logs. It is not parallel: it changes the default.
func TestLogWithoutALogger(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close(context.Background()) }()
	srv := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	troupe.AddTool(srv, troupe.Tool{Name: "a b"}, func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil })
	rt.Mount("/mcp", srv)
	if !strings.Contains(log.String(), "a b") {
		t.Errorf("slog.Default has %q", log.String())
	}
}
