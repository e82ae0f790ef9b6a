package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/host"
	"github.com/troupe-run/troupe/internal/hostfile"
)

// TestCommandBehind has what stands behind --, as it is, and what must not stand before it.
func TestCommandBehind(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                                   "",
		"--memory":                           "",
		"--memory -- npx -y server --listen": "npx|-y|server|--listen",
		"-- a -- b":                          "a|--|b",
		"now":                                `unknown command "now" for "serve": a command to host stands behind --, as in: serve -- now`,
		"a -- b":                             `unknown command "a"`,
		"--":                                 "there is no command behind --",
	} {
		var s settings
		var got []string
		cmd := &cobra.Command{Use: "serve", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, args []string) (err error) {
			got, err = commandBehind(cmd, args)
			return err
		}}
		s.register(cmd, settingGroups, serveFlags...)
		cmd.SetArgs(strings.Fields(line))
		cmd.SetOut(io.Discard)
		err := cmd.Execute()
		said := strings.Join(got, "|")
		if err != nil {
			said = err.Error()
		}
		if want == "" && said != "" || !strings.HasPrefix(said, want) {
			t.Errorf("%q: %s, want %s", line, said, want)
		}
	}
}

// writeServers writes a file as clients have it, and returns its path.
func writeServers(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBackendsOf has backends from each place, in their order.
func TestBackendsOf(t *testing.T) {
	t.Parallel()
	one := writeServers(t, `{"mcpServers": {"a": {"command": "a"}, "b": {"comand": "b"}}}`)
	two := writeServers(t, `{"servers": {"c": {"url": "https://c.example/mcp"}, "d": {"command": "d", "disabled": true}}}`)
	const section = "backends:\n  e: {command: e}\n  a: {command: a}\n  f: {command: '${TROUPE_TEST_NOT_SET}'}\n"
	for _, tt := range []struct {
		file string
		args []string
		want string // the usable ones, and the errors of the others
	}{
		{"", nil, ""},
		{"", []string{"--servers", one}, "a|b!servers.json:1: mcpServers.b.comand: there is no such setting"},
		{"", []string{"--servers", two, "--servers", one}, "c|d-|a|b!"},
		{"servers: [" + two + "]\n", nil, "c|d-"},
		{section, nil, "e|a|f!troupe.yaml:4: backends.f.command: the variable TROUPE_TEST_NOT_SET is not set"},
		{section, []string{"--servers", one}, "a|b!|e|a!there is one of this name in"},
	} {
		s, err := parsed(t, tt.file, append([]string{"--memory"}, tt.args...)...)
		if err != nil {
			t.Errorf("%q %q: %v", tt.file, tt.args, err)
			continue
		}
		if (s.hosted == nil) != (tt.want == "") {
			t.Errorf("%q %q: there are %v", tt.file, tt.args, s.hosted)
			continue
		}
		for i, want := range strings.Split(tt.want, "|") {
			if s.hosted == nil {
				break
			}
			b := s.hosted.Backends[i]
			name, fault, broken := strings.Cut(want, "!")
			name, disabled := strings.CutSuffix(name, "-")
			if b.Name != name || b.Disabled != disabled || broken != (b.Err != nil) || broken && !strings.Contains(b.Err.Error(), fault) {
				t.Errorf("%q %q: %v, %v, want %s", tt.file, tt.args, b, b.Err, want)
			}
		}
	}
}

// TestBadBackends has settings with which nothing is served, and what they say.
func TestBadBackends(t *testing.T) {
	t.Parallel()
	broken := writeServers(t, "{\"mcpServers\": {\n\"a\": {\"comand\": \"a\"}}}")
	good := writeServers(t, `{"mcpServers": {"a": {"command": "a"}}}`)
	for _, tt := range []struct{ file, args, want string }{
		{"", "--servers absent.json", "servers: open "},
		{"", "--servers " + broken, "there is no backend to serve in " + broken + "; " + broken + ":2: mcpServers.a.comand: there is no such setting; did you mean command?"},
		{"", "--servers " + writeServers(t, "{"), "servers.json:1: the file ends too early"},
		{"", "--servers " + good + " --set conformance=true", "conformance is of the demo"},
		{"backends:\n", "", "there is no backend to serve"},
		{"backends:\n  a:\n    comand: a\n", "", "troupe.yaml:3: backends.a.comand: there is no such setting; did you mean command?"},
		{"backends:\n  a: {command: a, disabled: true}\n", "", "there is no backend to serve"},
	} {
		_, err := parsed(t, tt.file, append([]string{"--memory"}, strings.Fields(tt.args)...)...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %s: %v, want %s", tt.file, tt.args, err, tt.want)
		}
	}
	if code, _, errs := outputOf("serve", "--memory", "--servers", good, "--", "a"); code != 2 || !strings.Contains(errs, "exclude each other") {
		t.Errorf("it ends with %d and %s", code, errs)
	}
}

// TestCommandWins has a command behind -- stand in place of what a file says.
func TestCommandWins(t *testing.T) {
	t.Parallel()
	s := settings{command: []string{"npx", "-y", "@modelcontextprotocol/server-memory"}, section: hostfile.File{Path: "troupe.yaml"}}
	f, err := backendsOf(&s)
	if err != nil || len(f.Backends) != 1 || f.Backends[0].Name != "server-memory" || f.Backends[0].Options.Prefix != host.NoPrefix {
		t.Errorf("%v, %v", f, err)
	}
}

// TestHostedAgain serves one file after the other: what is wrong in a later one stays as it was, and notes are logged once.
func TestHostedAgain(t *testing.T) {
	t.Parallel()
	read := func(text string) *hostfile.File {
		f, err := hostfile.Load(writeServers(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	var log bytes.Buffer
	s := &settings{hosted: read(`{"mcpServers": {"a": {"command": "a", "timeout": 5}, "b": {"command": "b"}, "c": {"comand": "c"}}}`)}
	_, h, err := newServer(s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	has := func(want string) {
		t.Helper()
		var names []string
		for _, b := range h.now.Backends {
			program, _, _ := b.Target.Command()
			names = append(names, b.Name+"="+program)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("there are %s, want %s", got, want)
		}
	}
	has("a=a b=b")
	for _, want := range []string{"mcpServers.a.timeout: ", "a backend cannot be used, and is left out\" backend=c"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, &log)
		}
	}
	log.Reset()
	f := read(`{"mcpServers": {"b": {"comand": "x"}, "a": {"command": "y"}, "b2": {"command": "b2"}}}`)
	f.Notes = s.hosted.Notes
	if err := h.serve(f); err != nil {
		t.Fatal(err)
	}
	has("b=b a=y b2=b2")
	for _, want := range []string{"stays as it was\" backend=b", `added=[b2] removed=[] replaced=[a]`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "timeout") {
		t.Errorf("a note comes twice:\n%s", &log)
	}
	log.Reset()
	if err := h.serve(read(`{"mcpServers": {"b": {"comand": "x"}, "a": {"command": "y"}, "b2": {"command": "b2"}}}`)); err != nil || strings.Contains(log.String(), "have changed") {
		t.Errorf("%v, and what stays as it was has changed:\n%s", err, &log)
	}
	if err := h.serve(read(`{"mcpServers": {"z": {"comand": "x"}}}`)); err == nil {
		t.Error("nothing is served")
	}
	has("b=b a=y b2=b2")
}

// TestHostedWithoutItsFile keeps a backend as it was whose file of variables is gone.
func TestHostedWithoutItsFile(t *testing.T) {
	t.Parallel()
	path := writeServers(t, `{"mcpServers": {"a": {"command": "a", "envFile": ".env"}, "b": {"command": "b"}}}`)
	variables := filepath.Join(filepath.Dir(path), ".env")
	if err := os.WriteFile(variables, []byte("A=s3cret-s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() *hostfile.File {
		f, err := hostfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	_, h, err := newServer(&settings{hosted: read()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(variables); err != nil {
		t.Fatal(err)
	}
	if err := h.serve(read()); err != nil {
		t.Fatal(err)
	}
	if a := h.now.Backends[0]; len(h.now.Backends) != 2 || a.Options.Env["A"] != "s3cret-s3cret" || a.Err != nil {
		t.Errorf("it is %v with %v, %v", a, a.Options.Env, a.Err)
	}
}

// TestBannerOfBackends names what is served, without secrets, or how to serve something else than the demo.
func TestBannerOfBackends(t *testing.T) {
	t.Parallel()
	announced := func(s settings) string {
		var b strings.Builder
		s.announce(&b, nil, "n", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, nil)
		return b.String()
	}
	const demo = "  troupe serve -- npx -y @modelcontextprotocol/server-everything\n"
	if got := announced(settings{}); !strings.Contains(got, demo) || strings.Contains(got, "backends  ") {
		t.Errorf("of the demo: %s", got)
	}
	f, err := hostfile.Load(writeServers(t, `{"mcpServers": {"a": {"command": "npx", "args": ["--token", "s3cret-s3cret"]}, "b": {"url": "https://me:s3cret-s3cret@b.example/mcp?token=s3cret-s3cret"}, "c": {}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := announced(settings{hosted: f}); !strings.Contains(got, "  backends  a (npx), b (https://b.example/mcp)\n") || !strings.Contains(got, "  left out  c: ") || strings.Contains(got, demo) || strings.Contains(got, "s3cret") {
		t.Errorf("of backends: %s", got)
	}
	const liveOn = "Its commands live on for 30s, for the next serve\nwith the same data; --keep 0s ends them with it."
	for _, tt := range []struct {
		s    settings
		want bool
	}{{settings{hosted: f}, true}, {settings{hosted: f, memory: true}, false}, {settings{hosted: &hostfile.File{Backends: f.Backends[1:]}}, false}, {settings{}, false}} {
		if got := announced(tt.s); strings.Contains(got, liveOn) != tt.want {
			t.Errorf("want %t, that commands live on: %s", tt.want, got)
		}
	}
	if s, err := parsed(t, "", "--memory=false", "--data", t.TempDir(), "--keep", "0s", "--servers", writeServers(t, `{"mcpServers": {"a": {"command": "a"}}}`)); err != nil || keepsCommands(s) != 0 {
		t.Errorf("with --keep 0s: %v", err)
	}
	many := &hostfile.File{Backends: slices.Repeat(f.Backends[:1], 15)}
	if got := backendNames(many); !strings.HasSuffix(got, ", a (npx), and 3 more") {
		t.Errorf("of many: %s", got)
	}
}

// TestConfigOfBackends checks and shows them.
func TestConfigOfBackends(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "memory: true\nbackends:\n  a:\n    command: npx\n    args: [-y, '${TROUPE_TEST_NOT_SET:-server}']\n    env: {TOKEN: s3cret-s3cret}\n  b: {command: b, args: ['${TROUPE_TEST_NOT_SET}']}\n")
	broken := writeServers(t, "{\"mcpServers\": {\n\"c\": {\"command\": \"c\", \"autoApprove\": [\"x\"]},\n\"d\": {\"comand\": \"d\"}}}")
	code, out, errs := outputOf("config", "check", "--config", file)
	if code != 2 || out != "" || !strings.Contains(errs, "b would be left out: "+file+":7: backends.b.args[0]: the variable TROUPE_TEST_NOT_SET is not set") {
		t.Errorf("it ends with %d, %q and %q", code, out, errs)
	}
	absent := writeConfig(t, "memory: true\nbackends:\n  a: {command: no-such-program}\n")
	if code, _, errs := outputOf("config", "check", "--config", absent); code != 0 || !strings.Contains(errs, "a would not start here: there is no program no-such-program in PATH") {
		t.Errorf("it ends with %d and %q", code, errs)
	}
	secret := writeConfig(t, "memory: true\nbackends:\n  a: {command: go}\n  b: {command: b, env: {TOKEN: '${file:absent}'}}\n")
	if code, _, errs := outputOf("config", "check", "--config", secret); code != 2 || !strings.Contains(errs, "b would be left out: "+secret+":4: ") {
		t.Errorf("it ends with %d and %q", code, errs)
	}
	if code, out, errs := outputOf("config", "check", "--memory", "--", "no-such-program", "--listen"); code != 0 || out != "ok\n" || !strings.Contains(errs, "no-such-program would not start here") {
		t.Errorf("it ends with %d, %q and %q", code, out, errs)
	}
	if code, _, errs := outputOf("config", "check", "no-such-program"); code != 2 || !strings.Contains(errs, "stands behind --, as in: troupe config check -- no-such-program") {
		t.Errorf("it ends with %d and %q", code, errs)
	}
	code, _, errs = outputOf("config", "check", "--config", file, "--servers", broken)
	if code != 2 || !strings.Contains(errs, broken+":3: mcpServers.d.comand: ") || !strings.Contains(errs, broken+":2: mcpServers.c.autoApprove: ") {
		t.Errorf("it ends with %d and %q", code, errs)
	}
	code, out, errs = outputOf("config", "show", "--config", file)
	if code != 0 || !strings.Contains(out, "\nbackends:\n  a:\n") || !strings.Contains(out, `"${TROUPE_TEST_NOT_SET:-server}"`) || strings.Contains(out, "s3cret") || !strings.Contains(out, "\n#     env:\n#       TOKEN: ") {
		t.Errorf("it ends with %d, %q and shows\n%s", code, errs, out)
	}
	if again, err := parsed(t, out); err != nil || len(again.section.Backends) != 2 || again.section.Backends[0].Err != nil {
		t.Errorf("read again: %v", err)
	}
	code, out, errs = outputOf("config", "show", "--json", "--config", file)
	if code != 0 || !strings.Contains(out, `"name": "backends"`) || strings.Contains(out, "s3cret") {
		t.Errorf("it ends with %d, %q and shows\n%s", code, errs, out)
	}
}
