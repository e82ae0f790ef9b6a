//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/internal/admin"
)

// backends runs troupe backends with the data directory of a process, and fails the test unless it ends with a code; it returns what it writes.
func backends(t *testing.T, dir string, code int, args ...string) string {
	t.Helper()
	return command(t, code, append([]string{"backends", "--data", dir}, args...)...)
}

// shownBackend is troupe backends show --json.
func shownBackend(t *testing.T, dir, name string) (d admin.BackendDetail) {
	t.Helper()
	out := backends(t, dir, 0, "show", name, "--json")
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// TestBackendsOfARunningServer looks at a backend that runs, at one that has ended by itself, and at one that does not start, whose breaker opens.
// Nothing that is shown has a secret.
func TestBackendsOfARunningServer(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	dir := t.TempDir()
	config := configured(t, fmt.Sprintf("  good: {command: %q, args: [plain, --api-key, %q, \"--pin=${PIN}\"], env: {TOKEN: %q}, isolation: session, max: 7}\n"+
		"  broken: {command: %q, args: [dies-at-once]}\n  unused: {url: \"http://user:%s@127.0.0.1:1/mcp?token=%s\"}\n", s.path, secret+"-argument", secret, s.path, secret, secret))
	p := hostOn(t, "--data", dir, "--config", config, "PIN=4711")
	g := arrive(t, p, "2025-11-25", "{}")
	pid := g.prefixed(t, "good")
	shown := []string{backends(t, dir, 0, "ls"), backends(t, dir, 0, "show", "good")}
	for _, want := range []string{"NAME ", "\ngood ", " running ", " 1/0/7 ", " legacy ", " 2025-11-25 ", s.path[:50], "MiB ", "\nbroken ", "\nunused ", " http://127.0.0.1:1/mcp "} {
		if !strings.Contains(shown[0], want) {
			t.Errorf("the list lacks %q:\n%s", want, shown[0])
		}
	}
	for _, want := range []string{s.path + " plain --api-key *** --pin=***\n", "\n  max: 7\n", "\n  isolation: session\n", "\n    TOKEN: \"***\"\n", fmt.Sprintf("\n%d ", pid), " session ", " resource templates\n"} {
		if !strings.Contains(shown[1], want) {
			t.Errorf("what is shown lacks %q:\n%s", want, shown[1])
		}
	}
	d := shownBackend(t, dir, "good")
	if len(d.Running) != 1 {
		t.Fatalf("there are %+v", d.Running)
	}
	if in := d.Running[0]; in.PID != pid || in.Holder != "session" || len(in.Session) != 13 || in.Tenant == "" || in.Calls != 0 || in.Memory == 0 || d.Lists == nil || d.Lists.Prompts != 1 {
		t.Errorf("the instance is %+v, the lists are %+v", in, d.Lists)
	}

	g.call(t, "good__stderr", fmt.Sprintf(`{"text":"the token is %s"}`, secret))
	until(t, "the line of standard error", func() bool {
		return strings.Contains(backends(t, dir, 0, "logs", "good"), fmt.Sprintf(" %d | the token is ***\n", pid))
	})
	g.call(t, "good__exit", `{"n":9}`)
	until(t, "the end of the instance", func() bool { return len(shownBackend(t, dir, "good").Ended) > 0 })
	d = shownBackend(t, dir, "good")
	if e := d.Ended[len(d.Ended)-1]; e.PID != pid || e.Reason != "exited" || !strings.Contains(e.Status, "exit status 9") || !strings.Contains(e.Status, "I was told to end") || d.LastFailure == nil || !strings.Contains(d.LastFailure.Text, "it ended by itself") {
		t.Errorf("it has ended: %+v, %+v", d.Ended, d.LastFailure)
	}
	shown = append(shown, backends(t, dir, 0, "show", "good"), backends(t, dir, 0, "logs", "good"), backends(t, dir, 0, "ls", "--json"))

	for range 5 { // each as soon as it may be
		g.call(t, "broken__rude", "{}")
		backends(t, dir, 0, "restart", "broken")
	}
	if d := shownBackend(t, dir, "broken"); d.LastFailure == nil || !strings.Contains(d.LastFailure.Text, "I cannot go on") || d.Era != "unknown" || d.Lists != nil {
		t.Errorf("what does not start is %+v", d)
	}
	for _, text := range append(shown, backends(t, dir, 0, "ls"), backends(t, dir, 0, "show", "unused")) {
		if strings.Contains(text, secret) || strings.Contains(text, "4711") || strings.Contains(text, g.session) {
			t.Errorf("a secret is shown:\n%s", text)
		}
	}
	if out := backends(t, dir, 1, "show", "bad"); !strings.Contains(out, "there is no such backend at this node; troupe backends ls lists all") {
		t.Errorf("what there is not: %s", out)
	}
	if out := backends(t, t.TempDir(), 1, "ls"); !strings.Contains(out, "no server answers on ") || !strings.Contains(out, "start one with troupe serve") {
		t.Errorf("without a server: %s", out)
	}
}

// TestWrongBackendsAreShown has a backend that is left out shown with the reason, and one that goes on as it was when its configuration becomes wrong.
func TestWrongBackendsAreShown(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	dir := t.TempDir()
	good := fmt.Sprintf("  good: {command: %q, args: [plain]}\n", s.path)
	const wrong = "  wrong: {url: 'http://127.0.0.1:1/mcp', headers: {Authorization: '${file:/no/such/secret}'}}\n"
	config := configured(t, good+wrong)
	p := hostOn(t, "--data", dir, "--config", config)
	p.await(t, `  left out  wrong: .*troupe\.yaml:3: .*/no/such/secret`)
	g := arrive(t, p, "2025-11-25", "{}")
	pid := g.prefixed(t, "good")
	list := strings.Split(backends(t, dir, 0, "ls"), "\n")
	if len(list) != 4 || !strings.Contains(list[1], " running ") || !strings.HasPrefix(list[2], "wrong ") || !strings.Contains(list[2], " wrong ") || !strings.Contains(list[2], "troupe.yaml:3: ") {
		t.Errorf("the list is\n%s", strings.Join(list, "\n"))
	}
	if d := shownBackend(t, dir, "wrong"); d.State != admin.BackendWrong || !strings.Contains(d.Wrong, "/no/such/secret") {
		t.Errorf("what is left out is shown as %+v", d)
	}
	if out := backends(t, dir, 0, "show", "wrong"); !strings.Contains(out, "/no/such/secret") || strings.Contains(out, "options") {
		t.Errorf("what is left out is shown as\n%s", out)
	}

	if err := os.WriteFile(config, []byte("backends:\n  wrong: {url: 'http://127.0.0.1:1/mcp'}\n"+strings.Replace(good, "plain", "'${file:/no/such/argument}'", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p.signal(t, syscall.SIGHUP)
	p.await(t, "the config file was read again")
	d := shownBackend(t, dir, "good")
	if d.State != admin.BackendRunning || !strings.Contains(d.Wrong, "/no/such/argument") || len(d.Running) != 1 || d.Running[0].PID != pid {
		t.Errorf("what goes on as it was is shown as %+v", d)
	}
	if out := backends(t, dir, 0, "ls"); !strings.Contains(out, "what is configured now cannot be used: ") {
		t.Errorf("the list is\n%s", out)
	}
	if d := shownBackend(t, dir, "wrong"); d.State == admin.BackendWrong || d.Wrong != "" {
		t.Errorf("what was mended is shown as %+v", d)
	}
}

// prefixed calls the tool counter of a backend, and returns the process that has counted.
func (g *guest) prefixed(t *testing.T, name string) int {
	t.Helper()
	return countOf(t, g.call(t, name+"__counter", "{}")).PID
}

// TestBackendsAreRestarted restarts a backend of a command line while a call waits in it: the next call is served by a new process, the old one
// ends with its call, or with --now at once. Who follows the log sees it, until the server ends.
func TestBackendsAreRestarted(t *testing.T) {
	t.Parallel()
	s := newStranger(t)
	dir := t.TempDir()
	p := hostOn(t, append([]string{"--data", dir}, s.command("plain")...)...)
	p.await(t, "a backend has said what it lists")
	list := backends(t, dir, 0, "ls")
	name := strings.Fields(strings.Split(list, "\n")[1])[0]
	if !strings.Contains(list, " running ") || !strings.Contains(list, " 1/0/256 ") {
		t.Errorf("before anybody comes the list is\n%s", list)
	}
	follower := exec.Command(binary(t), "backends", "--data", dir, "logs", name, "-f")
	seen := &lines{wrote: make(chan struct{}, 1)}
	var failed bytes.Buffer
	follower.Stdout, follower.Stderr = seen, &failed
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = follower.Process.Kill() })

	g := arrive(t, p, "2025-11-25", "{}")
	old := g.counter(t).PID
	file := filepath.Join(t.TempDir(), "go-on")
	over := make(chan reply, 1)
	go func() { over <- g.call(t, "hold", fmt.Sprintf(`{"file":%q}`, file)) }()
	until(t, "a call that waits", func() bool {
		d := shownBackend(t, dir, name)
		return len(d.Running) > 0 && d.Running[0].Calls == 1
	})
	if out := backends(t, dir, 0, "restart", name); !strings.Contains(out, "1 instance ends when 1 call has; the next call starts a new one") {
		t.Errorf("the restart says %s", out)
	}
	next := g.counter(t).PID
	if next == old {
		t.Errorf("the next call is served by the old process %d", old)
	}
	if d := shownBackend(t, dir, name); len(d.Running) != 2 || d.Running[0].PID != old || !d.Running[0].Ends || d.Running[1].PID != next || d.Running[1].Ends {
		t.Errorf("the instances are %+v", d.Running)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-over; r.Error != nil {
		t.Errorf("the call that ran is answered with %s", r.says())
	}
	gone(t, old)
	if now := g.counter(t).PID; now != next {
		t.Errorf("the new process %d is not the one of before, %d", now, next)
	}

	go func() { over <- g.call(t, "hold", fmt.Sprintf(`{"file":%q}`, file+"-never")) }()
	until(t, "a call that waits", func() bool {
		d := shownBackend(t, dir, name)
		return len(d.Running) > 0 && d.Running[0].Calls == 1
	})
	if out := backends(t, dir, 0, "restart", name, "--now"); !strings.Contains(out, "1 instance ends; 1 call was cut short; the next call starts a new one") {
		t.Errorf("the restart at once says %s", out)
	}
	if r := <-over; r.Error == nil || r.Error.Code != -32010 || !strings.Contains(r.says(), "an operator has restarted it; whether the call took effect is unknown") {
		t.Errorf("the call that was cut short is answered with %s", r.says())
	}
	gone(t, next)
	g.counterAtLast(t)

	until(t, "all that a follower sees", func() bool {
		text := seen.String()
		return strings.Count(text, "an operator has restarted a backend") == 2 && strings.Count(text, "was ended, reason: restarted") == 2 && strings.Count(text, "has started") >= 3
	})
	p.signal(t, syscall.SIGTERM)
	p.exit(t)
	if err := follower.Wait(); err == nil || !strings.Contains(failed.String(), "the server has ended") {
		t.Errorf("the follower ends with %v: %s", err, failed.String())
	}
}
