package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/mcp"
	"github.com/troupe-run/troupe/test/kit"
	"github.com/troupe-run/troupe/test/spec/host"
)

// TestTry registers and mounts wrong things: each call returns an error that says so, and changes nothing. The forms
// without an error panic with the same words.
func TestTry(t *testing.T) {
	rt, err := troupe.New(troupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	server := func(id string) *troupe.Server {
		return troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, &troupe.ServerOptions{ID: id})
	}
	s := server("first")
	rt.Mount("/a/mcp", s)
	nothing := func(context.Context, *troupe.Call, struct{}) (string, error) { return "", nil }
	read := func(context.Context, *troupe.Call, string, map[string]string) ([]mcp.ResourceContents, error) {
		return nil, nil
	}
	tool := func(tool troupe.Tool) (func() error, func()) {
		return func() error { return troupe.TryAddTool(s, tool, nothing) }, func() { troupe.AddTool(s, tool, nothing) }
	}
	mount := func(path string, srv *troupe.Server) (func() error, func()) {
		return func() error { return rt.TryMount(path, srv) }, func() { rt.Mount(path, srv) }
	}
	type forms func() (func() error, func())
	for want, f := range map[string]forms{
		`a tool needs a name`:     func() (func() error, func()) { return tool(troupe.Tool{}) },
		`tool "x": input schema`:  func() (func() error, func()) { return tool(troupe.Tool{Name: "x", InputSchema: []byte(`{"type":5}`)}) },
		`tool "x": output schema`: func() (func() error, func()) { return tool(troupe.Tool{Name: "x", OutputSchema: []byte(`{"type":5}`)}) },
		`tool "x": `: func() (func() error, func()) {
			return tool(troupe.Tool{Name: "x", Meta: mcp.Meta{"a": json.RawMessage(`{`)}})
		},
		`a raw tool needs an input`: func() (func() error, func()) {
			return func() error { return troupe.TryAddRawTool(s, troupe.Tool{Name: "x"}, nil) }, func() { troupe.AddRawTool(s, troupe.Tool{Name: "x"}, nil) }
		},
		`a prompt needs a name`: func() (func() error, func()) {
			return func() error { return troupe.TryAddPrompt(s, troupe.Prompt{}, nil) }, func() { troupe.AddPrompt(s, troupe.Prompt{}, nil) }
		},
		`tool "n": its handler is nil`: func() (func() error, func()) {
			n := troupe.Tool{Name: "n"}
			return func() error { return troupe.TryAddTool[struct{}, string](s, n, nil) }, func() { troupe.AddTool[struct{}, string](s, n, nil) }
		},
		`tool "r": its handler is nil`: func() (func() error, func()) {
			n := troupe.Tool{Name: "r", InputSchema: []byte(`{"type":"object"}`)}
			return func() error { return troupe.TryAddRawTool(s, n, nil) }, func() { troupe.AddRawTool(s, n, nil) }
		},
		`prompt "n": its handler is nil`: func() (func() error, func()) {
			n := troupe.Prompt{Name: "n"}
			return func() error { return troupe.TryAddPrompt(s, n, nil) }, func() { troupe.AddPrompt(s, n, nil) }
		},
		`resource "x://n": its handler is nil`: func() (func() error, func()) {
			n := mcp.Resource{URI: "x://n", Name: "n"}
			return func() error { return troupe.TryAddResource(s, n, nil) }, func() { troupe.AddResource(s, n, nil) }
		},
		`resource template "x://{n}": its handler is nil`: func() (func() error, func()) {
			n := mcp.ResourceTemplate{URITemplate: "x://{n}", Name: "n"}
			return func() error { return troupe.TryAddResourceTemplate(s, n, nil) }, func() { troupe.AddResourceTemplate(s, n, nil) }
		},
		`method "acme/n": its handler is nil`: func() (func() error, func()) {
			n := troupe.Method{Name: "acme/n"}
			return func() error { return troupe.TryAddMethod[struct{}, struct{}](s, n, nil) }, func() { troupe.AddMethod[struct{}, struct{}](s, n, nil) }
		},
		`notification "acme/n": its handler is nil`: func() (func() error, func()) {
			return func() error { return troupe.TryAddNotification[struct{}](s, "acme/n", nil) }, func() { troupe.AddNotification[struct{}](s, "acme/n", nil) }
		},
		`method "tools/call": the name is empty, begins with rpc., or`: func() (func() error, func()) {
			f := func(*troupe.Peer, struct{}) {}
			return func() error { return troupe.TryAddNotification(s, "tools/call", f) }, func() { troupe.AddNotification(s, "tools/call", f) }
		},
		`resource "": it needs`: func() (func() error, func()) {
			return func() error { return troupe.TryAddResource(s, mcp.Resource{}, read) }, func() { troupe.AddResource(s, mcp.Resource{}, read) }
		},
		`resource template "x://{":`: func() (func() error, func()) {
			r := mcp.ResourceTemplate{URITemplate: "x://{", Name: "x"}
			return func() error { return troupe.TryAddResourceTemplate(s, r, read) }, func() { troupe.AddResourceTemplate(s, r, read) }
		},
		`server id "A": want`: func() (func() error, func()) {
			o := &troupe.ServerOptions{ID: "A"}
			i := mcp.Implementation{}
			return func() error { _, err := troupe.TryNewServer(i, o); return err }, func() { troupe.NewServer(i, o) }
		},
		`: capabilities:`: func() (func() error, func()) {
			o := &troupe.ServerOptions{Experimental: map[string]mcp.Object{"x": mcp.Object("{")}}
			i := mcp.Implementation{}
			return func() error { _, err := troupe.TryNewServer(i, o); return err }, func() { troupe.NewServer(i, o) }
		},
		`mount /b/mcp: the server is nil`: func() (func() error, func()) { return mount("/b/mcp", nil) },
		`tool "x": the server is nil`: func() (func() error, func()) {
			x := troupe.Tool{Name: "x"}
			return func() error { return troupe.TryAddTool(nil, x, nothing) }, func() { troupe.AddTool(nil, x, nothing) }
		},
		`prompt "x": the server is nil`: func() (func() error, func()) {
			x, f := troupe.Prompt{Name: "x"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return nil, nil
			}
			return func() error { return troupe.TryAddPrompt(nil, x, f) }, func() { troupe.AddPrompt(nil, x, f) }
		},
		`mount "mcp": want a path`:    func() (func() error, func()) { return mount("mcp", server("b")) },
		`mount "/t/{id}/mcp": want`:   func() (func() error, func()) { return mount("/t/{id}/mcp", server("b")) },
		`there is a server at /a/mcp`: func() (func() error, func()) { return mount("/a/mcp", server("b")) },
		`with id "first" already`:     func() (func() error, func()) { return mount("/b", server("first")) },
	} {
		try, do := f()
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", want, err)
		}
		func() {
			defer func() {
				if p, _ := recover().(string); !strings.Contains(p, want) || !strings.HasPrefix(p, "troupe: ") {
					t.Errorf("%s: panic %q", want, p)
				}
			}()
			do()
		}()
	}
	if got := s.Tools(); len(got) != 0 {
		t.Errorf("tools: %v", got)
	}
	if got := rt.Mounted(); len(got) != 1 || got["/a/mcp"] != s {
		t.Errorf("mounted: %v", got)
	}
	if err := rt.TryMount("/b/mcp", server("second")); err != nil {
		t.Errorf("a good one: %v", err)
	}
}

// TestToolsOfAServer checks that Tools returns the inferred schemas, and shares nothing with the server.
func TestToolsOfAServer(t *testing.T) {
	s := troupe.NewServer(mcp.Implementation{Name: "x", Version: "1"}, nil)
	given := troupe.Tool{Name: "given", InputSchema: json.RawMessage(`{"type":"object"}`)}
	troupe.AddTool(s, given, func(context.Context, *troupe.Call, map[string]any) (string, error) { return "", nil })
	given.InputSchema[1] = 'x'
	troupe.AddTool(s, troupe.Tool{Name: "echo"}, func(context.Context, *troupe.Call, host.EchoIn) (string, error) { return "", nil })
	for range 2 {
		all := s.Tools()
		var names []string
		for _, tool := range all {
			names = append(names, tool.Name)
		}
		if diff := cmp.Diff([]string{"echo", "given"}, names); diff != "" {
			t.Fatalf("tools (-want +got):\n%s", diff)
		}
		if got := string(all[0].InputSchema); !strings.Contains(got, `"text"`) {
			t.Errorf("the inferred schema: %s", got)
		}
		host.Equal(t, "the schema as it was given", string(all[1].InputSchema), `{"type":"object"}`)
		all[1].InputSchema[1] = 'x'
	}
}

func TestCallersKeepTheirSlices(t *testing.T) {
	urls := []mcp.ElicitURL{{URL: "https://x", ElicitationID: "1"}}
	before := slices.Clone(urls)
	_ = troupe.URLRequired(urls...)
	if diff := cmp.Diff(before, urls); diff != "" {
		t.Errorf("URLRequired has changed its arguments:\n%s", diff)
	}
}

// TestPeerLogWithoutASession checks that Peer.Log fails as documented, whatever the level.
func TestPeerLogWithoutASession(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{}, nil)
		h.AddTool("log-later", 0, func(ctx context.Context, call *troupe.Call) (string, error) {
			if err := call.Peer().Log(ctx, mcp.LevelDebug, "x", "y"); !errors.Is(err, troupe.ErrNoStream) {
				return "", errors.New("wrong")
			}
			return "told so", nil
		})
		m := h.Stateless(`{}`)
		a, id := m.Tool("log-later", `{}`)
		host.Equal(t, "stateless", m.Done(a, id), "told so")
	})
}

// TestDrainOnceMore drains with a context that has ended and nothing to wait for, drains again, and drains after Close.
func TestDrainOnceMore(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for what, before := range map[string]func(*troupe.Runtime) error{
		"idle":    func(*troupe.Runtime) error { return nil },
		"drained": func(rt *troupe.Runtime) error { return rt.Drain(ended) },
		"closed":  func(rt *troupe.Runtime) error { _ = rt.Ready(); return rt.Close(t.Context()) },
	} {
		rt, err := troupe.New(troupe.Options{DrainDelay: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := before(rt); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for range 20 {
			if err := rt.Drain(ended); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		_ = rt.Close(t.Context())
	}
}

// TestDrainAfterClose checks Ready, closes a Runtime and then drains it.
func TestDrainAfterClose(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{DrainDelay: time.Minute}, nil)
		if err := h.Runtime.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		if err := h.Runtime.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h.Runtime.Ready() == nil {
			t.Error("a closed runtime is ready")
		}
		began := time.Now()
		if err := h.Runtime.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it takes %v", took)
		}
	})
}

// TestPrincipalsArePrintedWithoutTheirToken prints a principal in every way, including a field that package fmt may not
// read.
func TestPrincipalsArePrintedWithoutTheirToken(t *testing.T) {
	p := troupe.Principal{Subject: "ann", Token: troupe.NewSecret("s3cret")}
	hidden := struct{ p troupe.Principal }{p}
	only := struct{ token troupe.Secret }{p.Token}
	var b strings.Builder
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(h).Info("x", "p", p, "in", struct{ P *troupe.Principal }{&p}, "all", []troupe.Principal{p}, "hidden", hidden, "token", p.Token, "in", struct{ T troupe.Secret }{p.Token})
	}
	for _, v := range []any{p, &p, hidden, &hidden, only, p.Token, &p.Token, []troupe.Secret{p.Token}, map[string]troupe.Secret{"x": p.Token}} {
		fmt.Fprintf(&b, "%v %+v %#v %s %q %x\n", v, v, v, v, v, v)
	}
	data, err := json.Marshal([]any{p, p.Token, map[string]troupe.Secret{"x": p.Token}})
	fmt.Fprintf(&b, "%s %v", data, err)
	for _, is := range []string{"s3cret", fmt.Sprintf("%x", "s3cret")} {
		if strings.Contains(b.String(), is) {
			t.Errorf("it prints %s in %s", is, b.String())
		}
	}
	if got := p.Token.Reveal(); got != "s3cret" {
		t.Errorf("it reveals %q", got)
	}
	if none := (troupe.Secret{}); none.Reveal() != "" || none.String() != "" || !reflect.DeepEqual(troupe.NewSecret(""), none) {
		t.Errorf("none: %q, %v", none.Reveal(), none)
	}
}

// TestNilErrors has handlers return a nil pointer as a non-nil error.
func TestNilErrors(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		h := host.New(t, troupe.Options{Authenticate: func(r *http.Request) (troupe.Principal, error) {
			if r.Header.Get("Authorization") != "" {
				return troupe.Principal{}, (*troupe.AuthError)(nil)
			}
			return troupe.Principal{}, nil
		}}, nil)
		h.AddTool("nil", 0, func(context.Context, *troupe.Call) (string, error) { return "", (*mcp.Error)(nil) })
		troupe.AddPrompt(h.Server, troupe.Prompt{Name: "nil"}, func(context.Context, *troupe.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return nil, (*mcp.Error)(nil)
		})
		c := h.Session()
		host.Equal(t, "a tool", c.Post(host.Call("1", "nil", `{}`)).Body, host.ToolFault("1", "a nil *mcp.Error"))
		host.Equal(t, "a prompt", c.Post(host.Method("1", "prompts/get", `{"name":"nil"}`)).Body, host.Fault("1", -32603, "internal error", ""))
		if a := c.Post(host.Method("1", "ping", ""), "Authorization", "x"); a.StatusCode != 401 {
			t.Errorf("Authenticate: %s", a.Status)
		}
	})
}

// TestCapabilitiesAreObjects checks that capabilities that are not objects are refused.
func TestCapabilitiesAreObjects(t *testing.T) {
	for _, o := range []troupe.ServerOptions{{Experimental: map[string]mcp.Object{"x": mcp.Object("true")}}, {Extensions: map[string]mcp.Object{"x": mcp.Object("[1]")}}} {
		if _, err := troupe.TryNewServer(mcp.Implementation{}, &o); err == nil || !strings.Contains(err.Error(), `"x" is no JSON object`) {
			t.Errorf("the error is %v", err)
		}
	}
}
