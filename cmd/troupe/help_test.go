package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelpShowsEveryFlag compares the groups of the help with the settings, which are declared
// elsewhere, and the help with the flags.
func TestHelpShowsEveryFlag(t *testing.T) {
	t.Parallel()
	var grouped, declared []string
	for _, g := range settingGroups {
		grouped = append(grouped, g.names...)
	}
	all := newTable()
	new(settings).declare(all)
	all.VisitAll(func(f *pflag.Flag) { declared = append(declared, f.Name) })
	slices.Sort(grouped)
	slices.Sort(declared)
	if !slices.Equal(grouped, declared) {
		t.Errorf("the groups have\n%q, want the settings\n%q", grouped, declared)
	}
	for _, cmd := range []*cobra.Command{serveCommand(&bytes.Buffer{}), stdioCommand(nil, nil, nil)} {
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := strings.Count(help.String(), "\n  --"+f.Name+" "); n != 1 {
				t.Errorf("the help of %s has --%s %d times", cmd.Name(), f.Name, n)
			}
		})
		if strings.Contains(help.String(), "`") {
			t.Errorf("the help of %s has a backquote", cmd.Name())
		}
	}
}

func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	foreign := t.TempDir()
	file := filepath.Join(foreign, "notes.txt")
	if err := os.WriteFile(file, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"version"}, 0, "MCP 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28\n", ""},
		{[]string{"--help"}, 0, "troupe serve", ""},
		{[]string{"serve", "--help"}, 0, "--max-store SIZE", ""},
		{[]string{"revoke", "--help"}, 0, "such as 7d (24h)\n", ""}, // and no other default
		{[]string{"revoke", "--subject", "a", "--for", "0s"}, 2, "", "for is 0: want"},
		{nil, 0, "serve", ""},
		{[]string{"perform"}, 2, "", `unknown command "perform"`},
		{[]string{"serve", "now"}, 2, "", `unknown command "now"`},
		{[]string{"serve", "--memory", "npx", "-y", "x"}, 2, "", `as in: troupe serve -- npx -y x`},
		{[]string{"stdio", "npx", "-y", "x"}, 2, "", `as in: troupe stdio -- npx -y x`},
		{[]string{"serve", "--bogus"}, 2, "", "unknown flag: --bogus"},
		{[]string{"serve", "--max-store", "much"}, 2, "", `"much" is not a size`},
		{[]string{"serve", "--memory", "--data", "x"}, 2, "", "exclude each other"},
		{[]string{"serve", "--memory", "--listen", "0.0.0.0:0"}, 1, "", "--allow-anonymous"},
		{[]string{"serve", "--memory", "--listen", "nowhere"}, 2, "", `listen is "nowhere"`},
		{[]string{"serve", "--memory", "--node", "Not A Name"}, 2, "", `node is "Not A Name"`},
		{[]string{"serve", "--data", foreign, "--listen", "127.0.0.1:0"}, 1, "", foreign + " holds files that are not troupe's"},
		{[]string{"serve", "--data", file, "--listen", "127.0.0.1:0"}, 1, "", "the data directory " + file + " cannot be used"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(tt.args, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%q ends with %d\nstdout %s\nstderr %s\nwant %d, %q and %q", tt.args, code, &stdout, &stderr, tt.code, tt.stdout, tt.stderr)
		}
	}
}

// TestHintsOfHelp names the help of the command that was mistyped, and none where a line of a file is wrong, whose whole path is told.
func TestHintsOfHelp(t *testing.T) {
	t.Parallel()
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	misspelt, bad := write("c.yaml", "memory: true\nlistne: x\n"), write("c.yaml", "memory: true\nlisten: nowhere\n")
	list := write("servers.json", `{"mcpServers": {"a": {"command": ["x"]}}}`)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, misspelt)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args       []string
		want, hint string
	}{
		{[]string{"perform"}, "unknown command", "See troupe --help.\n"},
		{[]string{"calls", "cancel"}, "which call?", "See troupe calls cancel --help.\n"},
		{[]string{"config", "check", "--bogus"}, "unknown flag", "See troupe config check --help.\n"},
		{[]string{"config", "check", "--listen", "nowhere"}, "set by --listen", "See troupe config check --help.\n"},
		{[]string{"config", "check", "--config", relative}, "config " + misspelt + ":2: ", ""},
		{[]string{"config", "check", "--config", bad}, "set by " + bad + ":2", ""},
		{[]string{"config", "check", "--config", bad + "x"}, "no such file", ""},
		{[]string{"config", "check", "--memory", "--servers", list}, list + ":1: ", ""},
	} {
		var stderr bytes.Buffer
		code := run(tt.args, &bytes.Buffer{}, &stderr)
		_, hint, _ := strings.Cut(stderr.String(), "\nSee ")
		if hint != strings.TrimPrefix(tt.hint, "See ") || code != 2 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%q ends with %d, want 2, %q and %q:\n%s", tt.args, code, tt.want, tt.hint, stderr.String())
		}
	}
}
