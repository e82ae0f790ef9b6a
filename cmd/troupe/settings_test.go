package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe"
)

// parsed returns the settings of serve for a command line and a file, or the error with
// which it would end.
func parsed(t *testing.T, file string, args ...string) (*settings, error) {
	t.Helper()
	return parsedIn(t, nil, file, args...)
}

// parsedIn is parsed in an environment.
func parsedIn(t *testing.T, environ []string, file string, args ...string) (*settings, error) {
	t.Helper()
	var s settings
	cmd := &cobra.Command{Use: "serve", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		return s.readSettings()
	}}
	s.register(cmd, settingGroups, serveFlags...)
	s.environ = environ
	if file != "" {
		args = append(args, "--config", writeConfig(t, file))
	}
	cmd.SetArgs(append([]string{}, args...))
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	return &s, cmd.Execute()
}

// writeConfig returns the name of a file for --config.
func writeConfig(t *testing.T, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = `
# a comment
listen: 127.0.0.1:9000
memory: true
max-store: 3GiB
max-body: 1024
page-size: 7
sse-grace: 100ms
allow-origin:
  - https://a.example
  - https://b.example
log-level: warn
`
	s, err := parsed(t, file, "--listen", "127.0.0.1:9001", "--allow-origin", "https://c.example")
	if err != nil {
		t.Fatal(err)
	}
	o := s.options()
	if o.Listen != "127.0.0.1:9001" {
		t.Errorf("listen is %q, want that of the flag", o.Listen)
	}
	if len(o.HTTP.AllowOrigins) != 1 || o.HTTP.AllowOrigins[0] != "https://c.example" {
		t.Errorf("origins are %q, want that of the flag alone", o.HTTP.AllowOrigins)
	}
	if o.Store.MaxStore != 3<<30 || o.Limits.MaxBody != 1024 || o.Limits.Grace != 100*time.Millisecond || o.Dir != "" || o.Limits.PageSize != 7 || s.logLevel != "warn" {
		t.Errorf("options are %+v with level %s, want the file's", o, s.logLevel)
	}
	if o.Store.SessionIdle != 72*time.Hour || o.Store.ReplayAge != 10*time.Minute || o.Store.Sync != time.Second {
		t.Errorf("options are %+v, want the defaults where nothing is set", o)
	}
}

func TestConfigLists(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, "memory: true\nallow-origin: [https://a.example, https://b.example]\nallow-host: [a.example]\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(s.allowOrigins, s.allowHosts...), " "); got != "https://a.example https://b.example a.example" {
		t.Errorf("lists are %q", got)
	}
}

func TestEmptyConfig(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"\n", "# nothing\n", "---\n"} {
		if _, err := parsed(t, file, "--memory"); err != nil {
			t.Errorf("file %q: %v", file, err)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		want       []string // parts of the error
	}{
		{"unknown key", "memory: true\nlisen: 127.0.0.1:1\n", []string{":2:", "lisen", "no such setting"}},
		{"config in config", "config: other.yaml\n", []string{":1:", "config: there is no such"}},
		{"help in config", "help: true\n", []string{":1:", "help"}},
		{"text for a truth value", "memory: \"true\"\n", []string{":1:", "memory", "true or false"}},
		{"number for a text", "listen: 8080\n", []string{":1:", "listen", "want a text"}},
		{"number for a time", "\nsync: 120\n", []string{":2:", "sync", "unit"}},
		{"nonsense for a time", "sync: soon\n", []string{":1:", "sync", "soon"}},
		{"text for a list", "allow-origin: https://a.example\n", []string{":1:", "allow-origin", "list"}},
		{"mapping in a list", "allow-origin: [{a: b}]\n", []string{":1:", "allow-origin[0]", "want a text"}},
		{"fraction for a size", "max-body: 1.5\n", []string{":1:", "max-body", "size"}},
		{"nonsense for a size", "max-store: 8 parsecs\n", []string{":1:", "max-store", "parsecs"}},
		{"negative size", "max-store: -1\n", []string{":1:", "max-store"}},
		{"nothing for a text", "listen:\n", []string{":1:", "listen", "want a text"}},
		{"an anchor", "listen: &a 127.0.0.1:1\n", []string{":1:", "listen"}},
		{"set twice", "memory: true\nmemory: false\n", []string{":2", "memory"}},
		{"set twice in two documents", "memory: true\n---\nmemory: false\n", []string{":3:", "memory", "twice"}},
		{"a list at the top", "- memory\n", []string{":1:", "mapping"}},
		{"a text at the top", "memory\n", []string{":1:", "mapping"}},
		{"not YAML", "memory: [true\n", []string{"config", ":1"}},
		{"no address for health", "memory: true\nhealth-listen: \"9090\"\n", []string{"health-listen", "want an address and a port"}},
		{"servers and memory", "memory: true\nnats: nats://127.0.0.1:4222\n", []string{"memory and nats exclude"}},
		{"access without servers", "memory: true\nnats-token: abc\n", []string{"no server", "set nats"}},
		{"replicas of no kind", "nats: nats://127.0.0.1:4222\nnats-replicas: 2\n", []string{"nats-replicas is 2"}},
		{"a prefix with a dot", "nats: nats://127.0.0.1:4222\nnats-prefix: a.b\n", []string{"nats-prefix", "a.b"}},
		{"a certificate without its key", "nats: nats://127.0.0.1:4222\nnats-cert: a.pem\n", []string{"nats-cert and nats-key belong"}},
		{"a store for all", "nats-listen: 127.0.0.1:4222\n", []string{"nats-listen lets in", "set nats-token"}},
		{"a store for all, by TLS", "nats-listen: 127.0.0.1:4222\nnats-cert: a.pem\nnats-key: a.key\n", []string{"nats-listen lets in", "nats-ca"}},
		{"a store elsewhere and here", "nats: nats://127.0.0.1:4222\nnats-listen: 127.0.0.1:4222\nnats-token: t\n", []string{"nats and nats-listen exclude"}},
		{"a store in memory for others", "memory: true\nnats-listen: 127.0.0.1:4222\nnats-token: t\n", []string{"memory and nats-listen exclude"}},
		{"replicas of one's own store", "nats-listen: 127.0.0.1:4222\nnats-token: t\nnats-replicas: 3\n", []string{"nats-replicas", "no effect with nats-listen"}},
		{"no address for others", "nats-listen: \"4222\"\nnats-token: t\n", []string{"nats-listen", "want an address and a port"}},
		{"flushes with servers", "nats: nats://127.0.0.1:4222\nsync: 0s\n", []string{"sync has no effect", "sync_interval"}},
		{"a file's value that means nothing", "sync: -1s\n", []string{"sync", "at least 0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parsed(t, tt.file)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error is %q, want it to contain %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has more than one line: %q", err)
			}
		})
	}
}

func TestConfigErrorsHoldForFlagsToo(t *testing.T) {
	t.Parallel()
	// A mistake in the file is an error even where a flag overrides it.
	if _, err := parsed(t, "max-store: 8 parsecs\nlisten: 8080\n", "--listen", "127.0.0.1:0"); err == nil {
		t.Error("accepted")
	}
}

func TestMissingConfig(t *testing.T) {
	t.Parallel()
	if _, err := parsed(t, "", "--config", filepath.Join(t.TempDir(), "absent.yaml")); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("error is %v, want one that names the file", err)
	}
}

func TestDataOrMemory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		args       []string
		want       string // the directory, or "error"
	}{
		{"data", "", []string{"--data", "/a"}, "/a"},
		{"memory", "", []string{"--memory"}, ""},
		{"both by flag", "", []string{"--memory", "--data", "/a"}, "error"},
		{"both by file", "memory: true\ndata: /a\n", nil, "error"},
		{"memory by flag", "data: /a\n", []string{"--memory"}, ""},
		{"data by flag", "memory: true\n", []string{"--data", "/a"}, "/a"},
		{"memory taken back", "memory: true\n", []string{"--memory=false", "--data", "/a"}, "/a"},
		{"data by variable", "memory: true\n", []string{"TROUPE_DATA=/a"}, "/a"},
		{"memory by variable", "data: /a\n", []string{"TROUPE_MEMORY=true"}, ""},
		{"both by variable", "", []string{"TROUPE_MEMORY=1", "TROUPE_DATA=/a"}, "error"},
		{"data by variable, memory by flag", "", []string{"TROUPE_DATA=/a", "--memory"}, ""},
		{"memory by variable, data by flag", "data: /b\n", []string{"TROUPE_MEMORY=true", "--data", "/a"}, "/a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			variables := slices.DeleteFunc(slices.Clone(tt.args), func(arg string) bool { return !isVariable(arg) })
			s, err := parsedIn(t, variables, tt.file, slices.DeleteFunc(slices.Clone(tt.args), isVariable)...)
			got := s.options().Dir
			if err != nil {
				got = "error"
			}
			if got != tt.want {
				t.Errorf("directory is %q (%v), want %q", got, err, tt.want)
			}
			if err == nil && s.memory != (tt.want == "") {
				t.Errorf("memory is %t beside the directory %q", s.memory, got)
			}
		})
	}
}

// TestNATSSettings gives the store the servers, and no data directory that nobody named.
func TestNATSSettings(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, "nats: nats://user:secret@127.0.0.1:4222\nnats-creds: a.creds\nnats-replicas: 3\n")
	if err != nil {
		t.Fatal(err)
	}
	o := s.options()
	want := troupe.NATSOptions{URL: "nats://user:secret@127.0.0.1:4222", CredsFile: "a.creds", Replicas: 3}
	if o.Store.NATS != want || o.Dir != "" {
		t.Errorf("options are %#v with directory %q, want %#v without", o.Store.NATS, o.Dir, want)
	}
	if got := fmt.Sprint(o.Store.NATS); got != "nats://127.0.0.1:4222" {
		t.Errorf("printed as %q", got)
	}
	if s, err = parsed(t, "", "--memory"); err != nil || s.options().Store.NATS != (troupe.NATSOptions{}) {
		t.Errorf("without servers: %#v, %v", s.options().Store.NATS, err)
	}
}

func TestDefaultData(t *testing.T) {
	for _, tt := range []struct{ state, home, want string }{
		{"/state", "/people/a", "/state/troupe"},
		{"", "/people/a", "/people/a/.local/state/troupe"},
		{"relative", "/people/a", "/people/a/.local/state/troupe"},
		{"", "", "error"},
	} {
		t.Setenv("XDG_STATE_HOME", tt.state)
		t.Setenv("HOME", tt.home)
		got, err := defaultData()
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("with XDG_STATE_HOME=%q HOME=%q the directory is %q, want %q", tt.state, tt.home, got, tt.want)
		}
	}
}

func TestZeroTimes(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, "", "--memory", "--sync", "0s", "--drain-delay", "0s")
	if err != nil {
		t.Fatal(err)
	}
	if o := s.options(); o.Store.Sync >= 0 || o.DrainDelay >= 0 {
		t.Errorf("sync is %s and the delay %s, want both negative: 0 would be the default", o.Store.Sync, o.DrainDelay)
	}
}

func TestRefusedFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--sync", "-1s"}, {"--set", "shards=33"}, {"--set", "shards=-1"}, {"--set", "lease=0s"}, {"--set", "lease=1ms"}, {"--set", "sse-grace=0s"}, {"--set", "page-size=0"}, {"--drain-delay", "-1s"}, {"--node", "Not A Name"},
		{"--listen", "8080"}, {"--listen", "127.0.0.1"}, {"--listen", "127.0.0.1:99999"}, {"--listen", "127.0.0.1:-1"}, {"--listen", ""}, {"--listen", "::1:80"},
		{"--tls-cert", "absent.pem", "--tls-key", "absent.pem"},
		{"--set", "session-idle=0s"}, {"--set", "replay-age=0s"},
		{"--tls-cert", "a.pem"}, {"--tls-key", "a.pem"}, {"--log-format", "xml"}, {"--log-level", "loud"}, {"--log-level", "INFO"},
	} {
		name := strings.TrimPrefix(args[0], "--")
		if name == "set" {
			name, _, _ = strings.Cut(args[1], "=")
		}
		if _, err := parsed(t, "", append(args, "--memory")...); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: error is %v, want one that names the setting", args, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, file := range []string{
		"memory: true\n", "listen: [a\n", "allow-origin:\n  - a\n  - b\n", "? a\n: b\n", "<<: *a\n", "--- {}\n...\n---\n- 1\n", "sync: !!str 1s\n",
		"\"memory\": true\n", "memory: &a true\nlisten: *a\n", "listen: |\n  text\n", "{memory: true, max-store: 8GiB}\n", "\t", "'", "a: {",
		"auth: {issuers: [{url: http://127.0.0.1:9, introspection: {url: a}}], scopes: [a], implies: {a: [b]}}\n", "auth:\n  issuers: &a [*a]\n", "auth: [1]\n",
	} {
		f.Add(file)
	}
	path := filepath.Join(f.TempDir(), "troupe.yaml")
	f.Fuzz(func(t *testing.T, file string) {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		var s settings
		s.register(&cobra.Command{}, settingGroups)
		s.config = path
		if err := s.readFile(false); err == nil {
			_ = s.check()
		} else if !strings.HasPrefix(err.Error(), "config ") {
			t.Errorf("error %q does not name the file", err)
		}
	})
}

func TestTrustedProxySettings(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, "memory: true\ntrusted-proxy: [10.1.2.3/8, \"::1\"]\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.options().HTTP.TrustedProxies); got != "[10.0.0.0/8 ::1/128]" {
		t.Errorf("trusted are %s", got)
	}
	if s, err := parsed(t, "", "--memory", "--trusted-proxy", "127.0.0.1", "--trusted-proxy", "fd00::/8"); err != nil || fmt.Sprint(s.options().HTTP.TrustedProxies) != "[127.0.0.1/32 fd00::/8]" {
		t.Errorf("trusted are %v, %v", s.options().HTTP.TrustedProxies, err)
	}
	for _, bad := range []string{"", "proxy.example.com", "10.0.0.0/33", "10.0.0.1:80", "fe80::1%eth0"} {
		if _, err := parsed(t, "", "--memory", "--trusted-proxy", bad); err == nil {
			t.Errorf("%q is taken for a network", bad)
		}
	}
}
