//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHostedEnvironment has a backend say its environment: it has what the configuration gives it, and nothing else of ours.
func TestHostedEnvironment(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	config := configured(t, fmt.Sprintf("  plain: {command: %q, args: [plain], prefix: none, env: {TOKEN: %q, GIVEN: \"${env:OURS_GIVEN}\"}}\n", s.path, secret))
	p := hostOn(t, "--data", t.TempDir(), "--config", config, "OURS_GIVEN=given", "OURS_SECRET="+ours, "AWS_SECRET_ACCESS_KEY="+ours, "NODE_OPTIONS=--inspect")
	g := arrive(t, p, "2025-11-25", "{}")
	usual := []string{"HOME", "PATH", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TROUPE_KEPT", "TOKEN", "GIVEN"}
	given := map[string]string{}
	for line := range strings.Lines(g.call(t, "get-env", "{}").says()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if !slices.Contains(usual, name) {
			t.Errorf("the backend has the variable %s", name)
		}
		if strings.Contains(value, ours) {
			t.Errorf("the variable %s has our secret", name)
		}
		given[name] = value
	}
	if given["TOKEN"] != secret || given["GIVEN"] != "given" || given["PATH"] != os.Getenv("PATH") {
		t.Errorf("the backend has %v", given)
	}
}

const (
	secret = "a-secret-of-the-backend-7d1c"
	ours   = "a-secret-of-ours-93b0"
)

// TestHostedSecretsStaySecret has a backend write its secret to its standard error, and end with it, and looks for it wherever somebody else may look.
func TestHostedSecretsStaySecret(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	data := t.TempDir()
	config := configured(t, fmt.Sprintf("  plain: {command: %q, args: [plain, \"--api-key\", %q], prefix: none, env: {TOKEN: %q}}\n", s.path, secret+"-argument", secret))
	p := hostOn(t, "--data", data, "--config", config, "--log-level", "debug")
	g := arrive(t, p, "2025-11-25", "{}")
	pid := g.counter(t).PID
	keeper := s.keeperOf(t, pid)
	g.call(t, "stderr", fmt.Sprintf(`{"text":"the token is %s, and the key %s"}`, secret, secret+"-argument"))
	p.await(t, `the token is \S+, and the key`)
	r := g.call(t, "exit", `{"n":9}`)
	if r.Error == nil || strings.Contains(r.says(), secret) {
		t.Errorf("exit says %s", r.says())
	}
	g.counterAtLast(t)
	_, _, metrics := p.request(t, "GET", "/metrics", "", "")
	seen := map[string]string{"the log": p.stderr.String(), "the metrics": metrics}
	for name, pid := range map[string]int{"serve": p.cmd.Process.Pid, "the keeper": keeper} {
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil {
				t.Fatal(err)
			}
			seen[name+"'s "+file] = string(text)
		}
	}
	paths, err := filepath.Glob(data + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil { // what is no file has none
			seen[path] = string(text)
		}
	}
	for where, text := range seen {
		for line := range strings.Lines(text) {
			if strings.Contains(line, secret) {
				t.Errorf("%s has a secret: %s", where, line)
			}
		}
	}
}

// TestHostedRootsAreNotForwarded has a backend ask for roots of a client that has some. It hears of none, and the client is not asked.
func TestHostedRootsAreNotForwarded(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	config := configured(t, fmt.Sprintf("  none: {command: %q, args: [plain]}\n  listed: {command: %q, args: [plain], roots: [/srv/shared]}\n  forwarded: {command: %q, args: [plain], roots: forward}\n", s.path, s.path, s.path))
	p := hostOn(t, "--data", t.TempDir(), "--config", config)
	g := arrive(t, p, "2025-11-25", declared)
	for name, want := range map[string]string{"none": `{"roots":[]}`, "listed": "file:///srv/shared"} {
		if r := g.call(t, name+"__roots", "{}"); !strings.Contains(r.says(), want) || strings.Contains(r.says(), "/etc") {
			t.Errorf("%s has the roots %s", name, r.says())
		}
	}
	if got := besides(g.beside, "roots/list"); got != "" {
		t.Errorf("the client was asked:\n%s", got)
	}
	if r := g.call(t, "forwarded__roots", "{}"); !strings.Contains(r.says(), "file:///etc") {
		t.Errorf("with forward it has the roots %s", r.says())
	}
}
