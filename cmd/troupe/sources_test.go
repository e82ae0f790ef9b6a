package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// threeValues returns three values of a setting, each other than the one before it, and the first other than any default. A list has two
// items.
func threeValues(f *pflag.Flag) [3]string {
	switch f.Name {
	case "weight":
		return [3]string{"192.0.2.7=4,192.0.2.8=2", "192.0.2.7=5,192.0.2.9=2", "192.0.2.6=2,192.0.2.7=6"}
	case "trusted-proxy":
		return [3]string{"10.0.0.0/8,192.0.2.1/32", "11.0.0.0/8,192.0.2.2/32", "12.0.0.0/8,192.0.2.3/32"}
	}
	switch f.Value.Type() {
	case "bool":
		return [3]string{"true", "false", "true"}
	case "size":
		return [3]string{"7MiB", "8MiB", "9MiB"}
	case "duration":
		return [3]string{"7s", "8s", "9s"}
	case "number", "rate":
		return [3]string{"7", "8", "9"}
	case "revisions":
		return [3]string{"2025-06-18,2025-11-25", "2025-03-26,2025-11-25", "2024-11-05,2025-11-25"}
	case "stringArray":
		return [3]string{"a,b", "c,d", "e,f"}
	}
	return [3]string{"seven", "eight", "nine"}
}

// inFile is a value as the file has it.
func inFile(f *pflag.Flag, value string) string {
	if kind := f.Value.Type(); kind == "stringArray" || kind == "revisions" {
		return `["` + strings.ReplaceAll(value, ",", `", "`) + `"]`
	}
	return value
}

// onCommandLine are the arguments that give a setting a value: flags where it is one, and --set.
func onCommandLine(f *pflag.Flag, value string, flag bool) (args []string) {
	items := []string{value}
	if f.Value.Type() == "stringArray" {
		items = strings.Split(value, ",")
	}
	for _, item := range items {
		if flag {
			args = append(args, "--"+f.Name+"="+item)
		} else {
			args = append(args, "--set", f.Name+"="+item)
		}
	}
	return args
}

// TestEachSettingHasItsOrder sets each setting in each place: the command line wins over the environment, that over the file, and that over the default, and the table knows
// whose value it has.
func TestEachSettingHasItsOrder(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]struct {
		groups []flagGroup
		flags  []string
		least  int
	}{"serve": {settingGroups, serveFlags, 80}, "stdio": {stdioGroups, stdioFlags, 15}} {
		read := func(environ []string, file string, args ...string) *settings {
			t.Helper()
			var s settings
			cmd := &cobra.Command{}
			s.register(cmd, command.groups, command.flags...)
			s.environ = environ
			if err := cmd.ParseFlags(args); err != nil {
				t.Errorf("%s %q: %v", name, args, err)
			}
			if s.config = ""; file != "" {
				s.config = writeConfig(t, file)
			}
			if err := s.readSources(); err != nil {
				t.Errorf("%s, %q, %q: %v", name, environ, file, err)
			}
			return &s
		}
		n := 0
		read(nil, "").table.VisitAll(func(f *pflag.Flag) {
			n++
			values := threeValues(f)
			file, environ := "# a comment\n"+f.Name+": "+inFile(f, values[0])+"\n", []string{variableOf(f.Name) + "=" + values[1], "OTHER=1"}
			isFlag := slices.Contains(command.flags, f.Name)
			at := "--set " + f.Name
			if isFlag {
				at = "--" + f.Name
			}
			line := onCommandLine(f, values[2], isFlag)
			defaultValue := f.Value.String()
			for _, tt := range []struct {
				s    *settings
				want string
				from string
			}{
				{read(nil, ""), defaultValue, "default"},
				{read(nil, file), values[0], "troupe.yaml:2"},
				{read(environ, ""), values[1], variableOf(f.Name)},
				{read(environ, file), values[1], variableOf(f.Name)},
				{read(nil, "", line...), values[2], at},
				{read(nil, file, line...), values[2], at},
				{read(environ, "", line...), values[2], at},
				{read(environ, file, line...), values[2], at},
			} {
				got, from := tt.s.table.Lookup(f.Name).Value.String(), tt.s.table.sourceOf(f.Name).String()
				if kind := f.Value.Type(); kind == "stringArray" {
					got = strings.Trim(got, "[]")
					tt.want = strings.Trim(tt.want, "[]")
				}
				if got != tt.want || filepath.Base(from) != tt.from {
					t.Errorf("%s: %s is %q by %s, want %q by %s", name, f.Name, got, from, tt.want, tt.from)
				}
			}
			if defaultValue == values[0] {
				t.Errorf("%s: %s is %q by default", name, f.Name, defaultValue)
			}
			if isOfKubernetes(variableOf(f.Name), "tcp://10.0.0.1:80") {
				t.Errorf("%s is what Kubernetes sets for a Service", variableOf(f.Name))
			}
			if variableOf(f.Name) == tokenVariable || variableOf(f.Name) == configVariable {
				t.Errorf("the variable of %s has another meaning", f.Name)
			}
		})
		if n < command.least {
			t.Errorf("%s has %d settings, want at least %d", name, n, command.least)
		}
	}
}

// TestVariableErrors has variables that cannot be used. Each error names the variable, and none has what may be a secret.
func TestVariableErrors(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"TROUPE_MAX_DEPTH=deep":                `TROUPE_MAX_DEPTH: "deep" is not a number`,
		"TROUPE_MAX_DEPTH=2000":                "max-depth is 2000: it must be from 1 to 1024 (set by TROUPE_MAX_DEPTH)",
		"TROUPE_SYNC=soon":                     "TROUPE_SYNC: ",
		"TROUPE_SYNC=-1s":                      "sync is -1s: it must be at least 0s (set by TROUPE_SYNC)",
		"TROUPE_API_KEYS=hunter2":              "TROUPE_API_KEYS: want true or false",
		"TROUPE_API_KEYS=true":                 "(memory set by --memory, api-keys set by TROUPE_API_KEYS)",
		"TROUPE_LISTEN=8080":                   "such as 127.0.0.1:8080 (set by TROUPE_LISTEN)",
		"TROUPE_HEALTH_LISTEN=9090":            "such as 127.0.0.1:8080 (set by TROUPE_HEALTH_LISTEN)",
		"TROUPE_TRUSTED_PROXY=10.0.0.0/8,x":    "TROUPE_TRUSTED_PROXY: want a network",
		"TROUPE_ALLOW_HOST=a.example,":         "TROUPE_ALLOW_HOST: an item of the list is empty",
		"TROUPE_NODE=Not A Name":               "(set by TROUPE_NODE)",
		"TROUPE_LOG_LEVEL=loud":                "(set by TROUPE_LOG_LEVEL)",
		"TROUPE_LOG_FORMAT=xml":                "(set by TROUPE_LOG_FORMAT)",
		"TROUPE_LOG_REQUESTS=some":             "(set by TROUPE_LOG_REQUESTS)",
		"TROUPE_METRICS_DETAIL=much":           "(set by TROUPE_METRICS_DETAIL)",
		"TROUPE_REVISIONS=2024":                "(set by TROUPE_REVISIONS)",
		"TROUPE_SHARDS=33":                     "(set by TROUPE_SHARDS)",
		"TROUPE_TLS_CERT=cert.pem":             "set both or none (tls-cert set by TROUPE_TLS_CERT)",
		"TROUPE_NATS_TOKEN=hunter2":            "set nats to its URL (nats-token set by TROUPE_NATS_TOKEN)",
		"TROUPE_NATS=nats://hunter2@127.0.0.1": "(memory set by --memory, nats set by TROUPE_NATS)",
		"TROUPE_NATS_REPLICAS=2":               "(set by TROUPE_NATS_REPLICAS)",
		"TROUPE_AUTH_AUDIENCE=a":               "(set by TROUPE_AUTH_AUDIENCE)",
		"TROUPE_AUTH_SCOPE=a":                  "(set by TROUPE_AUTH_SCOPE)",
		"TROUPE_AUTH_ISSUER=https://a.example": "(set by TROUPE_AUTH_ISSUER)",
		"TROUPE_DATA=/a":                       "",
		"TROUPE_CONFIG=/nowhere/troupe.yaml":   "config: open /nowhere/troupe.yaml",
	} {
		_, err := parsedIn(t, []string{variable}, "", "--memory")
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", variable, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error is %v, want one with %q", variable, err, want)
		}
	}
	if _, err := parsed(t, "\npage-size: 0\n", "--memory"); err == nil || !strings.HasSuffix(err.Error(), "troupe.yaml:2)") {
		t.Errorf("of the file: %v", err)
	}
	if _, err := parsed(t, "", "--memory", "--set", "page-size=0"); err == nil || !strings.HasSuffix(err.Error(), "(set by --set page-size)") {
		t.Errorf("of --set: %v", err)
	}
	if _, err := parsed(t, "", "--memory", "--drain-wait", "0s"); err == nil || !strings.HasSuffix(err.Error(), "(set by --drain-wait)") {
		t.Errorf("of a flag: %v", err)
	}
}

// TestVariables has variables that are empty, that name the file, and that stand beside the section auth of a file.
func TestVariables(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, "memory: true\nnode: from-file\npage-size: 7\n")
	s, err := parsedIn(t, []string{"TROUPE_CONFIG=" + file, "TROUPE_NODE=", "TROUPE_PAGE_SIZE=8", "TROUPE_TOKEN=secret"}, "")
	if err != nil || s.node != "from-file" || s.options().Limits.PageSize != 8 {
		t.Errorf("node %q, page size %d: %v", s.node, s.options().Limits.PageSize, err)
	}
	s, err = parsedIn(t, []string{"TROUPE_CONFIG=/nowhere"}, "memory: true\nnode: from-flag\n")
	if err != nil || s.node != "from-flag" {
		t.Errorf("--config beside its variable: node %q: %v", s.node, err)
	}
	for values, want := range map[string][2]string{"memory: true\ndata: /a\n": {"false", "TROUPE_DATA"}, "memory: true\n": {"false", "TROUPE_DATA"}, "log-level: warn\nmemory: false\n": {"false", "troupe.yaml:2"}} {
		s, err := parsedIn(t, []string{"TROUPE_DATA=/b", "TROUPE_LOG_REQUESTS=all"}, values)
		if err != nil || s.table.Lookup("memory").Value.String() != want[0] || filepath.Base(s.table.sourceOf("memory").String()) != want[1] || s.logLevel != "info" {
			t.Errorf("%q: memory is %v by %s: %v", values, s.memory, s.table.sourceOf("memory"), err)
		}
		if from := s.table.sourceOf("log-level").String(); (from == "TROUPE_LOG_REQUESTS") != strings.Contains(values, "warn") {
			t.Errorf("%q: log-level is by %s", values, from)
		}
	}
	s, err = parsedIn(t, []string{"TROUPE_AUTH_ISSUER=https://env.example", "TROUPE_AUTH_AUDIENCE=a, b"}, "memory: true\npublic-url: https://mcp.example.com\nauth:\n  issuers: [{url: https://file.example}]\n")
	if err != nil || len(s.issuers()) != 1 || s.issuers()[0].URL != "https://env.example" || strings.Join(s.issuers()[0].Audiences, " ") != "a b" {
		t.Errorf("an issuer beside those of the file: %+v, %v", s.issuers(), err)
	}
	if s, err = parsedIn(t, []string{"TROUPE_LOG_REQUESTS=all"}, "memory: true\nlog-level: warn\n"); err != nil || s.logLevel != "info" {
		t.Errorf("log-requests beside a level of the file: %s, %v", s.logLevel, err)
	}
	if _, err = parsedIn(t, []string{"TROUPE_LOG_REQUESTS=all", "TROUPE_LOG_LEVEL=warn"}, "", "--memory"); err == nil {
		t.Error("log-requests beside a level that leaves them out is accepted")
	}
}

// TestUnknownVariables names what is like a setting, and never what Kubernetes sets for a Service named troupe, or for one whose name begins so.
func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	environ := []string{
		"TROUPE_SERVICE_HOST=10.0.0.1", "TROUPE_SERVICE_PORT=8080", "TROUPE_SERVICE_PORT_HTTP=8080", "TROUPE_PORT=tcp://10.0.0.1:8080", "TROUPE_PORT_8080_TCP=tcp://10.0.0.1:8080",
		"TROUPE_PORT_8080_TCP_PROTO=tcp", "TROUPE_PORT_8080_TCP_PORT=8080", "TROUPE_PORT_8080_TCP_ADDR=10.0.0.1", "TROUPE_PORT_53_UDP=udp://10.0.0.1:53", "TROUPE_PORT_53_UDP_ADDR=10.0.0.1",
		"TROUPE_NATS_SERVICE_HOST=10.0.0.2", "TROUPE_NATS_SERVICE_PORT=4222", "TROUPE_NATS_SERVICE_PORT_CLIENT=4222", "TROUPE_NATS_PORT=tcp://10.0.0.2:4222", "TROUPE_NATS_PORT_4222_TCP_ADDR=10.0.0.2",
		"TROUPE_TOKEN=secret", "TROUPE_CONFIG=a.yaml", "TROUPE_LISTEN=127.0.0.1:80", "TROUPE_MAX_DEPTH=7", "TROUPE_MAX_DEPT=", "troupe_max_dept=7",
	}
	if got := unknownVariables(variablesOf(environ)); got != nil {
		t.Errorf("unknown are %+v", got)
	}
	got := unknownVariables(variablesOf([]string{"TROUPE_MAX_DEPT=7", "TROUPE_LISEN=x", "TROUPE_BOGUS=1", "TROUPE_SPEC_DIR=/a", "TROUPE_MAX-DEPTH=7", "TROUPE_PORT=9090"}))
	want := []unknownVariable{{"TROUPE_BOGUS", ""}, {"TROUPE_LISEN", "; did you mean TROUPE_LISTEN?"}, {"TROUPE_MAX-DEPTH", "; did you mean TROUPE_MAX_DEPTH?"}, {"TROUPE_MAX_DEPT", "; did you mean TROUPE_MAX_DEPTH?"}, {"TROUPE_PORT", ""}, {"TROUPE_SPEC_DIR", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("unknown are %+v, want %+v", got, want)
	}
	s, err := parsedIn(t, environ[:len(environ)-6], "", "--memory")
	if err != nil || s.listen != "127.0.0.1:8080" || s.nats.URL != "" {
		t.Errorf("beside a Service: %v, %s, %s", err, s.listen, s.nats.URL)
	}
}

// TestSharedFile has a file that TROUPE_CONFIG names have settings that a command lacks. One that --config names is for the command, and what no command has is refused in either.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	read := func(groups []flagGroup, environ []string, args ...string) (*settings, error) {
		var s settings
		cmd := &cobra.Command{}
		s.register(cmd, groups)
		s.environ = environ
		if err := cmd.ParseFlags(args); err != nil {
			t.Error(err)
		}
		return &s, s.readSources()
	}
	file := writeConfig(t, "listen: 127.0.0.1:80\nauth:\n  claims: [email]\npage-size: 7\n")
	if s, err := read(stdioGroups, []string{"TROUPE_CONFIG=" + file}); err != nil || s.table.Lookup("page-size").Value.String() != "7" || s.auth.Claims != nil {
		t.Errorf("the file of the environment: %v, %v", s.auth, err)
	}
	if _, err := read(stdioGroups, nil, "--config", file); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("the file of the command line: %v", err)
	}
	if s, err := read(settingGroups, []string{"TROUPE_CONFIG=" + file}); err != nil || s.listen != "127.0.0.1:80" || len(s.auth.Claims) != 1 {
		t.Errorf("of serve: %v, %v", s.auth, err)
	}
	for name, groups := range map[string][]flagGroup{"stdio": stdioGroups, "serve": settingGroups} {
		if _, err := read(groups, []string{"TROUPE_CONFIG=" + writeConfig(t, "listn: 127.0.0.1:80\n")}); err == nil {
			t.Errorf("%s takes a setting that there is not", name)
		}
	}
}
