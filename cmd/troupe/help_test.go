package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHelpShowsEveryFlag compares the groups of the help with the flags, which are
// declared elsewhere.
func TestHelpShowsEveryFlag(t *testing.T) {
	t.Parallel()
	cmd := serveCommand(&bytes.Buffer{})
	var grouped []string
	for _, g := range settingGroups {
		grouped = append(grouped, g.names...)
	}
	var declared []string
	for _, match := range regexp.MustCompile(`(?m)^\s+--([a-z-]+)`).FindAllStringSubmatch(cmd.LocalFlags().FlagUsages(), -1) {
		declared = append(declared, match[1])
	}
	slices.Sort(grouped)
	slices.Sort(declared)
	if !slices.Equal(grouped, declared) {
		t.Errorf("the help shows\n%q, want the declared flags\n%q", grouped, declared)
	}
	for line := range strings.Lines(helpText(cmd, settingGroups)) {
		if strings.Contains(line, "`") {
			t.Errorf("the help has a line with a backquote: %s", line)
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
