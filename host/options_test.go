package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/mcp"
)

// TestCheck has options that are wrong in one field, and the error, which names it.
func TestCheck(t *testing.T) {
	t.Parallel()
	run := func(context.Context, io.Reader, io.Writer) error { return nil }
	command, remote, served := Command("server"), URL("https://example.com/mcp"), Serve("notes", run)
	for _, tt := range []struct {
		target Target
		o      Options
		want   string
	}{
		{Target{}, Options{}, "Target names neither"},
		{Command(""), Options{}, "Target names neither"},
		{URL(""), Options{}, "Target names neither"},
		{Command("a\x00b"), Options{}, "Command: the name"},
		{Command("a", "b", "c\x00"), Options{}, "Command: an argument"},
		{URL("example.com/mcp"), Options{}, "URL: want"},
		{URL("ws://example.com/mcp"), Options{}, "URL: want"},
		{URL("https:///mcp"), Options{}, "URL: want"},
		{Serve("", run), Options{}, "Serve: want"},
		{Serve("notes", nil), Options{}, "Serve: want"},
		{command, Options{Isolation: "user"}, "Options.Isolation is \"user\""},
		{command, Options{Era: "2025"}, "Options.Era is"},
		{remote, Options{Transport: "ws"}, "Options.Transport is"},
		{command, Options{Transport: SSE}, "Options.Transport is for URLs"},
		{command, Options{OnLoss: "retry"}, "Options.OnLoss is"},
		{command, Options{Prefix: "a b"}, "Options.Prefix"},
		{command, Options{Prefix: strings.Repeat("a", 49)}, "Options.Prefix"},
		{command, Options{Scopes: []string{"a", "b c"}}, `Options.Scopes has scope "b c"`},
		{command, Options{Scopes: []string{"offline_access"}}, `Options.Scopes has scope "offline_access"`},
		{command, Options{ToolScopes: map[string][]string{"a*": {""}}}, `Options.ToolScopes["a*"] has scope ""`},
		{command, Options{ToolScopes: map[string][]string{"": {"a"}}}, "Options.ToolScopes[0]"},
		{command, Options{Tools: Tools{Allow: []string{"a", ""}}}, "Options.Tools.Allow[1]"},
		{command, Options{Tools: Tools{Deny: []string{strings.Repeat("a", 257)}}}, "Options.Tools.Deny[0]"},
		{command, Options{Rerun: Rerun{Safe: []string{""}}}, "Options.Rerun.Safe[0]"},
		{command, Options{Rerun: Rerun{Never: []string{""}}}, "Options.Rerun.Never[0]"},
		{command, Options{Roots: Roots{Forward: true, List: []mcp.Root{{URI: "file:///a"}}}}, "Options.Roots has"},
		{command, Options{Roots: Roots{List: []mcp.Root{{URI: "/a"}}}}, "Options.Roots.List[0].URI"},
		{command, Options{Pool: Pool{Warm: -1}}, "Options.Pool.Warm"},
		{command, Options{Pool: Pool{Warm: 2, Max: 1}}, "Options.Pool.Warm"},
		{command, Options{Pool: Pool{Queue: -1}}, "Options.Pool.Queue"},
		{command, Options{Pool: Pool{StartTimeout: -1}}, "Options.Pool.StartTimeout"},
		{command, Options{Pool: Pool{StartTimeout: 10}}, "Options.Pool.StartTimeout"},
		{command, Options{Pool: Pool{Idle: time.Millisecond}}, "Options.Pool.Idle"},
		{command, Options{Pool: Pool{MaxLife: time.Millisecond}}, "Options.Pool.MaxLife"},
		{command, Options{StderrRate: math.NaN()}, "Options.StderrRate"},
		{command, Options{Env: Secrets{"A=B": "x"}}, "Options.Env"},
		{command, Options{Env: Secrets{"": "x"}}, "Options.Env"},
		{command, Options{Env: Secrets{"A": "s3cret\x00"}}, "Options.Env"},
		{command, Options{Hide: []string{"s3cret", ""}}, "Options.Hide[1] is empty"},
		{served, Options{Dir: "/"}, "Options.Dir is for commands, and the target is a server of this process"},
		{served, Options{Confinement: Confinement{OwnPIDs: Try}}, "Options.Confinement.OwnPIDs is for commands"},
		{served, Options{Transport: SSE}, "Options.Transport is for URLs, and the target is a server of this process"},
		{served, Options{PassHeaders: []string{"X-A"}}, "Options.PassHeaders is for URLs"},
		{remote, Options{Env: Secrets{"A": "x"}}, "Options.Env is for commands"},
		{remote, Options{EnvFile: ".env"}, "Options.EnvFile is for commands"},
		{remote, Options{Dir: "/"}, "Options.Dir is for commands"},
		{remote, Options{StderrRate: 1}, "Options.StderrRate is for commands"},
		{remote, Options{Pool: Pool{MaxMemory: 1}}, "Options.Pool.MaxMemory is for commands"},
		{remote, Options{Confinement: Confinement{OwnPIDs: Try}}, "Options.Confinement.OwnPIDs is for commands"},
		{command, Options{Confinement: Confinement{NoNewPrivs: "on"}}, "Options.Confinement.NoNewPrivs"},
		{command, Options{Confinement: Confinement{NoNetwork: "on"}}, "Options.Confinement.NoNetwork"},
		{command, Options{Confinement: Confinement{OwnPIDs: "on"}}, "Options.Confinement.OwnPIDs"},
		{command, Options{Confinement: Confinement{Rlimits: Rlimits{Enforce: "on"}}}, "Options.Confinement.Rlimits.Enforce"},
		{command, Options{Confinement: Confinement{Rlimits: Rlimits{OpenFiles: -1}}}, "Options.Confinement.Rlimits.OpenFiles"},
		{command, Options{Confinement: Confinement{Rlimits: Rlimits{CPU: time.Millisecond}}}, "Options.Confinement.Rlimits.CPU"},
		{command, Options{Confinement: Confinement{Files: Files{Read: []string{"a"}}}}, "Options.Confinement.Files.Read[0]"},
		{command, Options{Confinement: Confinement{Files: Files{Write: []string{"/a", "b"}}}}, "Options.Confinement.Files.Write[1]"},
		{command, Options{Confinement: Confinement{Cgroup: Cgroup{Memory: -1}}}, "Options.Confinement.Cgroup.Memory"},
		{command, Options{Confinement: Confinement{Cgroup: Cgroup{CPUs: 0.001}}}, "Options.Confinement.Cgroup.CPUs"},
		{command, Options{Confinement: Confinement{Cgroup: Cgroup{CPUs: math.NaN()}}}, "Options.Confinement.Cgroup.CPUs"},
		{command, Options{Headers: Secrets{"X-A": "s3cret"}}, "Options.Headers is for URLs"},
		{remote, Options{Headers: Secrets{"X A": "s3cret"}}, "Options.Headers has the name"},
		{remote, Options{Headers: Secrets{"Mcp-Session-Id": "s3cret"}}, "Options.Headers has Mcp-Session-Id"},
		{remote, Options{Headers: Secrets{"X-A": "s3cret\r\nX-B: c"}}, "Options.Headers has a line break"},
		{remote, Options{Headers: Secrets{"X-A": "s3cret", "x-a": "b"}}, "Options.Headers has x-a twice"},
		{URL("https://me:s3cret@example.com/"), Options{Headers: Secrets{"authorization": "b"}}, "Options.Headers has Authorization"},
		{remote, Options{PassHeaders: []string{"Authorization"}}, "Options.PassHeaders[0] is Authorization"},
		{remote, Options{PassHeaders: []string{"X-A", "cookie"}}, "Options.PassHeaders[1] is cookie"},
		{remote, Options{PassHeaders: []string{"X-Forwarded-For"}}, "Options.PassHeaders[0]"},
		{remote, Options{PassHeaders: []string{"X-A", "x-a"}}, "Options.PassHeaders[1]"},
		{remote, Options{PassHeaders: []string{"X-A"}, Headers: Secrets{"x-a": "b"}}, "Options.PassHeaders[0]"},
	} {
		err := tt.o.Check(tt.target)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v with %+v: %v, want one that begins with %q", tt.target, tt.o, err, tt.want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error %q has a secret", err)
		}
	}
}

func TestCheckPasses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		target Target
		o      Options
	}{
		{Command("server"), Options{}},
		{Command("server"), Options{}.WithDefaults()},
		{Serve("notes", func(context.Context, io.Reader, io.Writer) error { return nil }), Options{Isolation: Shared, Hide: []string{"s3cret"}, Era: Modern}},
		{Command("server", "--port", ""), Options{Prefix: NoPrefix, Era: Modern, Isolation: ByCall, OnLoss: End, Pool: Pool{Max: -1, MaxPerPrincipal: -1, Idle: -1, MaxLife: -1, MaxMemory: -1}, StderrRate: -1}},
		{URL("http://[::1]:80/mcp?a=b"), Options{Transport: SSE, Headers: Secrets{"Authorization": "Bearer x"}, PassHeaders: []string{"X-Tenant"}, Roots: Roots{Forward: true}}},
		{URL("https://me:s3cret@example.com/"), Options{}},
	} {
		if err := tt.o.Check(tt.target); err != nil {
			t.Errorf("%v with %+v: %v", tt.target, tt.o, err)
		}
	}
}

func TestWithDefaults(t *testing.T) {
	t.Parallel()
	o := Options{}.WithDefaults()
	if o.Isolation != BySession || o.OnLoss != Restart || o.Pool.Max != 256 || o.Pool.StartTimeout != 2*time.Minute || o.Pool.Idle != 30*time.Minute || o.Confinement.Files.Enforce != Off {
		t.Errorf("%+v", o)
	}
	if again := o.WithDefaults(); !reflect.DeepEqual(o, again) {
		t.Errorf("defaults of defaults: %+v, want %+v", again, o)
	}
	o = Options{Pool: Pool{Max: -1, Idle: -1}, Confinement: Confinement{Files: Files{Read: []string{"/"}}, Rlimits: Rlimits{OpenFiles: 1, Enforce: Try}, Cgroup: Cgroup{Processes: 1}}}.WithDefaults()
	if o.Pool.Max != -1 || o.Pool.Idle != -1 || o.Confinement.Files.Enforce != Require || o.Confinement.Rlimits.Enforce != Try || o.Confinement.Cgroup.Enforce != Require {
		t.Errorf("%+v", o)
	}
}

// TestSecretsStaySecret prints values with secrets in every way.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	o := Options{Env: Secrets{"TOKEN": "s3cret"}, Headers: Secrets{"Authorization": "Bearer s3cret"}, Hide: []string{"s3cret"}}
	target := URL("https://me:s3cret@example.com/mcp?key=s3cret#s3cret")
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q %v %#v\n", o, o, o, o.Env, o.Env, o.Hide, o.Hide)
	fmt.Fprintf(&out, "%v %+v %#v %s %q\n", target, target, target, target, target)
	fmt.Fprintf(&out, "%v %#v\n", Command("server", "--token", "s3cret"), Command("server", "--token", "s3cret"))
	fmt.Fprintf(&out, "%v\n", URL("https://me:s3cret@exa mple.com/%zz"))
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "env", o.Env, "hide", o.Hide, "options", o, "target", target)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "env", o.Env, "hide", o.Hide, "options", o, "target", target)
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(data)
	if strings.Contains(out.String(), "s3cret") || !strings.Contains(out.String(), "TOKEN=***") {
		t.Errorf("printed: %s", &out)
	}
	if Secrets(nil).masked() != nil || Hidden(nil).masked() != nil {
		t.Error("no secrets are some")
	}
}

// TestTargetKeepsItsArguments changes slices beside a target.
func TestTargetKeepsItsArguments(t *testing.T) {
	t.Parallel()
	args := []string{"a", "b"}
	target := Command("server", args...)
	args[0] = "x"
	name, got, ok := target.Command()
	got[1] = "y"
	_, again, _ := target.Command()
	if name != "server" || !ok || strings.Join(again, " ") != "a b" {
		t.Errorf("%q %q %v", name, again, ok)
	}
	if _, ok := target.URL(); ok {
		t.Error("a command is a URL")
	}
	if _, _, ok := URL("http://a/").Command(); ok {
		t.Error("a URL is a command")
	}
	served := Serve("notes", func(context.Context, io.Reader, io.Writer) error { return io.EOF })
	if _, _, ok := served.Command(); ok {
		t.Error("a server of this process is a command")
	}
	if _, ok := served.URL(); ok {
		t.Error("a server of this process is a URL")
	}
	if name, run, ok := served.Serve(); name != "notes" || !ok || !errors.Is(run(t.Context(), nil, nil), io.EOF) {
		t.Errorf("%q %v", name, ok)
	}
	if name, run, ok := target.Serve(); ok || name != "" || run != nil {
		t.Error("a command is a server of this process")
	}
	if got := fmt.Sprintf("%v %#v", served, served); got != `notes host.Target("notes")` {
		t.Errorf("it is printed as %s", got)
	}
}
